// A power of two per key, moved from the operand that is contracted over keys into the other one.
// Paper: 3.2 (V and K folds), A.3. Depends on: base/bits.h. Used by: P-hat with per-key or
// per-block V exponents, dS with K exponents, row sums of folded probabilities.
#pragma once

#include "base/bits.h"

namespace flamia {

/// Smallest fold: 2^-126 is a normal float, so an all-zero key (exponent -127) never gives a factor
/// of zero, infinity or NaN.
inline constexpr int kMinFold = -126;
inline constexpr int kMaxFold = 127;

/// Exponent of the factor that the other operand takes for a key of exponent `key_exponent` when
/// the accumulator is in units of 2^reference; clamped to [-126, 127]. With the reference the
/// largest exponent that the row can see it is at most 0.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int fold_exponent(int key_exponent, int reference) {
  return larger(smaller(key_exponent - reference, kMaxFold), kMinFold);
}

/// 2^fold.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float fold_factor(int fold) {
  return bits_float(static_cast<uint32_t>(fold + 127) << 23);
}

/// The reference of a row may fall by this much below the largest that the row has seen, so that
/// scaling its accumulator up never overflows; V smaller than that adds nothing to the row anyway.
inline constexpr int kMaxReferenceDrop = 60;

/// Smallest fold with which a row sum still adds decoded P-hat.
inline constexpr int kRowSumFoldLimit = -4;

/// Row sums add decoded P-hat / 2^fold while the fold leaves P at least the c = 4 head-room; below
/// that, V of the key is more than 2^4 smaller than the reference, its P-hat may flush, and the row
/// sum adds un-quantized p: otherwise a sink key with a tiny V would vanish from the denominator.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE bool fold_keeps_row_sum(int fold) {
  return fold >= kRowSumFoldLimit;
}

static_assert(fold_exponent(-3, 2) == -5 && fold_exponent(-127, 20) == kMinFold);
static_assert(fold_exponent(4, 1) == 3 && fold_exponent(127, -127) == kMaxFold);
static_assert(fold_factor(-126) == pow2(-126) && fold_factor(0) == 1.0f);
static_assert(fold_keeps_row_sum(0) && fold_keeps_row_sum(-4) && !fold_keeps_row_sum(-5));

}  // namespace flamia
