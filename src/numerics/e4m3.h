// E4M3 codes (the "fn" variant: no infinity, largest value 448, one NaN): encode, decode, round.
// Paper: 3.1, 3.4; rounding A.5. Depends on: minifloat.h. Equals PTX cvt.rn.satfinite.e4m3x2.f32.
// Used by: every quantizer of 8-bit operands, P-hat, dS, the tensor-core model.
#pragma once

#include <cstdint>

#include "numerics/minifloat.h"

namespace flamia {

inline constexpr float kE4m3Max = 448.0f;
/// binary32 bits of kE4m3Max = 1.75 * 2^8; the exponent rule reads its two fields.
inline constexpr uint32_t kE4m3MaxBits = 0x43e00000u;
inline constexpr int kE4m3MaxExponent = 8;
inline constexpr uint32_t kE4m3MaxMantissa = 0x600000u;
inline constexpr int kE4m3MantissaBits = 3;
inline constexpr int kE4m3MinExponent = -6;
inline constexpr uint8_t kE4m3Nan = 0x7f;
inline constexpr uint8_t kE4m3MaxCode = 0x7e;

using E4m3Rounding = Minifloat<kE4m3MantissaBits, kE4m3MinExponent, kE4m3MaxBits>;

/// decode_e4m3(encode_e4m3(x)): nearest even, saturating (infinity gives +-448), sign kept also for
/// magnitudes that round to zero; NaN stays NaN.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float round_e4m3(float x) { return E4m3Rounding::round(x); }

/// Code of round_e4m3(x); every NaN gives 0x7f.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t encode_e4m3(float x) {
  const uint32_t sign = (float_bits(x) >> 24) & (is_nan(x) ? 0u : 0x80u);
  const uint32_t nan = is_nan(x) ? kE4m3Nan : 0u;
  return static_cast<uint8_t>(E4m3Rounding::encode_magnitude(x) | sign | nan);
}

/// Value of a code, exact; 0x7f and 0xff give NaN.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float decode_e4m3(uint8_t code) {
  const uint32_t low = code & 0x7fu;
  const uint32_t sign = (static_cast<uint32_t>(code) & 0x80u) << 24;
  // A subnormal m * 2^-9 is read as (1 + m/8) * 2^-6 less 2^-6: no binary32 subnormals.
  const bool subnormal = low < 8u;
  const uint32_t rebias = subnormal ? (121u << 23) : (120u << 23);
  const float excess = subnormal ? bits_float(121u << 23) : 0.0f;
  const float value = bits_float((low << 20) + rebias) - excess;
  const uint32_t nan = low == kE4m3Nan ? kCanonicalNanBits : 0u;
  return bits_float(float_bits(value) | sign | nan);
}

/// Stochastic code: E[decode] = x for |x| <= 448 when `random` is uniform; saturating; NaN 0x7f.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t encode_e4m3_stochastic(float x, uint32_t random) {
  const uint32_t sign = (float_bits(x) >> 24) & (is_nan(x) ? 0u : 0x80u);
  const uint32_t nan = is_nan(x) ? kE4m3Nan : 0u;
  return static_cast<uint8_t>(E4m3Rounding::encode_magnitude_stochastic(x, random) | sign | nan);
}

static_assert(float_bits(kE4m3Max) == kE4m3MaxBits);
static_assert(kE4m3MaxBits == ((127u + kE4m3MaxExponent) << 23 | kE4m3MaxMantissa));
static_assert(encode_e4m3(0.0f) == 0x00 && encode_e4m3(-0.0f) == 0x80);
static_assert(encode_e4m3(1.0f) == 0x38 && encode_e4m3(-1.0f) == 0xb8);
static_assert(encode_e4m3(448.0f) == kE4m3MaxCode && encode_e4m3(1e30f) == kE4m3MaxCode);
static_assert(encode_e4m3(-bits_float(kFloatInfinityBits)) == 0xfe, "infinity saturates");
static_assert(encode_e4m3(17.0f) == encode_e4m3(16.0f), "ties go to even");
static_assert(encode_e4m3(19.0f) == encode_e4m3(20.0f), "ties go to even");
static_assert(encode_e4m3(pow2(-9)) == 0x01 && encode_e4m3(pow2(-10)) == 0x00);
static_assert(encode_e4m3(-pow2(-140)) == 0x80, "a flushed value keeps its sign");
static_assert(encode_e4m3(15.0f * pow2(-10)) == 0x08, "rounds up into the normal range");
static_assert(decode_e4m3(0x7e) == 448.0f && decode_e4m3(0x08) == pow2(-6));
static_assert(decode_e4m3(0x87) == -7.0f * pow2(-9));
static_assert(round_e4m3(-500.0f) == -448.0f && round_e4m3(0.3f) == 0.3125f);
static_assert(encode_e4m3_stochastic(17.0f, 0x7fffffffu) == encode_e4m3(16.0f));
static_assert(encode_e4m3_stochastic(17.0f, 0x80000000u) == encode_e4m3(18.0f));
static_assert(encode_e4m3_stochastic(448.0f, 0xffffffffu) == kE4m3MaxCode);

}  // namespace flamia
