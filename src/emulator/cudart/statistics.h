// What the kernels of the process did, as a JSON file when it ends.
// Depends on: runtime.h. Used by: runtime.cc at exit, tests.
#pragma once

#include <string>

#include "flamia/status.h"

namespace flamia::emulator::cudart {

class Runtime;

/// One object with the settings and a row per kernel.
std::string statistics_json(const Runtime& runtime);

/// Writes the file of FLAMIA_VGPU_STATS by rename; nothing if none was asked for.
Status write_statistics(const Runtime& runtime);

}  // namespace flamia::emulator::cudart
