// Sums and maxima over one row in a fixed lane order, so that results do not depend on threads.
// Lanes: element j goes to lane j % 8; lanes are combined as ((0+4)+(2+6)) + ((1+5)+(3+7)).
#pragma once

#include <cstdint>
#include <cstring>

#include "base/bits.h"

namespace flamia::cpu {

constexpr int kLanes = 8;
using Float8 = float __attribute__((vector_size(32), aligned(4)));
using Int8 = int32_t __attribute__((vector_size(32), aligned(4), may_alias));

/// Eight elements from anywhere: some compilers take a cast pointer for an aligned one.
template <typename Vector>
inline Vector load_lanes(const float* from) {
  Vector x;
  std::memcpy(&x, from, sizeof x);
  return x;
}

/// Sum of row[0, count); count is a multiple of 8.
inline float row_sum(const float* row, int count) {
  Float8 sum = {};
  for (int j = 0; j < count; j += kLanes) sum += load_lanes<Float8>(row + j);
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/// Largest of row[0, count), NaN ignored; count is a multiple of 8, the result is -inf for none.
inline float row_max(const float* row, int count) {
  const float none = -__builtin_inff();
  Float8 best = {none, none, none, none, none, none, none, none};
  for (int j = 0; j < count; j += kLanes) {
    const Float8 x = load_lanes<Float8>(row + j);
    best = x > best ? x : best;
  }
  float result = best[0];
  for (int lane = 1; lane < kLanes; ++lane) result = larger(result, best[lane]);
  return result;
}

/// Largest magnitude of row[0, count), NaN ignored; count is a multiple of 8.
inline float row_magnitude(const float* row, int count) {
  constexpr int32_t kInfinity = 0x7f800000;
  const auto largest = [&](bool skip_nan) {
    Int8 best = {};
    for (int j = 0; j < count; j += kLanes) {
      Int8 x = load_lanes<Int8>(row + j) & 0x7fffffff;
      if (skip_nan) x = x > kInfinity ? Int8{} : x;
      best = x > best ? x : best;
    }
    int32_t result = best[0];
    for (int lane = 1; lane < kLanes; ++lane) result = larger(result, best[lane]);
    return result;
  };
  // Magnitudes order like their bits, and NaN lies above infinity: it shows in the first pass.
  int32_t result = largest(false);
  if (result > kInfinity) result = largest(true);
  return bits_float(static_cast<uint32_t>(result));
}

}  // namespace flamia::cpu
