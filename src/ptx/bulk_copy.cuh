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

/// Copies shared to global memory; belongs to the bulk group that the next commit closes.
FLAMIA_DEVICE void bulk_store(void* destination, uint32_t shared_source, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination),
               "r"(shared_source), "r"(bytes)
               : "memory");
}
FLAMIA_DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until this thread's bulk groups have read their source.
FLAMIA_DEVICE void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
/// Waits until this thread's bulk groups have written their destination.
FLAMIA_DEVICE void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace flamia::ptx
