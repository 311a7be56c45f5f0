// Launches the quantizer of Q, K, V.
// Paper: 3.5.1. Used by: the CUDA backend, tests.
#pragma once

#include "flamia/status.h"
#include "plan/kernel_info.h"

namespace flamia::cuda {

/// The kernel of such a launch; head_dim is 64 or 128.
const KernelInfo& quantize_kernel(const QuantizeArgs& args, int head_dim);

/// One launch for all tensors of args; returns when it is enqueued. stream is a cudaStream_t.
Status launch_quantize(const QuantizeArgs& args, int head_dim, void* stream);

}  // namespace flamia::cuda
