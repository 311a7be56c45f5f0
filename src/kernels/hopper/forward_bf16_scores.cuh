// Scores of BF16 operands: the products of Q and K on the paths that do not multiply them in FP8.
// Paper: 3.4. Used by: forward_bf16_math.cuh, forward_math.cuh.
// A tile of Q or K is one matrix of 128-byte rows for every 64 channels.
#pragma once

#include <cstdint>

#include "kernels/hopper/forward_config.h"
#include "numerics/key_fold.h"
#include "plan/kernel_info.h"
#include "ptx/descriptors.h"
#include "ptx/wgmma_bf16.cuh"

namespace flamia::hopper {

/// What such scores are multiplied by. Never zero: masked ones are -inf.
FLAMIA_DEVICE float score_multiplier_of(const ForwardArgs& args) {
  return larger(args.score_multiplier, fold_factor(kMinFold));
}

/// Scores of the 64 rows of a group against a key tile, both BF16.
template <ForwardConfig kConfig>
FLAMIA_DEVICE void issue_bf16_scores(float (&s)[kKeyTile / 2], uint32_t query_tile,
                                     uint32_t key_tile, uint32_t group) {
  constexpr uint32_t kQueryPart = kQueryTile * 128;  // rows of 64 channels
  constexpr uint32_t kKeyPart = kKeyTile * 128;
  const uint32_t query = ptx::wgmma_descriptor_low(query_tile) + group * (kQueryPart / 2 / 16);
  const uint32_t keys = ptx::wgmma_descriptor_low(key_tile);
#pragma unroll
  for (int step = 0; step < kConfig.head_dim / 16; ++step) {
    ptx::wgmma_bf16_m64n128k16(s, query + step / 4 * (kQueryPart / 16) + 2 * (step % 4),
                               keys + step / 4 * (kKeyPart / 16) + 2 * (step % 4), step != 0);
  }
}

}  // namespace flamia::hopper
