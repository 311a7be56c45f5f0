// Runs a grid: which warp goes next, when asynchronous work completes, and what to say if nobody
// can go on.
// Depends on: state.h. Used by: emulator.cc.
#pragma once

#include "emulator/execution/state.h"

namespace flamia::emulator::execution {

/// Runs all CTAs to their end. The first trap stops the grid and is in the report.
void run_grid(Grid& grid);

/// Makes room for the next cluster of the grid: its CTAs, warps and memories.
std::unique_ptr<Cluster> make_cluster(Grid& grid, uint64_t number);

/// Executes up to `budget` instructions of a warp; how many it did.
uint32_t run_warp(Warp& warp, uint32_t budget);

/// What every waiting group waits for, one a line.
std::string describe_waits(const Grid& grid);

}  // namespace flamia::emulator::execution
