// Float instructions of PTX on bit patterns: add, mul, fma, div, sqrt, min, max, compare, classes.
// Depends on: scalar_round.h. Used by: the interpreter; equal to an H200 on the recorded cases
// (tests/emulator/silicon). Packed forms apply these to each half.
//
// NaN: every format returns its own canonical NaN; binary64 keeps the payload of an operand.
#pragma once

#include <cstdint>

#include "emulator/isa/scalar_round.h"

namespace flamia::emulator::isa {

/// Modifiers of an arithmetic instruction.
struct FloatMode {
  Rounding rounding = Rounding::kNearestEven;
  bool ftz = false;
  bool sat = false;
  bool relu = false;  ///< fma.relu: negative results and NaN become +0 and the canonical NaN
};

namespace detail {

constexpr bool is_f64(const FloatFormat& format) { return format.mantissa_bits == 52; }

/// The NaN result of an instruction with these operands: in binary64 that of b, else of c,
/// else of a, made quiet.
constexpr uint64_t nan_of(const FloatFormat& format, uint64_t a, uint64_t b, uint64_t c) {
  if (!is_f64(format)) return format.nan;
  constexpr uint64_t quiet = uint64_t{1} << 51;
  if (format.is_nan(b)) return b | quiet;
  if (format.is_nan(c)) return c | quiet;
  if (format.is_nan(a)) return a | quiet;
  return format.nan;
}

/// Exact sum with at least 2 bits below the lowest place of any format; zero has sign false.
constexpr Exact add_exact(const Exact& a, const Exact& b) {
  if (a.significand == 0) return b;
  if (b.significand == 0) return a;
  // Both get their highest bit at place 125, so that neither alignment nor a carry loses a bit
  // unless the operands are too far apart to cancel.
  const int shift_a = 125 - top_bit(a.significand), shift_b = 125 - top_bit(b.significand);
  Exact large{a.negative, a.exponent - shift_a, a.significand << shift_a};
  Exact small{b.negative, b.exponent - shift_b, b.significand << shift_b};
  if (small.exponent > large.exponent) {
    const Exact swapped = large;
    large = small;
    small = swapped;
  }
  const Wide aligned = shift_right_sticky(small.significand, large.exponent - small.exponent);
  if (large.negative == small.negative) {
    return {large.negative, large.exponent, large.significand + aligned};
  }
  if (large.significand >= aligned) {
    return {large.negative, large.exponent, large.significand - aligned};
  }
  return {small.negative, large.exponent, aligned - large.significand};
}

/// The result of the host's own arithmetic, where that decides: nearest even, no NaN among the
/// operands or as a result, and with ftz nothing near the smallest normal value. The host must run
/// with its default floating-point environment.
struct HostResult {
  bool valid;
  uint64_t bits;
};
template <typename Single, typename Double>
constexpr HostResult on_host(const FloatFormat& format, const FloatMode& mode, Single single,
                             Double wide) {
  if (__builtin_is_constant_evaluated() || mode.rounding != Rounding::kNearestEven)
    return {false, 0};
  uint64_t bits = 0;
  if (format.mantissa_bits == 23) {
    bits = __builtin_bit_cast(uint32_t, single());
  } else if (format.mantissa_bits == 52) {
    bits = __builtin_bit_cast(uint64_t, wide());
  } else {
    return {false, 0};
  }
  if (format.is_nan(bits)) return {false, 0};
  return {!mode.ftz || format.magnitude(bits) > format.min_normal(), bits};
}
constexpr float as_float(uint64_t bits) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits));
}
constexpr double as_double(uint64_t bits) { return __builtin_bit_cast(double, bits); }

constexpr uint64_t finish(const FloatFormat& format, uint64_t bits, const FloatMode& mode) {
  if (mode.sat) return saturate(format, bits);
  if (mode.relu && format.negative(bits) && !format.is_nan(bits)) return 0;
  return bits;
}

}  // namespace detail

/// fma: a * b + c with one rounding.
constexpr uint64_t float_fma(const FloatFormat& format, uint64_t a, uint64_t b, uint64_t c,
                             const FloatMode& mode) {
  a = format.flush(a, mode.ftz);
  b = format.flush(b, mode.ftz);
  c = format.flush(c, mode.ftz);
  const auto host = detail::on_host(
      format, mode,
      [=] { return __builtin_fmaf(detail::as_float(a), detail::as_float(b), detail::as_float(c)); },
      [=] {
        return __builtin_fma(detail::as_double(a), detail::as_double(b), detail::as_double(c));
      });
  if (host.valid) return detail::finish(format, host.bits, mode);
  const bool product_negative = format.negative(a) != format.negative(b);
  if (format.is_nan(a) || format.is_nan(b) || format.is_nan(c)) {
    return detail::finish(format, detail::nan_of(format, a, b, c), mode);
  }
  if (format.is_infinite(a) || format.is_infinite(b)) {
    const bool invalid = format.is_zero(a) || format.is_zero(b) ||
                         (format.is_infinite(c) && format.negative(c) != product_negative);
    const uint64_t infinity = format.infinity() | (product_negative ? format.sign_bit() : 0);
    return detail::finish(format, invalid ? format.nan : infinity, mode);
  }
  if (format.is_infinite(c)) return detail::finish(format, c, mode);
  const Exact x = unpack(format, a), y = unpack(format, b), z = unpack(format, c);
  const Exact product{product_negative, x.exponent + y.exponent, x.significand * y.significand};
  Exact sum = detail::add_exact(product, z);
  if (sum.significand == 0) {
    const bool both_negative = product_negative && z.negative;
    const bool either_negative = product_negative || z.negative;
    sum.negative = mode.rounding == Rounding::kDown ? either_negative : both_negative;
  }
  return detail::finish(format, round_to(format, sum, mode.rounding, mode.ftz), mode);
}

/// add; sub is add of float_negate(b).
constexpr uint64_t float_add(const FloatFormat& format, uint64_t a, uint64_t b,
                             const FloatMode& mode) {
  return float_fma(format, a, format.one(), b, mode);
}

constexpr uint64_t float_mul(const FloatFormat& format, uint64_t a, uint64_t b,
                             const FloatMode& mode) {
  a = format.flush(a, mode.ftz);
  b = format.flush(b, mode.ftz);
  const auto host = detail::on_host(
      format, mode, [=] { return detail::as_float(a) * detail::as_float(b); },
      [=] { return detail::as_double(a) * detail::as_double(b); });
  if (host.valid) return detail::finish(format, host.bits, mode);
  const bool negative = format.negative(a) != format.negative(b);
  const uint64_t sign = negative ? format.sign_bit() : 0;
  if (format.is_nan(a) || format.is_nan(b)) {
    return detail::finish(format, detail::nan_of(format, a, b, 0), mode);
  }
  if (format.is_infinite(a) || format.is_infinite(b)) {
    const bool invalid = format.is_zero(a) || format.is_zero(b);
    return detail::finish(format, invalid ? format.nan : format.infinity() | sign, mode);
  }
  const Exact x = unpack(format, a), y = unpack(format, b);
  const Exact product{negative, x.exponent + y.exponent, x.significand * y.significand};
  return detail::finish(format, round_to(format, product, mode.rounding, mode.ftz), mode);
}

/// sub with the sign of b reversed; the payload of a NaN keeps its sign.
constexpr uint64_t float_sub(const FloatFormat& format, uint64_t a, uint64_t b,
                             const FloatMode& mode) {
  return float_add(format, a, format.is_nan(b) ? b : b ^ format.sign_bit(), mode);
}

/// div.rn/rz/rm/rp.
constexpr uint64_t float_div(const FloatFormat& format, uint64_t a, uint64_t b,
                             const FloatMode& mode) {
  a = format.flush(a, mode.ftz);
  b = format.flush(b, mode.ftz);
  const bool negative = format.negative(a) != format.negative(b);
  const uint64_t sign = negative ? format.sign_bit() : 0;
  if (format.is_nan(a) || format.is_nan(b)) return detail::nan_of(format, b, a, 0);  // a goes first
  if (format.is_infinite(a)) return format.is_infinite(b) ? format.nan : format.infinity() | sign;
  if (format.is_infinite(b)) return sign;
  if (format.is_zero(b)) return format.is_zero(a) ? format.nan : format.infinity() | sign;
  if (format.is_zero(a)) return sign;
  Exact x = unpack(format, a), y = unpack(format, b);
  const int shift = 126 - top_bit(x.significand);
  x.significand <<= shift;
  const Wide quotient = x.significand / y.significand;
  const Wide sticky = x.significand % y.significand != 0 ? 1 : 0;
  return round_to(format, {negative, x.exponent - shift - y.exponent, quotient | sticky},
                  mode.rounding, mode.ftz);
}

/// rcp.rn/rz/rm/rp.
constexpr uint64_t float_rcp(const FloatFormat& format, uint64_t a, const FloatMode& mode) {
  return float_div(format, format.one(), a, mode);
}

/// sqrt.rn/rz/rm/rp.
constexpr uint64_t float_sqrt(const FloatFormat& format, uint64_t a, const FloatMode& mode) {
  a = format.flush(a, mode.ftz);
  if (format.is_nan(a)) return detail::nan_of(format, a, 0, 0);
  if (format.is_zero(a)) return a;
  if (format.negative(a)) return format.nan;
  if (format.is_infinite(a)) return a;
  Exact x = unpack(format, a);
  int shift = 124 - top_bit(x.significand);
  if (((x.exponent - shift) & 1) != 0) ++shift;
  x.significand <<= shift;
  Wide root = 0;
  for (int bit = 62; bit >= 0; --bit) {
    const Wide trial = root | (Wide{1} << bit);
    if (trial * trial <= x.significand) root = trial;
  }
  const Wide sticky = root * root != x.significand ? 1 : 0;
  return round_to(format, {false, (x.exponent - shift) / 2 - 1, (root << 1) | sticky},
                  mode.rounding, mode.ftz);
}

constexpr uint64_t float_negate(const FloatFormat& format, uint64_t a, bool ftz) {
  if (format.is_nan(a)) return detail::nan_of(format, a, 0, 0);
  return format.flush(a, ftz) ^ format.sign_bit();
}
constexpr uint64_t float_abs(const FloatFormat& format, uint64_t a, bool ftz) {
  if (format.is_nan(a)) return detail::nan_of(format, a, 0, 0);
  return format.magnitude(format.flush(a, ftz));
}

/// copysign.f32/f64: the sign of a on the magnitude of b.
constexpr uint64_t float_copysign(const FloatFormat& format, uint64_t a, uint64_t b) {
  return (a & format.sign_bit()) | format.magnitude(b);
}

/// Order of two numbers, -0 equal to +0: -1, 0, 1; 2 if either is NaN.
constexpr int float_order(const FloatFormat& format, uint64_t a, uint64_t b, bool ftz) {
  a = format.flush(a, ftz);
  b = format.flush(b, ftz);
  if (format.is_nan(a) || format.is_nan(b)) return 2;
  const int64_t x = static_cast<int64_t>(format.magnitude(a)) * (format.negative(a) ? -1 : 1);
  const int64_t y = static_cast<int64_t>(format.magnitude(b)) * (format.negative(b) ? -1 : 1);
  return x < y ? -1 : (x > y ? 1 : 0);
}

enum class Compare : uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,  // false on NaN
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,  // true on NaN
  kNum,
  kNan,
};

/// setp and set of a float type.
constexpr bool float_compare(const FloatFormat& format, Compare compare, uint64_t a, uint64_t b,
                             bool ftz) {
  const int order = float_order(format, a, b, ftz);
  const bool unordered = order == 2;
  switch (compare) {
    case Compare::kEq:
      return order == 0;
    case Compare::kNe:
      return order == -1 || order == 1;
    case Compare::kLt:
      return order == -1;
    case Compare::kLe:
      return order == -1 || order == 0;
    case Compare::kGt:
      return order == 1;
    case Compare::kGe:
      return order == 1 || order == 0;
    case Compare::kEqu:
      return unordered || order == 0;
    case Compare::kNeu:
      return order != 0;
    case Compare::kLtu:
      return unordered || order == -1;
    case Compare::kLeu:
      return unordered || order <= 0;
    case Compare::kGtu:
      return order >= 1;
    case Compare::kGeu:
      return order >= 0;
    case Compare::kNum:
      return !unordered;
    case Compare::kNan:
      return unordered;
  }
  return false;
}

/// Modifiers of min and max.
struct MinMaxMode {
  bool ftz = false;
  bool nan = false;  ///< .NaN: a NaN operand gives the canonical NaN
  bool abs = false;  ///< .abs: of the magnitudes
  bool xorsign_abs =
      false;  ///< .xorsign.abs: of the magnitudes, with the exclusive or of the signs
};

/// min (or max) of two operands; -0 is below +0; a single NaN operand is ignored without .NaN.
constexpr uint64_t float_min_max(const FloatFormat& format, bool maximum, uint64_t a, uint64_t b,
                                 const MinMaxMode& mode) {
  a = format.flush(a, mode.ftz);
  b = format.flush(b, mode.ftz);
  const uint64_t sign = (a ^ b) & format.sign_bit();
  if (mode.abs || mode.xorsign_abs) {
    a = format.magnitude(a);
    b = format.magnitude(b);
  }
  uint64_t result = 0;
  if (format.is_nan(a) || format.is_nan(b)) {
    const bool both = format.is_nan(a) && format.is_nan(b);
    if (mode.nan || both) return detail::nan_of(format, a, b, 0);
    result = format.is_nan(a) ? b : a;
  } else {
    const int order = float_order(format, a, b, false);
    const bool a_below = order == 0 ? format.negative(a) : order < 0;
    result = a_below == maximum ? b : a;
  }
  return mode.xorsign_abs ? (result & ~format.sign_bit()) | sign : result;
}

/// Three operands (sm_100 and later).
constexpr uint64_t float_min_max3(const FloatFormat& format, bool maximum, uint64_t a, uint64_t b,
                                  uint64_t c, const MinMaxMode& mode) {
  return float_min_max(format, maximum, float_min_max(format, maximum, a, b, mode), c, mode);
}

enum class FloatClass : uint8_t {
  kFinite,
  kInfinite,
  kNumber,
  kNotANumber,
  kNormal,
  kSubnormal,
};

/// testp. Zeros count as normal.
constexpr bool float_test(const FloatFormat& format, FloatClass which, uint64_t a) {
  switch (which) {
    case FloatClass::kFinite:
      return format.magnitude(a) < format.infinity();
    case FloatClass::kInfinite:
      return format.is_infinite(a);
    case FloatClass::kNumber:
      return !format.is_nan(a);
    case FloatClass::kNotANumber:
      return format.is_nan(a);
    case FloatClass::kNormal:
      return format.magnitude(a) < format.infinity() && !format.is_subnormal(a);
    case FloatClass::kSubnormal:
      return format.is_subnormal(a);
  }
  return false;
}

/// The condition of slct.f32: c >= 0, so that -0 selects a and NaN selects b.
constexpr bool select_first(const FloatFormat& format, uint64_t c, bool ftz) {
  return float_compare(format, Compare::kGe, c, 0, ftz);
}

/// Both halves of a packed operand (f16x2, bf16x2: 16 bits each; f32x2: 32 bits each).
template <typename Operation>
constexpr uint64_t packed(int bits, Operation operation) {
  return operation(0) | operation(1) << bits;
}

}  // namespace flamia::emulator::isa
