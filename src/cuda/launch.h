// The one place that launches kernels.
// Used by: the other files of this folder.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "flamia/status.h"
#include "plan/kernel_info.h"

namespace flamia::cuda {

struct LaunchShape {
  dim3 grid;
  int shared_bytes = 0;  ///< dynamic, of a CTA
  bool overlap = false;  ///< may start before the launch before it ends; the kernel waits itself
};

/// Enqueues one launch with one argument struct. function names the caller in messages. stream is a
/// cudaStream_t. Kernels that need more than 48 KiB of shared memory get it.
Status launch(const char* function, const KernelInfo& kernel, const LaunchShape& shape,
              const void* arguments, void* stream);

}  // namespace flamia::cuda
