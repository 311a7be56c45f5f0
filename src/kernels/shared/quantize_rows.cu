// NVFP4 codes, block scales and exponents in the order of the tensor: what quantize() returns of Q
// and K. The attention kernels read products of the two instead (quantize_forms.cuh), which do not
// tell them apart.
// Paper: 3.1, 3.4, A.1. Used by: src/cuda/quantize_tensor.cc. A warp makes one row of one head;
// every number is that of numerics/nvfp4_scale.h.
#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"
#include "kernels/shared/byte_rows.cuh"
#include "numerics/bf16.h"
#include "numerics/hadamard.h"
#include "numerics/nvfp4_scale.h"
#include "plan/kernel_info.h"

namespace flamia::kernels {
namespace {

constexpr int kRowsThreads = 128;
constexpr int kRowsWarps = kRowsThreads / 32;

/// Largest value among `lanes` neighbours, a power of two; NaN is ignored.
__device__ float largest_of(float value, int lanes) {
  for (int distance = 1; distance < lanes; distance *= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

/// The rotation of numerics/hadamard.h; lane l holds channels kOwn l to kOwn l + kOwn - 1.
template <int kDim, int kOwn>
__device__ void rotate(float (&x)[kOwn], int lane) {
#pragma unroll
  for (int distance = 1; distance < kOwn; distance *= 2) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      if ((i & distance) != 0) continue;
      const float a = x[i];
      const float b = x[i + distance];
      x[i] = a + b;
      x[i + distance] = a - b;
    }
  }
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const float other = __shfl_xor_sync(0xffffffffu, x[i], distance);
      x[i] = (lane & distance) != 0 ? other - x[i] : x[i] + other;
    }
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) x[i] *= hadamard_scale<kDim>();
}

template <int kDim>
__device__ void quantize_row(const QuantizeRowsArgs& args, int token, int head, int lane) {
  constexpr int kOwn = kDim / 32;
  constexpr int kGroupLanes = kNvfp4Block / kOwn;
  const uint16_t* row = args.input.data + head * args.input.head_stride;
  int position = token;
  if (args.input.batch_length > 0) {
    row += token / args.input.batch_length * args.input.batch_stride;
    position = token % args.input.batch_length;
  }
  row += position * args.input.token_stride;
  float x[kOwn];
  float amax = 0.0f;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) x[i] = bf16_to_float(row[kOwn * lane + i]);
  if (args.hadamard != 0) rotate<kDim>(x, lane);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) amax = fmaxf(amax, fabsf(x[i]));
  const float group_amax = largest_of(amax, kGroupLanes);
  const int exponent = nvfp4_token_exponent(largest_of(group_amax, 32));
  const uint8_t scale_code = nvfp4_block_scale(group_amax, exponent);
  const float scale = nvfp4_scale_value(scale_code, exponent);
  uint8_t* codes = byte_row(args.codes, token, head);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) codes[kOwn * lane + i] = encode_nvfp4(x[i], scale);
  if (lane % kGroupLanes == 0) byte_row(args.scales, token, head)[lane / kGroupLanes] = scale_code;
  if (lane == 0) *byte_row(args.exponents, token, head) = static_cast<uint8_t>(exponent);
}

/// A row of no document.
__device__ void clear_row(const QuantizeRowsArgs& args, int token, int head, int lane) {
  uint8_t* codes = byte_row(args.codes, token, head);
  for (int channel = lane; channel < args.head_dim; channel += 32) codes[channel] = 0;
  if (lane < args.head_dim / kNvfp4Block) byte_row(args.scales, token, head)[lane] = 0;
  if (lane == 0) {
    *byte_row(args.exponents, token, head) = static_cast<uint8_t>(kNoScaleExponent);
  }
}

__device__ void quantize_rows(const QuantizeRowsArgs& args) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first = int64_t{blockIdx.x} * kRowsWarps + threadIdx.x / 32;
  for (int64_t row = first; row < args.tokens; row += int64_t{gridDim.x} * kRowsWarps) {
    const int token = static_cast<int>(row);
    const bool owned = token >= args.counts->query_begin && token < args.counts->query_end;
    for (int head = static_cast<int>(blockIdx.y); head < args.heads;
         head += static_cast<int>(gridDim.y)) {
      if (!owned) {
        clear_row(args, token, head, lane);
      } else if (args.head_dim == 128) {
        quantize_row<128>(args, token, head, lane);
      } else {
        quantize_row<64>(args, token, head, lane);
      }
    }
  }
}

}  // namespace
}  // namespace flamia::kernels

extern "C" __global__ void __launch_bounds__(flamia::kernels::kRowsThreads)
    flamia_shared_quantize_rows(const __grid_constant__ flamia::QuantizeRowsArgs args) {
  flamia::kernels::quantize_rows(args);
}

namespace flamia {

const KernelInfo kQuantizeRows = {"flamia_shared_quantize_rows",
                                  reinterpret_cast<const void*>(&flamia_shared_quantize_rows),
                                  kernels::kRowsThreads, 0};

}  // namespace flamia
