// One read-modify-write of the async reductions on raw elements.
// Depends on: numerics (f16, bf16). Used by: copy.cc.
#pragma once

#include <cstdint>

#include "emulator/tma/copy.h"

namespace flamia::emulator {

/// Whether PTX has this operation for this element type.
bool reduce_exists(ReduceOp op, MapType type);
/// *target = op(*target, *source) for one element of map_element_bits(type) bits. flush: subnormal
/// binary32 operands and results become zero.
void reduce_element(ReduceOp op, MapType type, bool flush, const uint8_t* source, uint8_t* target);

}  // namespace flamia::emulator
