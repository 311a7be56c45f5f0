// Overlap of a grid with the end of the one before it in its stream (programmatic dependent
// launch): the next grid's CTAs may start early and wait where they need the results.
// Used by: chains of short kernels. Without the launch attribute both functions do nothing.
#pragma once

#include "base/macros.h"

namespace flamia::ptx {

/// Returns when all grids that this one depends on are complete and their writes visible.
FLAMIA_DEVICE void wait_for_previous_grid() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

/// The next grid may start once every CTA has said so (or is gone).
FLAMIA_DEVICE void allow_next_grid() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace flamia::ptx
