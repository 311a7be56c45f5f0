// Worker threads of the CPU backend.
#include "cpu/parallel.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace flamia::cpu {

void parallel_for(int64_t items, int threads,
                  const std::function<void(int64_t item, int worker)>& body) {
  if (items <= 0) return;
  const int workers = static_cast<int>(items < threads ? items : threads);
  if (workers <= 1) {
    for (int64_t item = 0; item < items; ++item) body(item, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&](int worker) {
    try {
      for (int64_t item = next.fetch_add(1); item < items; item = next.fetch_add(1)) {
        body(item, worker);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> pool;
  pool.reserve(static_cast<size_t>(workers - 1));
  for (int worker = 1; worker < workers; ++worker) pool.emplace_back(work, worker);
  work(0);
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace flamia::cpu
