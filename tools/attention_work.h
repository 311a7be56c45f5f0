// How much work a call is: visible pairs and floating-point operations, counted exactly per
// document. Depends on: masks, packed layout. Used by: attend, explain, bench.
#pragma once

#include "flamia/options.h"
#include "flamia/problem.h"

namespace flamia::tools {

struct AttentionWork {
  double pairs = 0;           ///< visible (query, key) pairs of one head, all documents
  double forward_flops = 0;   ///< 4 * head_dim * pairs * heads: Q K^T and P V
  double backward_flops = 0;  ///< 10 * head_dim * pairs * heads: five products
};

/// cu_seqlens_*: as in ForwardTensors; ignored for batches.
AttentionWork count_work(const Problem& problem, const Mask& mask, const TensorView& cu_seqlens_q,
                         const TensorView& cu_seqlens_k);

}  // namespace flamia::tools
