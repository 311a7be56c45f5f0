// Splits independent work of the program over threads.
// Used by: generated workloads, accuracy figures. Results must not depend on which thread did what.
// It throws nothing away: an exception of a worker ends the program, as everywhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/bits.h"

namespace flamia::tools {

/// Worker count for a --threads value: 0 means one per core.
inline int resolve_threads(int threads) {
  if (threads > 0) return threads;
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

/// Calls work(chunk, begin, end) for consecutive ranges of at most chunk_size items, each once, in
/// any order and on any thread.
template <typename Work>
void parallel_chunks(int64_t items, int64_t chunk_size, int threads, const Work& work) {
  const int64_t chunks = ceil_div(items, chunk_size);
  std::atomic<int64_t> next = 0;
  const auto run = [&] {
    for (int64_t chunk = next++; chunk < chunks; chunk = next++) {
      work(chunk, chunk * chunk_size, smaller(items, (chunk + 1) * chunk_size));
    }
  };
  const int64_t workers = smaller<int64_t>(resolve_threads(threads), chunks);
  std::vector<std::jthread> helpers;
  for (int64_t i = 1; i < workers; ++i) helpers.emplace_back(run);
  run();
}

}  // namespace flamia::tools
