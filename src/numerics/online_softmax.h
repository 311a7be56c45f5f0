// Row statistics of the online softmax: maximum, rescale factor, log-sum-exp and its sentinels.
// Paper: 3.4 and B.1 (conditional rescaling), 3.6.1 (sentinel of invalid rows).
// Depends on: exp2.h. Used by: forward and backward of every backend. Scores are in base 2.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "numerics/exp2.h"
#include "numerics/minifloat.h"

namespace flamia {

inline constexpr double kLog2EDouble = 1.4426950408889634;
inline constexpr double kLn2Double = 0.6931471805599453;
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

inline constexpr float kFloatInfinity = bits_float(kFloatInfinityBits);
/// LSE of a row without a visible key, as the caller sees it.
inline constexpr float kEmptyLse = -kFloatInfinity;
/// The same row inside the backward: 2^(x - inf) = 0, so that no probability needs a test.
inline constexpr float kInvalidRowLse = kFloatInfinity;

/// fp32(softmax_scale * log2 e): turns raw scores into base-2 exponents.
FLAMIA_HD constexpr float score_multiplier(float softmax_scale) {
  return static_cast<float>(static_cast<double>(softmax_scale) * kLog2EDouble);
}

/// The row maximum after a tile: max(m, tile_max) if that exceeds m by more than tau, or if the row
/// had no key yet (m = -inf); else m. A NaN tile maximum is ignored.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float next_row_max(float m, float tile_max, float tau) {
  const float reached = max_number(m, tile_max);
  const bool renew = (reached - m > tau) | (m == -kFloatInfinity);
  return renew ? reached : m;
}

/// alpha = 2^(m_old - m_new), the factor of the row's sum and output. Exactly 1 when m is kept,
/// also while the row has no key; 0 when its first key arrives (m_old = -inf).
FLAMIA_HD FLAMIA_FORCE_INLINE float rescale_factor(float m_old, float m_new) {
  return m_old == m_new ? 1.0f : exp2_exact(m_old - m_new);
}

/// Natural log-sum-exp ln2 * (m + log2 l) of a row; -inf for a row without keys (l = 0).
FLAMIA_HD constexpr float log_sum_exp(float m, float l) { return kLn2 * (m + log2_f32(l)); }

/// The base-2 LSE that the backward subtracts, from the natural one: -inf (no keys) becomes the
/// sentinel +inf.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float lse_to_log2(float lse) {
  return lse == kEmptyLse ? kInvalidRowLse : lse * kLog2E;
}

static_assert(next_row_max(1.0f, 3.0f, 4.0f) == 1.0f && next_row_max(1.0f, 6.0f, 4.0f) == 6.0f);
static_assert(next_row_max(-kFloatInfinity, -50.0f, 4.0f) == -50.0f);
static_assert(next_row_max(2.0f, -kFloatInfinity, 0.0f) == 2.0f);
static_assert(log_sum_exp(0.0f, 1.0f) == 0.0f && log_sum_exp(3.0f, 0.0f) == kEmptyLse);
static_assert(lse_to_log2(kEmptyLse) == kInvalidRowLse && lse_to_log2(0.0f) == 0.0f);
static_assert(score_multiplier(1.0f) == kLog2E && score_multiplier(0.125f) == kLog2E / 8);

}  // namespace flamia
