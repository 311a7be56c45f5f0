// quantize() on the device: the forward's quantizer, then its blocks in the order of the tensor.
// Paper: 3.5.1. Used by: the CUDA backend.
#pragma once

#include <cstddef>

#include "flamia/attention.h"
#include "plan/plan.h"

namespace flamia::cuda {

/// What is quantized; its format is E4M3, or NVFP4 along head channels.
struct QuantizeInput {
  const TensorView& input;
  const TensorView& cu_seqlens;
  Role role;
  ContractionAxis axis;
};

size_t quantize_workspace_bytes(const Plan& plan);

/// Enqueues the call; tensors and workspace have passed problem/validate.h.
Status quantize_tensor(const Plan& plan, const QuantizeInput& what, const QuantizedTensors& output,
                       Workspace workspace, void* stream);

}  // namespace flamia::cuda
