// The power-of-two prescale that keeps FP16 partials of dQ in range, from norms of the operands.
// Paper: 3.5.3, A.4 (sequence-wide and causal forms). Depends on: tree_sum.h, FP16's largest value.
// Used by: the dO quantizer and backward kernels. The maxima themselves are the caller's.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "numerics/f16.h"
#include "numerics/tree_sum.h"

namespace flamia {

/// Square root rounded to nearest.
FLAMIA_HD FLAMIA_FORCE_INLINE float sqrt_f32(float x) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

/// L2 norm of one row of a quantized operand: decoded_codes [dim], before their scale 2^exponent,
/// dim a power of two up to 256. Squares and sums in binary32, in tree order.
FLAMIA_HD inline float row_norm(const float* decoded_codes, int dim, int exponent) {
  float squares[kMaxTreeTerms] = {};
  for (int c = 0; c < dim; ++c) squares[c] = decoded_codes[c] * decoded_codes[c];
  return scale_pow2(sqrt_f32(tree_sum(squares, dim)), exponent);
}

/// Bound of a partial of dQ: 2 * max||dO|| * max||V|| * max|K|, in binary32 in this order. The
/// first three factors bound |dS| (|dP - D| <= 2 ||dO|| max||V||, and P sums to at most 1 over
/// keys).
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float norm_bound(float norm_do, float norm_v, float max_k) {
  return ((2.0f * norm_do) * norm_v) * max_k;
}

inline constexpr int kMinPrescaleExponent = -126;
inline constexpr int kMaxPrescaleExponent = 126;

/// r = floor(log2(65504 / bound)) - 1, clamped to [-126, 126]: partials times 2^r stay below half
/// of FP16's largest value, the spare factor two covering the rounding of dS codes (up to 6 %). A
/// zero bound gives 0, an infinite or NaN bound -126.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int dq_prescale_exponent(float bound) {
  const uint32_t bits = float_bits(bound) & ~kFloatSignBit;
  // 65504 = 2^15 * (1 + 0x7fe000 / 2^23): a larger fraction of the bound costs one more.
  const int above = (bits & 0x7fffffu) > 0x7fe000u ? 1 : 0;
  const int r = 15 - (static_cast<int>(bits >> 23) - 127) - above - 1;
  const int clamped = larger(smaller(r, kMaxPrescaleExponent), kMinPrescaleExponent);
  const int finite = bits == 0 ? 0 : clamped;
  return bits >= kFloatInfinityBits ? kMinPrescaleExponent : finite;
}

static_assert(dq_prescale_exponent(kF16Max) == -1 && dq_prescale_exponent(1.0f) == 14);
static_assert(dq_prescale_exponent(65505.0f) == -2 && dq_prescale_exponent(65536.0f) == -2);
static_assert(dq_prescale_exponent(0.0f) == 0 && dq_prescale_exponent(pow2(-140)) == 126);
static_assert(dq_prescale_exponent(bits_float(kFloatInfinityBits)) == -126);
static_assert(norm_bound(2.0f, 3.0f, 0.5f) == 6.0f);

}  // namespace flamia
