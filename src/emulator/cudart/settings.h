// The configuration of the virtual GPU, read from its own environment variables.
// Depends on: emulator.h for the options. Used by: runtime.cc, once per process; vgpu-run sets
// them. FLAMIA_VGPU_CHIP h200 | b200 | b300         FLAMIA_VGPU_SEED      0 to 2^64 - 1
// FLAMIA_VGPU_ADVERSARY late | early | random FLAMIA_VGPU_NUMERICS  hw | exact
// FLAMIA_VGPU_STATS path of a JSON file, or -   FLAMIA_VGPU_SMS 1 to the chip's
// FLAMIA_VGPU_SCALE 1 to 1000000: predict so many times as many CTAs
// FLAMIA_VGPU_TRACE path, - for standard error  FLAMIA_VGPU_TRACE_WINDOW see trace_settings.h
// FLAMIA_VGPU_WATCHDOG warp instructions of one grid before it is stopped, 0 for no limit
// FLAMIA_VGPU_CHECKS all | hazards (not unwritten bytes) | none
// FLAMIA_VGPU_TRAP_EXIT 0 to 255: exit code after a trap that the program ignored, 0 for its own
// FLAMIA_VGPU_RULES lenient | public | strict  FLAMIA_VGPU_PTX a folder for the text of modules
#pragma once

#include <functional>
#include <string>

#include "emulator/emulator.h"

namespace flamia::emulator::cudart {

struct Settings {
  MachineOptions machine;
  std::string stats_path;  ///< empty: no statistics; "-": a table on standard error
  uint32_t stats_scale = 1;
  uint32_t trap_exit = 0;  ///< exit code of a program that ends with 0 after a trap; 0: its own
};

/// Reads one variable: its value, or null if it is not set.
using ReadVariable = std::function<const char*(const char* name)>;

/// kInvalidArgument names the variable, its rule and its value.
Status read_settings(const ReadVariable& read, Settings* settings);

}  // namespace flamia::emulator::cudart
