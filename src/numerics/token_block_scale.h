// The power-of-two exponent shared by a group of values: rounded up so that no code saturates.
// Paper: 3.1 (32 tokens x head_dim), 3.2 (why up, and the per-token variant), 3.5.1.
// Depends on: the formats' largest values. Used by: operand, dO and dS quantizers, NVFP4 scales.
#pragma once

#include <cstdint>

#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e5m2.h"
#include "numerics/formats.h"

namespace flamia {

/// Tokens of one document that share an exponent; blocks restart at each document start.
inline constexpr int kTokenBlock = 32;
/// The exponent of an all-zero group, and the smallest one that a scale byte can hold.
inline constexpr int kNoScaleExponent = -127;
inline constexpr int kMaxScaleExponent = 127;

/// Block of a token, from its position inside its document.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int token_block_of(int position_in_document) {
  return position_in_document / kTokenBlock;
}

/// Number of blocks of a document; the last one may hold fewer tokens.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int token_block_count(int document_tokens) {
  return ceil_div(document_tokens, kTokenBlock);
}

/// Smallest e with amax * 2^-e <= largest, where largest = 2^max_exponent * (1 +
/// max_fraction/2^23), clamped to [-127, 127]. amax is the maximum of magnitudes (its sign bit is
/// ignored); 0 gives -127, infinity gives 128 - max_exponent, with which finite values flush and
/// infinite ones decode to infinity again.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int round_up_exponent_to(float amax, int max_exponent,
                                                                 uint32_t max_fraction) {
  const uint32_t bits = float_bits(amax) & ~kFloatSignBit;
  // Carries into the exponent field exactly when the fraction exceeds max_fraction.
  const uint32_t carried = bits + (0x7fffffu - max_fraction);
  const int e = static_cast<int>(carried >> 23) - 127 - max_exponent;
  return larger(smaller(e, kMaxScaleExponent), kNoScaleExponent);
}

FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int round_up_exponent_e4m3(float amax) {
  return round_up_exponent_to(amax, kE4m3MaxExponent, kE4m3MaxMantissa);
}
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int round_up_exponent_e5m2(float amax) {
  return round_up_exponent_to(amax, kE5m2MaxExponent, kE5m2MaxMantissa);
}
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int round_up_exponent_e2m1(float amax) {
  return round_up_exponent_to(amax, kE2m1MaxExponent, kE2m1MaxMantissa);
}

/// The same for a format chosen at run time.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int round_up_exponent(float amax, Format format) {
  const FormatTraits traits = format_traits(format);
  return round_up_exponent_to(amax, traits.max_exponent, traits.max_fraction);
}

/// 2^-e for e in [-127, 127], exact: e = 127 gives the subnormal 2^-127.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float inverse_scale(int e) {
  return bits_float(e < kMaxScaleExponent ? static_cast<uint32_t>(127 - e) << 23 : 0x00400000u);
}

/// round_e4m3(x * 2^-e). The product is exact in binary32 unless it is below 2^-126, where E4M3
/// holds nothing but a signed zero, so that rounding there cannot change the result. It needs
/// binary32 subnormals only for e = 127, which the rule above gives to no E4M3 group.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float quantize_e4m3(float x, int e) {
  return round_e4m3(x * inverse_scale(e));
}

static_assert(round_up_exponent_e4m3(448.0f) == 0 && round_up_exponent_e4m3(224.0f) == -1);
static_assert(round_up_exponent_e4m3(448.00003f) == 1 && round_up_exponent_e4m3(-448.0f) == 0);
static_assert(round_up_exponent_e4m3(0.0f) == kNoScaleExponent);
static_assert(round_up_exponent_e4m3(bits_float(kFloatInfinityBits)) == 120);
static_assert(round_up_exponent_e5m2(bits_float(kFloatInfinityBits)) == 113);
static_assert(round_up_exponent_e2m1(bits_float(kFloatInfinityBits)) == 126);
static_assert(round_up_exponent_e5m2(kE5m2Max) == 0 && round_up_exponent_e2m1(6.0f) == 0);
static_assert(round_up_exponent_e2m1(6.0000005f) == 1 && round_up_exponent_e2m1(4.0f) == 0);
static_assert(round_up_exponent(1.0f, Format::kE4M3) == round_up_exponent_e4m3(1.0f));
static_assert(round_up_exponent_e4m3(bits_float(0x7f7fffffu)) == 120);
static_assert(inverse_scale(-127) == pow2(127) && inverse_scale(127) == pow2(-127));
static_assert(inverse_scale(3) == 0.125f && quantize_e4m3(448.0f * 8, 3) == 448.0f);
static_assert(token_block_of(31) == 0 && token_block_of(32) == 1 && token_block_count(33) == 2);

}  // namespace flamia
