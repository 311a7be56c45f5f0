// Exact values and their rounding to a binary format: the arithmetic below every float instruction.
// Depends on: nothing but integers. Used by: scalar_float.h, scalar_convert.h, scalar_narrow.h.
// A value is sign * significand * 2^exponent; bits lost on the way are kept as a one in the lowest
// place (sticky), which rounds the same as the exact value.
#pragma once

#include <cstdint>

namespace flamia::emulator::isa {

__extension__ typedef unsigned __int128 Wide;

enum class Rounding : uint8_t {
  kNearestEven,  ///< .rn, .rni
  kZero,         ///< .rz, .rzi
  kDown,         ///< .rm, .rmi
  kUp,           ///< .rp, .rpi
  kNearestAway,  ///< .rna
};

/// A binary format with IEEE encoding of infinity and NaN, at most 64 bits.
struct FloatFormat {
  int mantissa_bits;
  int exponent_bits;
  uint64_t nan;  ///< the NaN that instructions return

  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr int min_exponent() const { return 1 - bias(); }
  constexpr uint64_t mantissa_mask() const { return (uint64_t{1} << mantissa_bits) - 1; }
  constexpr uint64_t sign_bit() const { return uint64_t{1} << (mantissa_bits + exponent_bits); }
  constexpr uint64_t infinity() const {
    return ((uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  }
  constexpr uint64_t max_finite() const { return infinity() - 1; }
  constexpr uint64_t min_normal() const { return uint64_t{1} << mantissa_bits; }
  constexpr uint64_t one() const { return static_cast<uint64_t>(bias()) << mantissa_bits; }

  constexpr uint64_t magnitude(uint64_t bits) const { return bits & (sign_bit() - 1); }
  constexpr bool negative(uint64_t bits) const { return (bits & sign_bit()) != 0; }
  constexpr bool is_nan(uint64_t bits) const { return magnitude(bits) > infinity(); }
  constexpr bool is_infinite(uint64_t bits) const { return magnitude(bits) == infinity(); }
  constexpr bool is_zero(uint64_t bits) const { return magnitude(bits) == 0; }
  constexpr bool is_subnormal(uint64_t bits) const {
    return magnitude(bits) < min_normal() && magnitude(bits) != 0;
  }
  /// .ftz on an operand or a result: subnormals become zeros of their sign.
  constexpr uint64_t flush(uint64_t bits, bool ftz) const {
    return ftz && is_subnormal(bits) ? bits & sign_bit() : bits;
  }
};

inline constexpr FloatFormat kF16Format{10, 5, 0x7fff};
inline constexpr FloatFormat kBf16Format{7, 8, 0x7fff};
inline constexpr FloatFormat kTf32Format{10, 8, 0x3ffff};  ///< the upper 19 bits of binary32
inline constexpr FloatFormat kF32Format{23, 8, 0x7fffffff};
inline constexpr FloatFormat kF64Format{52, 11, 0xfff8000000000000};

struct Exact {
  bool negative;
  int exponent;
  Wide significand;
};

/// Index of the highest set bit; value is not zero.
constexpr int top_bit(Wide value) {
  const uint64_t high = static_cast<uint64_t>(value >> 64);
  if (high != 0) return 127 - __builtin_clzll(high);
  return 63 - __builtin_clzll(static_cast<uint64_t>(value));
}

/// value >> shift with every lost bit folded into the lowest one; any shift >= 0.
constexpr Wide shift_right_sticky(Wide value, int shift) {
  if (shift == 0) return value;
  if (shift >= 128) return value != 0 ? 1 : 0;
  const Wide lost = value & ((Wide{1} << shift) - 1);
  return (value >> shift) | (lost != 0 ? 1 : 0);
}

/// True if a magnitude is to be rounded up: `odd` is the lowest kept bit, the lost part is compared
/// with half a step (-1 below, 0 equal, 1 above), `inexact` says that it is not zero.
constexpr bool rounds_up(Rounding rounding, bool negative, bool odd, int half, bool inexact) {
  switch (rounding) {
    case Rounding::kNearestEven:
      return half > 0 || (half == 0 && odd);
    case Rounding::kNearestAway:
      return half >= 0 && inexact;
    case Rounding::kZero:
      return false;
    case Rounding::kDown:
      return negative && inexact;
    case Rounding::kUp:
      return !negative && inexact;
  }
  return false;
}

/// significand / 2^shift as an integer, rounded; shift may be negative. The result must fit.
constexpr Wide round_shift(Wide significand, int shift, bool negative, Rounding rounding) {
  if (shift <= 0) return significand << -shift;
  if (shift > 127) {
    return rounds_up(rounding, negative, false, -1, significand != 0) ? 1 : 0;
  }
  const Wide kept = significand >> shift;
  const Wide lost = significand & ((Wide{1} << shift) - 1);
  const Wide half = Wide{1} << (shift - 1);
  const int order = lost < half ? -1 : (lost == half ? 0 : 1);
  return kept + (rounds_up(rounding, negative, (kept & 1) != 0, order, lost != 0) ? 1 : 0);
}

/// True if a value beyond the largest finite one becomes infinity.
constexpr bool overflows_to_infinity(Rounding rounding, bool negative) {
  return rounding == Rounding::kNearestEven || rounding == Rounding::kNearestAway ||
         (rounding == Rounding::kUp && !negative) || (rounding == Rounding::kDown && negative);
}

/// Bits of the rounded value. With ftz the result is zero if it is below the smallest normal value
/// after rounding to the full width of the significand, whatever the exponent.
constexpr uint64_t round_to(const FloatFormat& format, const Exact& value, Rounding rounding,
                            bool ftz) {
  const uint64_t sign = value.negative ? format.sign_bit() : 0;
  if (value.significand == 0) return sign;
  const int exponent = top_bit(value.significand) + value.exponent;
  const bool tiny = exponent < format.min_exponent();
  if (tiny && ftz) {
    const int step = exponent - format.mantissa_bits;
    const Wide normal =
        round_shift(value.significand, step - value.exponent, value.negative, rounding);
    const bool lifted =
        exponent == format.min_exponent() - 1 && (normal >> (format.mantissa_bits + 1)) != 0;
    return sign | (lifted ? format.min_normal() : 0);
  }
  const int start = tiny ? format.min_exponent() : exponent;
  if (start > format.bias()) {
    const bool infinite = overflows_to_infinity(rounding, value.negative);
    return sign | (infinite ? format.infinity() : format.max_finite());
  }
  const Wide kept = round_shift(value.significand, start - format.mantissa_bits - value.exponent,
                                value.negative, rounding);
  // The implicit bit of `kept`, and a carry out of it, count in the exponent field.
  const uint64_t bits =
      (static_cast<uint64_t>(start - format.min_exponent()) << format.mantissa_bits) +
      static_cast<uint64_t>(kept);
  if (bits < format.infinity()) return sign | bits;
  const bool infinite = overflows_to_infinity(rounding, value.negative);
  return sign | (infinite ? format.infinity() : format.max_finite());
}

/// The exact value of finite bits.
constexpr Exact unpack(const FloatFormat& format, uint64_t bits) {
  const uint64_t magnitude = format.magnitude(bits);
  const int field = static_cast<int>(magnitude >> format.mantissa_bits);
  const uint64_t mantissa = magnitude & format.mantissa_mask();
  const uint64_t significand = field == 0 ? mantissa : mantissa | format.min_normal();
  const int exponent = (field == 0 ? 1 : field) - format.bias() - format.mantissa_bits;
  return {format.negative(bits), exponent, significand};
}

/// .sat: [0, 1], NaN and negative values give +0.
constexpr uint64_t saturate(const FloatFormat& format, uint64_t bits) {
  if (format.is_nan(bits) || format.negative(bits)) return 0;
  return bits > format.one() ? format.one() : bits;
}

static_assert(round_to(kF32Format, {false, 0, 1}, Rounding::kNearestEven, false) == 0x3f800000);
static_assert(round_to(kF32Format, {true, -150, 1}, Rounding::kNearestEven, false) == 0x80000000);
static_assert(round_to(kF32Format, {true, -150, 1}, Rounding::kDown, false) == 0x80000001);
static_assert(round_to(kF32Format, {false, 128, 1}, Rounding::kZero, false) == 0x7f7fffff);
static_assert(round_to(kF16Format, {false, 0, 2049}, Rounding::kNearestEven, false) == 0x6800);
static_assert(round_to(kF16Format, {false, 0, 2049}, Rounding::kNearestAway, false) == 0x6801);

}  // namespace flamia::emulator::isa
