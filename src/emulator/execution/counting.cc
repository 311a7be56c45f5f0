// Lanes by the memory that they reached: a generic access may reach several.
#include "emulator/execution/counting.h"

namespace flamia::emulator::execution {

void count_located(Warp& warp, const LaneAccess& access, model::AccessKind kind) {
  model::Recorder& recorder = *recorder_of(warp);
  uint64_t addresses[kLanes] = {};
  each_lane(access.active, [&](uint32_t i) { addresses[i] = access.at[i].address; });
  uint32_t rest = access.active;
  while (rest != 0) {
    const Location& first = access.at[first_lane(rest)];
    uint32_t same = 0;
    each_lane(rest, [&](uint32_t i) {
      const Location& at = access.at[i];
      if (at.space == first.space && at.rank == first.rank) same |= 1u << i;
    });
    rest &= ~same;
    switch (first.space) {
      case Space::kGlobal:
        recorder.global(warp.index, addresses, same, access.bytes, kind);
        break;
      case Space::kSharedCta:
      case Space::kSharedCluster:
        recorder.shared(warp.index, addresses, same, access.bytes, kind,
                        first.rank != warp.cta->rank);
        break;
      case Space::kLocal:
        recorder.local(warp.index, same, access.bytes);
        break;
      default:
        break;  // parameters and constants come from a cache of their own
    }
  }
}

}  // namespace flamia::emulator::execution
