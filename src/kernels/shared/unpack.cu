// Quantized blocks in the order of the tensor: what quantize() returns.
// Used by: src/cuda/quantize_tensor.cc. Outputs may lie at any address, so bytes are copied one by
// one, a warp 32 neighbours.
#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"
#include "kernels/shared/byte_rows.cuh"
#include "numerics/token_block_scale.h"
#include "plan/kernel_info.h"
#include "problem/token_blocks.h"

namespace flamia::kernels {
namespace {

constexpr int kUnpackThreads = 128;

__device__ void unpack_block(const UnpackArgs& args, int64_t block, int head) {
  const TokenBlockRange range = args.blocks[block];
  const int64_t index = head * args.operand.blocks + block;
  const uint8_t* payload = args.operand.row_codes + index * token_block_bytes(args.head_dim);
  for (int i = static_cast<int>(threadIdx.x); i < range.tokens * args.head_dim;
       i += kUnpackThreads) {
    const int token = i / args.head_dim;
    const int channel = i % args.head_dim;
    byte_row(args.codes, range.token + token, head)[channel] =
        payload[row_payload_byte(token, channel, args.head_dim)];
  }
  const int token = static_cast<int>(threadIdx.x);
  if (token < range.tokens) {
    const int8_t exponent = args.per_token != 0
                                ? args.operand.exponents[index * kTokenBlock + token]
                                : args.operand.exponents[index];
    *byte_row(args.exponents, range.token + token, head) = static_cast<uint8_t>(exponent);
  }
}

/// Rows of no document.
__device__ void clear_row(const UnpackArgs& args, int token, int head) {
  for (int channel = static_cast<int>(threadIdx.x); channel < args.head_dim;
       channel += kUnpackThreads) {
    byte_row(args.codes, token, head)[channel] = 0;
  }
  if (threadIdx.x == 0) {
    *byte_row(args.exponents, token, head) = static_cast<uint8_t>(kNoScaleExponent);
  }
}

__device__ void unpack(const UnpackArgs& args) {
  const auto step = static_cast<int64_t>(gridDim.x);
  const int64_t owned_begin = args.counts->query_begin;
  const int64_t owned_end = args.counts->query_end;
  for (int head = static_cast<int>(blockIdx.y); head < args.heads;
       head += static_cast<int>(gridDim.y)) {
    for (int64_t block = blockIdx.x; block < args.operand.blocks; block += step) {
      unpack_block(args, block, head);
    }
    for (int64_t token = blockIdx.x; token < owned_begin; token += step) {
      clear_row(args, static_cast<int>(token), head);
    }
    for (int64_t token = owned_end + blockIdx.x; token < args.tokens; token += step) {
      clear_row(args, static_cast<int>(token), head);
    }
  }
}

}  // namespace
}  // namespace flamia::kernels

extern "C" __global__ void __launch_bounds__(flamia::kernels::kUnpackThreads)
    flamia_shared_unpack_blocks(const __grid_constant__ flamia::UnpackArgs args) {
  flamia::kernels::unpack(args);
}

namespace flamia {

const KernelInfo kUnpackBlocks = {"flamia_shared_unpack_blocks",
                                  reinterpret_cast<const void*>(&flamia_shared_unpack_blocks),
                                  kernels::kUnpackThreads, 0};

}  // namespace flamia
