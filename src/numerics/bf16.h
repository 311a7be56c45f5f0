// bfloat16 bits and values: the type of every tensor that enters or leaves the library.
// Paper: 3.4 (returned outputs and gradients are BF16). Depends on: base/bits.h.
// Used by: quantizers, epilogues, tests.
#pragma once

#include <cstdint>

#include "numerics/minifloat.h"

namespace flamia {

/// Value of the BF16 pattern, exact.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float bf16_to_float(uint16_t bits) {
  return bits_float(static_cast<uint32_t>(bits) << 16);
}

/// Nearest-even BF16 pattern, overflow to infinity; every NaN becomes the canonical 0x7fff.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint16_t float_to_bf16(float x) {
  const uint32_t u = float_bits(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(is_nan(x) ? (kCanonicalNanBits >> 16) : rounded);
}

/// x rounded to BF16, as a float.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float round_bf16(float x) {
  const uint32_t u = float_bits(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
  return bits_float(is_nan(x) ? (kCanonicalNanBits & 0xffff0000u) : rounded);
}

static_assert(bf16_to_float(0x3f80) == 1.0f && float_to_bf16(1.0f) == 0x3f80);
static_assert(float_to_bf16(-0.0f) == 0x8000);
static_assert(float_to_bf16(bits_float(0x3f808000u)) == 0x3f80, "ties go to even");
static_assert(float_to_bf16(bits_float(0x3f818000u)) == 0x3f82, "ties go to even");
static_assert(float_to_bf16(bits_float(0x7f7fffffu)) == 0x7f80, "overflow gives infinity");
static_assert(round_bf16(bits_float(0x3f808001u)) == bits_float(0x3f810000u));

}  // namespace flamia
