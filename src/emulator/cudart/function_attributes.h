// Setting an attribute of a kernel, shared by the runtime's call and the driver's.
// Depends on: registry.h. Used by: function_api.cc, driver_module.cc.
#pragma once

#include "emulator/cudart/registry.h"

namespace flamia::emulator::cudart {

/// The kernel's module must be loaded. cudaErrorInvalidValue for attributes and values that are
/// none.
Outcome set_function_attribute(Kernel& kernel, cudaFuncAttribute attribute, int value);

}  // namespace flamia::emulator::cudart
