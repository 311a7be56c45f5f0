// E5M2 codes (infinity and NaN exist, the encoder saturates at 57344): encode, decode, round.
// Paper: 3.1 (alternative of E4M3 for dS). Depends on: minifloat.h.
// Equals PTX cvt.rn.satfinite.e5m2x2.f32. Used by: dS quantization options, the tensor-core model.
#pragma once

#include <cstdint>

#include "numerics/minifloat.h"

namespace flamia {

inline constexpr float kE5m2Max = 57344.0f;
/// binary32 bits of kE5m2Max = 1.75 * 2^15.
inline constexpr uint32_t kE5m2MaxBits = 0x47600000u;
inline constexpr int kE5m2MaxExponent = 15;
inline constexpr uint32_t kE5m2MaxMantissa = 0x600000u;
inline constexpr int kE5m2MantissaBits = 2;
inline constexpr int kE5m2MinExponent = -14;
inline constexpr uint8_t kE5m2Nan = 0x7f;
inline constexpr uint8_t kE5m2Infinity = 0x7c;
inline constexpr uint8_t kE5m2MaxCode = 0x7b;

using E5m2Rounding = Minifloat<kE5m2MantissaBits, kE5m2MinExponent, kE5m2MaxBits>;

/// decode_e5m2(encode_e5m2(x)): nearest even, saturating (infinity gives +-57344), sign kept;
/// NaN stays NaN.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float round_e5m2(float x) { return E5m2Rounding::round(x); }

/// Code of round_e5m2(x); every NaN gives 0x7f.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t encode_e5m2(float x) {
  const uint32_t sign = (float_bits(x) >> 24) & (is_nan(x) ? 0u : 0x80u);
  const uint32_t nan = is_nan(x) ? kE5m2Nan : 0u;
  return static_cast<uint8_t>(E5m2Rounding::encode_magnitude(x) | sign | nan);
}

/// Value of a code, exact; 0x7c is infinity, 0x7d to 0x7f are NaN.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float decode_e5m2(uint8_t code) {
  const uint32_t low = code & 0x7fu;
  const uint32_t sign = (static_cast<uint32_t>(code) & 0x80u) << 24;
  const bool subnormal = low < 4u;
  const uint32_t rebias = subnormal ? (113u << 23) : (112u << 23);
  const uint32_t special = low >= kE5m2Infinity ? (112u << 23) : 0u;
  const float excess = subnormal ? bits_float(113u << 23) : 0.0f;
  const float value = bits_float((low << 21) + rebias + special) - excess;
  const uint32_t nan = low > kE5m2Infinity ? kCanonicalNanBits : 0u;
  return bits_float(float_bits(value) | sign | nan);
}

/// Stochastic code: E[decode] = x for |x| <= 57344 when `random` is uniform; saturating; NaN 0x7f.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t encode_e5m2_stochastic(float x, uint32_t random) {
  const uint32_t sign = (float_bits(x) >> 24) & (is_nan(x) ? 0u : 0x80u);
  const uint32_t nan = is_nan(x) ? kE5m2Nan : 0u;
  return static_cast<uint8_t>(E5m2Rounding::encode_magnitude_stochastic(x, random) | sign | nan);
}

static_assert(float_bits(kE5m2Max) == kE5m2MaxBits);
static_assert(kE5m2MaxBits == ((127u + kE5m2MaxExponent) << 23 | kE5m2MaxMantissa));
static_assert(encode_e5m2(0.0f) == 0x00 && encode_e5m2(-0.0f) == 0x80);
static_assert(encode_e5m2(1.0f) == 0x3c && decode_e5m2(0x3c) == 1.0f);
static_assert(encode_e5m2(1e30f) == kE5m2MaxCode && decode_e5m2(kE5m2MaxCode) == kE5m2Max);
static_assert(encode_e5m2(pow2(-16)) == 0x01 && encode_e5m2(pow2(-17)) == 0x00);
static_assert(encode_e5m2(9.0f) == encode_e5m2(8.0f) && encode_e5m2(11.0f) == encode_e5m2(12.0f));
static_assert(decode_e5m2(0x83) == -3.0f * pow2(-16));
static_assert(decode_e5m2(kE5m2Infinity) == bits_float(kFloatInfinityBits));

}  // namespace flamia
