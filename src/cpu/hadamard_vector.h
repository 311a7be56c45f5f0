// The rotation of numerics/hadamard.h on vectors of eight floats: the same butterflies in the same
// order, so the same bits (tests/cpu/hadamard_vector_test.cc).
// Paper: A.2. Used by: the quantizers.
#pragma once

#include <cstdint>

#include "cpu/row_reduce.h"
#include "numerics/hadamard.h"

namespace flamia::cpu {

/// x <- H x / sqrt(dim) in place. Returns the bits of the largest magnitude; NaN counts as its
/// bits.
template <int kDim>
inline int32_t hadamard_vector(float* x) {
  constexpr int kVectors = kDim / kLanes;
  Float8 v[kVectors];
  // Distance h inside a vector: the upper partner computes a - b as a + (-b).
  constexpr int32_t kNegative = INT32_MIN;
  constexpr Int8 kOdd = {0, kNegative, 0, kNegative, 0, kNegative, 0, kNegative};
  constexpr Int8 kOddPair = {0, 0, kNegative, kNegative, 0, 0, kNegative, kNegative};
  constexpr Int8 kUpperHalf = {0, 0, 0, 0, kNegative, kNegative, kNegative, kNegative};
  for (int i = 0; i < kVectors; ++i) {
    Float8 y = load_lanes<Float8>(x + i * kLanes);
    const auto butterfly = [](Float8 swapped, Float8 own, Int8 sign) {
      return swapped + reinterpret_cast<Float8>(reinterpret_cast<Int8>(own) ^ sign);
    };
    y = butterfly(__builtin_shufflevector(y, y, 1, 0, 3, 2, 5, 4, 7, 6), y, kOdd);
    y = butterfly(__builtin_shufflevector(y, y, 2, 3, 0, 1, 6, 7, 4, 5), y, kOddPair);
    v[i] = butterfly(__builtin_shufflevector(y, y, 4, 5, 6, 7, 0, 1, 2, 3), y, kUpperHalf);
  }
#pragma GCC unroll 8
  for (int h = 1; h < kVectors; h *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kVectors; ++i) {
      if ((i & h) != 0) continue;
      const Float8 a = v[i];
      const Float8 b = v[i + h];
      v[i] = a + b;
      v[i + h] = a - b;
    }
  }
  Int8 best = {};
  for (int i = 0; i < kVectors; ++i) {
    const Float8 scaled = v[i] * hadamard_scale<kDim>();
    *reinterpret_cast<Float8*>(x + i * kLanes) = scaled;
    const Int8 bits = reinterpret_cast<Int8>(scaled) & 0x7fffffff;
    best = bits > best ? bits : best;
  }
  int32_t largest = best[0];
  for (int lane = 1; lane < kLanes; ++lane) largest = larger(largest, best[lane]);
  return largest;
}

}  // namespace flamia::cpu
