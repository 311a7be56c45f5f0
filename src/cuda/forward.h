// Launches the forward attention kernel.
// Paper: 3.6.2. Used by: the CUDA backend, tests.
#pragma once

#include <cstdint>

#include "flamia/options.h"
#include "flamia/status.h"
#include "plan/kernel_info.h"

namespace flamia::cuda {

/// Which of the kernels of a form.
struct ForwardVariant {
  Safety safety = Safety::kDefault;  ///< kExact: the operands' exponents are those of tokens
  Exponential exponential = Exponential::kExact;
  ScoreAccumulator score_accumulator = ScoreAccumulator::kF32;
};

/// The kernel of such a launch, or null where there is none (plan/support.cc refuses such a call);
/// head_dim is 64 or 128.
const KernelInfo* forward_kernel(ForwardForm form, const ForwardVariant& variant, int head_dim);

/// Resets the work counter and enqueues the kernel on `stream` (a cudaStream_t); may be captured.
/// sms: multiprocessors of the device; one CTA for each.
Status launch_forward(const ForwardArgs& args, int head_dim, int sms, void* stream,
                      const ForwardVariant& variant = {});

}  // namespace flamia::cuda
