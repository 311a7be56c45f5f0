// cvt in host arithmetic, where that provably equals the definitions of isa/scalar_convert.h and
// scalar_narrow.h; each function states for which modes it stands.
// Depends on: isa, numerics, half_fast.h. Used by: convert_steps.cc; fast_convert_test.cc compares.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "emulator/execution/half_fast.h"
#include "emulator/isa/scalar_convert.h"
#include "emulator/isa/scalar_narrow.h"

namespace flamia::emulator::execution {

/// binary32 to nearest even; relu is all ones with .relu. No other modifier.
template <Half kTo>
inline uint32_t half_of_f32(uint32_t bits, uint32_t relu) {
  const uint32_t nan = (bits & ~kFloatSignBit) > kFloatInfinityBits ? ~0u : 0u;
  const uint32_t negative = 0u - (bits >> 31);
  const uint32_t result = narrow_finite<kTo>(bits) & 0xffffu & ~(negative & relu);
  return (nan & 0x7fffu) | (~nan & result);
}

/// Binary16 to binary32; NaN becomes the canonical one.
inline uint32_t f32_of_f16(uint32_t bits) {
  const uint32_t nan = (bits & 0x7fffu) > 0x7c00u ? ~0u : 0u;
  return (nan & kCanonicalNanBits) | (~nan & float_bits(widen_half<Half::kF16>(bits)));
}

/// One code of cvt.rn.satfinite: encode_narrow.
template <isa::Narrow kFormat>
inline uint32_t narrow_of_f32(uint32_t bits, uint32_t relu) {
  constexpr int kSign = isa::detail::narrow_bits(kFormat) - 1;
  const uint32_t nan = (bits & ~kFloatSignBit) > kFloatInfinityBits ? ~0u : 0u;
  const uint32_t negative = 0u - (bits >> 31);
  const uint32_t magnitude = isa::detail::nearest_magnitude(kFormat, bits_float(bits));
  const uint32_t result = (magnitude | (negative & 1u << kSign)) & ~(negative & relu);
  return (nan & isa::detail::narrow_nan(kFormat)) | (~nan & result);
}

template <isa::Narrow kFormat>
inline uint32_t narrow_pair_of_f32(uint32_t a, uint32_t b, uint32_t relu) {
  constexpr int kStride = kFormat == isa::Narrow::kE2m1 ? 4 : 8;
  return narrow_of_f32<kFormat>(a, relu) << kStride | narrow_of_f32<kFormat>(b, relu);
}

template <isa::Narrow kFormat>
inline constexpr uint32_t kNarrowCodes = kFormat == isa::Narrow::kE2m1 ? 16 : 256;

/// Binary16 of every code, by the definition. Not constexpr: a NaN is no constant for clang.
template <isa::Narrow kFormat, bool kRelu>
inline const std::array<uint16_t, kNarrowCodes<kFormat>> kNarrowHalves = [] {
  std::array<uint16_t, kNarrowCodes<kFormat>> halves{};
  for (uint32_t code = 0; code < kNarrowCodes<kFormat>; ++code) {
    const uint32_t pair = isa::decode_narrow_pair(kFormat, static_cast<uint16_t>(code), kRelu);
    halves[code] = static_cast<uint16_t>(pair);
  }
  return halves;
}();

template <isa::Narrow kFormat, bool kRelu>
inline uint32_t halves_of_narrow(uint32_t pair) {
  const auto& halves = kNarrowHalves<kFormat, kRelu>;
  constexpr uint32_t kStride = kFormat == isa::Narrow::kE2m1 ? 4 : 8;
  constexpr uint32_t kMask = kNarrowCodes<kFormat> - 1u;
  return static_cast<uint32_t>(halves[pair >> kStride & kMask]) << 16 | halves[pair & kMask];
}

/// The whole number of a value; no modifier but the rounding.
template <isa::Rounding kRounding, typename Float>
inline Float whole_of(Float value) {
  if constexpr (kRounding == isa::Rounding::kZero) return std::trunc(value);
  if constexpr (kRounding == isa::Rounding::kDown) return std::floor(value);
  if constexpr (kRounding == isa::Rounding::kUp) return std::ceil(value);
  return std::nearbyint(value);  // to nearest even, as the host rounds
}

/// cvt.r?i.f32.f32, with .ftz and .sat.
template <isa::Rounding kRounding>
inline uint32_t whole_f32(uint32_t bits, bool ftz, bool sat) {
  const uint32_t magnitude = bits & ~kFloatSignBit;
  if (ftz) bits = magnitude < 0x00800000u ? bits & kFloatSignBit : bits;
  const uint32_t whole = float_bits(whole_of<kRounding>(bits_float(bits)));
  const uint32_t result = magnitude > kFloatInfinityBits ? kCanonicalNanBits : whole;
  return sat ? static_cast<uint32_t>(isa::saturate(isa::kF32Format, result)) : result;
}

/// binary32 to an integer type of at most 32 bits: clamped, NaN gives 0.
template <isa::Rounding kRounding>
inline uint64_t integer_of_f32(uint32_t bits, bool ftz, double lowest, double highest) {
  if (ftz) bits = flush_f32(bits);
  const double whole = whole_of<kRounding>(static_cast<double>(bits_float(bits)));
  const double low = whole > lowest ? whole : lowest;  // NaN: the lowest
  const double clamped = low < highest ? low : highest;
  const bool nan = (bits & ~kFloatSignBit) > kFloatInfinityBits;
  return nan ? 0 : static_cast<uint64_t>(static_cast<int64_t>(clamped));
}

/// An integer of at most 32 bits as 64 bits.
inline int64_t extended(const isa::IntegerType& type, uint64_t value) {
  const int shift = 64 - type.bits;
  return type.is_signed ? static_cast<int64_t>(value << shift) >> shift
                        : static_cast<int64_t>(value << shift >> shift);
}

}  // namespace flamia::emulator::execution
