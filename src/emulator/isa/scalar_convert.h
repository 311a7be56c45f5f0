// cvt between the integer types and f16, bf16, tf32, f32 and f64, on bit patterns.
// Depends on: scalar_round.h. Used by: the interpreter; scalar_narrow.h has the 4 to 8-bit formats.
// Equal to an H200 on the recorded cases (tests/emulator/silicon).
#pragma once

#include <cstdint>

#include "emulator/isa/scalar_round.h"

namespace flamia::emulator::isa {

struct IntegerType {
  int bits;
  bool is_signed;

  constexpr uint64_t mask() const { return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }
  /// The value as a sign and a magnitude.
  constexpr Exact exact(uint64_t value) const {
    const uint64_t low = value & mask();
    const bool negative = is_signed && (low >> (bits - 1)) != 0;
    return {negative, 0, negative ? ((~low + 1) & mask()) : low};
  }
};

inline constexpr IntegerType kU8{8, false}, kU16{16, false}, kU32{32, false}, kU64{64, false};
inline constexpr IntegerType kS8{8, true}, kS16{16, true}, kS32{32, true}, kS64{64, true};

/// Modifiers of cvt.
struct ConvertMode {
  Rounding rounding = Rounding::kNearestEven;
  bool ftz = false;
  bool sat = false;        ///< of a float result: clamped to [0, 1]
  bool relu = false;       ///< negative results become +0, NaN the canonical NaN
  bool satfinite = false;  ///< overflow and infinity give the largest finite value
};

/// sign * magnitude clamped into the type, as 64 bits extended by the type's sign.
constexpr uint64_t clamp_integer(const IntegerType& type, bool negative, Wide magnitude) {
  const Wide largest = type.is_signed ? type.mask() >> 1 : type.mask();
  if (!negative) return static_cast<uint64_t>(magnitude > largest ? largest : magnitude);
  const Wide lowest = type.is_signed ? largest + 1 : 0;
  return ~static_cast<uint64_t>(magnitude > lowest ? lowest : magnitude) + 1;
}

/// Integer to integer: extension by the sign of the source, then the low bits; with sat clamped.
/// All integer results are 64 bits wide, extended by the sign of the target.
constexpr uint64_t convert_integer(const IntegerType& to, const IntegerType& from, uint64_t value,
                                   bool sat) {
  const Exact exact = from.exact(value);
  if (sat) return clamp_integer(to, exact.negative, exact.significand);
  const uint64_t magnitude = static_cast<uint64_t>(exact.significand);
  const uint64_t low = (exact.negative ? ~magnitude + 1 : magnitude) & to.mask();
  const bool negative = to.is_signed && (low >> (to.bits - 1)) != 0;
  return negative ? low | ~to.mask() : low;
}

/// cvt.pack.sat.<to>.s32(.b32): a and b clamped into the type, a above b, and for types of 8 bits
/// and less the low part of c above both.
constexpr uint32_t convert_pack(const IntegerType& to, uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t mask = to.mask();
  const uint64_t high = convert_integer(to, {32, true}, a, true) & mask;
  const uint64_t low = convert_integer(to, {32, true}, b, true) & mask;
  const uint64_t above = to.bits <= 8 ? static_cast<uint64_t>(c) << (2 * to.bits) : 0;
  return static_cast<uint32_t>(above | high << to.bits | low);
}

/// Integer to float.
constexpr uint64_t convert_from_integer(const FloatFormat& to, const IntegerType& from,
                                        uint64_t value, const ConvertMode& mode) {
  const Exact exact = from.exact(value);
  if (exact.significand == 0) return 0;
  const uint64_t bits = round_to(to, exact, mode.rounding, false);
  return mode.sat ? saturate(to, bits) : bits;
}

/// What NaN gives: from binary64 or to 64 bits only the highest bit is set, otherwise 0.
constexpr uint64_t nan_to_integer(const IntegerType& to, const FloatFormat& from) {
  if (to.bits != 64 && from.mantissa_bits != 52) return 0;
  const uint64_t highest = uint64_t{1} << (to.bits - 1);
  return to.is_signed ? ~highest + 1 : highest;
}

/// Float to integer: rounded to a whole number and clamped into the type.
constexpr uint64_t convert_to_integer(const IntegerType& to, const FloatFormat& from, uint64_t bits,
                                      const ConvertMode& mode) {
  bits = from.flush(bits, mode.ftz);
  if (from.is_nan(bits)) return nan_to_integer(to, from);
  const Exact value = unpack(from, bits);
  if (from.is_infinite(bits)) return clamp_integer(to, value.negative, ~Wide{0});
  // Beyond 2^66 every type is clamped, so larger shifts need not be exact.
  const int shift = value.exponent > 66 ? 66 : value.exponent;
  const Wide magnitude = round_shift(value.significand, -shift, value.negative, mode.rounding);
  return clamp_integer(to, value.negative, magnitude);
}

/// A finite float rounded to a whole number of the same format (cvt.rni.f32.f32 and so on).
constexpr uint64_t round_to_whole(const FloatFormat& format, uint64_t bits, Rounding rounding) {
  const Exact value = unpack(format, bits);
  if (value.exponent >= 0) return bits;
  const Wide magnitude = round_shift(value.significand, -value.exponent, value.negative, rounding);
  return round_to(format, {value.negative, 0, magnitude}, Rounding::kZero, false);
}

/// Float to float. `whole` asks for a whole number first (the rounding is then .rni and so on). ftz
/// concerns binary32 alone: operands of it, but not on the way to f16, and results in it.
constexpr uint64_t convert_float(const FloatFormat& to, const FloatFormat& from, uint64_t bits,
                                 const ConvertMode& mode, bool whole = false) {
  const bool from_f32 = from.mantissa_bits == 23, to_f64 = to.mantissa_bits == 52;
  bits = from.flush(bits, mode.ftz && from_f32 && to.exponent_bits != 5);
  if (from.is_nan(bits)) {
    if (mode.sat) return 0;
    if (from.mantissa_bits == 7 && to.mantissa_bits == 23) return bits << 16;  // a shift, no cvt
    if (mode.ftz && from_f32 && to_f64) bits = from.nan;
    if (to.mantissa_bits != 52 && from.mantissa_bits != 52) return to.nan;
    // To or from binary64 the sign and the upper payload are kept, and the NaN is made quiet.
    const uint64_t payload = (bits & from.mantissa_mask()) << (52 - from.mantissa_bits);
    const uint64_t quiet = uint64_t{1} << (to.mantissa_bits - 1);
    return (from.negative(bits) ? to.sign_bit() : 0) | to.infinity() | quiet |
           (payload >> (52 - to.mantissa_bits));
  }
  if (whole && !from.is_infinite(bits)) bits = round_to_whole(from, bits, mode.rounding);
  const uint64_t sign = from.negative(bits) ? to.sign_bit() : 0;
  uint64_t result = sign | to.infinity();
  if (!from.is_infinite(bits)) {
    result = round_to(to, unpack(from, bits), mode.rounding, mode.ftz && to.mantissa_bits == 23);
  }
  if (mode.satfinite && to.is_infinite(result)) result = sign | to.max_finite();
  if (mode.sat) return saturate(to, result);
  if (mode.relu && to.negative(result)) return 0;
  return result;
}

/// cvt to tf32: the result stands in the upper 19 bits of 32, the rest is zero. .rna is done with
/// integer instructions, so that NaN keeps its upper bits (and may lose all of its payload).
constexpr uint32_t convert_tf32(uint32_t bits, const ConvertMode& mode) {
  if (mode.rounding != Rounding::kNearestAway) {
    return static_cast<uint32_t>(convert_float(kTf32Format, kF32Format, bits, mode) << 13);
  }
  constexpr uint32_t infinity = static_cast<uint32_t>(kF32Format.infinity());
  const bool finite = kF32Format.magnitude(bits) < infinity;
  const uint32_t rounded = (bits + (finite ? 0x1000u : 0u)) & 0xffffe000u;
  const bool beyond = kF32Format.magnitude(rounded) >= infinity;
  return rounded - (mode.satfinite && beyond ? 0x2000u : 0u);
}

static_assert(convert_to_integer(kS32, kF32Format, 0x40200000, {Rounding::kNearestEven}) == 2);
static_assert(convert_to_integer(kU32, kF32Format, 0xc0200000, {Rounding::kZero}) == 0);
static_assert(convert_float(kF16Format, kF32Format, 0x477ff000, {}) == 0x7c00);
static_assert(convert_from_integer(kF32Format, kU64, ~uint64_t{0}, {}) == 0x5f800000);

}  // namespace flamia::emulator::isa
