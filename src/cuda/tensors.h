// The caller's tensors as kernels take them.
// Used by: the CUDA backend. Tensors have passed problem/validate.h.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/device.h"
#include "flamia/problem.h"
#include "flamia/status.h"
#include "plan/kernel_info.h"

namespace flamia::cuda {

struct NamedView {
  const char* name;
  const TensorView* view;
};

/// Refuses BF16 tensors whose rows do not all begin at multiples of 16 bytes, which vector loads
/// and bulk copies need; every reason at once. Views without data are left out.
Status check_rows(const char* function, std::span<const NamedView> tensors);
Status check_rows(const char* function, const ForwardTensors& tensors);

/// Refuses tensors and a workspace that a kernel on this device cannot reach: those in ordinary
/// host memory and on other devices. The first of them.
Status check_memory(const char* function, std::span<const NamedView> tensors, Workspace workspace,
                    const Device& device);
Status check_memory(const char* function, const ForwardTensors& tensors, Workspace workspace,
                    const Device& device);

/// [tokens, heads, head_dim], or [batch, length, heads, head_dim].
Bf16Tensor bf16_input(const TensorView& view);
/// Likewise; without data if the tensor is not given.
Bf16Output bf16_output(const TensorView& view);
/// Bytes of [tokens, heads, head_dim], or [batch, length, heads, head_dim]; last_axis false: of
/// [tokens, heads] and the like.
ByteOutput byte_output(const TensorView& view, bool last_axis);
/// [heads, tokens], or [batch, heads, length].
LseOutput lse_output(const TensorView& view);

/// Documents of one side. cu_seqlens is not read for a batch.
DocumentsArgs documents_of(const Problem& problem, int64_t tokens, const TensorView& cu_seqlens);

}  // namespace flamia::cuda
