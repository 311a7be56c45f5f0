// What a handler throws to stop the grid; the scheduler adds kernel, CTA, warp, line and text.
// Depends on: machine/fault.h. Used by: every handler, the scheduler. Nothing above emulator.cc
// sees it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/message.h"
#include "emulator/machine/fault.h"

namespace flamia::emulator::execution {

inline constexpr uint32_t kNoLane = 32;

struct TrapError {
  std::string kind;  ///< as Trap::kind
  std::string text;
  uint32_t lane = kNoLane;
};

[[noreturn]] inline void stop(std::string kind, std::string text, uint32_t lane = kNoLane) {
  throw TrapError{std::move(kind), std::move(text), lane};
}

/// Throws unless the fault is none. lane: to blame where the fault names none itself.
inline void require(const Fault& fault, uint32_t lane = kNoLane) {
  if (!fault.ok()) stop(fault_kind_name(fault.kind), fault.text, lane);
}

}  // namespace flamia::emulator::execution
