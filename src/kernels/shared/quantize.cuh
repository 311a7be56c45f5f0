// The quantizer of Q, K, V: BF16 tensors to E4M3 codes and exponents in blocks of 32 tokens.
// Paper: 3.1, 3.2 (token-block scales), 3.4, A.2 (rotation), 3.5.1, 3.6.1. Used by: quantize.cu.
// One CTA of four warps makes one block of 32 tokens, for every gridDim.x-th head. A warp holds 8
// tokens, a quad of lanes one token, a lane chunks of 8 channels, 32 channels apart: loads are
// whole sectors, and of the rotation's distances 1, 2, 4, 32, 64 stay inside the lane; 8 and 16 are
// two exchanges in the quad. The next head is loaded while one is encoded. Codes go through shared
// memory, so that every store is 16 bytes of a full line.
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

/// Which values of a block a thread holds: value 8j + i is channel 32j + 8 quad_lane + i of token.
struct QuantizeThread {
  int warp;
  int lane;
  int quad_lane;
  int token;  ///< in the block

  template <int kDim>
  __device__ static QuantizeThread self() {
    const uint32_t thread = threadIdx.x;
    const uint32_t lane = thread % 32;
    // Half-warps hold tokens whose chunks lie in different banks.
    const uint32_t half = lane / 16;
    const uint32_t i = lane / 4 % 4;
    const uint32_t token = kDim == 128 ? 2 * i + half : i / 2 * 4 + 2 * half + i % 2;
    return {static_cast<int>(thread / 32), static_cast<int>(lane), static_cast<int>(lane % 4),
            static_cast<int>(thread / 32 * 8 + token)};
  }
};

/// Whether an empty block must be written: it is one of the kSlackBlocks after the last document's.
__device__ inline bool is_slack(const TokenBlockRange* blocks, int block) {
  return block < kSlackBlocks || blocks[block - kSlackBlocks].tokens > 0;
}

/// First channel that this thread reads, of head 0.
__device__ inline const uint16_t* thread_source(const Bf16Tensor& input, int first,
                                                const QuantizeThread& at) {
  const uint16_t* entry = input.data;
  auto token = static_cast<uint32_t>(first);
  if (input.batch_length > 0) {  // a block lies in one entry of a batch
    const uint32_t index = token / static_cast<uint32_t>(input.batch_length);
    token -= index * static_cast<uint32_t>(input.batch_length);
    entry += index * input.batch_stride;
  }
  return entry + (token + static_cast<uint32_t>(at.token)) * input.token_stride + 8 * at.quad_lane;
}

/// The heads that this CTA does, and what this thread reads of each.
template <int kDim>
class HeadWalk {
 public:
  __device__ HeadWalk(const Bf16Tensor& input, TokenBlockRange range, const QuantizeThread& at)
      : step_(static_cast<int64_t>(gridDim.x) * input.head_stride),
        heads_(input.heads),
        head_(static_cast<int>(blockIdx.x)),
        exists_(at.token < range.tokens),
        source_(thread_source(input, range.token, at) + head_ * input.head_stride) {}

  __device__ int head() const { return head_; }
  __device__ bool done() const { return head_ >= heads_; }
  __device__ void advance() {
    head_ += static_cast<int>(gridDim.x);
    source_ += step_;
  }
  /// Zeros past the block's tokens and past the last head.
  __device__ void load(uint4 (&raw)[kDim / 32]) const {
    const bool exists = exists_ && !done();
#pragma unroll
    for (int j = 0; j < kDim / 32; ++j) {
      raw[j] = exists ? __ldcs(reinterpret_cast<const uint4*>(source_ + 32 * j)) : uint4{};
    }
  }

 private:
  int64_t step_;
  int heads_;
  int head_;
  bool exists_;
  const uint16_t* source_;
};

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
  for (int k = 0; k < kCount; ++k) largest = fmaxf(largest, fabsf(x[k]));  // ignores NaN
  return largest;
}

/// The same of BF16 values as they were read, two at a time.
template <int kChunks>
__device__ float largest_magnitude(const uint4 (&raw)[kChunks]) {
  uint32_t largest = 0;
#pragma unroll
  for (int j = 0; j < kChunks; ++j) {
    largest = ptx::max_magnitude_bf16x2(largest, raw[j].x);
    largest = ptx::max_magnitude_bf16x2(largest, raw[j].y);
    largest = ptx::max_magnitude_bf16x2(largest, raw[j].z);
    largest = ptx::max_magnitude_bf16x2(largest, raw[j].w);
  }
  float pair[2];
  unpack(pair, largest);
  return fmaxf(pair[0], pair[1]);
}

/// Largest of the thread's magnitudes among those that share an exponent: the block's, or the
/// token's. All threads of the CTA meet here.
template <int kDim>
__device__ float shared_magnitude(float own, bool per_token, QuantizeShared<kDim>& shared,
                                  const QuantizeThread& at) {
  uint32_t bits = float_bits(own);  // magnitudes order like their bits
  if (per_token) {
    bits = larger(bits, __shfl_xor_sync(0xffffffffu, bits, 1));
    bits = larger(bits, __shfl_xor_sync(0xffffffffu, bits, 2));
    __syncthreads();
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

/// block: index among all heads' blocks.
__device__ inline void store_exponent(const QuantizeTensor& tensor, int64_t block, int e,
                                      const QuantizeThread& at) {
  int8_t* exponents = tensor.output.exponents;
  if (tensor.per_token != 0) {
    if (at.quad_lane == 0) exponents[block * kTokenBlock + at.token] = static_cast<int8_t>(e);
  } else if (at.warp == 0 && at.lane == 0) {
    exponents[block] = static_cast<int8_t>(e);
  }
}

/// 2^-e times the scale of the rotation, to multiply values by; where that factor would be
/// subnormal the values are multiplied by the scale here. One factor gives the same codes as two:
/// it differs only where products with the scale alone are subnormal, and of those there are fewer
/// than 2^11 (the values are multiples of 2^-133); a test tries them all.
template <int kDim, int kCount>
__device__ float rotated_factor(float (&x)[kCount], int e) {
  constexpr int kLargestSafe = 122;
  const float factor = inverse_scale(e);
  if (__all_sync(0xffffffffu, e <= kLargestSafe)) return factor * hadamard_scale<kDim>();
#pragma unroll
  for (int k = 0; k < kCount; ++k) x[k] *= hadamard_scale<kDim>();
  return factor;
}

/// Codes of the thread's values into the row-major payload in shared memory.
template <int kDim, int kCount>
__device__ void store_codes(const float (&x)[kCount], float factor, uint8_t* row,
                            const QuantizeThread& at) {
  const int first = row_payload_byte(at.token, 8 * at.quad_lane, kDim);
#pragma unroll
  for (int j = 0; j < kCount / 8; ++j) {
    const float* y = x + 8 * j;
    uint2 codes;
    codes.x = ptx::pack_e4m3x4(y[0] * factor, y[1] * factor, y[2] * factor, y[3] * factor);
    codes.y = ptx::pack_e4m3x4(y[4] * factor, y[5] * factor, y[6] * factor, y[7] * factor);
    *reinterpret_cast<uint2*>(row + (first ^ 32 * j)) = codes;  // the swizzle is an xor
  }
}

/// Rotates and encodes what the thread has read: codes lie in shared.row when all threads have
/// returned and met; the exponent is written.
template <int kDim, bool kRotated, int kCount>
__device__ void encode(float (&x)[kCount], float amax, const QuantizeTensor& tensor, int64_t block,
                       QuantizeShared<kDim>& shared, const QuantizeThread& at) {
  if constexpr (kRotated) {
    rotate_unscaled<kDim>(x, at.lane);
    amax = largest_magnitude(x) * hadamard_scale<kDim>();
  }
  amax = shared_magnitude(amax, tensor.per_token != 0, shared, at);
  const int e = operand_exponent(amax, tensor.headroom_exponent);
  store_exponent(tensor, block, e, at);
  float factor;
  if constexpr (kRotated) {
    factor = rotated_factor<kDim>(x, e);
  } else {
    factor = inverse_scale(e);
  }
  store_codes<kDim>(x, factor, shared.row, at);
}

/// This warp's quarter of the transposed payload, [kDim / 4][32 tokens], from the row-major one.
template <int kDim>
__device__ void transpose_codes(QuantizeShared<kDim>& shared, TokenOrder order,
                                const QuantizeThread& at) {
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
                              const QuantizeThread& at) {
  constexpr int kBytes = token_block_bytes(kDim) / kQuantizeWarps;
  const int begin = at.warp * kBytes + at.lane * 16;
  uint8_t* to = out + block * token_block_bytes(kDim) + begin;
#pragma unroll
  for (int byte = 0; byte < kBytes; byte += 512) {
    *reinterpret_cast<uint4*>(to + byte) = *reinterpret_cast<const uint4*>(payload + begin + byte);
  }
}

/// Payloads of a block from the codes in shared memory.
template <int kDim>
__device__ void store_payloads(const QuantizeTensor& tensor, int64_t block,
                               QuantizeShared<kDim>& shared, const QuantizeThread& at) {
  const QuantizedOperand& output = tensor.output;
  if (output.row_codes != nullptr) {
    store_payload<kDim>(output.row_codes, shared.row, block, at);
  }
  if (output.transposed_codes != nullptr) {
    transpose_codes<kDim>(shared, static_cast<TokenOrder>(tensor.order), at);
    __syncwarp();  // a warp stores what it transposed
    store_payload<kDim>(output.transposed_codes, shared.transposed, block, at);
  }
}

template <int kDim, bool kRotated>
__device__ void quantize_heads(const QuantizeTensor& tensor, int64_t block, TokenBlockRange range,
                               QuantizeShared<kDim>& shared) {
  const auto at = QuantizeThread::self<kDim>();
  HeadWalk<kDim> walk(tensor.input, range, at);
  uint4 raw[kDim / 32];
  walk.load(raw);
  while (true) {
    float x[kDim / 4];
    unpack_chunks(x, raw);
    const float amax = kRotated ? 0.0f : largest_magnitude(raw);
    const int64_t index = walk.head() * tensor.output.blocks + block;
    walk.advance();
    walk.load(raw);
    encode<kDim, kRotated>(x, amax, tensor, index, shared, at);
    __syncthreads();
    store_payloads<kDim>(tensor, index, shared, at);
    if (walk.done()) return;
  }
}

/// Of which tensor and block a CTA is; false where it has nothing to do.
struct QuantizePlace {
  int tensor;
  int64_t block;
  TokenBlockRange range;
};
__device__ inline bool find_place(const QuantizeArgs& args, QuantizePlace& place) {
  int index = static_cast<int>(blockIdx.z);
  int64_t block = blockIdx.y;
  while (index >= args.count) {
    index -= args.count;
    block += gridDim.y;
  }
  const QuantizeTensor& tensor = args.tensors[index];
  if (static_cast<int>(blockIdx.x) >= tensor.input.heads || block >= tensor.output.blocks) {
    return false;
  }
  const int2 range = *reinterpret_cast<const int2*>(tensor.blocks + block);
  place = {index, block, {range.x, range.y}};
  return place.range.tokens > 0 || is_slack(tensor.blocks, static_cast<int>(block));
}

template <int kDim>
__device__ void quantize_e4m3(const QuantizeTensor& tensor, const QuantizePlace& place,
                              QuantizeShared<kDim>& shared) {
  if (tensor.hadamard != 0) {
    quantize_heads<kDim, true>(tensor, place.block, place.range, shared);
  } else {
    quantize_heads<kDim, false>(tensor, place.block, place.range, shared);
  }
}

}  // namespace flamia::kernels
