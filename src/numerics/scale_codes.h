// One-byte scales: UE8M0 (a power of two) and UE4M3 (E4M3 without a sign).
// Paper: 3.1, A.1. Depends on: e4m3.h. Used by: token-block, NVFP4 and dS scales, scale layouts.
#pragma once

#include <cstdint>

#include "numerics/e4m3.h"

namespace flamia {

inline constexpr int kUe8m0Bias = 127;
inline constexpr uint8_t kUe8m0Nan = 0xff;
inline constexpr uint8_t kUe4m3Nan = 0x7f;

/// UE8M0 code of 2^exponent, clamped to [-127, 127]; never the NaN code.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t encode_ue8m0(int exponent) {
  return static_cast<uint8_t>(larger(smaller(exponent, 127), -127) + kUe8m0Bias);
}

/// Exponent of a UE8M0 code that is not NaN.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int ue8m0_exponent(uint8_t code) {
  return static_cast<int>(code) - kUe8m0Bias;
}

/// 2^(code - 127), 2^-127 included (a binary32 subnormal); 0xff gives NaN.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float decode_ue8m0(uint8_t code) {
  const uint32_t bits = code == 0 ? 0x00400000u : static_cast<uint32_t>(code) << 23;
  return bits_float(code == kUe8m0Nan ? kCanonicalNanBits : bits);
}

/// Nearest-even UE4M3 code of |x|, saturating at 448; NaN gives 0x7f. Bit 7 is always zero.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t encode_ue4m3(float x) {
  const uint32_t nan = is_nan(x) ? kUe4m3Nan : 0u;
  return static_cast<uint8_t>(E4m3Rounding::encode_magnitude(x) | nan);
}

/// Value of a UE4M3 code; bit 7 is padding and ignored.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float decode_ue4m3(uint8_t code) {
  return decode_e4m3(static_cast<uint8_t>(code & 0x7fu));
}

static_assert(encode_ue8m0(0) == 127 && encode_ue8m0(-127) == 0 && encode_ue8m0(500) == 254);
static_assert(ue8m0_exponent(encode_ue8m0(-13)) == -13);
static_assert(decode_ue8m0(127) == 1.0f && decode_ue8m0(0) == pow2(-127));
static_assert(decode_ue8m0(254) == pow2(127));
static_assert(encode_ue4m3(-1.0f) == 0x38 && encode_ue4m3(1e9f) == kE4m3MaxCode);
static_assert(decode_ue4m3(0xb8) == 1.0f);

}  // namespace flamia
