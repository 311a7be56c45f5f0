// One access of a warp to memory: addresses to checked host pointers, with what must be recorded.
// Depends on: machine memories, state.h, order.h. Used by: loads, stores, atomics, copies.
#pragma once

#include <cstdint>

#include "emulator/execution/state.h"

namespace flamia::emulator::execution {

/// Where the bytes of every active lane are.
struct LaneAccess {
  uint32_t active = 0;
  uint32_t bytes = 0;  ///< of each lane
  /// Set if all lanes are in one memory: the range [low, low + span) holds all of them.
  bool one_memory = false;
  bool dense = false;  ///< and the range has no gaps worth mentioning
  uint64_t low = 0;
  uint64_t span = 0;
  Location at[kLanes];
};

/// How the memory model sees an access.
struct AccessOrder {
  bool strong = false;
  bool acquire = false;
  bool release = false;
  bool observes = true;  ///< of a read: its value reaches the program (not that of red)
};

/// Finds the bytes; throws on faults. alignment: in bytes, a power of two.
void locate_lanes(Warp& warp, Space space, const uint64_t* addresses, uint32_t active,
                  uint32_t bytes, uint32_t alignment, LaneAccess* access);
/// Throws if bytes were never written (where that is checked) or the read is a hazard.
void before_read(Warp& warp, const Step& step, const LaneAccess& access, const AccessOrder& order);
/// Throws on read-only memory, live mbarriers and hazards; marks the bytes as written.
void before_write(Warp& warp, const Step& step, const LaneAccess& access, const AccessOrder& order);

/// Stores of one instruction by several lanes to one place: throws under strict rules if the bytes
/// differ. bytes_of[i]: what lane i writes. Only shared and global memory; aligned accesses of one
/// size are apart or equal.
void check_lanes_agree(Warp& warp, const Step& step, const LaneAccess& access,
                       const uint8_t* const* bytes_of);

/// addresses[i] = base[i] + offset; 32-bit spaces wrap.
void effective_addresses(const uint64_t* base, int64_t offset, bool narrow, uint64_t* addresses);

/// Text at a generic or other address up to its zero; throws if it is not readable.
std::string read_text(Warp& warp, uint32_t lane, uint64_t address);

}  // namespace flamia::emulator::execution
