// Launches the forward attention kernel.
// Paper: 3.6.2. Used by: the CUDA backend, tests.
#pragma once

#include <cstdint>

#include "flamia/status.h"
#include "plan/kernel_info.h"

namespace flamia::cuda {

/// The kernel of such a launch; head_dim is 64 or 128.
const KernelInfo& forward_kernel(ForwardForm form, int head_dim);

/// Resets the work counter and enqueues the kernel on `stream` (a cudaStream_t); may be captured.
/// sms: multiprocessors of the device; one CTA for each.
Status launch_forward(const ForwardArgs& args, int head_dim, int sms, void* stream);

}  // namespace flamia::cuda
