// Checks that tile and bulk copies share.
// Depends on: copy.h, reduce.h. Used by: copy.cc, bulk.cc.
#pragma once

#include <cstdint>

#include "base/message.h"
#include "emulator/tma/copy.h"
#include "emulator/tma/reduce.h"

namespace flamia::emulator {

/// Bytes that addresses and sizes of bulk copies are multiples of, and that swizzles move together.
inline constexpr uint32_t kCopyUnit = 16;

inline Fault check_shared(const SharedSide& side, uint64_t bytes, uint32_t alignment) {
  if (side.offset % alignment != 0) {
    return make_fault(FaultKind::kMisaligned,
                      concat("bulk copy: shared address must be a multiple of ", alignment,
                             "; got offset ", hex(side.offset)),
                      side.offset);
  }
  if (!side.memory->contains(side.offset, bytes)) {
    return make_fault(
        FaultKind::kOutOfBounds,
        concat("bulk copy: shared offset ", hex(side.offset), " + ", bytes, " bytes must lie in ",
               hex(side.memory->begin()), " to ", hex(side.memory->end())),
        side.offset);
  }
  return {};
}

inline Fault check_reduce(ReduceOp op, MapType type) {
  if (reduce_exists(op, type)) return {};
  return make_fault(FaultKind::kBadOperand,
                    concat("reduction: operation ", static_cast<int>(op),
                           " does not exist for element type ", static_cast<int>(type)));
}

}  // namespace flamia::emulator
