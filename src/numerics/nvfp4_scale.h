// NVFP4: E2M1 codes with a UE4M3 scale per 16 channels and a power of two per token.
// Paper: 3.1, 3.4 (Q and K of the mixed path), A.1. Depends on: token_block_scale.h (the exponent
// rule), scale_codes.h. Used by: the NVFP4 quantizers, score scaling (the token exponent).
#pragma once

#include <cstdint>

#include "numerics/e2m1.h"
#include "numerics/scale_codes.h"
#include "numerics/token_block_scale.h"

namespace flamia {

/// Consecutive channels of one token that share a UE4M3 scale.
inline constexpr int kNvfp4Block = 16;

/// Second-level exponent of a token whose largest magnitude is token_amax: brings the largest block
/// scale amax/6 into (224, 448]. It joins the row or column factor of the softmax. Wherever block
/// scales stay in the normal range of UE4M3 the codes equal those of exponent 0.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int nvfp4_token_exponent(float token_amax) {
  return round_up_exponent_e4m3(token_amax / kE2m1Max);
}

/// UE4M3 code of the scale of a block whose largest magnitude is amax16: nearest-even of
/// (amax16 / 6) * 2^-te. Nearest, not up: the top element may saturate by half a scale step.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t nvfp4_block_scale(float amax16,
                                                                  int token_exponent) {
  return encode_ue4m3((amax16 / kE2m1Max) * inverse_scale(token_exponent));
}

/// The value S that codes of the block are multiplied by: scale code times 2^te, one rounding
/// (binary32 subnormals, or infinity for te = 120).
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float nvfp4_scale_value(uint8_t code, int token_exponent) {
  return scale_pow2(decode_ue4m3(code), token_exponent);
}

/// S of a block of an operand that is kept in BF16, where code * S is exact (six significant bits)
/// from 2^-118 on. At most 1.25 * 2^125, so that 6 S stays finite: only blocks with an element
/// above 3.3e38 reach that; beside an infinity, finite elements stay zeros.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float nvfp4_bf16_scale(uint8_t code, int token_exponent) {
  return smaller(nvfp4_scale_value(code, token_exponent), 0x1.4p125f);
}

/// E2M1 code of x / S with IEEE division (x * (1/S) differs at ties); S = 0 gives code 0.
/// S = infinity (an infinite element in the token): infinite x gives +6 whatever its sign (the
/// quotient is NaN), finite x gives a signed zero.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint8_t encode_nvfp4(float x, float scale) {
  const float divisor = scale == 0.0f ? 1.0f : scale;
  const uint32_t keep = scale == 0.0f ? 0u : 0xffu;
  return static_cast<uint8_t>(encode_e2m1(x / divisor) & keep);
}

static_assert(nvfp4_token_exponent(6.0f * 448.0f) == 0 && nvfp4_token_exponent(0.0f) == -127);
static_assert(nvfp4_block_scale(6.0f, 0) == 0x38 && nvfp4_block_scale(0.0f, -127) == 0);
static_assert(nvfp4_scale_value(0x38, 3) == 8.0f);
static_assert(nvfp4_bf16_scale(0x38, 3) == 8.0f && nvfp4_bf16_scale(0x7e, 120) == 0x1.4p125f);
static_assert(encode_nvfp4(6.0f, 1.0f) == 0x7 && encode_nvfp4(-3.0f, 2.0f) == 0xb);
static_assert(encode_nvfp4(-3.0f, 0.0f) == 0x0);

}  // namespace flamia
