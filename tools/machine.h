// What this machine is: processor, instruction sets, cores, memory.
// Used by: info, reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flamia::tools {

/// Model name of the processor, "unknown" where the system does not tell.
std::string cpu_model();
/// Instruction sets of interest that the processor has, e.g. "avx2".
std::vector<std::string> cpu_features();
/// Cores that this process may use.
int usable_cores();
/// Bytes of physical memory, 0 where the system does not tell.
double physical_memory_bytes();

}  // namespace flamia::tools
