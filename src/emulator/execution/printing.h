// printf of device code.
// Depends on: memory_access.h. Used by: the call of vprintf.
#pragma once

#include <cstdint>

#include "emulator/execution/memory_access.h"

namespace flamia::emulator::execution {

/// Appends the text of vprintf(format, arguments) of one lane to the report. arguments: generic
/// address of the packed values, each aligned to its size. Returns the number of conversions.
uint32_t print_formatted(Warp& warp, uint32_t lane, uint64_t format, uint64_t arguments);

}  // namespace flamia::emulator::execution
