// For a debugger that stops the program: a place to break at traps, and words on the running grid.
// Depends on: state.h. Used by: the scheduler; people, by name ("break flamia_vgpu_trap",
// "printf "%s", flamia_vgpu_where()").
#pragma once

#include <cstdint>

#include "emulator/execution/state.h"

namespace flamia::emulator::execution {

/// The grid that runs from here to the end of the scope.
class DebuggedGrid {
 public:
  explicit DebuggedGrid(const Grid* grid);
  ~DebuggedGrid();
  DebuggedGrid(const DebuggedGrid&) = delete;
  DebuggedGrid& operator=(const DebuggedGrid&) = delete;
};

}  // namespace flamia::emulator::execution

extern "C" {
/// Does nothing; called with kind and text of a trap before the grid is given up.
void flamia_vgpu_trap(const char* kind, const char* text);
/// One line for every group of lanes of the running grid: where it is and what it waits for.
/// Overwritten by the next call.
const char* flamia_vgpu_where();
/// Bits of a register ("%r5") of one lane in the current call of a warp, as decimal and hexadecimal
/// text; words if there is no such register, warp or CTA among the resident ones.
const char* flamia_vgpu_register(uint32_t cta_x, uint32_t cta_y, uint32_t cta_z, uint32_t warp,
                                 uint32_t lane, const char* name);
}
