// The quantizer of Q, K, V: BF16 tensors to E4M3 codes and exponents in blocks of 32 tokens.
// Paper: 3.1, 3.2 (token-block scales), 3.4, A.2 (rotation), 3.5.1, 3.6.1. Used by: quantize.cu.
// One CTA of four warps makes one block of one head. A warp holds 8 tokens, a quad of lanes one
// token, a lane chunks of 8 channels, 32 channels apart: loads are whole sectors, and of the
// rotation's distances 1, 2, 4, 32, 64 stay inside the lane; 8 and 16 are two exchanges in the
// quad. Codes go through shared memory, so that every store is 16 bytes of a full line.
// It is bound by memory: about 430 instructions a warp where 700 would fit (rotated), per block.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "numerics/bf16.h"
#include "numerics/hadamard.h"
#include "numerics/token_block_scale.h"
#include "plan/kernel_info.h"
#include "problem/token_blocks.h"
#include "ptx/convert.cuh"
#include "ptx/shared_matrix.cuh"

namespace flamia::kernels {

inline constexpr int kQuantizeThreads = 128;
inline constexpr int kQuantizeWarps = kQuantizeThreads / 32;

template <int kDim>
struct QuantizeShared {
  alignas(128) uint8_t row[token_block_bytes(kDim)];
  alignas(128) uint8_t transposed[token_block_bytes(kDim)];
  uint32_t amax[kQuantizeWarps];  ///< bits of each warp's largest magnitude
};

/// Which values of a block a lane holds: value 8j + i is channel 32j + 8 quad_lane() + i of
/// token().
struct QuantizeLane {
  int warp;
  int lane;

  __device__ int quad_lane() const { return lane % 4; }
  /// Token in the block. Half-warps hold tokens whose chunks lie in different banks.
  template <int kDim>
  __device__ int token() const {
    const int half = lane / 16;
    const int i = lane / 4 % 4;
    return 8 * warp + (kDim == 128 ? 2 * i + half : i / 2 * 4 + 2 * half + i % 2);
  }
};

/// One block of one head.
struct QuantizeBlock {
  const QuantizeTensor& tensor;
  TokenBlockRange range;
  int head;
  int64_t index;  ///< of the block among all heads' blocks

  /// First channel of a token that the block holds.
  __device__ const uint16_t* source(int token) const {
    const Bf16Tensor& input = tensor.input;
    const uint16_t* head_data = input.data + head * input.head_stride;
    int first = range.token;
    if (input.batch_length > 0) {  // a block lies in one entry of a batch
      const int entry = first / input.batch_length;
      first -= entry * input.batch_length;
      head_data += entry * input.batch_stride;
    }
    return head_data + (static_cast<int64_t>(first) + token) * input.token_stride;
  }
};

/// Blocks past the last document's that must be written: block 0, 1, 2 always, others while one of
/// the three before holds tokens.
__device__ inline bool is_slack_or_used(const TokenBlockRange* blocks, int block) {
  return block < kSlackBlocks || blocks[block - kSlackBlocks].tokens > 0;
}

template <int kChunks>
__device__ void load_chunks(uint4 (&raw)[kChunks], const uint16_t* source, bool exists) {
#pragma unroll
  for (int j = 0; j < kChunks; ++j) {
    raw[j] = exists ? __ldcs(reinterpret_cast<const uint4*>(source + 32 * j)) : uint4{};
  }
}

__device__ __forceinline__ void unpack(float* x, uint32_t pair) {
  x[0] = bits_float(pair << 16);
  x[1] = bits_float(pair & 0xffff0000u);
}

template <int kChunks>
__device__ void unpack_chunks(float (&x)[8 * kChunks], const uint4 (&raw)[kChunks]) {
#pragma unroll
  for (int j = 0; j < kChunks; ++j) {
    unpack(x + 8 * j, raw[j].x);
    unpack(x + 8 * j + 2, raw[j].y);
    unpack(x + 8 * j + 4, raw[j].z);
    unpack(x + 8 * j + 6, raw[j].w);
  }
}

/// Butterflies of distance kDistance among a lane's values.
template <int kDistance, int kCount>
__device__ __forceinline__ void butterflies(float (&x)[kCount]) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    if ((k & kDistance) != 0) continue;
    const float a = x[k];
    const float b = x[k + kDistance];
    x[k] = a + b;
    x[k + kDistance] = a - b;
  }
}

/// Butterflies of this lane's values with those of lane ^ lane_distance.
template <int kCount>
__device__ __forceinline__ void lane_butterflies(float (&x)[kCount], int lane, int lane_distance) {
  // The upper lane computes a - b as a + (-1) * b, which is exact before the sum.
  const float sign = (lane & lane_distance) != 0 ? -1.0f : 1.0f;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    x[k] = fma_f32(x[k], sign, __shfl_xor_sync(0xffffffffu, x[k], lane_distance));
  }
}

/// numerics/hadamard.h without its last step, the multiplication by hadamard_scale.
template <int kDim, int kCount>
__device__ void rotate_unscaled(float (&x)[kCount], int lane) {
  static_assert(kCount == kDim / 4 && (kDim == 64 || kDim == 128));
  butterflies<1>(x);
  butterflies<2>(x);
  butterflies<4>(x);
  lane_butterflies(x, lane, 1);  // channels 8 apart
  lane_butterflies(x, lane, 2);  // 16
  butterflies<8>(x);             // 32
  if constexpr (kDim == 128) butterflies<16>(x);
}

template <int kCount>
__device__ float largest_magnitude(const float (&x)[kCount]) {
  float largest = 0.0f;
#pragma unroll
  for (int k = 0; k < kCount; ++k) largest = fmaxf(largest, magnitude(x[k]));  // ignores NaN
  return largest;
}

/// Largest of the lane's magnitudes among those that share an exponent: the block's, or the
/// token's. Called by all threads of the CTA.
template <int kDim>
__device__ float shared_magnitude(float own, bool per_token, QuantizeShared<kDim>& shared,
                                  QuantizeLane at) {
  uint32_t bits = float_bits(own);  // magnitudes order like their bits
  if (per_token) {
    bits = larger(bits, __shfl_xor_sync(0xffffffffu, bits, 1));
    bits = larger(bits, __shfl_xor_sync(0xffffffffu, bits, 2));
    return bits_float(bits);
  }
  bits = __reduce_max_sync(0xffffffffu, bits);
  if (at.lane == 0) shared.amax[at.warp] = bits;
  __syncthreads();
  const uint4 all = *reinterpret_cast<const uint4*>(shared.amax);
  return bits_float(larger(larger(all.x, all.y), larger(all.z, all.w)));
}

__device__ inline int operand_exponent(float amax, int headroom) {
  const int e = round_up_exponent_e4m3(amax);
  return amax == 0.0f ? e : smaller(e + headroom, kMaxScaleExponent);
}

__device__ inline void store_exponent(const QuantizeBlock& block, int e, int token,
                                      QuantizeLane at) {
  int8_t* exponents = block.tensor.output.exponents;
  if (block.tensor.per_token != 0) {
    if (at.quad_lane() == 0) exponents[block.index * kTokenBlock + token] = static_cast<int8_t>(e);
  } else if (at.warp == 0 && at.lane == 0) {
    exponents[block.index] = static_cast<int8_t>(e);
  }
}

/// Multiplies by the rotation's scale now, or moves it into the factor of the codes. The latter
/// gives the same codes while the factor is normal: of products so small that they would be
/// subnormal, fewer than 2^11 exist (multiples of 2^-133), and a test tries them all.
template <int kDim, int kCount>
__device__ float rotated_factor(float (&x)[kCount], int e) {
  constexpr int kLargestSafe = 122;
  const float factor = inverse_scale(e);
  if (__all_sync(0xffffffffu, e <= kLargestSafe)) return factor * hadamard_scale<kDim>();
#pragma unroll
  for (int k = 0; k < kCount; ++k) x[k] *= hadamard_scale<kDim>();
  return factor;
}

/// Codes of the lane's values into the row-major payload in shared memory.
template <int kDim, int kCount>
__device__ void store_codes(const float (&x)[kCount], float factor, uint8_t* row, int token,
                            QuantizeLane at) {
#pragma unroll
  for (int j = 0; j < kCount / 8; ++j) {
    const float* y = x + 8 * j;
    uint2 codes;
    codes.x = ptx::e4m3x4(y[0] * factor, y[1] * factor, y[2] * factor, y[3] * factor);
    codes.y = ptx::e4m3x4(y[4] * factor, y[5] * factor, y[6] * factor, y[7] * factor);
    const int channel = 32 * j + 8 * at.quad_lane();
    *reinterpret_cast<uint2*>(row + row_payload_byte(token, channel, kDim)) = codes;
  }
}

/// Reads, rotates and encodes a block: its codes lie in shared.row when all threads have returned
/// and met; its exponents are written.
template <int kDim, bool kRotated>
__device__ void encode_block(const QuantizeBlock& block, QuantizeShared<kDim>& shared,
                             QuantizeLane at) {
  constexpr int kChunks = kDim / 32;
  const int token = at.token<kDim>();
  uint4 raw[kChunks];
  load_chunks(raw, block.source(token) + 8 * at.quad_lane(), token < block.range.tokens);
  float x[8 * kChunks];
  unpack_chunks(x, raw);
  if constexpr (kRotated) rotate_unscaled<kDim>(x, at.lane);
  float amax = shared_magnitude(largest_magnitude(x), block.tensor.per_token != 0, shared, at);
  if constexpr (kRotated) amax *= hadamard_scale<kDim>();
  const int e = operand_exponent(amax, block.tensor.headroom_exponent);
  store_exponent(block, e, token, at);
  float factor;
  if constexpr (kRotated) {
    factor = rotated_factor<kDim>(x, e);
  } else {
    factor = inverse_scale(e);
  }
  store_codes<kDim>(x, factor, shared.row, token, at);
}

/// This warp's quarter of the transposed payload, [kDim / 4][32 tokens], from the row-major one.
template <int kDim>
__device__ void transpose_codes(QuantizeShared<kDim>& shared, TokenOrder order, QuantizeLane at) {
  constexpr int kChannels = kDim / kQuantizeWarps;
  const uint32_t row = ptx::shared_address(shared.row);
  const uint32_t transposed = ptx::shared_address(shared.transposed);
  const int matrix = at.lane / 8;
  const int matrix_row = at.lane % 8;
  // Of two matrices of token pairs, 2c and 2c + 1 in one, 2c + 8 and 2c + 9 in the other, the bytes
  // of one channel, in the order of transposed_position(). Rows 4 to 7 swap the two channels of a
  // pair, so that a matrix is stored without bank conflicts.
  const bool accumulator = order == TokenOrder::kAccumulator;
  const uint32_t even = accumulator ? 0x6420u : 0x6240u;
  const uint32_t odd = accumulator ? 0x7531u : 0x7351u;
  const bool swapped = at.lane / 4 >= 4;
  const uint32_t first = swapped ? odd : even;
  const uint32_t second = swapped ? even : odd;
#pragma unroll
  for (int channel = 0; channel < kChannels; channel += 16) {
    const int base = at.warp * kChannels + channel;
    uint32_t pairs[4];  // tokens 0 to 7, 8 to 15, 16 to 23, 24 to 31 of 16 channels
    ptx::load_matrices_transposed(
        pairs, row + static_cast<uint32_t>(row_payload_byte(at.lane, base, kDim)));
    const uint32_t codes[4] = {
        __byte_perm(pairs[0], pairs[1], first), __byte_perm(pairs[0], pairs[1], second),
        __byte_perm(pairs[2], pairs[3], first), __byte_perm(pairs[2], pairs[3], second)};
    const int stored_channel = base + 2 * matrix_row + (matrix % 2 ^ matrix_row / 4);
    const int position = matrix / 2 * 16;
    ptx::store_matrices(
        transposed + static_cast<uint32_t>(transposed_payload_byte(stored_channel, position)),
        codes);
  }
}

/// This warp's quarter of a payload from shared to global memory.
template <int kDim>
__device__ void store_payload(uint8_t* out, const uint8_t* payload, int64_t block,
                              QuantizeLane at) {
  constexpr int kBytes = token_block_bytes(kDim) / kQuantizeWarps;
  const int begin = at.warp * kBytes + at.lane * 16;
  uint8_t* to = out + block * token_block_bytes(kDim) + begin;
#pragma unroll
  for (int byte = 0; byte < kBytes; byte += 512) {
    *reinterpret_cast<uint4*>(to + byte) = *reinterpret_cast<const uint4*>(payload + begin + byte);
  }
}

/// The kernel. Grid: x heads, y blocks (of a head), z runs of gridDim.y blocks of every tensor.
template <int kDim>
__device__ void quantize(const QuantizeArgs& args) {
  __shared__ QuantizeShared<kDim> shared;
  int index = static_cast<int>(blockIdx.z);
  int64_t block = blockIdx.y;
  while (index >= args.count) {
    index -= args.count;
    block += gridDim.y;
  }
  const QuantizeTensor& tensor = args.tensors[index];
  const QuantizedOperand& output = tensor.output;
  const int head = static_cast<int>(blockIdx.x);
  if (head >= tensor.input.heads || block >= output.blocks) return;
  const TokenBlockRange range = tensor.blocks[block];
  if (range.tokens == 0 && !is_slack_or_used(tensor.blocks, static_cast<int>(block))) return;

  const QuantizeLane at{static_cast<int>(threadIdx.x) / 32, static_cast<int>(threadIdx.x) % 32};
  const QuantizeBlock of{tensor, range, head, head * output.blocks + block};
  if (tensor.hadamard != 0) {
    encode_block<kDim, true>(of, shared, at);
  } else {
    encode_block<kDim, false>(of, shared, at);
  }
  __syncthreads();
  if (output.row_codes != nullptr) {
    store_payload<kDim>(output.row_codes, shared.row, of.index, at);
  }
  if (output.transposed_codes != nullptr) {
    transpose_codes<kDim>(shared, static_cast<TokenOrder>(tensor.order), at);
    __syncwarp();  // a warp stores what it transposed
    store_payload<kDim>(output.transposed_codes, shared.transposed, of.index, at);
  }
}

}  // namespace flamia::kernels
