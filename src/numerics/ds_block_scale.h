// The exponent of dS: one per 32 x 32 block, or one per query row in the exact variant.
// Paper: 3.3, A.3. Depends on: token_block_scale.h, whose rule it uses unchanged. Used by:
// backward.
#pragma once

#include "numerics/token_block_scale.h"

namespace flamia {

/// Rows and columns of a block, counted from the starts of their documents.
inline constexpr int kDsBlock = 32;

/// Block row or block column of a position inside its document.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int ds_block_of(int position_in_document) {
  return position_in_document / kDsBlock;
}

/// Exponent of a group of dS entries (block, row or tile) with largest magnitude amax, for E4M3
/// codes. Exponents of folded operands are added to the entries before the maximum is taken.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int ds_exponent_e4m3(float amax) {
  return round_up_exponent_e4m3(amax);
}

/// The same for E5M2 codes.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int ds_exponent_e5m2(float amax) {
  return round_up_exponent_e5m2(amax);
}

/// The same for a format chosen at run time.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int ds_exponent(float amax, Format format) {
  return round_up_exponent(amax, format);
}

static_assert(ds_exponent_e4m3(448.0f) == 0 && ds_exponent_e5m2(448.0f) == -7);
static_assert(ds_exponent_e4m3(0.0f) == kNoScaleExponent && ds_block_of(63) == 1);

}  // namespace flamia
