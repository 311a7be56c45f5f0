// What a kernel takes of an SM, and how many of its blocks and clusters fit.
// Depends on: registry.h, chip.h. Used by: launch checks, occupancy and function calls.
// Registers are an estimate: PTX has virtual registers only, ptxas assigns the real ones.
#pragma once

#include "emulator/cudart/registry.h"

namespace flamia::emulator::cudart {

/// Registers of a thread: a quarter of the virtual ones, at most what the launch bounds leave.
uint32_t estimated_registers(const ptx::Function& function);

/// Largest block that the launch bounds and the estimate allow.
uint32_t largest_block(const ptx::Function& function);

/// Bytes of dynamic shared memory that a launch may ask for.
uint32_t dynamic_shared_limit(const Kernel& kernel);

/// Resident blocks of an SM; 0 if one does not fit. threads: of a block, at least 1.
uint32_t blocks_of_sm(const Kernel& kernel, uint32_t threads, uint64_t dynamic_shared);

}  // namespace flamia::emulator::cudart
