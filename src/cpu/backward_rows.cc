// Row-wise work around the backward tiles.
#include "cpu/backward_rows.h"

#include <algorithm>
#include <cstring>

#include "base/bits.h"
#include "cpu/parallel.h"
#include "cpu/quantize.h"
#include "cpu/row_output.h"
#include "numerics/bf16.h"
#include "numerics/dq_scale.h"
#include "numerics/f16.h"
#include "numerics/hadamard.h"
#include "numerics/row_delta.h"
#include "problem/mask.h"

namespace flamia::cpu {
namespace {

constexpr int kMaxDim = 128;
constexpr float kLargestFloat = 0x1.fffffep127f;

void read_bf16_row(const TensorView& tensor, int head, int64_t token, int dim, float* out) {
  const uint16_t* row = tensor_row(tensor, head, token);
  for (int c = 0; c < dim; ++c) out[c] = bf16_to_float(row[c]);
}

/// L2 norm of decoded values times 2^exponent. Schemes whose scales are in the values already may
/// hold any magnitude, so the values are brought near 1 first; powers of two change no other bit.
float operand_norm(const Operand& operand, const float* values, int dim, int exponent) {
  if (operand.exp != nullptr) return row_norm(values, dim, exponent);
  float largest = 0.0f;
  for (int c = 0; c < dim; ++c) largest = max_number(largest, magnitude(values[c]));
  if (!(largest > 0.0f) || largest > kLargestFloat) return row_norm(values, dim, exponent);
  const int shift = floor_log2(largest);
  float near_one[kMaxDim];
  for (int c = 0; c < dim; ++c) near_one[c] = scale_pow2(values[c], -shift);
  return row_norm(near_one, dim, shift + exponent);
}

void prepare_query_row(const Plan& plan, const BackwardTensors& tensors,
                       const BackwardBuffers& buffers, int head, int64_t token) {
  const int dim = plan.problem.head_dim;
  const int64_t at = head * plan.problem.query_tokens + token;
  float d_o[kMaxDim];
  float o[kMaxDim];
  load_tile(buffers.d_o, head, token, 1, Exponents::kLeave, d_o);
  const int exponent = buffers.d_o.exponent(head, token);
  buffers.do_norm[at] = operand_norm(buffers.d_o, d_o, dim, exponent);
  const float factor = pow2(exponent);
  for (int c = 0; c < dim; ++c) d_o[c] *= factor;
  read_bf16_row(tensors.o, head, token, dim, o);
  float delta = 0.0f;
  if (plan.conventions.delta == Delta::kOResidual) {
    float residual[kMaxDim];
    read_bf16_row(tensors.o_residual, head, token, dim, residual);
    delta = row_delta_with_residual(d_o, o, residual, dim);
  } else {
    delta = row_delta(d_o, o, dim);
  }
  if (tensors.d_lse.data != nullptr) delta -= *lse_entry(tensors.d_lse, head, token);
  buffers.delta[at] = delta;
}

void prepare_key_row(const Plan& plan, const BackwardBuffers& buffers, int head, int64_t token) {
  const int dim = plan.problem.head_dim;
  const int64_t at = head * plan.problem.key_tokens + token;
  float values[kMaxDim];
  load_tile(buffers.v_grad, head, token, 1, Exponents::kLeave, values);
  buffers.v_norm[at] =
      operand_norm(buffers.v_grad, values, dim, buffers.v_grad.exponent(head, token));
  load_tile(buffers.k_grad, head, token, 1, Exponents::kApply, values);
  float largest = 0.0f;
  for (int c = 0; c < dim; ++c) largest = max_number(largest, magnitude(values[c]));
  buffers.k_magnitude[at] = largest;
}

/// r of every query row of one document and head.
void choose_prescales(const Plan& plan, const DocumentSpan& span, const BackwardBuffers& buffers,
                      int head) {
  const Problem& problem = plan.problem;
  const Conventions& conventions = plan.conventions;
  const int kv_head = head / (problem.heads / problem.kv_heads);
  const float* do_norm = buffers.do_norm + head * problem.query_tokens + span.query_begin;
  const float* v_norm = buffers.v_norm + kv_head * problem.key_tokens + span.key_begin;
  const float* k_magnitude = buffers.k_magnitude + kv_head * problem.key_tokens + span.key_begin;
  int16_t* exponent = buffers.dq_exponent + head * problem.query_tokens + span.query_begin;
  const bool causal = conventions.dq_scale == DqScale::kCausal;
  const DocumentMask mask{span.queries(), span.keys(), conventions.window_left,
                          conventions.window_right};
  // Running maxima over the keys up to the last one that the row sees; the whole document
  // otherwise.
  float largest_do = 0.0f;
  float largest_v = 0.0f;
  float largest_k = 0.0f;
  int64_t seen = 0;
  const auto include_keys = [&](int64_t end) {
    for (; seen < end; ++seen) {
      largest_v = max_number(largest_v, v_norm[seen]);
      largest_k = max_number(largest_k, k_magnitude[seen]);
    }
  };
  if (!causal) {
    include_keys(span.keys());
    for (int64_t i = 0; i < span.queries(); ++i) largest_do = max_number(largest_do, do_norm[i]);
  }
  for (int64_t i = 0; i < span.queries(); ++i) {
    if (causal) {
      include_keys(mask.visible_keys(i).end);
      largest_do = do_norm[i];
    }
    exponent[i] =
        static_cast<int16_t>(dq_prescale_exponent(norm_bound(largest_do, largest_v, largest_k)));
  }
}

}  // namespace

void prepare_rows(const Plan& plan, const BackwardTensors& tensors, const PackedLayout& layout,
                  const BackwardBuffers& buffers) {
  const Problem& problem = plan.problem;
  const auto for_rows = [&](Side side, int heads, const auto& body) {
    const std::vector<TokenRange> ranges = token_ranges(layout, side);
    parallel_for(static_cast<int64_t>(ranges.size()), plan.threads, [&](int64_t item, int) {
      const TokenRange& range = ranges[static_cast<size_t>(item)];
      for (int head = 0; head < heads; ++head) {
        for (int32_t r = 0; r < range.count; ++r) body(head, range.first + r);
      }
    });
  };
  for_rows(Side::kQueries, problem.heads, [&](int head, int64_t token) {
    prepare_query_row(plan, tensors, buffers, head, token);
  });
  for_rows(Side::kKeys, problem.kv_heads,
           [&](int head, int64_t token) { prepare_key_row(plan, buffers, head, token); });
  parallel_for(problem.heads, plan.threads, [&](int64_t head, int) {
    for (int32_t document = 0; document < layout.documents(); ++document) {
      choose_prescales(plan, layout.span(document), buffers, static_cast<int>(head));
    }
  });

  const int64_t rows = problem.heads * problem.query_tokens;
  if (buffers.dq16 != nullptr) std::fill_n(buffers.dq16, rows * problem.head_dim, uint16_t{0});
  if (buffers.dq32 != nullptr) std::fill_n(buffers.dq32, rows * problem.head_dim, 0.0f);
  std::fill_n(buffers.ds_sum, rows, 0.0f);
  std::fill_n(buffers.ds_magnitude, rows, 0.0f);
  std::fill_n(buffers.turn, problem.heads * backward_query_tiles(plan), 0);
}

void store_gradient(const TensorView& tensor, int head, int64_t token, int dim, bool rotated,
                    float scale, const float* values) {
  float x[kMaxDim];
  std::memcpy(x, values, sizeof(float) * static_cast<size_t>(dim));
  if (rotated && dim == 128) hadamard<128>(x);
  if (rotated && dim == 64) hadamard<64>(x);
  for (int c = 0; c < dim; ++c) x[c] *= scale;
  store_bf16(tensor, head, token, dim, x);
}

void finish_query_gradients(const Plan& plan, const BackwardTensors& tensors,
                            const PackedLayout& layout, const BackwardBuffers& buffers) {
  const Problem& problem = plan.problem;
  const int dim = problem.head_dim;
  const std::vector<TokenRange> ranges = token_ranges(layout, Side::kQueries);
  parallel_for(static_cast<int64_t>(ranges.size()), plan.threads, [&](int64_t item, int) {
    const TokenRange& range = ranges[static_cast<size_t>(item)];
    float values[kMaxDim];
    for (int head = 0; head < problem.heads; ++head) {
      for (int64_t token = range.first; token < range.first + range.count; ++token) {
        const int64_t at = head * problem.query_tokens + token;
        if (buffers.dq16 != nullptr) {
          const float undo = pow2(-buffers.dq_exponent[at]);
          for (int c = 0; c < dim; ++c) values[c] = f16_to_float(buffers.dq16[at * dim + c]) * undo;
        } else {
          for (int c = 0; c < dim; ++c) values[c] = buffers.dq32[at * dim + c];
        }
        store_gradient(tensors.dq, head, token, dim, buffers.k_grad.spec.hadamard,
                       plan.conventions.softmax_scale, values);
      }
    }
  });
}

}  // namespace flamia::cpu
