// How far outputs are from the FP64 oracle.
// Depends on: oracle results. Used by: attend, bench, reports.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "flamia/problem.h"
#include "oracle/oracle.h"
#include "tools/attention_run.h"
#include "tools/host_tensor.h"

namespace flamia::tools {

/// Figures of one output over the compared rows, in double. A row is one token of one head.
/// A figure that has no value (a zero reference) is absent.
struct OutputAccuracy {
  std::optional<double> cosine;      ///< of the flattened tensor
  std::optional<double> row_cosine;  ///< mean over rows whose reference is not zero
  std::optional<double> rel_l2;      ///< |out - ref| / |ref|
  std::optional<double> max_abs;     ///< largest |out - ref|
  std::optional<double> gain;        ///< <out, ref> / <ref, ref>
  int64_t rows = 0;
  int64_t unexpected_nans = 0;  ///< NaN where the reference has none
};

struct Accuracy {
  OutputAccuracy o;
  std::optional<OutputAccuracy> dq, dk, dv;
  std::optional<double> lse_max_abs;  ///< nats; infinite where only one side is -inf
  int64_t lse_unexpected_nans = 0;
  int64_t query_rows = 0;  ///< tokens compared
  bool all_rows = true;
};

/// Compares [tokens, heads, head_dim] BF16 with dense values. tokens: those to compare, empty for
/// all. Elements whose reference is not finite are left out of the figures. The result does not
/// depend on threads.
OutputAccuracy compare_rows(const HostTensor& out, std::span<const double> reference,
                            std::span<const int64_t> tokens, int threads);

/// Compares everything that the run and the oracle both have.
Accuracy compare_outputs(const Problem& problem, const AttentionOutputs& outputs,
                         const oracle::Result& reference, int threads);

}  // namespace flamia::tools
