// Writing of result rows to the caller's strided tensors.
// Used by: both passes of the CPU backend.
#pragma once

#include <cstdint>

#include "flamia/problem.h"
#include "problem/packed_layout.h"

namespace flamia::cpu {

/// Entry of a [H, T] (batched: [B, H, L]) F32 tensor.
float* lse_entry(const TensorView& lse, int head, int64_t token);

/// values[dim] rounded to BF16 into a row of a gradient or output.
void store_bf16(const TensorView& tensor, int head, int64_t token, int dim, const float* values);

/// A row of O, and of its residual where that is given.
void store_output(const ForwardTensors& tensors, int head, int64_t token, int dim,
                  const float* values);

/// Rows that belong to no document: O 0, LSE -inf.
void clear_unowned_rows(const Problem& problem, const PackedLayout& layout,
                        const ForwardTensors& tensors);
/// Rows that belong to no document: gradients 0.
void clear_unowned_rows(const Problem& problem, const PackedLayout& layout,
                        const BackwardTensors& tensors);

}  // namespace flamia::cpu
