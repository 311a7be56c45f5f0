// Bit casts, integer helpers and the few float primitives that host and device must agree on.
// Depends on: IEEE binary32/64, round to nearest even. Used by: numerics and everything above.
// No std:: functions here: device code cannot call them.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace flamia {

FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint32_t float_bits(float x) {
  return __builtin_bit_cast(uint32_t, x);
}
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float bits_float(uint32_t u) {
  return __builtin_bit_cast(float, u);
}
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint64_t double_bits(double x) {
  return __builtin_bit_cast(uint64_t, x);
}
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE double bits_double(uint64_t u) {
  return __builtin_bit_cast(double, u);
}

template <typename Integer>
FLAMIA_HD constexpr Integer ceil_div(Integer a, Integer b) {
  return (a + b - 1) / b;
}
template <typename Integer>
FLAMIA_HD constexpr Integer round_up(Integer a, Integer multiple) {
  return ceil_div(a, multiple) * multiple;
}
template <typename Number>
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE Number smaller(Number a, Number b) {
  return b < a ? b : a;
}
template <typename Number>
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE Number larger(Number a, Number b) {
  return a < b ? b : a;
}

/// |x|, also of NaN (the sign bit is cleared).
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float magnitude(float x) {
  return bits_float(float_bits(x) & 0x7fffffffu);
}

/// fmaxf with the NaN rule written out: a NaN operand is ignored, two NaNs give NaN.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float max_number(float a, float b) {
#if defined(__CUDA_ARCH__)
  if (!__builtin_is_constant_evaluated()) return ::fmaxf(a, b);  // one instruction
#endif
  return (a >= b || b != b) ? a : b;
}

/// a * b + c with one rounding. Not constexpr: the builtin is no constant expression in clang.
FLAMIA_HD FLAMIA_FORCE_INLINE float fma_f32(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

/// 2^e for e in [-149, 127], exact; 0 below, infinity above.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float pow2(int e) {
  const uint32_t normal = static_cast<uint32_t>(e + 127) << 23;
  const uint32_t subnormal = e >= -149 ? (1u << ((e + 149) & 31)) : 0u;
  const uint32_t finite = e >= -126 ? normal : subnormal;
  return bits_float(e > 127 ? 0x7f800000u : finite);
}

/// x * 2^e with one rounding, for any e (through binary64, which holds every factor exactly).
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float scale_pow2(float x, int e) {
  const int clamped = larger(smaller(e, 400), -400);
  const double factor = bits_double(static_cast<uint64_t>(clamped + 1023) << 52);
  return static_cast<float>(static_cast<double>(x) * factor);
}

/// Exponent of the largest power of two that is <= x; x must be positive and finite.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int floor_log2(float x) {
  const uint32_t u = float_bits(x);
  const int biased = static_cast<int>((u >> 23) & 0xffu);
  if (biased != 0) return biased - 127;
  int e = -150;
  for (uint32_t m = u & 0x7fffffu; m != 0; m >>= 1) ++e;
  return e;
}

static_assert(pow2(0) == 1.0f && pow2(-149) > 0.0f && pow2(-150) == 0.0f && pow2(-126) > 0.0f);
static_assert(ceil_div(7, 4) == 2 && round_up(7, 4) == 8);
static_assert(floor_log2(1.0f) == 0 && floor_log2(0.75f) == -1 && floor_log2(pow2(-149)) == -149);
static_assert(max_number(2.0f, 1.0f) == 2.0f);
static_assert(scale_pow2(3.0f, -1) == 1.5f && scale_pow2(pow2(127), -254) == pow2(-127));

}  // namespace flamia
