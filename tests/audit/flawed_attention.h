// Attention functions with one known flaw each, for tests of the audit.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "audit/audit.h"
#include "flamia/audit.h"
#include "numerics/bf16.h"

namespace flamia::audit {

/// Exact attention of the audit's inputs, rounded to FP32.
inline Status exact_function(const AuditInputs& inputs, AuditOutputs* outputs) {
  Exact exact;
  if (Status status = exact_attention(inputs, 0, &exact); !status.ok()) return status;
  const auto narrow = [](const std::vector<double>& from) {
    return std::vector<float>(from.begin(), from.end());
  };
  outputs->o = narrow(exact.o);
  outputs->lse = narrow(exact.lse);
  outputs->dq = narrow(exact.dq);
  outputs->dk = narrow(exact.dk);
  outputs->dv = narrow(exact.dv);
  return {};
}

/// Direct loops over one query head and key head, with hooks where the flaws go.
struct DirectAttention {
  /// Whether the query at i sees the key at j, positions in a document.
  std::function<bool(int64_t, int64_t)> sees = [](int64_t i, int64_t j) { return j <= i; };
  /// Applied to P before P V, given the running maximum's lag; not to the row sum.
  std::function<double(double)> cast_p = [](double p) { return p; };
  /// Applied to dO in dP, but not in D.
  std::function<double(double)> round_do = [](double x) { return x; };

  Status operator()(const AuditInputs& in, AuditOutputs* out) const {
    out->o.assign(in.q.size(), 0.0f);
    out->dq.assign(in.d_o.size(), 0.0f);
    for (size_t b = 0; b + 1 < in.cu_seqlens.size(); ++b) {
      for (int64_t h = 0; h < in.heads; ++h) {
        for (int64_t i = in.cu_seqlens[b]; i < in.cu_seqlens[b + 1]; ++i) {
          row(in, in.cu_seqlens[b], in.cu_seqlens[b + 1], i, h, out);
        }
      }
    }
    return {};
  }

 private:
  static double at(const std::vector<uint16_t>& x, int64_t row, int64_t c, int64_t dim) {
    return static_cast<double>(bf16_to_float(x[static_cast<size_t>(row * dim + c)]));
  }

  void row(const AuditInputs& in, int64_t begin, int64_t end, int64_t i, int64_t h,
           AuditOutputs* out) const {
    const int64_t dim = in.head_dim;
    const int64_t query = i * in.heads + h;
    const int64_t kv = h / (in.heads / in.kv_heads);
    std::vector<double> p(static_cast<size_t>(end - begin), 0);
    double largest = -HUGE_VAL;
    for (int64_t j = begin; j < end; ++j) {
      if (!sees(i - begin, j - begin)) continue;
      double score = 0;
      for (int64_t c = 0; c < dim; ++c) {
        score += at(in.q, query, c, dim) * at(in.k, j * in.kv_heads + kv, c, dim);
      }
      p[static_cast<size_t>(j - begin)] = score * static_cast<double>(in.softmax_scale);
      largest = std::max(largest, p[static_cast<size_t>(j - begin)]);
    }
    double sum = 0;
    for (int64_t j = begin; j < end; ++j) {
      double& x = p[static_cast<size_t>(j - begin)];
      x = sees(i - begin, j - begin) ? std::exp(x - largest) : 0;
      sum += x;
    }
    std::vector<double> o(static_cast<size_t>(dim), 0);
    for (int64_t j = begin; j < end; ++j) {
      const double weight = cast_p(p[static_cast<size_t>(j - begin)]) / sum;
      if (weight == 0) continue;
      for (int64_t c = 0; c < dim; ++c) {
        o[static_cast<size_t>(c)] += weight * at(in.v, j * in.kv_heads + kv, c, dim);
      }
    }
    for (int64_t c = 0; c < dim; ++c) {
      out->o[static_cast<size_t>(query * dim + c)] = static_cast<float>(o[static_cast<size_t>(c)]);
    }
    if (!in.d_o.empty()) gradient(in, begin, end, query, kv, p, sum, o, out);
  }

  void gradient(const AuditInputs& in, int64_t begin, int64_t end, int64_t query, int64_t kv,
                const std::vector<double>& p, double sum, const std::vector<double>& o,
                AuditOutputs* out) const {
    const int64_t dim = in.head_dim;
    double delta = 0;
    for (int64_t c = 0; c < dim; ++c) {
      delta += at(in.d_o, query, c, dim) * o[static_cast<size_t>(c)];
    }
    for (int64_t j = begin; j < end; ++j) {
      const double weight = p[static_cast<size_t>(j - begin)] / sum;
      if (weight == 0) continue;
      double dp = 0;
      for (int64_t c = 0; c < dim; ++c) {
        dp += round_do(at(in.d_o, query, c, dim)) * at(in.v, j * in.kv_heads + kv, c, dim);
      }
      const double ds = weight * (dp - delta) * static_cast<double>(in.softmax_scale);
      for (int64_t c = 0; c < dim; ++c) {
        out->dq[static_cast<size_t>(query * dim + c)] +=
            static_cast<float>(ds * at(in.k, j * in.kv_heads + kv, c, dim));
      }
    }
  }
};

}  // namespace flamia::audit
