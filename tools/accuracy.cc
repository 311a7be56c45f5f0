// How far outputs are from the FP64 oracle.

#include "tools/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bits.h"
#include "numerics/bf16.h"
#include "tools/parallel.h"

namespace flamia::tools {

namespace {

constexpr double kLargestBf16 = 0x1.fep127;

// Inner products of one row or of many.
struct Sums {
  double out_out = 0;
  double out_ref = 0;
  double ref_ref = 0;
  double difference = 0;  // of squared differences
  double max_abs = 0;
  double row_cosines = 0;
  int64_t rows = 0;
  int64_t nonzero_rows = 0;
  int64_t unexpected_nans = 0;

  void add(const Sums& other) {
    out_out += other.out_out;
    out_ref += other.out_ref;
    ref_ref += other.ref_ref;
    difference += other.difference;
    max_abs = std::fmax(max_abs, other.max_abs);
    row_cosines += other.row_cosines;
    rows += other.rows;
    nonzero_rows += other.nonzero_rows;
    unexpected_nans += other.unexpected_nans;
  }
};

double cosine_of(double out_out, double out_ref, double ref_ref) {
  return out_out == 0 ? 0 : out_ref / (std::sqrt(out_out) * std::sqrt(ref_ref));
}

Sums compare_row(const uint16_t* out, const double* reference, int64_t dim) {
  Sums sums;
  for (int64_t c = 0; c < dim; ++c) {
    const double ref = reference[c];
    if (std::isnan(ref)) continue;
    const auto value = static_cast<double>(bf16_to_float(out[c]));
    // A reference beyond BF16 may overflow to infinity, but nothing may become NaN.
    const bool representable = std::fabs(ref) <= kLargestBf16;
    if (std::isnan(value) || (representable && std::isinf(value))) {
      ++sums.unexpected_nans;
      continue;
    }
    if (!std::isfinite(ref) || !std::isfinite(value)) continue;
    const double difference = value - ref;
    sums.out_out += value * value;
    sums.out_ref += value * ref;
    sums.ref_ref += ref * ref;
    sums.difference += difference * difference;
    sums.max_abs = std::fmax(sums.max_abs, std::fabs(difference));
  }
  sums.rows = 1;
  if (sums.ref_ref > 0) {
    sums.nonzero_rows = 1;
    sums.row_cosines = cosine_of(sums.out_out, sums.out_ref, sums.ref_ref);
  }
  return sums;
}

double lse_difference(float out, double reference) {
  const auto value = static_cast<double>(out);
  return value == reference ? 0 : std::fabs(value - reference);
}

void compare_lse(const Problem& problem, const HostTensor& lse, const oracle::Result& reference,
                 Accuracy* accuracy) {
  const int64_t tokens = problem.query_tokens;
  const int64_t length = problem.batch > 0 ? tokens / problem.batch : tokens;
  const std::vector<int64_t>& sampled = reference.query_rows;
  const int64_t rows = sampled.empty() ? tokens : static_cast<int64_t>(sampled.size());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t token = sampled.empty() ? row : sampled[static_cast<size_t>(row)];
    for (int64_t head = 0; head < problem.heads; ++head) {
      const int64_t at = (token / length * problem.heads + head) * length + token % length;
      const double expected = reference.lse[static_cast<size_t>(at)];
      if (std::isnan(expected)) continue;
      const float value = lse.as<float>()[at];
      if (std::isnan(value)) {
        ++accuracy->lse_unexpected_nans;
        continue;
      }
      accuracy->lse_max_abs =
          std::fmax(accuracy->lse_max_abs.value_or(0), lse_difference(value, expected));
    }
  }
}

}  // namespace

OutputAccuracy compare_rows(const HostTensor& out, std::span<const double> reference,
                            std::span<const int64_t> tokens, int threads) {
  OutputAccuracy result;
  if (out.elements() == 0) return result;
  const std::vector<int64_t>& shape = out.shape();
  const int64_t dim = shape[shape.size() - 1];
  const int64_t heads = shape[shape.size() - 2];
  const int64_t all_tokens = out.elements() / (heads * dim);
  const int64_t count = tokens.empty() ? all_tokens : static_cast<int64_t>(tokens.size());

  constexpr int64_t kChunkTokens = 256;
  std::vector<Sums> partial(static_cast<size_t>(ceil_div(count, kChunkTokens)));
  parallel_chunks(count, kChunkTokens, threads, [&](int64_t chunk, int64_t begin, int64_t end) {
    Sums& sums = partial[static_cast<size_t>(chunk)];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t token = tokens.empty() ? i : tokens[static_cast<size_t>(i)];
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t at = (token * heads + head) * dim;
        sums.add(compare_row(out.as<uint16_t>() + at, reference.data() + at, dim));
      }
    }
  });
  Sums total;
  for (const Sums& sums : partial) total.add(sums);

  result.rows = total.rows;
  result.unexpected_nans = total.unexpected_nans;
  result.max_abs = total.max_abs;
  if (total.ref_ref > 0) {
    result.cosine = cosine_of(total.out_out, total.out_ref, total.ref_ref);
    result.row_cosine = total.row_cosines / static_cast<double>(total.nonzero_rows);
    result.rel_l2 = std::sqrt(total.difference / total.ref_ref);
    result.gain = total.out_ref / total.ref_ref;
  }
  return result;
}

Accuracy compare_outputs(const Problem& problem, const AttentionOutputs& outputs,
                         const oracle::Result& reference, int threads) {
  Accuracy accuracy;
  accuracy.all_rows = reference.query_rows.empty();
  accuracy.query_rows =
      accuracy.all_rows ? problem.query_tokens : static_cast<int64_t>(reference.query_rows.size());
  accuracy.o = compare_rows(outputs.o, reference.o, reference.query_rows, threads);
  compare_lse(problem, outputs.lse, reference, &accuracy);
  if (!outputs.dq.empty() && !reference.dq.empty()) {
    accuracy.dq = compare_rows(outputs.dq, reference.dq, reference.query_rows, threads);
  }
  if (!outputs.dk.empty() && !reference.dk.empty()) {
    accuracy.dk = compare_rows(outputs.dk, reference.dk, reference.key_rows, threads);
    accuracy.dv = compare_rows(outputs.dv, reference.dv, reference.key_rows, threads);
  }
  return accuracy;
}

}  // namespace flamia::tools
