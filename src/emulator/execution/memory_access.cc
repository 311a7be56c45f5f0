// Fast paths for the common access (one memory, one allocation) and the general one per lane.
#include "emulator/execution/memory_access.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/message.h"
#include "emulator/execution/order.h"

namespace flamia::emulator::execution {
namespace {

constexpr bool is_window(uint64_t address) { return address >= kSharedWindow; }

/// Lowest and highest address and their disjunction.
struct Extent {
  uint64_t low = ~uint64_t{0};
  uint64_t high = 0;
  uint64_t bits = 0;
};

Extent extent_of(const uint64_t* addresses, uint32_t active) {
  Extent extent;
  for (uint32_t i = 0; i < kLanes; ++i) {
    if ((active >> i & 1u) == 0) continue;
    extent.low = std::min(extent.low, addresses[i]);
    extent.high = std::max(extent.high, addresses[i]);
    extent.bits |= addresses[i];
  }
  return extent;
}

void set_range(const Extent& extent, uint32_t bytes, LaneAccess* access) {
  access->one_memory = true;
  access->low = extent.low;
  access->span = extent.high - extent.low + bytes;
  // Neighbours in lane order touch or are equal: no gaps.
  uint64_t last = access->at[first_lane(access->active)].address;
  access->dense = true;
  each_lane(access->active, [&](uint32_t i) {
    const uint64_t distance = access->at[i].address - last;
    if (distance != 0 && distance != bytes) access->dense = false;
    last = access->at[i].address;
  });
}

bool locate_global(Warp& warp, const Extent& extent, const uint64_t* addresses, uint32_t bytes,
                   LaneAccess* access) {
  if (is_window(extent.high)) return false;
  GlobalMemory& memory = *warp.grid().memory;
  if (!memory.check(extent.low, extent.high - extent.low + bytes).ok()) return false;
  each_lane(access->active, [&](uint32_t i) {
    access->at[i] = {Space::kGlobal, 0, addresses[i], reinterpret_cast<uint8_t*>(addresses[i])};
  });
  set_range(extent, bytes, access);
  return true;
}

/// extent and addresses are offsets in the shared window here.
bool locate_shared(Warp& warp, const Extent& extent, const uint64_t* addresses, uint64_t window,
                   uint32_t bytes, LaneAccess* access) {
  const uint64_t rank = extent.low >> kSharedRankShift;
  Cluster& cluster = *warp.cta->cluster;
  if (extent.high >> kSharedRankShift != rank || rank >= cluster.shared.size()) return false;
  SharedMemory* const shared = cluster.shared[rank];
  const uint32_t low = static_cast<uint32_t>(extent.low) & kSharedOffsetMask;
  if (shared == nullptr || !shared->contains(low, extent.high - extent.low + bytes)) return false;
  uint8_t* const data = shared->at(low);
  each_lane(access->active, [&](uint32_t i) {
    const uint64_t address = addresses[i] - window;
    access->at[i] = {Space::kSharedCluster, static_cast<uint32_t>(rank),
                     address & kSharedOffsetMask, data + (address - extent.low)};
  });
  set_range(extent, bytes, access);
  return true;
}

uint64_t first_unwritten(Warp& warp, const Location& at, uint64_t bytes) {
  switch (at.space) {
    case Space::kGlobal:
      return warp.grid().memory->first_unwritten(at.address, bytes);
    case Space::kSharedCluster:
      return warp.cta->cluster->shared[at.rank]->first_unwritten(static_cast<uint32_t>(at.address),
                                                                 bytes);
    default:
      return bytes;
  }
}

const char* name_of(Space space) {
  switch (space) {
    case Space::kGlobal:
      return "global";
    case Space::kSharedCluster:
    case Space::kSharedCta:
      return "shared";
    case Space::kLocal:
      return "local";
    case Space::kParam:
      return "parameter";
    case Space::kConst:
      return "constant";
    case Space::kGeneric:
      break;
  }
  return "generic";
}

uint64_t printed_address(const Location& at) {
  return at.space == Space::kSharedCluster ? uint64_t{at.rank} << kSharedRankShift | at.address
                                           : at.address;
}

void check_written(Warp& warp, const LaneAccess& access) {
  if (access.one_memory && access.dense) {
    const Location& first = access.at[first_lane(access.active)];
    Location whole = first;
    whole.address = first.space == Space::kGlobal ? access.low : access.low & kSharedOffsetMask;
    if (first_unwritten(warp, whole, access.span) == access.span) return;
  }
  each_lane(access.active, [&](uint32_t i) {
    const Location& at = access.at[i];
    const uint64_t hole = first_unwritten(warp, at, access.bytes);
    if (hole == access.bytes) return;
    stop(fault_kind_name(FaultKind::kUninitialized),
         concat("read of ", access.bytes, " bytes at ", name_of(at.space), " address ",
                hex(printed_address(at)), ": byte ", hole, " was never written"),
         i);
  });
}

void mark_written(Warp& warp, const LaneAccess& access) {
  Grid& grid = warp.grid();
  if (access.one_memory && access.dense) {
    const Location& first = access.at[first_lane(access.active)];
    if (first.space == Space::kGlobal) {
      grid.memory->mark(access.low, access.span, true);
    } else {
      warp.cta->cluster->shared[first.rank]->mark(
          static_cast<uint32_t>(access.low & kSharedOffsetMask), access.span, true);
    }
    return;
  }
  each_lane(access.active, [&](uint32_t i) {
    const Location& at = access.at[i];
    if (at.space == Space::kGlobal) {
      grid.memory->mark(at.address, access.bytes, true);
    } else if (at.space == Space::kSharedCluster) {
      warp.cta->cluster->shared[at.rank]->mark(static_cast<uint32_t>(at.address), access.bytes,
                                               true);
    }
  });
}

/// The CTA of the cluster that owns a shared location.
Cta& owner(Warp& warp, const Location& at) { return *warp.cta->cluster->ctas[at.rank]; }

void check_barrier(Warp& warp, const Location& at, uint64_t bytes, uint32_t lane) {
  uint32_t barrier = 0;
  if (at.space != Space::kSharedCluster ||
      !owner(warp, at).mbarriers->overlaps(static_cast<uint32_t>(at.address), bytes, &barrier)) {
    return;
  }
  stop(fault_kind_name(FaultKind::kBarrier),
       concat("store to shared address ", hex(printed_address(at)),
              " must not touch the mbarrier at ", hex(barrier)),
       lane);
}

void check_barriers(Warp& warp, const LaneAccess& access) {
  const uint32_t first = first_lane(access.active);
  if (access.one_memory && access.dense) {
    Location whole = access.at[first];
    if (whole.space != Space::kSharedCluster) return;
    whole.address = access.low & kSharedOffsetMask;
    return check_barrier(warp, whole, access.span, first);
  }
  each_lane(access.active, [&](uint32_t i) { check_barrier(warp, access.at[i], access.bytes, i); });
}

void note_order(Warp& warp, const Step& step, const LaneAccess& access, const AccessOrder& order,
                bool write) {
  OrderClocks* const clocks = clocks_of(warp);
  if (clocks == nullptr) return;
  const uint32_t first = first_lane(access.active);
  const AccessKind kind = order.strong ? AccessKind::kStrong : AccessKind::kGeneric;
  if (order.strong) {
    each_lane(access.active, [&](uint32_t i) {
      const uint64_t address = printed_address(access.at[i]);
      const bool global = access.at[i].space == Space::kGlobal;
      if (write || order.release) release_location(warp, address, global, order.release);
      if ((!write && order.observes) || order.acquire) acquire_location(warp, address, global);
    });
  }
  Cluster& cluster = *warp.cta->cluster;
  const Actor actor = own_actor(warp, step, kind);
  if (access.one_memory && access.dense) {
    if (access.at[first].space == Space::kGlobal) {
      note_global(cluster, actor, access.low, access.span, write);
    } else if (access.at[first].space == Space::kSharedCluster) {
      note_shared(cluster, actor, access.low & 0xffffffffu, access.span, write);
    }
    return;
  }
  each_lane(access.active, [&](uint32_t i) {
    const Location& at = access.at[i];
    if (at.space == Space::kGlobal) {
      note_global(cluster, actor, at.address, access.bytes, write);
    } else if (at.space == Space::kSharedCluster) {
      note_shared(cluster, actor, printed_address(at), access.bytes, write);
    }
  });
}

}  // namespace

void locate_lanes(Warp& warp, Space space, const uint64_t* addresses, uint32_t active,
                  uint32_t bytes, uint32_t alignment, LaneAccess* access) {
  access->active = active;
  access->bytes = bytes;
  access->one_memory = access->dense = false;
  Extent extent = extent_of(addresses, active);
  if ((extent.bits & (alignment - 1)) == 0) {
    if (space == Space::kGlobal || (space == Space::kGeneric && !is_window(extent.high))) {
      if (locate_global(warp, extent, addresses, bytes, access)) return;
    } else if (space == Space::kSharedCta || space == Space::kSharedCluster ||
               (space == Space::kGeneric && (extent.low & kWindowMask) == kSharedWindow &&
                (extent.high & kWindowMask) == kSharedWindow)) {
      const uint64_t window = space == Space::kGeneric ? kSharedWindow : 0;
      extent.low -= window;
      extent.high -= window;
      const bool own =
          space != Space::kSharedCta || extent.low >> kSharedRankShift == warp.cta->rank;
      if (own && locate_shared(warp, extent, addresses, window, bytes, access)) return;
    }
  }
  each_lane(active, [&](uint32_t i) {
    require(locate(warp.views[i], space, addresses[i], bytes, alignment, &access->at[i]), i);
  });
}

void before_read(Warp& warp, const Step& step, const LaneAccess& access, const AccessOrder& order) {
  if (warp.grid().options->check_uninitialized) check_written(warp, access);
  note_order(warp, step, access, order, false);
}

void before_write(Warp& warp, const Step& step, const LaneAccess& access,
                  const AccessOrder& order) {
  each_lane(access.one_memory ? 0 : access.active, [&](uint32_t i) {
    const Location& at = access.at[i];
    if (at.space != Space::kParam && at.space != Space::kConst) return;
    stop(fault_kind_name(FaultKind::kReadOnly),
         concat("write to ", name_of(at.space), " address ", hex(at.address)), i);
  });
  if (warp.grid().options->check_hazards) check_barriers(warp, access);
  note_order(warp, step, access, order, true);
  mark_written(warp, access);
  ++warp.grid().activity;
}

void check_lanes_agree(Warp& warp, const Step& step, const LaneAccess& access,
                       const uint8_t* const* bytes_of) {
  std::array<uint32_t, kLanes> lanes;
  uint32_t count = 0;
  each_lane(access.active, [&](uint32_t i) {
    const Space space = access.at[i].space;
    if (space == Space::kGlobal || space == Space::kSharedCluster) lanes[count++] = i;
  });
  const auto place = [&](uint32_t lane) {
    return reinterpret_cast<uintptr_t>(access.at[lane].data);
  };
  std::stable_sort(lanes.begin(), lanes.begin() + count,
                   [&](uint32_t a, uint32_t b) { return place(a) < place(b); });
  for (uint32_t i = 1; i < count; ++i) {
    const uint32_t a = lanes[i - 1], b = lanes[i];
    if (place(a) != place(b) || std::memcmp(bytes_of[a], bytes_of[b], access.bytes) == 0) continue;
    stop(fault_kind_name(FaultKind::kHazard),
         concat("lanes ", a, " and ", b, " of ", warp_text(*warp.cta->cluster, warp.global), " (",
                instruction_text(warp.grid(), instruction_key(warp.code(), step)),
                ") write different values to ", name_of(access.at[a].space), " address ",
                hex(printed_address(access.at[a])), ": which one stays is not defined"),
         b);
  }
}

void effective_addresses(const uint64_t* base, int64_t offset, bool narrow, uint64_t* addresses) {
  const uint64_t mask = narrow ? 0xffffffffu : ~uint64_t{0};
  for (uint32_t i = 0; i < kLanes; ++i) {
    addresses[i] = (base[i] + static_cast<uint64_t>(offset)) & mask;
  }
}

std::string read_text(Warp& warp, uint32_t lane, uint64_t address) {
  constexpr size_t kLongest = 1 << 16;
  std::string text;
  while (text.size() < kLongest) {
    char c = 0;
    require(read_bytes(warp.views[lane], Space::kGeneric, address + text.size(), 1, 1, &c), lane);
    if (c == 0) break;
    text.push_back(c);
  }
  return text;
}

}  // namespace flamia::emulator::execution
