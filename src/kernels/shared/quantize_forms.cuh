// The forms of Q, K, V that are multiplied in BF16: NVFP4 codes times their scales, and the plain
// tensor, both in the layout of blocks. Hopper has no block-scaled products; a code times its UE4M3
// scale has six significant bits, and the token's power of two changes none of them: exact in BF16.
// Paper: 3.1, 3.4, A.1. Used by: quantize.cu.
// Every thread keeps to its own token: no shared memory, no barriers. The quad of a token writes 64
// bytes of a row at once.
#pragma once

#include <cstdint>

#include "kernels/shared/quantize.cuh"
#include "numerics/nvfp4_scale.h"
#include "ptx/convert.cuh"

namespace flamia::kernels {

/// Where this thread writes chunk j of a block; `block` counts all heads' blocks.
template <int kDim>
__device__ __forceinline__ uint4* chunk_place(uint16_t* out, int64_t block, int j,
                                              const QuantizeThread& at) {
  auto* payload = reinterpret_cast<uint8_t*>(out) + block * bf16_block_bytes(kDim);
  return reinterpret_cast<uint4*>(payload + bf16_payload_byte(at.token, 32 * j + 8 * at.quad_lane));
}

/// What codes of one block scale are divided and multiplied by.
struct Nvfp4Group {
  float value;         ///< what codes are multiplied by
  float scale;         ///< value of the UE4M3 code
  float inverse;       ///< 1 / scale, or 0: all finite values become zeros
  uint32_t sign_mask;  ///< zero scales give no negative zeros
};

__device__ inline Nvfp4Group nvfp4_group(float amax, int token_exponent) {
  const uint8_t code = nvfp4_block_scale(amax, token_exponent);
  const float scale = decode_ue4m3(code);
  const bool zero = scale == 0.0f;
  const bool infinite = float_bits(nvfp4_scale_value(code, token_exponent)) == kFloatInfinityBits;
  return {nvfp4_bf16_scale(code, token_exponent), scale, zero || infinite ? 0.0f : 1.0f / scale,
          zero ? 0u : kFloatSignBit};
}

/// decode_e2m1(encode_nvfp4(x, scale 2^te)) times the group's value, where y = x 2^-te. The
/// quotient is the IEEE one: a product with the correctly rounded inverse and one correction by the
/// exact remainder. The estimate has its sign, also of zeros, and none where it is NaN, which
/// minimum ignores: NaN becomes +6.
__device__ __forceinline__ float nvfp4_value(float y, const Nvfp4Group& group) {
  const float estimate = y * group.inverse;
  const float remainder = fma_f32(-estimate, group.scale, y);
  const float quotient = fma_f32(remainder, group.inverse, estimate);
  const float clamped = fminf(fabsf(quotient), kE2m1Max);
  const float magic =
      bits_float(E2m1Rounding::binade(float_bits(clamped)) + E2m1Rounding::kMagicShift);
  const float rounded = (clamped + magic) - magic;
  return bits_float(float_bits(rounded) | (float_bits(estimate) & group.sign_mask)) * group.value;
}

/// Largest magnitudes of the groups that a thread's chunks lie in, and of the token; NaN is
/// ignored.
template <int kDim>
__device__ float group_magnitudes(const float (&x)[kDim / 4], float (&amax)[kDim / 32]) {
  float token = 0.0f;
#pragma unroll
  for (int j = 0; j < kDim / 32; ++j) {
    amax[j] = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i) amax[j] = fmaxf(amax[j], fabsf(x[8 * j + i]));
    amax[j] = fmaxf(amax[j], __shfl_xor_sync(0xffffffffu, amax[j], 1));
    token = fmaxf(token, amax[j]);
  }
  return fmaxf(token, __shfl_xor_sync(0xffffffffu, token, 2));
}

/// Writes the NVFP4 form of a thread's values.
template <int kDim>
__device__ void store_nvfp4(float (&x)[kDim / 4], const QuantizeTensor& tensor, int64_t block,
                            const QuantizeThread& at) {
  const bool rotated = tensor.hadamard != 0;
  float amax[kDim / 32];
  float token_amax = group_magnitudes<kDim>(x, amax);
  if (rotated) {
    token_amax *= hadamard_scale<kDim>();
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) amax[j] *= hadamard_scale<kDim>();
  }
  const int exponent = nvfp4_token_exponent(token_amax);
  const float factor = rotated ? rotated_factor<kDim>(x, exponent) : inverse_scale(exponent);
#pragma unroll
  for (int j = 0; j < kDim / 32; ++j) {
    const Nvfp4Group group = nvfp4_group(amax[j], exponent);
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = ptx::pack_bf16x2(nvfp4_value(x[8 * j + 2 * i] * factor, group),
                                  nvfp4_value(x[8 * j + 2 * i + 1] * factor, group));
    }
    *chunk_place<kDim>(tensor.row_bf16, block, j, at) = {pairs[0], pairs[1], pairs[2], pairs[3]};
  }
}

template <int kDim>
__device__ void nvfp4_heads(const QuantizeTensor& tensor, const QuantizePlace& place) {
  const auto at = QuantizeThread::self<kDim>();
  HeadWalk<kDim> walk(tensor.input, place.range, at);
  uint4 raw[kDim / 32];
  walk.load(raw);
  while (true) {
    float x[kDim / 4];
    unpack_chunks(x, raw);
    const int64_t index = walk.head() * tensor.output.blocks + place.block;
    walk.advance();
    walk.load(raw);
    if (tensor.hadamard != 0) rotate_unscaled<kDim>(x, at.lane);
    store_nvfp4<kDim>(x, tensor, index, at);
    if (walk.done()) return;
  }
}

template <int kDim>
__device__ void bf16_heads(const QuantizeTensor& tensor, const QuantizePlace& place) {
  const auto at = QuantizeThread::self<kDim>();
  HeadWalk<kDim> walk(tensor.input, place.range, at);
  while (!walk.done()) {
    uint4 raw[kDim / 32];
    walk.load(raw);
    const int64_t index = walk.head() * tensor.output.blocks + place.block;
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) {
      *chunk_place<kDim>(tensor.row_bf16, index, j, at) = raw[j];
    }
    walk.advance();
  }
}

}  // namespace flamia::kernels
