// Modifiers that all memory instructions share: state space, memory order, scope.
// Depends on: decoder.h, memory_access.h. Used by: loads, stores, atomics, addresses, copies.
#pragma once

#include "emulator/execution/decoder.h"
#include "emulator/execution/memory_access.h"

namespace flamia::emulator::execution {

/// The space of an instruction with one; kGeneric if it names none.
Space take_space(Decoder& d);
/// .relaxed to .sc and the scope.
AccessOrder take_order(Decoder& d);

}  // namespace flamia::emulator::execution
