// The end of lanes, warps and CTAs.
// Depends on: state.h. Used by: exit and ret; the barriers, which count who is left.
#pragma once

#include <cstdint>

#include "emulator/execution/state.h"

namespace flamia::emulator::execution {

/// The lanes of the current group in `active` end. Always kJump.
Outcome exit_lanes(Warp& warp, uint32_t active);

/// Completes barriers that wait only for warps that have exited.
void settle_barriers(Cta& cta);
void settle_cluster_barrier(Cluster& cluster);

}  // namespace flamia::emulator::execution
