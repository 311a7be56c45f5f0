// Base-2 exponential and logarithm: one portable definition each, and the polynomial exponential.
// Paper: 3.5.2 (partial polynomial evaluation, its clamp, the checkerboard), 3.3 (backward uses the
// same evaluation). Depends on: fma_f32. Used by: softmax of every backend, row statistics.
// Hardware exponentials are not defined here; their error is bounded against exp2_exact by tests.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "numerics/minifloat.h"

namespace flamia {

/// 1.5 * 2^23: adding it rounds |x| < 2^22 to an integer and leaves that integer in the low bits.
inline constexpr float kRoundMagic = 12582912.0f;
inline constexpr uint32_t kRoundMagicBits = 0x4b400000u;

/// 2^x within 0.81 ulp (0.88 where it is subnormal) for every x: exact at integers, gradual
/// underflow, 0 for x <= -150, infinity for x >= 128, NaN for NaN.
FLAMIA_HD FLAMIA_FORCE_INLINE float exp2_exact(float x) {
  const float below = x < -151.0f ? -151.0f : x;
  const float clamped = below > 129.0f ? 129.0f : below;
  const float shifted = clamped + kRoundMagic;
  const int n = static_cast<int>(float_bits(shifted) - kRoundMagicBits);
  const float f = clamped - (shifted - kRoundMagic);  // exact, in [-1/2, 1/2]
  // Minimax for relative error, each coefficient refitted after those before it were rounded to
  // binary32: 3.0e-9, a twentieth of half an ulp.
  float p = bits_float(0x3920b4aau);
  p = fma_f32(p, f, bits_float(0x3aaf8416u));
  p = fma_f32(p, f, bits_float(0x3c1d96f1u));
  p = fma_f32(p, f, bits_float(0x3d6357beu));
  p = fma_f32(p, f, bits_float(0x3e75fdeeu));
  p = fma_f32(p, f, bits_float(0x3f317218u));
  p = fma_f32(p, f, 1.0f);
  // Two factors: 2^n alone would leave the exponent range at both ends. Only the second rounds.
  const int half = n >> 1;
  const float first = bits_float(static_cast<uint32_t>(half + 127) << 23);
  const float second = bits_float(static_cast<uint32_t>(n - half + 127) << 23);
  return (p * first) * second;
}

/// Arguments below this are clamped by exp2_polynomial, which returns exactly 0 there.
inline constexpr float kPolynomialClamp = -127.0f;

/// 2^x by a cubic on the fraction in [0, 1), its integer part added to the exponent field.
/// Relative error at most 8.8e-5 for x in [-126, 128); exact at integers; below -126 the exponent
/// field runs out and the result falls linearly to 0 at -127 (absolute error below 2^-126); 0 for
/// x <= -127, also for -inf. NaN is not kept. Without the clamp the exponent field would wrap.
FLAMIA_HD FLAMIA_FORCE_INLINE float exp2_polynomial(float x) {
  const float clamped = x < kPolynomialClamp ? kPolynomialClamp : x;
  const float shifted = clamped + kRoundMagic;
  const float nearest = shifted - kRoundMagic;
  // floor(x), as an add with rounding towards minus infinity would give it.
  const bool above = nearest > clamped;
  const float f = clamped - (above ? nearest - 1.0f : nearest);
  const uint32_t n = float_bits(shifted) - (above ? 1u : 0u);
  // Minimax for relative error with constant term 1 on [0, 1]: 8.6e-5; p(1) < 2.
  float p = bits_float(0x3d9dd553u);
  p = fma_f32(p, f, bits_float(0x3e691bc5u));
  p = fma_f32(p, f, bits_float(0x3f31f32cu));
  p = fma_f32(p, f, 1.0f);
  return bits_float(float_bits(p) + (n << 23));
}

/// Column pairs are counted in groups of this many; fractions of emulated exponentials are eighths.
inline constexpr int kColumnPairsPerGroup = 8;

/// Pairs of eight that take the polynomial with Exponential::kPolynomial, in both passes. The paper
/// selects the fraction per path and chip and gives no number.
inline constexpr int kPolynomialPairsOf8 = 2;

/// Forward: whether column pair `column_pair` (column / 2 in the key tile) uses the polynomial when
/// `polynomial_of_8` of every eight pairs do (0 none, 8 all). They are spread evenly, so that both
/// pipelines always have work: pair k does when floor((k+1)n/8) > floor(kn/8).
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE bool uses_polynomial(int column_pair, int polynomial_of_8) {
  const int k = column_pair & (kColumnPairsPerGroup - 1);
  return ((k + 1) * polynomial_of_8) / kColumnPairsPerGroup >
         (k * polynomial_of_8) / kColumnPairsPerGroup;
}

/// Checkerboard: the pattern above, shifted by `row_group` pairs, so that warps which share a
/// pipeline do not all emulate at once. row_group 0 equals uses_polynomial: a backward reproduces
/// its forward's choices exactly only if both use the same function with the same arguments.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE bool uses_polynomial_checkerboard(int row_group,
                                                                          int column_pair,
                                                                          int polynomial_of_8) {
  return uses_polynomial(column_pair + row_group, polynomial_of_8);
}

/// log2(x) in binary32, within 0.51 ulp: evaluated in binary64 with plain adds, multiplies and one
/// division, so that host and device agree bitwise. 0 gives -inf, negative NaN, +inf +inf.
FLAMIA_HD constexpr float log2_f32(float x) {
  if (!(x > 0.0f) || float_bits(x) >= kFloatInfinityBits) {
    if (x == 0.0f) return -bits_float(kFloatInfinityBits);
    return x > 0.0f ? x : bits_float(kCanonicalNanBits);
  }
  const uint64_t bits = double_bits(static_cast<double>(x));  // subnormals become normal
  // x = 2^e * m with m in [sqrt(1/2), sqrt(2)): 0x6a09e667f3bcd is the fraction of sqrt(2).
  const uint64_t fraction = bits & 0x000fffffffffffffull;
  const int up = fraction >= 0x0006a09e667f3bcdull ? 1 : 0;
  const int e = static_cast<int>(bits >> 52) - 1023 + up;
  const double m = bits_double(fraction | (static_cast<uint64_t>(1023 - up) << 52));
  // ln m = 2 atanh(s), s = (m-1)/(m+1), |s| < 0.1716: the first dropped term is below 1e-13.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double series = 1.0 / 15.0;
  series = series * z + 1.0 / 13.0;
  series = series * z + 1.0 / 11.0;
  series = series * z + 1.0 / 9.0;
  series = series * z + 1.0 / 7.0;
  series = series * z + 1.0 / 5.0;
  series = series * z + 1.0 / 3.0;
  series = series * z + 1.0;
  constexpr double two_over_ln2 = 2.8853900817779268;
  return static_cast<float>(static_cast<double>(e) + two_over_ln2 * (s * series));
}

static_assert(log2_f32(1.0f) == 0.0f && log2_f32(8.0f) == 3.0f && log2_f32(0.5f) == -1.0f);
static_assert(log2_f32(pow2(-149)) == -149.0f && log2_f32(3.0f) == 1.5849625f);
static_assert(uses_polynomial(7, 1) && !uses_polynomial(6, 1) && !uses_polynomial(7, 0));
static_assert(uses_polynomial(1, 4) && uses_polynomial(3, 4) && !uses_polynomial(2, 4));
static_assert(uses_polynomial(0, 8) && uses_polynomial(13, 8));
static_assert(uses_polynomial_checkerboard(1, 0, 4) && !uses_polynomial_checkerboard(1, 1, 4));

}  // namespace flamia
