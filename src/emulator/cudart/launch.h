// Launches: the request of a kernel from the arguments of a call, its checks, and running it.
// Depends on: runtime.h, occupancy.h. Used by: launch calls, graph kernel nodes, the driver calls.
#pragma once

#include "emulator/cudart/runtime.h"

namespace flamia::emulator::cudart {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  uint64_t dynamic_shared = 0;
  ptx::Dim3 cluster;  ///< all 0: what the kernel says, or none
  bool has_cluster = false;
  bool cooperative = false;
  int priority = 0;
};

/// Takes over launch attributes; those without a meaning here are refused by name.
Outcome read_attributes(const cudaLaunchAttribute* attributes, unsigned int count,
                        LaunchShape* shape);

/// The cluster of a launch: from the shape, the kernel or its attributes; {1, 1, 1} for none.
/// cudaErrorInvalidClusterSize where they disagree or the size is not allowed.
Outcome choose_cluster(const Kernel& kernel, const LaunchShape& shape, ptx::Dim3* cluster);

/// Checks a launch as the driver does and copies its parameters: arguments[i] points to the i-th.
Outcome make_kernel_work(Runtime& runtime, const void* function, const LaunchShape& shape,
                         void* const* arguments, KernelWork* work);
/// The same with parameters as one block of bytes, laid out as the kernel has them.
Outcome make_packed_work(Runtime& runtime, const void* function, const LaunchShape& shape,
                         const void* parameters, size_t bytes, KernelWork* work);

/// Runs a grid to its end. A trap breaks the device; its text is in the outcome.
Outcome run_kernel(Runtime& runtime, const KernelWork& work);

}  // namespace flamia::emulator::cudart
