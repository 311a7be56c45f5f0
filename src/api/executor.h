// Who runs a call: what this machine offers, and the backend of a plan.
// Used by: the verbs of attention.cc.
#pragma once

#include <string>

#include "backend/backend.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "problem/validate.h"

namespace flamia {

/// The machine that a request for this backend is planned on. A request for the CPU does not touch
/// the CUDA runtime, so that the process may still fork.
Machine machine_for(BackendKind requested);

/// The executor of a plan; refuses machines that cannot run it.
Status find_backend(const char* function, const Plan& plan, const Backend** backend);

/// Where the tensors of a call on this backend live.
Residence residence_of(const Plan& plan);

/// The GPU that runs calls of the GPU backends, "NVIDIA H200, 132 multiprocessors"; empty without
/// one.
std::string gpu_words();

}  // namespace flamia
