// Runs numbered work items on worker threads, handed out in ascending order.
// Used by: the quantizers and both passes of the CPU backend.
#pragma once

#include <cstdint>
#include <functional>

namespace flamia::cpu {

/// Calls body(item, worker) for every item in [0, items); worker is in [0, threads). Items start in
/// ascending order, so an item may wait for a lower one without deadlock.
void parallel_for(int64_t items, int threads,
                  const std::function<void(int64_t item, int worker)>& body);

}  // namespace flamia::cpu
