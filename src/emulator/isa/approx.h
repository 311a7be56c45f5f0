// The approximate functions of PTX as ptxas builds them for sm_90a from the special function unit.
// Depends on: approx_mufu.h. Used by: the interpreter; tests/cuda/silicon proves it on a GPU.
// Exactness: equal to an H200 on all 2^32 operands of every one-operand binary32 function, with and
// without .ftz, and on all 65536 operands of the 16-bit ones (tests/emulator/silicon/README.md).
//
// All arguments and results are bit patterns. The tables are an argument so that device code can
// pass its own copy; host code passes kMufuTables.
#pragma once

#include <cstdint>

#include "emulator/isa/approx_mufu.h"
#include "numerics/f16.h"

namespace flamia::emulator::isa::approx {

namespace detail {

inline constexpr uint32_t kMinNormalBits = 0x00800000u;
inline constexpr uint32_t kScaleUp = 0x4b800000u;    ///< 2^24
inline constexpr uint32_t kScaleDown = 0x3e800000u;  ///< 2^-2
inline constexpr uint32_t kLargeBits = 0x7e800000u;  ///< 2^126

FLAMIA_HD constexpr uint32_t magnitude_bits(uint32_t x) { return x & ~kFloatSignBit; }
FLAMIA_HD constexpr bool is_subnormal_or_zero(uint32_t x) {
  return magnitude_bits(x) < kMinNormalBits;
}
FLAMIA_HD constexpr bool is_large(uint32_t x) {
  return magnitude_bits(x) > kLargeBits && !mufu::is_nan_bits(x);
}

FLAMIA_HD constexpr uint32_t flush(uint32_t x) {
  return is_subnormal_or_zero(x) ? x & kFloatSignBit : x;
}

/// FMUL: nearest even, one NaN.
FLAMIA_HD constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  const uint32_t product = float_bits(bits_float(a) * bits_float(b));
  return mufu::is_nan_bits(product) ? kCanonicalNanBits : product;
}

/// FMUL.FTZ: zero if the product, rounded as if the exponent had no lower end, is subnormal.
FLAMIA_HD constexpr uint32_t multiply_ftz(uint32_t a, uint32_t b) {
  const uint32_t x = flush(a), y = flush(b);
  const double exact = static_cast<double>(bits_float(x)) * static_cast<double>(bits_float(y));
  constexpr double up = 0x1p+100;
  constexpr float smallest = 0x1p-26f;  // 2^-126 times up
  const float scaled = static_cast<float>(exact * up);
  const uint32_t product = multiply(x, y);
  return scaled > -smallest && scaled < smallest ? product & kFloatSignBit : product;
}

/// FMUL.RZ of x and 1 / (2 pi), subnormal products included.
FLAMIA_HD constexpr uint32_t turns(uint32_t x) {
  constexpr uint64_t significand = 0xa2f983u;  // of 0x3e22f983
  const uint32_t exponent = (x >> 23) & 0xffu;
  if (exponent == 0xffu || magnitude_bits(x) == 0) return x;
  const uint64_t product =
      static_cast<uint64_t>((x & 0x7fffffu) | (exponent == 0 ? 0u : 0x800000u)) * significand;
  // product * 2^(max(exponent, 1) - 150 + 0x7c - 150); what MUFU drops of a tiny one is all of it.
  if (exponent < 8) return x & kFloatSignBit;
  const int carry = static_cast<int>(product >> 47);
  const uint32_t kept = static_cast<uint32_t>(product >> (23 + carry)) & 0x7fffffu;
  return (x & kFloatSignBit) | ((exponent + 0x7cu - 127u + static_cast<uint32_t>(carry)) << 23) |
         kept;
}

/// binary16 pattern of a binary32 value cut towards zero; overflow gives infinity.
FLAMIA_HD constexpr uint16_t truncate_f16(uint32_t x) {
  const uint32_t sign = (x >> 16) & 0x8000u;
  const uint32_t magnitude = magnitude_bits(x);
  if (magnitude > kFloatInfinityBits) return 0x7fffu;
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) {
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u) >> 13));
  }
  const uint32_t exponent = magnitude >> 23;
  if (exponent < 103u) return static_cast<uint16_t>(sign);
  const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  return static_cast<uint16_t>(sign | (significand >> (126u - exponent)));
}

/// bfloat16 pattern cut towards zero.
FLAMIA_HD constexpr uint16_t truncate_bf16(uint32_t x) { return static_cast<uint16_t>(x >> 16); }

FLAMIA_HD constexpr uint32_t widen_bf16(uint16_t x) { return static_cast<uint32_t>(x) << 16; }

}  // namespace detail

/// ex2.approx.f32; with ftz ex2.approx.ftz.f32.
FLAMIA_HD constexpr uint32_t ex2_f32(const MufuTables& tables, uint32_t x, bool ftz) {
  const bool low = !mufu::is_nan_bits(x) && bits_float(x) < -126.0f;
  if (ftz || !low) return mufu::ex2(tables, x);
  const uint32_t root = mufu::ex2(tables, detail::multiply(x, 0x3f000000u));
  return detail::multiply(root, root);
}

/// rcp.approx(.ftz).f32.
FLAMIA_HD constexpr uint32_t rcp_f32(const MufuTables& tables, uint32_t x, bool ftz) {
  if (ftz) return mufu::rcp(tables, x);
  const uint32_t scale = detail::is_large(x)               ? detail::kScaleDown
                         : detail::is_subnormal_or_zero(x) ? detail::kScaleUp
                                                           : mufu::kOneBits;
  return detail::multiply(scale, mufu::rcp(tables, detail::multiply(x, scale)));
}

/// rsqrt.approx(.ftz).f32.
FLAMIA_HD constexpr uint32_t rsqrt_f32(const MufuTables& tables, uint32_t x, bool ftz) {
  if (ftz || !detail::is_subnormal_or_zero(x)) return mufu::rsqrt(tables, x);
  const uint32_t scaled = mufu::rsqrt(tables, detail::multiply(x, detail::kScaleUp));
  return detail::multiply(scaled, 0x45800000u);  // 2^12
}

/// sqrt.approx(.ftz).f32.
FLAMIA_HD constexpr uint32_t sqrt_f32(const MufuTables& tables, uint32_t x, bool ftz) {
  if (ftz || !detail::is_subnormal_or_zero(x)) return mufu::sqrt(tables, x);
  const uint32_t scaled = mufu::sqrt(tables, detail::multiply(x, detail::kScaleUp));
  return detail::multiply(scaled, 0x39800000u);  // 2^-12
}

/// lg2.approx(.ftz).f32.
FLAMIA_HD constexpr uint32_t lg2_f32(const MufuTables& tables, uint32_t x, bool ftz) {
  if (ftz || !detail::is_subnormal_or_zero(x)) return mufu::lg2(tables, x);
  const uint32_t scaled = mufu::lg2(tables, detail::multiply(x, detail::kScaleUp));
  return mufu::is_nan_bits(scaled) ? scaled : float_bits(bits_float(scaled) - 24.0f);
}

/// sin.approx(.ftz).f32 and cos.approx(.ftz).f32; .ftz changes nothing.
FLAMIA_HD constexpr uint32_t sin_f32(const MufuTables& tables, uint32_t x) {
  return mufu::sin_turns(tables, detail::turns(x), false);
}
FLAMIA_HD constexpr uint32_t cos_f32(const MufuTables& tables, uint32_t x) {
  return mufu::sin_turns(tables, detail::turns(x), true);
}

/// tanh.approx.f32.
FLAMIA_HD constexpr uint32_t tanh_f32(const MufuTables& tables, uint32_t x) {
  return mufu::tanh(tables, x);
}

/// div.approx(.ftz).f32: the numerator times the approximate reciprocal.
FLAMIA_HD constexpr uint32_t div_approx_f32(const MufuTables& tables, uint32_t a, uint32_t b,
                                            bool ftz) {
  if (ftz) return detail::multiply_ftz(a, mufu::rcp(tables, b));
  if (detail::is_subnormal_or_zero(b)) {
    a = detail::multiply(a, detail::kScaleUp);
    b = detail::multiply(b, detail::kScaleUp);
  }
  return detail::multiply(mufu::rcp(tables, b), a);
}

/// div.full(.ftz).f32: as above, with large denominators scaled.
FLAMIA_HD constexpr uint32_t div_full_f32(const MufuTables& tables, uint32_t a, uint32_t b,
                                          bool ftz) {
  if (detail::is_large(b)) {
    a = ftz ? detail::multiply_ftz(a, detail::kScaleDown) : detail::multiply(a, detail::kScaleDown);
    b = detail::multiply(b, detail::kScaleDown);
  }
  return div_approx_f32(tables, a, b, ftz);
}

namespace detail {

/// The upper word of a binary64 value decides alone (a NaN with its payload below is an infinity);
/// the lower word of the result is 0.
struct UpperWord {
  uint32_t sign, exponent;
  uint32_t mantissa;  ///< as 23 bits
  bool nan;
};
FLAMIA_HD constexpr UpperWord upper_word(uint64_t x) {
  const uint32_t high = static_cast<uint32_t>(x >> 32);
  return {high & kFloatSignBit, (high >> 20) & 0x7ffu, (high & 0xfffffu) << 3,
          magnitude_bits(high) > 0x7ff00000u};
}
inline constexpr uint64_t kNanUpper = uint64_t{kCanonicalNanBits} << 32;
FLAMIA_HD constexpr uint64_t from_upper(uint32_t sign, uint32_t exponent, uint32_t mantissa) {
  return static_cast<uint64_t>(sign | (exponent << 20) | mantissa >> 3) << 32;
}

}  // namespace detail

/// rcp.approx.ftz.f64: the binary32 reciprocal of 20 mantissa bits, cut to 20 bits.
FLAMIA_HD constexpr uint64_t rcp_f64(const MufuTables& tables, uint64_t x) {
  const detail::UpperWord u = detail::upper_word(x);
  if (u.nan) return detail::kNanUpper;
  if (u.exponent == 0) return detail::from_upper(u.sign, 0x7ffu, 0);
  if (u.exponent == 0x7ffu) return detail::from_upper(u.sign, 0, 0);
  const uint32_t reciprocal = mufu::rcp(tables, mufu::kOneBits | u.mantissa);
  const int exponent =
      static_cast<int>(2046u - u.exponent) + static_cast<int>(reciprocal >> 23) - 127;
  if (exponent <= 0) return detail::from_upper(u.sign, 0, 0);
  return detail::from_upper(u.sign, static_cast<uint32_t>(exponent),
                            reciprocal & mufu::kMantissaMask);
}

/// rsqrt.approx.ftz.f64, in the same way.
FLAMIA_HD constexpr uint64_t rsqrt_f64(const MufuTables& tables, uint64_t x) {
  const detail::UpperWord u = detail::upper_word(x);
  if (u.nan) return detail::kNanUpper;
  if (u.exponent == 0) return detail::from_upper(u.sign, 0x7ffu, 0);
  if (u.sign != 0) return detail::kNanUpper;
  if (u.exponent == 0x7ffu) return 0;
  // The operand with an even exponent, or one above it, in [1, 4).
  const uint32_t odd = (u.exponent & 1u) ^ 1u;
  const uint32_t root = mufu::rsqrt(tables, ((127u + odd) << 23) | u.mantissa);
  const int half = (static_cast<int>(u.exponent) - 1023 - static_cast<int>(odd)) / 2;
  const int exponent = static_cast<int>(root >> 23) - 127 - half + 1023;
  return detail::from_upper(0, static_cast<uint32_t>(exponent), root & mufu::kMantissaMask);
}

/// ex2.approx.f16, one half of ex2.approx.f16x2.
FLAMIA_HD constexpr uint16_t ex2_f16(const MufuTables& tables, uint16_t x) {
  return detail::truncate_f16(mufu::ex2(tables, float_bits(f16_to_float(x))));
}

/// ex2.approx.ftz.bf16, one half of ex2.approx.ftz.bf16x2.
FLAMIA_HD constexpr uint16_t ex2_bf16(const MufuTables& tables, uint16_t x) {
  return detail::truncate_bf16(mufu::ex2(tables, detail::widen_bf16(x)));
}

/// tanh.approx.f16 and tanh.approx.bf16, halves of the packed forms.
FLAMIA_HD constexpr uint16_t tanh_f16(const MufuTables& tables, uint16_t x) {
  return detail::truncate_f16(mufu::tanh(tables, float_bits(f16_to_float(x))));
}
FLAMIA_HD constexpr uint16_t tanh_bf16(const MufuTables& tables, uint16_t x) {
  return detail::truncate_bf16(mufu::tanh(tables, detail::widen_bf16(x)));
}

}  // namespace flamia::emulator::isa::approx
