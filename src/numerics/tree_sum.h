// The pinned order of sums over head channels: halves, then halves of those.
// Paper: 3.3 (both passes must add alike). Depends on: binary32 adds. Used by: row_delta.h,
// dq_scale.h; warps realize the same order with exchanges over distances dim/2 ... 1.
#pragma once

#include "base/macros.h"

namespace flamia {

/// Largest head dimension that the reductions take.
inline constexpr int kMaxTreeTerms = 256;

/// Sum of terms[0..count): terms[c] += terms[c + h] for h = count/2, count/4, ..., 1. Overwrites
/// its input; count must be a power of two.
FLAMIA_HD constexpr float tree_sum(float* terms, int count) {
  for (int h = count / 2; h > 0; h /= 2) {
    for (int c = 0; c < h; ++c) terms[c] += terms[c + h];
  }
  return terms[0];
}

}  // namespace flamia
