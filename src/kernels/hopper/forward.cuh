// Forward attention of packed documents on sm_90a: O, its residual and the log-sum-exp.
// Paper: 3.1-3.4, 3.6. Used by: the entries in forward.cu, forward_nvfp4.cu, forward_bf16.cu.
//
// Reads: codes and exponents, or BF16 values, in token blocks (problem/token_blocks.h), the work
// list, a counter that starts at zero. Writes: rows of documents, each once; rows that belong to
// nobody (O = 0, LSE = -inf). A persistent grid: every CTA takes the next unit of work until none
// is left. The result of a row depends on its document alone, whatever lies beside it and whichever
// CTA computes it.
#pragma once

#include <cstdint>

#include "kernels/hopper/forward_bf16_math.cuh"
#include "kernels/hopper/forward_config.h"
#include "kernels/hopper/forward_half.cuh"
#include "kernels/hopper/forward_load.cuh"
#include "kernels/hopper/forward_math.cuh"

namespace flamia::hopper {

/// Rows outside all documents, a share for every CTA.
template <ForwardConfig kConfig>
FLAMIA_DEVICE void clear_unowned_rows(const ForwardArgs& args, int thread, int threads) {
  const ScheduleCounts& counts = *args.schedule.counts;
  const int64_t before = counts.query_begin;
  const int64_t unowned = before + args.tokens - counts.query_end;
  constexpr int kVectors = kConfig.head_dim / 8;
  const int64_t vectors = unowned * args.heads * kVectors;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * threads + thread; i < vectors;
       i += static_cast<int64_t>(gridDim.x) * threads) {
    const int column = static_cast<int>(i % kVectors) * 8;
    const int64_t head = i / kVectors % args.heads;
    const int64_t row = i / kVectors / args.heads;
    const int64_t token = row < before ? row : row - before + counts.query_end;
    const int64_t batch = args.batch_length > 0 ? token / args.batch_length : 0;
    const int64_t position = args.batch_length > 0 ? token % args.batch_length : token;
    const auto clear = [&](const Bf16Output& output) {
      if (output.data == nullptr) return;
      *reinterpret_cast<uint4*>(output.data + batch * output.batch_stride +
                                position * output.token_stride + head * output.head_stride +
                                column) = uint4{0, 0, 0, 0};
    };
    clear(args.o);
    clear(args.o_residual);
    if (column == 0) {
      args.lse.data[batch * args.lse.batch_stride + head * args.lse.head_stride +
                    position * args.lse.token_stride] = kEmptyLse;
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
    } else if constexpr (kConfig.bf16_values()) {
      ForwardBf16Consumer<kConfig>(args, shared).run();
    } else {
      ForwardConsumer<kConfig>(args, shared).run();
    }
  }
}

}  // namespace flamia::hopper
