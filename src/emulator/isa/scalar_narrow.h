// cvt to and from the packed 4, 6 and 8-bit formats, with nearest and stochastic rounding.
// Depends on: numerics (the formats), scalar_convert.h. Used by: the interpreter.
// e4m3x2 and e5m2x2 equal an H200 on the recorded cases; what only Blackwell has follows the PTX
// ISA and, for the random bits of .rs, measurements of sm_100a published with FlashInfer; those
// of e2m1x4 are unconfirmed.
#pragma once

#include <cstdint>

#include "emulator/isa/scalar_convert.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e5m2.h"
#include "numerics/f16.h"
#include "numerics/scale_codes.h"

namespace flamia::emulator::isa {

enum class Narrow : uint8_t { kE4m3, kE5m2, kE2m1, kE2m3, kE3m2 };

namespace detail {

/// E2M3 (largest value 7.5) and E3M2 (28) have neither infinity nor NaN.
using E2m3Rounding = Minifloat<3, 0, 0x40f00000u>;
using E3m2Rounding = Minifloat<2, -2, 0x41e00000u>;
inline constexpr uint8_t kE2m3MaxCode = 0x1f;
inline constexpr uint8_t kE3m2MaxCode = 0x1f;

constexpr int narrow_bits(Narrow format) {
  switch (format) {
    case Narrow::kE4m3:
    case Narrow::kE5m2:
      return 8;
    case Narrow::kE2m3:
    case Narrow::kE3m2:
      return 6;
    case Narrow::kE2m1:
      return 4;
  }
  return 8;
}

/// The code of NaN: the 4 and 6-bit formats have none and take the largest value.
constexpr uint8_t narrow_nan(Narrow format) {
  switch (format) {
    case Narrow::kE4m3:
      return kE4m3Nan;
    case Narrow::kE5m2:
      return kE5m2Nan;
    case Narrow::kE2m1:
      return kE2m1MaxCode;
    case Narrow::kE2m3:
      return kE2m3MaxCode;
    case Narrow::kE3m2:
      return kE3m2MaxCode;
  }
  return 0;
}

constexpr uint32_t nearest_magnitude(Narrow format, float x) {
  switch (format) {
    case Narrow::kE4m3:
      return E4m3Rounding::encode_magnitude(x);
    case Narrow::kE5m2:
      return E5m2Rounding::encode_magnitude(x);
    case Narrow::kE2m1:
      return E2m1Rounding::encode_magnitude(x);
    case Narrow::kE2m3:
      return E2m3Rounding::encode_magnitude(x);
    case Narrow::kE3m2:
      return E3m2Rounding::encode_magnitude(x);
  }
  return 0;
}

constexpr uint32_t stochastic_magnitude(Narrow format, float x, uint32_t random) {
  switch (format) {
    case Narrow::kE4m3:
      return E4m3Rounding::encode_magnitude_stochastic(x, random);
    case Narrow::kE5m2:
      return E5m2Rounding::encode_magnitude_stochastic(x, random);
    case Narrow::kE2m1:
      return E2m1Rounding::encode_magnitude_stochastic(x, random);
    case Narrow::kE2m3:
      return E2m3Rounding::encode_magnitude_stochastic(x, random);
    case Narrow::kE3m2:
      return E3m2Rounding::encode_magnitude_stochastic(x, random);
  }
  return 0;
}

constexpr uint8_t with_sign(Narrow format, float x, uint32_t magnitude, bool relu) {
  if (is_nan(x)) return narrow_nan(format);
  const bool negative = (float_bits(x) & kFloatSignBit) != 0;
  if (negative && relu) return 0;
  return static_cast<uint8_t>(magnitude | (negative ? 1u << (narrow_bits(format) - 1) : 0u));
}

constexpr uint32_t reverse16(uint32_t bits) {
  uint32_t result = 0;
  for (int i = 0; i < 16; ++i) result |= ((bits >> i) & 1u) << (15 - i);
  return result;
}

}  // namespace detail

/// One element of cvt.rn.satfinite(.relu).
constexpr uint8_t encode_narrow(Narrow format, float x, bool relu) {
  return detail::with_sign(format, x, detail::nearest_magnitude(format, x), relu);
}

/// cvt.rn.satfinite(.relu).<format>x2.f32 d, a, b: a in the upper part (a byte, or a nibble of
/// e2m1).
constexpr uint16_t encode_narrow_pair(Narrow format, float a, float b, bool relu) {
  const int stride = format == Narrow::kE2m1 ? 4 : 8;
  return static_cast<uint16_t>(encode_narrow(format, a, relu) << stride |
                               encode_narrow(format, b, relu));
}

/// The same from an f16x2 register.
constexpr uint16_t encode_narrow_f16x2(Narrow format, uint32_t pair, bool relu) {
  return encode_narrow_pair(format, f16_to_float(static_cast<uint16_t>(pair >> 16)),
                            f16_to_float(static_cast<uint16_t>(pair)), relu);
}

/// Value of one code; bits above the format's width are ignored.
constexpr float decode_narrow(Narrow format, uint8_t code) {
  switch (format) {
    case Narrow::kE4m3:
      return decode_e4m3(code);
    case Narrow::kE5m2:
      return decode_e5m2(code);
    case Narrow::kE2m1:
      return decode_e2m1(code);
    case Narrow::kE2m3:
    case Narrow::kE3m2:
      break;
  }
  const int mantissa_bits = format == Narrow::kE2m3 ? 3 : 2;
  const int min_exponent = format == Narrow::kE2m3 ? 0 : -2;
  const uint32_t magnitude = code & 0x1fu;
  const uint32_t field = magnitude >> mantissa_bits;
  const uint32_t mantissa = magnitude & ((1u << mantissa_bits) - 1u);
  const uint32_t significand = field == 0 ? mantissa : mantissa | (1u << mantissa_bits);
  const int exponent = min_exponent - mantissa_bits + static_cast<int>(field == 0 ? 0 : field - 1);
  const float value = static_cast<float>(significand) * pow2(exponent);
  return (code & 0x20u) != 0 ? -value : value;
}

/// cvt.rn(.relu).f16x2.<format>x2: exact; NaN gives the canonical NaN.
constexpr uint32_t decode_narrow_pair(Narrow format, uint16_t pair, bool relu) {
  const int stride = format == Narrow::kE2m1 ? 4 : 8;
  uint32_t result = 0;
  for (int i = 0; i < 2; ++i) {
    const float value = decode_narrow(format, static_cast<uint8_t>(pair >> (stride * i)));
    const uint32_t half = float_to_f16(value);
    const bool negative = (half & 0x8000u) != 0 && !is_nan(value);
    result |= (relu && negative ? 0u : half) << (16 * i);
  }
  return result;
}

/// One code of cvt.rz/rp(.satfinite).ue8m0x2: the exponent of |x|, rounded down or up. Zero and
/// values below 2^-127 give 2^-127; NaN, and what rounds beyond 2^127 without satfinite, 0xff.
constexpr uint8_t encode_ue8m0_rounded(float x, bool up, bool satfinite) {
  const uint32_t magnitude = float_bits(x) & ~kFloatSignBit;
  if (magnitude > kFloatInfinityBits) return kUe8m0Nan;
  // 2^-127 is the subnormal 0x00400000.
  uint32_t code = magnitude >> 23;
  const uint32_t rest = magnitude & 0x7fffffu;
  const bool above = code == 0 ? rest > 0x400000u : rest != 0;
  if (up && above) ++code;
  if (code >= 0xffu) return satfinite ? 0xfe : kUe8m0Nan;
  return static_cast<uint8_t>(code);
}
constexpr uint16_t encode_ue8m0_pair(float a, float b, bool up, bool satfinite) {
  return static_cast<uint16_t>(encode_ue8m0_rounded(a, up, satfinite) << 8 |
                               encode_ue8m0_rounded(b, up, satfinite));
}

/// cvt.rn.bf16x2.ue8m0x2; 2^-127 is a bf16 subnormal.
constexpr uint32_t decode_ue8m0_pair(uint16_t pair) {
  const uint32_t low = float_bits(decode_ue8m0(static_cast<uint8_t>(pair))) >> 16;
  const uint32_t high = float_bits(decode_ue8m0(static_cast<uint8_t>(pair >> 8))) & 0xffff0000u;
  return high | low;
}

/// One element of cvt.rs to f16 or bf16: random bits of the width of the lost mantissa are added to
/// it and the sum is truncated.
constexpr uint16_t stochastic_half(const FloatFormat& to, float x, uint32_t random,
                                   const ConvertMode& mode) {
  const uint32_t bits = float_bits(x);
  const uint32_t sign = to.negative(bits >> 16) ? 0x8000u : 0u;
  if (is_nan(x)) return static_cast<uint16_t>(to.nan);
  const uint64_t infinite = mode.satfinite ? to.max_finite() : to.infinity();
  const Exact value = unpack(kF32Format, bits & ~kFloatSignBit);
  uint64_t magnitude = infinite;
  if ((bits & ~kFloatSignBit) != kFloatInfinityBits) {
    const int lost = 23 - to.mantissa_bits;
    Wide significand = value.significand << 64;
    const int lowest = to.min_exponent() - to.mantissa_bits;
    const int top = significand == 0 ? lowest : top_bit(value.significand) + value.exponent;
    const int start = top < to.min_exponent() ? lowest : top - to.mantissa_bits;
    // The random bits stand just below the lowest kept place.
    const int place = 64 + start - value.exponent;
    if (place < 128 && place >= lost) significand += static_cast<Wide>(random) << (place - lost);
    const Exact sum{false, value.exponent - 64, significand};
    magnitude = round_to(to, sum, Rounding::kZero, false);
    if (magnitude == to.max_finite() && sum.significand != 0 &&
        top_bit(sum.significand) + sum.exponent > to.bias()) {
      magnitude = infinite;
    }
  }
  if (sign != 0 && mode.relu) return 0;
  return static_cast<uint16_t>(sign | magnitude);
}

/// cvt.rs.f16x2.f32 and cvt.rs.bf16x2.f32 d, a, b, rbits: a uses the upper half of rbits.
constexpr uint32_t stochastic_pair(const FloatFormat& to, float a, float b, uint32_t random,
                                   const ConvertMode& mode) {
  const uint32_t mask = (1u << (23 - to.mantissa_bits)) - 1u;
  return static_cast<uint32_t>(stochastic_half(to, a, (random >> 16) & mask, mode)) << 16 |
         stochastic_half(to, b, random & mask, mode);
}

/// cvt.rs.satfinite(.relu).<format>x4.f32 d, {a, b, e, f}, rbits: a in the top byte (or nibble).
/// a and b share the upper half of rbits, e and f the lower one; a and e read it in reverse order.
/// Its 16 bits stand at the top of the lost mantissa. For e2m1 the two shares are {bits 31:24, bits
/// 15:8} and {bits 23:16, bits 7:0}.
constexpr uint32_t stochastic_quad(Narrow format, const float (&source)[4], uint32_t random,
                                   bool relu) {
  uint32_t first = random >> 16, second = random & 0xffffu;
  if (format == Narrow::kE2m1) {
    first = ((random >> 16) & 0xff00u) | ((random >> 8) & 0xffu);
    second = ((random >> 8) & 0xff00u) | (random & 0xffu);
  }
  const uint32_t shares[4] = {detail::reverse16(first), first, detail::reverse16(second), second};
  const int stride = format == Narrow::kE2m1 ? 4 : 8;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint32_t magnitude = detail::stochastic_magnitude(format, source[i], shares[i] << 16);
    const uint32_t code = detail::with_sign(format, source[i], magnitude, relu);
    result |= code << (stride * (3 - i));
  }
  return result;
}

static_assert(encode_narrow(Narrow::kE2m3, 7.5f, false) == 0x1f);
static_assert(encode_narrow(Narrow::kE3m2, -28.0f, false) == 0x3f);
static_assert(decode_narrow(Narrow::kE3m2, 0x01) == 0.0625f);
static_assert(decode_narrow(Narrow::kE2m3, 0x3f) == -7.5f);
static_assert(encode_ue8m0_rounded(1.5f, true, true) == 128);
static_assert(encode_ue8m0_rounded(1.5f, false, true) == 127);

}  // namespace flamia::emulator::isa
