// The special function unit of Hopper, bit for bit: quadratic interpolation in fixed point.
// Depends on: IEEE binary32 bits. Used by: approx.h (the PTX instructions), the proof on a GPU.
// Measured on an H200; docs of the method and the exactness in approx.h. Blackwell is taken to
// have the same unit.
//
// Every function is K + C1 * x + C2 * square(x), truncated. x is the low part of the significand
// (at most 17 bits), the segment is chosen by the bits above it, and square() is a squarer that
// drops the low half of each partial product. This form was published for the G80 by the envytools
// project (nvhw/sfu.c); the constants, the ranges and tanh were solved for from all measured
// outputs.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "numerics/minifloat.h"

namespace flamia::emulator::isa {

/// One segment of an interpolated function.
struct MufuSegment {
  int64_t constant;
  int32_t linear;
  int32_t quadratic;
};

/// How tanh cuts a binade of |x|: 2^log2_segments pieces, `dropped` low bits of x without effect.
struct TanhBinade {
  uint8_t first;
  uint8_t log2_segments;
  uint8_t dropped;
};

inline constexpr int kTanhFirstExponent = 0x77;  ///< biased; below it tanh.approx(x) = x
inline constexpr int kTanhBinades = 11;          ///< from |x| = 8 on the result is 1

struct MufuTables {
  MufuSegment rcp[128];
  MufuSegment rsqrt[128];  ///< upper half: odd exponents
  MufuSegment sqrt[128];   ///< upper half: odd exponents
  MufuSegment ex2[64];
  MufuSegment lg2[64];
  MufuSegment sin[64];
  MufuSegment tanh[128];
  TanhBinade tanh_binade[kTanhBinades];
};

/// The measured constants.
extern const MufuTables kMufuTables;

namespace mufu {

inline constexpr uint32_t kMantissaMask = 0x007fffffu;
inline constexpr uint32_t kImplicitOne = 0x00800000u;
inline constexpr uint32_t kOneBits = 0x3f800000u;

/// x^2 / 2^19 of a 17-bit x as the hardware has it: each partial product is truncated.
FLAMIA_HD constexpr uint32_t square(uint32_t x) {
  uint32_t sum = 0;
  for (int bit = 2; bit < 17; ++bit) sum += (x >> (18 - bit)) & (0u - ((x >> bit) & 1u));
  return sum >> 1;
}

FLAMIA_HD constexpr int64_t interpolate(const MufuSegment& segment, uint32_t x, uint32_t squared) {
  return segment.constant + static_cast<int64_t>(segment.linear) * x +
         static_cast<int64_t>(segment.quadratic) * squared;
}

/// Place of the highest one of a positive value below 2^63.
FLAMIA_HD constexpr int highest_bit(int64_t value) {
#if defined(__CUDA_ARCH__)
  return 63 - __clzll(value);
#else
  return 63 - __builtin_clzll(static_cast<unsigned long long>(value));
#endif
}

/// Bits of value * 2^-fraction_bits truncated to binary32; value is at least 0 and below 2^62.
FLAMIA_HD constexpr uint32_t truncate_fixed(int64_t value, int fraction_bits) {
  if (value == 0) return 0;
  const int top = highest_bit(value);
  const int64_t significand = top >= 23 ? value >> (top - 23) : value << (23 - top);
  return (static_cast<uint32_t>(top - fraction_bits + 127) << 23) |
         (static_cast<uint32_t>(significand) & kMantissaMask);
}

FLAMIA_HD constexpr bool is_nan_bits(uint32_t x) {
  return (x & ~kFloatSignBit) > kFloatInfinityBits;
}

/// MUFU.RCP: subnormal operands count as zero, subnormal results become zero.
FLAMIA_HD constexpr uint32_t rcp(const MufuTables& tables, uint32_t x) {
  const uint32_t sign = x & kFloatSignBit;
  const uint32_t exponent = (x >> 23) & 0xffu;
  const uint32_t mantissa = x & kMantissaMask;
  if (is_nan_bits(x)) return kCanonicalNanBits;
  if (exponent == 0) return sign | kFloatInfinityBits;
  if (exponent == 0xffu) return sign;
  const uint32_t low = mantissa & 0xffffu;
  const uint32_t significand =
      static_cast<uint32_t>(interpolate(tables.rcp[mantissa >> 16], low, square(low << 1)) >> 15);
  // The significand is in [2^23, 2^24]: the carry of the sum lands in the exponent.
  const int result =
      static_cast<int>(253u - exponent) + static_cast<int>((significand - kImplicitOne) >> 23);
  if (result <= 0) return sign;
  return sign | ((static_cast<uint32_t>(result) << 23) | (significand & kMantissaMask));
}

/// Segment, low bits and biased result exponent shared by MUFU.RSQ and MUFU.SQRT.
struct RootOperand {
  uint32_t segment;
  uint32_t low;
  uint32_t half_exponent;  ///< floor((e - 127) / 2) + 127
  bool power_of_four;
};
FLAMIA_HD constexpr RootOperand root_operand(uint32_t x) {
  const uint32_t exponent = x >> 23;
  const uint32_t odd = (exponent & 1u) ^ 1u;
  const uint32_t mantissa = x & kMantissaMask;
  return {(odd << 6) | (mantissa >> 17), mantissa & 0x1ffffu, (exponent - 127u + 254u) >> 1,
          mantissa == 0 && odd == 0};
}

/// MUFU.RSQ.
FLAMIA_HD constexpr uint32_t rsqrt(const MufuTables& tables, uint32_t x) {
  const uint32_t sign = x & kFloatSignBit;
  const uint32_t exponent = (x >> 23) & 0xffu;
  if (is_nan_bits(x)) return kCanonicalNanBits;
  if (exponent == 0) return sign | kFloatInfinityBits;
  if (sign != 0) return kCanonicalNanBits;
  if (exponent == 0xffu) return 0;
  const RootOperand r = root_operand(x);
  if (r.power_of_four) return (254u - r.half_exponent) << 23;
  const int64_t sum = interpolate(tables.rsqrt[r.segment], r.low, square(r.low));
  return ((253u - r.half_exponent) << 23) + (static_cast<uint32_t>(sum >> 16) - kImplicitOne);
}

/// MUFU.SQRT.
FLAMIA_HD constexpr uint32_t sqrt(const MufuTables& tables, uint32_t x) {
  const uint32_t sign = x & kFloatSignBit;
  const uint32_t exponent = (x >> 23) & 0xffu;
  if (is_nan_bits(x)) return kCanonicalNanBits;
  if (exponent == 0) return sign;
  if (sign != 0) return kCanonicalNanBits;
  if (exponent == 0xffu) return kFloatInfinityBits;
  const RootOperand r = root_operand(x);
  const int64_t sum = interpolate(tables.sqrt[r.segment], r.low, square(r.low));
  return (r.half_exponent << 23) + (static_cast<uint32_t>(sum >> 17) - kImplicitOne);
}

/// MUFU.EX2: x is cut to 23 fraction bits (towards zero); a negative one enters as one's complement
/// unless it is whole. Subnormal results become zero.
FLAMIA_HD constexpr uint32_t ex2(const MufuTables& tables, uint32_t x) {
  const bool negative = (x & kFloatSignBit) != 0;
  const uint32_t exponent = (x >> 23) & 0xffu;
  if (is_nan_bits(x)) return kCanonicalNanBits;
  if (exponent >= 134u) return negative ? 0u : kFloatInfinityBits;
  const uint32_t significand = exponent == 0 ? 0u : (x & kMantissaMask) | kImplicitOne;
  const uint32_t fixed = exponent >= 127u
                             ? significand << (exponent - 127u)
                             : (exponent > 103u ? significand >> (127u - exponent) : 0u);
  int whole = static_cast<int>(fixed >> 23);
  uint32_t fraction = fixed & kMantissaMask;
  if (negative) {
    whole = fraction != 0 ? -whole - 1 : -whole;
    fraction = fraction != 0 ? ~fraction & kMantissaMask : 0u;
  }
  const uint32_t low = fraction & 0x1ffffu;
  const uint32_t sum =
      static_cast<uint32_t>(interpolate(tables.ex2[fraction >> 17], low, square(low)) >> 15) -
      kImplicitOne;
  const int result = whole + 127 + static_cast<int>(sum >> 23);
  if (result <= 0) return 0;
  if (result >= 255) return kFloatInfinityBits;
  return (static_cast<uint32_t>(result) << 23) | (sum & kMantissaMask);
}

/// MUFU.LG2: exponent and interpolated fraction in fixed point with 36 fraction bits.
FLAMIA_HD constexpr uint32_t lg2(const MufuTables& tables, uint32_t x) {
  const uint32_t exponent = (x >> 23) & 0xffu;
  if (is_nan_bits(x)) return kCanonicalNanBits;
  if (exponent == 0) return kFloatSignBit | kFloatInfinityBits;
  if ((x & kFloatSignBit) != 0) return kCanonicalNanBits;
  if (exponent == 0xffu) return kFloatInfinityBits;
  if (x == kOneBits) return 0;
  const uint32_t mantissa = x & kMantissaMask;
  const uint32_t low = mantissa & 0x1ffffu;
  const int64_t fraction = interpolate(tables.lg2[mantissa >> 17], low, square(low)) >> 2;
  const int64_t value = fraction + (static_cast<int64_t>(exponent) - 127) * (int64_t{1} << 36);
  return value < 0 ? kFloatSignBit | truncate_fixed(~value, 36) : truncate_fixed(value, 36);
}

/// MUFU.SIN and MUFU.COS of a number of turns, cut to 25 fraction bits: two for the quadrant, 23
/// for the place in it. Odd quadrants run backwards (one's complement).
FLAMIA_HD constexpr uint32_t sin_turns(const MufuTables& tables, uint32_t turns, bool cosine) {
  const uint32_t exponent = (turns >> 23) & 0xffu;
  if (exponent == 0xffu) return kCanonicalNanBits;
  const uint32_t significand = exponent == 0 ? 0u : (turns & kMantissaMask) | kImplicitOne;
  // significand * 2^(exponent - 150 + 25), the low 25 bits of it.
  const int shift = static_cast<int>(exponent) - 125;
  const uint32_t fixed = shift >= 25    ? 0u
                         : shift >= 0   ? significand << shift
                         : shift <= -24 ? 0u
                                        : significand >> -shift;
  const uint32_t quadrant = ((fixed >> 23) + (cosine ? 1u : 0u)) & 3u;
  uint32_t sign = cosine ? 0u : turns & kFloatSignBit;
  if ((quadrant & 2u) != 0) sign ^= kFloatSignBit;
  const uint32_t fraction = ((quadrant & 1u) != 0 ? ~fixed : fixed) & kMantissaMask;
  const uint32_t low = fraction & 0x1ffffu;
  return sign | truncate_fixed(interpolate(tables.sin[fraction >> 17], low, square(low)), 37);
}

/// MUFU.TANH: odd; subnormals are kept.
FLAMIA_HD constexpr uint32_t tanh(const MufuTables& tables, uint32_t x) {
  const uint32_t sign = x & kFloatSignBit;
  const int exponent = static_cast<int>((x >> 23) & 0xffu);
  if (is_nan_bits(x)) return kCanonicalNanBits;
  if (exponent < kTanhFirstExponent) return x;
  if (exponent >= kTanhFirstExponent + kTanhBinades) return sign | kOneBits;
  const TanhBinade binade = tables.tanh_binade[exponent - kTanhFirstExponent];
  const uint32_t mantissa = x & kMantissaMask;
  const int bits = 23 - binade.log2_segments;
  const uint32_t low = (mantissa & ((1u << bits) - 1u)) >> binade.dropped;
  const MufuSegment& segment = tables.tanh[binade.first + (mantissa >> bits)];
  return sign | truncate_fixed(interpolate(segment, low, square(low)), 42);
}

}  // namespace mufu
}  // namespace flamia::emulator::isa
