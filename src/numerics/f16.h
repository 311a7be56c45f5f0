// IEEE binary16 bits and values: the accumulator of dQ partials.
// Paper: 3.5.3, A.4. Depends on: minifloat.h. Used by: dQ reduction, its finish pass, tests.
#pragma once

#include <cstdint>

#include "numerics/minifloat.h"

namespace flamia {

/// Largest finite binary16 value.
inline constexpr float kF16Max = 65504.0f;
inline constexpr int kF16MantissaBits = 10;
inline constexpr int kF16MinExponent = -14;

/// The limit is 2^16, not kF16Max: what rounds to 2^16 has the code of infinity.
using F16Rounding = Minifloat<kF16MantissaBits, kF16MinExponent, 0x47800000u>;

/// x rounded to the nearest binary16 value (ties to even), as a float; subnormals are kept,
/// magnitudes from 65520 give infinity, NaN stays NaN.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float round_f16(float x) {
  // Below NaN and above the largest finite value there is only what rounded to 2^16.
  const uint32_t rounded = float_bits(F16Rounding::round(x));
  const uint32_t overflow = magnitude(bits_float(rounded)) > kF16Max ? kFloatInfinityBits : 0u;
  return bits_float(rounded | overflow);
}

/// Nearest-even binary16 pattern; every NaN becomes the canonical 0x7fff.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint16_t float_to_f16(float x) {
  const uint32_t sign = (float_bits(x) >> 16) & (is_nan(x) ? 0u : 0x8000u);
  const uint32_t nan = is_nan(x) ? 0x7fffu : 0u;
  return static_cast<uint16_t>(F16Rounding::encode_magnitude(x) | sign | nan);
}

/// Value of the binary16 pattern, exact; NaN patterns give the canonical NaN.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float f16_to_float(uint16_t bits) {
  const uint32_t code = bits & 0x7fffu;
  const uint32_t sign = (static_cast<uint32_t>(bits) & 0x8000u) << 16;
  // A subnormal m * 2^-24 is read as (1 + m/1024) * 2^-14 less 2^-14: no binary32 subnormals.
  const bool subnormal = code < 0x0400u;
  const uint32_t rebias = subnormal ? (113u << 23) : (112u << 23);
  const uint32_t special = code >= 0x7c00u ? (112u << 23) : 0u;
  const float excess = subnormal ? bits_float(113u << 23) : 0.0f;
  const float value = bits_float((code << 13) + rebias + special) - excess;
  const uint32_t nan = code > 0x7c00u ? kCanonicalNanBits : 0u;
  return bits_float(float_bits(value) | sign | nan);
}

static_assert(f16_to_float(0x3c00) == 1.0f && float_to_f16(1.0f) == 0x3c00);
static_assert(f16_to_float(0x7bff) == kF16Max && float_to_f16(kF16Max) == 0x7bff);
static_assert(f16_to_float(0x0001) == pow2(-24) && float_to_f16(pow2(-24)) == 0x0001);
static_assert(float_to_f16(pow2(-25)) == 0x0000, "half of the smallest subnormal ties to zero");
static_assert(float_to_f16(-pow2(-25)) == 0x8000 && f16_to_float(0x8000) == 0.0f);
static_assert(float_to_f16(65519.996f) == 0x7bff && float_to_f16(65520.0f) == 0x7c00);
static_assert(float_to_f16(-bits_float(kFloatInfinityBits)) == 0xfc00);
static_assert(round_f16(2049.0f) == 2048.0f && round_f16(2051.0f) == 2052.0f);
static_assert(round_f16(65519.996f) == kF16Max && round_f16(65520.0f) > kF16Max);

}  // namespace flamia
