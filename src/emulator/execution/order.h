// Hazards: reports every access and synchronization to the clocks and the shadow of a cluster.
// Depends on: machine/order_clocks.h, machine/shadow.h. Used by: all families that touch memory or
// synchronize. Without hazard checking (no clocks) every function does nothing.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/execution/state.h"

namespace flamia::emulator::execution {

/// Identifies an instruction in actors and hazards.
constexpr uint32_t instruction_key(const Code& code, const Step& step) {
  return code.index << 20 | (step.instruction & 0xfffffu);
}

/// Records [address, address + bytes) of shared memory (rank << 24 | offset); throws on a hazard.
void note_shared(Cluster& cluster, const Actor& actor, uint64_t address, uint64_t bytes,
                 bool write);
/// The same for global memory, among the warps of one cluster.
void note_global(Cluster& cluster, const Actor& actor, uint64_t address, uint64_t bytes,
                 bool write);
/// To be called after a store: a store that raced with one of another value is a hazard.
void after_store(Cluster& cluster);
/// The same for 32-bit cells of the tensor memory of a CTA.
void note_tensor(Cta& cta, const Actor& actor, uint32_t lane, uint32_t column, uint32_t columns,
                 bool write);
/// Ends the history of cells whose columns were freed.
void forget_tensor(Cta& cta, uint32_t lane, uint32_t column, uint32_t columns);
/// The warp's own access by the current instruction.
Actor own_actor(Warp& warp, const Step& step, AccessKind kind);

/// What a strong write of a location passes on, and a strong read of it receives.
void release_location(Warp& warp, uint64_t address, bool global, bool releases);
void acquire_location(Warp& warp, uint64_t address, bool global);

inline OrderClocks* clocks_of(Warp& warp) { return warp.cta->cluster->clocks.get(); }

/// "CTA (1,0,0) warp 3" of a warp as the clocks count.
std::string warp_text(const Cluster& cluster, uint32_t global);
/// "line 12: st.shared.u32 [%r1], %r2;"
std::string instruction_text(const Grid& grid, uint32_t key);

}  // namespace flamia::emulator::execution
