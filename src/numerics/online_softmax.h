// Row statistics of the online softmax: maximum, rescale factor, log-sum-exp and its sentinels.
// Paper: 3.4 and B.1 (conditional rescaling), 3.6.1 (sentinel of invalid rows).
// Depends on: exp2.h. Used by: forward and backward of every backend. Scores are in base 2.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "numerics/exp2.h"
#include "numerics/f16.h"
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

/// The same for scores with binary16 accumulators: rounded to their 11 significant bits, so that
/// arguments of exponentials can be formed from packed binary16.
FLAMIA_HD constexpr float half_score_multiplier(float softmax_scale) {
  constexpr int kDropped = 13;  // bits of a float's fraction that binary16 has not
  const uint32_t bits = float_bits(score_multiplier(softmax_scale));
  const uint32_t half_less_one = (1u << (kDropped - 1)) - 1;
  return bits_float((bits + half_less_one + (bits >> kDropped & 1)) >> kDropped << kDropped);
}

/// Added to the exponents of Q and K for such scores: codes of at most 14 keep 128 products below
/// the largest binary16.
inline constexpr int kHalfAccumulatorHeadroom = 5;

/// The row maximum after a tile: max(m, tile_max) if that exceeds m by more than tau, or if the row
/// had no key yet (m = -inf); else m. A NaN tile maximum is ignored.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float next_row_max(float m, float tile_max, float tau) {
  const float reached = max_number(m, tile_max);
  const bool renew = (reached - m > tau) | (m == -kFloatInfinity);
  return renew ? reached : m;
}

/// Biases up to this are formed in binary16, and maxima below it are found there.
inline constexpr float kHalfExactLimit = 256.0f;

/// The base c - m of such a row: m is rounded up, so that binary16 holds the base; beyond
/// kHalfExactLimit arguments are formed in FP32 and nothing is rounded.
FLAMIA_HD constexpr float half_row_base(float largest, float p_log2) {
  const float base = p_log2 - largest;
  if (!(magnitude(base) < kHalfExactLimit)) return base;
  const float nearest = round_f16(base);
  if (nearest <= base) return nearest;
  const uint16_t code = float_to_f16(nearest);
  constexpr uint16_t kSign = 0x8000u;
  if (code == 0 || code == kSign) return f16_to_float(kSign | 1u);
  return f16_to_float(static_cast<uint16_t>((code & kSign) != 0 ? code + 1 : code - 1));
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
static_assert(half_row_base(1.0f, 8.0f) == 7.0f && half_row_base(-600.5f, 8.0f) == 608.5f);
static_assert(half_row_base(0.001f, 8.0f) == 8.0f - pow2(-8));
static_assert(half_row_base(8.0f + pow2(-20), 8.0f) == -pow2(-20));
static_assert(half_score_multiplier(1.0f) == 1.4423828125f);
static_assert(score_multiplier(1.0f) == kLog2E && score_multiplier(0.125f) == kLog2E / 8);

}  // namespace flamia
