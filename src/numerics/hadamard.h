// Normalized Hadamard rotation of the head channels of one token of Q or K.
// Paper: 3.4, A.2. Depends on: binary32 adds in a pinned order. Used by: the Q, K quantizers, and
// the gradients, which the same symmetric rotation turns back.
#pragma once

#include <cstdint>

#include "base/bits.h"

namespace flamia {

/// binary32 nearest to 1/sqrt(dim).
template <int kDim>
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float hadamard_scale() {
  static_assert(kDim == 16 || kDim == 32 || kDim == 64 || kDim == 128 || kDim == 256);
  switch (kDim) {
    case 16:
      return 0.25f;
    case 32:
      return bits_float(0x3e3504f3u);
    case 64:
      return 0.125f;
    case 128:
      return bits_float(0x3db504f3u);
    default:
      return 0.0625f;
  }
}

/// x <- H x / sqrt(dim) in place, H in natural (Hadamard) order. Every result has the bits of the
/// butterflies (a, b) -> (a + b, a - b) over distances 1, 2, 4, ..., dim/2 and one final multiply.
/// Here each stage pairs neighbours and stores sums in the lower, differences in the upper half:
/// the index bits rotate by one, so the next distance is again 1 (a loop that vectorizes), and
/// after log2(dim) stages every value is back in its place.
template <int kDim>
FLAMIA_HD constexpr void hadamard(float* x) {
  static_assert(kDim >= 2 && (kDim & (kDim - 1)) == 0, "dim must be a power of two");
  constexpr int half = kDim / 2;
  float y[kDim] = {};
  bool in_x = true;
  for (int distance = 1; distance < kDim; distance *= 2) {
    const float* from = in_x ? x : y;
    float* to = in_x ? y : x;
    for (int64_t i = 0; i < half; ++i) {
      const float a = from[2 * i];
      const float b = from[2 * i + 1];
      to[i] = a + b;
      to[i + half] = a - b;
    }
    in_x = !in_x;
  }
  const float* result = in_x ? x : y;
  for (int i = 0; i < kDim; ++i) x[i] = result[i] * hadamard_scale<kDim>();
}

}  // namespace flamia
