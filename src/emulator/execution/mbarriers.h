// Finding mbarriers by address, shared by the instructions and the asynchronous engines.
// Depends on: memory_access.h, order.h. Used by: mbarrier, copy, bulk and tensor instructions.
#pragma once

#include <cstdint>

#include "emulator/execution/memory_access.h"
#include "emulator/execution/order.h"

namespace flamia::emulator::execution {

/// The CTA whose barrier the address names, and the barrier's offset there; throws on faults, and
/// if nothing orders the barrier's initialization before this use.
Cta& barrier_owner(Warp& warp, uint32_t lane, Space space, uint64_t address, uint32_t* offset);

/// Throws if the async proxy may not use the barrier yet.
void require_async_init(Warp& warp, Cta& owner, uint32_t offset, uint32_t lane);

/// The warp's earlier steps are ordered before whoever sees the open phase complete.
void release_into(Warp& warp, Cta& owner, uint32_t offset);

}  // namespace flamia::emulator::execution
