// Per-row quantities that the backward needs before its first tile, and dQ after its last one.
// Paper: 3.3 (D), 3.5.3 and A.4 (dQ accumulator scale). Used by: backward.cc.
#pragma once

#include "cpu/buffers.h"
#include "problem/packed_layout.h"

namespace flamia::cpu {

/// D (minus the gradient of LSE), norms of dO and V, maxima of K, the FP16 prescale of every row;
/// clears the accumulators.
void prepare_rows(const Plan& plan, const BackwardTensors& tensors, const PackedLayout& layout,
                  const BackwardBuffers& buffers);

/// dQ from its accumulator: prescale undone, rotation undone, softmax scale, BF16.
void finish_query_gradients(const Plan& plan, const BackwardTensors& tensors,
                            const PackedLayout& layout, const BackwardBuffers& buffers);

/// A finished FP32 gradient row: rotation undone, times scale, BF16.
void store_gradient(const TensorView& tensor, int head, int64_t token, int dim, bool rotated,
                    float scale, const float* values);

}  // namespace flamia::cpu
