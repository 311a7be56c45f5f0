// One-dimensional bulk copies by the copy engine.
// Used by: producer warps. Sizes and addresses are multiples of 16 bytes.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace flamia::ptx {

/// Copies global to shared memory; completes `bytes` transaction bytes of the barrier.
FLAMIA_DEVICE void bulk_copy(uint32_t shared_destination, const void* source, uint32_t bytes,
                             uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_destination),
      "l"(source), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace flamia::ptx
