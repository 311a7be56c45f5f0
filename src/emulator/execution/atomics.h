// The operations of atom, red and red.async on raw bits.
// Depends on: decoder.h. Used by: atomic_steps.cc, copy_steps.cc.
#pragma once

#include <cstdint>

#include "emulator/execution/decoder.h"

namespace flamia::emulator::execution {

/// In the order in which take_atomic_op looks for modifiers.
enum class AtomicOp : uint8_t {
  kAdd,
  kMin,
  kMax,
  kInc,
  kDec,
  kAnd,
  kOr,
  kXor,
  kExchange,
  kCas,
};

AtomicOp take_atomic_op(Decoder& d);
/// New bits of the memory; not for kCas. global: subnormal f32 become zero; NaN of f64 differ.
uint64_t atomic_result(AtomicOp op, ScalarType type, uint64_t old, uint64_t value, bool global);

}  // namespace flamia::emulator::execution
