// Algorithm 1 of P-Cast: online softmax whose P is multiplied by S and cast to E4M3 before P V.
// Paper: P-Cast 2.4, 6.1. Depends on: numerics (E4M3, row maximum, rescale, exponential).
// Used by: simulated instances, figures of real tensors.
// Q, K, V stay in FP32: only the cast of P is studied here, not attention as a kernel would run it.
#pragma once

#include <cstdint>

#include "pcast/closed_form.h"

namespace flamia::pcast {

/// What tells kernels apart, as far as the cast of P is concerned.
struct CastKernel {
  KeyOrder order = KeyOrder::kForward;
  float scale = 1.0f;
  int64_t block = 64;       ///< keys of one step
  float tau = 0;            ///< base-2 slack before the maximum is renewed; 0: always
  bool sum_cast_p = false;  ///< row sum from the cast P in place of the FP32 P of line 8
};

/// Scores of a few query rows, in base 2 (natural scores times log2 e).
struct ScoreRows {
  const float* scores = nullptr;  ///< [rows][stride]
  int64_t stride = 0;
  int64_t rows = 0;
  int64_t keys = 0;
  const int64_t* visible = nullptr;  ///< keys that each row sees, from the first; null: all
  int64_t sinks = 0;                 ///< the first keys
  float sink_raise = 0;              ///< added to their scores, base 2
};

/// What became of one row.
struct CastRow {
  float row_sum = 0;      ///< l
  int64_t others = 0;     ///< visible keys that are no sinks
  int64_t zeroed = 0;     ///< of them: cast to zero
  int64_t saturated = 0;  ///< visible keys whose P S exceeds the largest code
  double other_mass = 0;  ///< probability of the others
  double lost_mass = 0;   ///< probability of the zeroed ones
};

/// v: [keys][channels] FP32, channels a multiple of 16. o: [rows][channels]; null: no output is
/// computed and v is not read. rows_out: [rows].
void run_cast_kernel(const CastKernel& kernel, const ScoreRows& scores, const float* v,
                     int64_t channels, float* o, CastRow* rows_out);

/// The reference: softmax in FP64 of the same scores; products with v in FP32 within 64 keys, FP64
/// beyond. other_mass: [rows]. o may be null.
void run_exact(const ScoreRows& scores, const float* v, int64_t channels, double* o,
               double* other_mass);

}  // namespace flamia::pcast
