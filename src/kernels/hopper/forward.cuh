// MXFP8 forward attention of packed documents on sm_90a: O, its residual and the log-sum-exp.
// Paper: 3.1-3.4, 3.6. Used by: the entries in forward.cu.
//
// Reads: codes and exponents in token blocks (problem/token_blocks.h), the work list, a counter
// that starts at zero. Writes: rows of documents, each once; rows that belong to nobody (O = 0, LSE
// = -inf). A persistent grid: every CTA takes the next unit of work until none is left. The result
// of a row depends on its document alone, whatever lies beside it and whichever CTA computes it.
#pragma once

#include <cstdint>

#include "kernels/hopper/forward_config.h"
#include "kernels/hopper/forward_half.cuh"
#include "kernels/hopper/forward_load.cuh"
#include "kernels/hopper/forward_math.cuh"

namespace flamia::hopper {

/// Rows outside all documents, a share for every CTA.
template <ForwardConfig kConfig>
FLAMIA_DEVICE void clear_unowned_rows(const ForwardArgs& args, int thread, int threads) {
  const ScheduleCounts& counts = *args.schedule.counts;
  const int before = counts.query_begin;
  const int unowned = before + args.tokens - counts.query_end;
  constexpr int kVectors = kConfig.head_dim / 8;
  // A warp for each row: 32 bits are enough for tokens and for the vectors of one.
  const int lane = thread % 32;
  const int warps = threads / 32;
  for (int row = static_cast<int>(blockIdx.x) * warps + thread / 32; row < unowned;
       row += static_cast<int>(gridDim.x) * warps) {
    const int token = row < before ? row : row - before + counts.query_end;
    const int batch = args.batch_length > 0 ? token / args.batch_length : 0;
    const int position = args.batch_length > 0 ? token % args.batch_length : token;
    const auto clear = [&](const Bf16Output& output) {
      if (output.data == nullptr) return;
      uint16_t* data = output.data + batch * output.batch_stride + position * output.token_stride;
      for (int i = lane; i < args.heads * kVectors; i += 32) {
        *reinterpret_cast<uint4*>(data + i / kVectors * output.head_stride + i % kVectors * 8) =
            uint4{0, 0, 0, 0};
      }
    };
    clear(args.o);
    clear(args.o_residual);
    float* lse = args.lse.data + batch * args.lse.batch_stride + position * args.lse.token_stride;
    for (int head = lane; head < args.heads; head += 32) {
      lse[head * args.lse.head_stride] = kEmptyLse;
    }
  }
}

template <ForwardConfig kConfig>
FLAMIA_DEVICE void forward(const ForwardArgs& args) {
  using Map = ForwardSharedMap<kConfig>;
  extern __shared__ __align__(1024) unsigned char shared[];  // swizzled tiles repeat every 1024
  const uint32_t base = ptx::shared_address(shared);
  if (threadIdx.x == 0) {
    constexpr uint32_t kConsumerWarps = 4 * kConsumerGroups;
    for (uint32_t s = 0; s < kConfig.stages; ++s) {
      ptx::mbarrier_init(base + Map::kKeyFull + 8 * s, 1);
      ptx::mbarrier_init(base + Map::kKeyEmpty + 8 * s, kConsumerWarps);
      ptx::mbarrier_init(base + Map::kValueFull + 8 * s, 1);
      ptx::mbarrier_init(base + Map::kValueEmpty + 8 * s, kConsumerWarps);
    }
    for (uint32_t b = 0; b < 2; ++b) {
      ptx::mbarrier_init(base + Map::kQueryFull + 8 * b, 1);
      ptx::mbarrier_init(base + Map::kQueryEmpty + 8 * b, kConsumerWarps + 1);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kFirstConsumer) {
    ptx::decrease_registers<40>();
    if (threadIdx.x < 32) {
      ForwardKeyLoader<kConfig>(args, shared).run();
    } else if (threadIdx.x < 64) {
      ForwardValueLoader<kConfig>(args, shared).run();
    } else {
      clear_unowned_rows<kConfig>(args, static_cast<int>(threadIdx.x) - 64, 64);
    }
  } else {
    ptx::increase_registers<232>();
    if constexpr (kConfig.half_scores) {
      ForwardHalfConsumer<kConfig>(args, shared).run();
    } else {
      ForwardConsumer<kConfig>(args, shared).run();
    }
  }
}

}  // namespace flamia::hopper
