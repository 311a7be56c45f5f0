// What runs attention on a machine besides its processor, as planning sees it.
// Plain data, so that every rule of planning can be tested without a GPU.
// Used by: plan/support.h, plan/plan.h; the API asks the CUDA runtime (src/cuda/device.h).
#pragma once

#include <string>

#include "flamia/options.h"

namespace flamia {

struct Machine {
  BackendKind gpu = BackendKind::kCpu;  ///< backend of the current GPU; kCpu: there is none
  /// Why the hopper backend cannot run; empty if it can.
  std::string no_hopper = "no GPU was looked for";
};

/// The backend of a call: as asked for, else that of the GPU, else the CPU's.
BackendKind resolve_backend(const Options& options, const Machine& machine);

}  // namespace flamia
