// E2M1 codes {0, .5, 1, 1.5, 2, 3, 4, 6} and their packing, two per byte.
// Paper: 3.1, 3.4, 3.7; stochastic rounding A.5. Depends on: minifloat.h.
// Equals PTX cvt.rn.satfinite.e2m1x2.f32. Used by: NVFP4 operands, the all-4-bit path, Mitchell-P.
#pragma once

#include <cstdint>

#include "numerics/minifloat.h"

namespace flamia {

inline constexpr float kE2m1Max = 6.0f;
/// binary32 bits of kE2m1Max = 1.5 * 2^2.
inline constexpr uint32_t kE2m1MaxBits = 0x40c00000u;
inline constexpr int kE2m1MaxExponent = 2;
inline constexpr uint32_t kE2m1MaxMantissa = 0x400000u;
inline constexpr int kE2m1MantissaBits = 1;
inline constexpr int kE2m1MinExponent = 0;
inline constexpr uint8_t kE2m1MaxCode = 0x7;

using E2m1Rounding = Minifloat<kE2m1MantissaBits, kE2m1MinExponent, kE2m1MaxBits>;

/// decode_e2m1(encode_e2m1(x)) for every x that is not NaN: nearest even, saturating at +-6, sign
/// kept. NaN stays NaN here, while the format, which has none, encodes it as +6.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float round_e2m1(float x) { return E2m1Rounding::round(x); }

/// Code in the low nibble, sign in bit 3; every NaN gives +6 (0x7).
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t encode_e2m1(float x) {
  const uint32_t sign = (float_bits(x) >> 28) & (is_nan(x) ? 0u : 0x8u);
  return static_cast<uint8_t>(E2m1Rounding::encode_magnitude(x) | sign);  // NaN: the limit
}

/// Value of the code in the low nibble; the high nibble is ignored.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float decode_e2m1(uint8_t code) {
  const uint32_t low = code & 0x7u;
  const uint32_t sign = (static_cast<uint32_t>(code) & 0x8u) << 28;
  const bool subnormal = low < 2u;
  const uint32_t rebias = subnormal ? (127u << 23) : (126u << 23);
  const float excess = subnormal ? 1.0f : 0.0f;
  const float value = bits_float((low << 22) + rebias) - excess;
  return bits_float(float_bits(value) | sign);
}

/// Stochastic code: E[decode] = x for |x| <= 6 when `random` is uniform; saturating; NaN 0x7.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t encode_e2m1_stochastic(float x, uint32_t random) {
  const uint32_t sign = (float_bits(x) >> 28) & (is_nan(x) ? 0u : 0x8u);
  return static_cast<uint8_t>(E2m1Rounding::encode_magnitude_stochastic(x, random) | sign);
}

/// One byte of two codes: the element of even index in the low nibble.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t pack_e2m1(uint8_t low, uint8_t high) {
  return static_cast<uint8_t>((low & 0xfu) | ((high & 0xfu) << 4));
}

/// Code of element `index` (0 low, 1 high; only its parity is read) of a packed byte.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t unpack_e2m1(uint8_t packed, int index) {
  return static_cast<uint8_t>((packed >> ((index & 1) * 4)) & 0xf);
}

static_assert(float_bits(kE2m1Max) == kE2m1MaxBits);
static_assert(kE2m1MaxBits == ((127u + kE2m1MaxExponent) << 23 | kE2m1MaxMantissa));
static_assert(encode_e2m1(0.25f) == 0x0 && encode_e2m1(0.75f) == 0x2, "ties go to even");
static_assert(encode_e2m1(1.25f) == 0x2 && encode_e2m1(1.75f) == 0x4, "ties go to even");
static_assert(encode_e2m1(2.5f) == 0x4 && encode_e2m1(3.5f) == 0x6, "ties go to even");
static_assert(encode_e2m1(5.0f) == 0x6 && encode_e2m1(100.0f) == 0x7 && encode_e2m1(-9.f) == 0xf);
static_assert(encode_e2m1(-0.1f) == 0x8, "a flushed value keeps its sign");
static_assert(decode_e2m1(0x1) == 0.5f && decode_e2m1(0x3) == 1.5f && decode_e2m1(0xd) == -3.0f);
static_assert(decode_e2m1(0x7) == kE2m1Max && round_e2m1(2.6f) == 3.0f);
static_assert(pack_e2m1(0x3, 0xc) == 0xc3 && unpack_e2m1(0xc3, 0) == 0x3);
static_assert(unpack_e2m1(0xc3, 1) == 0xc);

}  // namespace flamia
