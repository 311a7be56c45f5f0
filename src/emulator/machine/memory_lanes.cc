// Accesses of whole warps: the common case of each lane without the cost of a fault.
// Depends on: memory.h. Used by: see memory.h.
#include <cstring>

#include "emulator/machine/memory.h"

namespace flamia::emulator {
namespace {

/// Where an access of one lane lies if nothing is wrong with it: its bytes, and the flags.
struct Spot {
  uint8_t* data = nullptr;
  ByteFlags flags;
  uint64_t flag = 0;  ///< index of the first byte's flag
};

}  // namespace

/// The common accesses without the cost of a fault; the caller repeats the others the slow way.
struct LaneAccess {
  static bool find(const MemoryView& view, Space space, uint64_t address, uint32_t bytes,
                   Spot* spot) {
    if ((address & (bytes - 1)) != 0) return false;
    if (space == Space::kGeneric) {
      const SpacedAddress at = resolve_generic(address);
      space = at.space;
      address = at.address;
    } else if (space == Space::kSharedCta && (address >> kSharedRankShift) != view.rank) {
      return false;
    }
    if (space == Space::kGlobal) {
      if (view.global == nullptr || !view.global->contains(address)) return false;
      const GlobalMemory::Block* block = view.global->block_of(address);
      if (block == nullptr || block->freed) return false;
      if (bytes > block->bytes - (address - block->address)) return false;
      *spot = {reinterpret_cast<uint8_t*>(address), ByteFlags(view.global->flag_words_),
               address - view.global->arena_};
      return true;
    }
    if (space == Space::kSharedCta || space == Space::kSharedCluster) {
      const uint64_t rank = address >> kSharedRankShift;
      if (rank >= view.cluster_size || view.cluster[rank] == nullptr) return false;
      SharedMemory* shared = view.cluster[rank];
      const uint32_t offset = static_cast<uint32_t>(address) & kSharedOffsetMask;
      if (!shared->contains(offset, bytes)) return false;
      *spot = {shared->at(offset), shared->flags_, offset - kSharedReserved};
      return true;
    }
    if (space == Space::kLocal) {
      if (view.local == nullptr || address > view.local->size()) return false;
      if (bytes > view.local->size() - address) return false;
      *spot = {view.local->data() + address, ByteFlags(view.local->words_.data()), address};
      return true;
    }
    return false;
  }

  static bool read(const MemoryView& view, Space space, uint64_t address, uint32_t bytes,
                   uint32_t* values) {
    Spot spot;
    if (!find(view, space, address, bytes, &spot)) return false;
    if (!spot.flags.all_set(spot.flag, bytes)) return false;
    copy(values, spot.data, bytes);
    return true;
  }

  static bool write(const MemoryView& view, Space space, uint64_t address, uint32_t bytes,
                    const uint32_t* values) {
    Spot spot;
    if (!find(view, space, address, bytes, &spot)) return false;
    copy(spot.data, values, bytes);
    spot.flags.fill(spot.flag, bytes, true);
    return true;
  }

  /// memcpy with a constant size.
  static void copy(void* to, const void* from, uint32_t bytes) {
    switch (bytes) {
      case 4:
        std::memcpy(to, from, 4);
        return;
      case 8:
        std::memcpy(to, from, 8);
        return;
      case 16:
        std::memcpy(to, from, 16);
        return;
      default:
        std::memcpy(to, from, bytes);
    }
  }
};

Fault read_lanes(const MemoryView* const views[32], Space space, const uint64_t addresses[32],
                 uint32_t active, uint32_t bytes, uint32_t (*registers)[32]) {
  const uint32_t count = bytes < 4 ? 1 : bytes / 4;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((active >> lane & 1u) == 0) continue;
    uint32_t values[8] = {};
    if (LaneAccess::read(*views[lane], space, addresses[lane], bytes, values)) {
      for (uint32_t r = 0; r < count; ++r) registers[r][lane] = values[r];
      continue;
    }
    Fault fault = read_bytes(*views[lane], space, addresses[lane], bytes, bytes, values);
    for (uint32_t r = 0; r < count; ++r) registers[r][lane] = values[r];
    if (!fault.ok()) {
      fault.lane = static_cast<uint8_t>(lane);
      return fault;
    }
  }
  return {};
}

Fault write_lanes(const MemoryView* const views[32], Space space, const uint64_t addresses[32],
                  uint32_t active, uint32_t bytes, const uint32_t (*registers)[32]) {
  const uint32_t count = bytes < 4 ? 1 : bytes / 4;
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if ((active >> lane & 1u) == 0) continue;
    uint32_t values[8] = {};
    for (uint32_t r = 0; r < count; ++r) values[r] = registers[r][lane];
    if (LaneAccess::write(*views[lane], space, addresses[lane], bytes, values)) continue;
    Fault fault = write_bytes(*views[lane], space, addresses[lane], bytes, bytes, values);
    if (!fault.ok()) {
      fault.lane = static_cast<uint8_t>(lane);
      return fault;
    }
  }
  return {};
}

}  // namespace flamia::emulator
