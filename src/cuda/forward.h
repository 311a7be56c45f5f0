// Launches the forward attention kernel.
// Paper: 3.6.2. Used by: the CUDA backend, tests.
#pragma once

#include <cstdint>

#include "flamia/options.h"
#include "flamia/status.h"
#include "plan/kernel_info.h"

namespace flamia::cuda {

/// Which of the forward kernels.
struct ForwardVariant {
  Safety safety = Safety::kDefault;  ///< kExact: the operands' exponents are those of tokens
  Exponential exponential = Exponential::kExact;
};

/// The kernel of a variant, or null where there is none (plan/support.cc refuses such a call).
const KernelInfo* forward_kernel(int head_dim, const ForwardVariant& variant);

/// Resets the work counter and enqueues the kernel on `stream` (a cudaStream_t); may be captured.
/// sms: multiprocessors of the device; one CTA for each.
Status launch_forward(const ForwardArgs& args, int head_dim, int sms, void* stream,
                      const ForwardVariant& variant = {});

}  // namespace flamia::cuda
