// What the kernels of the process did, as a JSON file or a table when it ends.
// Depends on: runtime.h. Used by: runtime.cc at exit, tests.
#pragma once

#include <string>

#include "flamia/status.h"

namespace flamia::emulator::cudart {

class Runtime;

/// One object with the settings, a row per kernel and an object per launch.
std::string statistics_json(const Runtime& runtime);
/// The first launches for a person.
std::string statistics_table(const Runtime& runtime);

/// Writes the file of FLAMIA_VGPU_STATS by rename, or the table; nothing if none was asked for.
Status write_statistics(const Runtime& runtime);

}  // namespace flamia::emulator::cudart
