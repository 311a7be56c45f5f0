// Names of kernels for people.
// Depends on: std only. Used by: traps, statistics, traces.
#pragma once

#include <string>

namespace flamia::emulator {

/// The name as the source has it, without its parameters; as given if it is not mangled.
std::string readable_kernel_name(const std::string& kernel);

/// The same in at most about 160 characters: where it is longer, template arguments of template
/// arguments are left out, then all of them.
std::string short_kernel_name(const std::string& kernel);

}  // namespace flamia::emulator
