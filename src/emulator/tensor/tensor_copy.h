// tcgen05.cp: shared memory to tensor memory, with expansion of 4- and 6-bit elements to bytes.
// Depends on: descriptors.h, machine memories. Used by: the interpreter, at the time the copy
// lands.
#pragma once

#include <cstdint>

#include "emulator/tensor/mma.h"

namespace flamia::emulator {

enum class TensorCopyShape : uint8_t {
  k128x256b,
  k4x256b,
  k128x128b,
  k64x128bWarpx2_02_13,
  k64x128bWarpx2_01_23,
  k32x128bWarpx4,
};

enum class TensorCopyFormat : uint8_t {
  kPlain,
  kB4x16P64,  ///< 16 e2m1 in 8 of 16 bytes: each becomes a byte, value in bits 5:2
  kB6x16P32,  ///< 16 6-bit elements in 12 of 16 bytes: each becomes a byte, value in bits 5:0
};

/// One copy in one CTA; with cta_group::2 the caller repeats it for the peer with its own memories.
/// touches may be null; its entries are of side `side_index`.
Fault tensor_copy(TensorCopyShape shape, TensorCopyFormat format, uint64_t descriptor,
                  uint32_t address, const TensorSide& side, uint32_t side_index,
                  MmaTouches* touches);

}  // namespace flamia::emulator
