// Shared memory as instructions address it.
// Used by: the other headers of this folder, kernels.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace flamia::ptx {

FLAMIA_DEVICE uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace flamia::ptx
