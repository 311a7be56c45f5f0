// What the families report to the recorder of a launch; nothing if nobody counts.
// Depends on: memory_access.h, model/recorder.h. Used by: families that touch memory.
#pragma once

#include "emulator/execution/memory_access.h"
#include "emulator/model/recorder.h"
#include "emulator/tma/copy.h"

namespace flamia::emulator::execution {

inline model::Recorder* recorder_of(const Warp& warp) { return warp.grid().recorder; }

/// Accounts an access whose lanes have been located.
void count_located(Warp& warp, const LaneAccess& access, model::AccessKind kind);

inline void count_access(Warp& warp, const LaneAccess& access, model::AccessKind kind) {
  if (recorder_of(warp) != nullptr) count_located(warp, access, kind);
}

/// The global side of a finished bulk copy.
inline void count_ranges(Warp& warp, const std::vector<ByteRange>& ranges, model::AccessKind kind) {
  if (recorder_of(warp) == nullptr) return;
  for (const ByteRange& range : ranges) {
    recorder_of(warp)->bulk(warp.index, range.address, range.bytes, kind);
  }
}

}  // namespace flamia::emulator::execution
