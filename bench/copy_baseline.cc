// Memory rate of this machine: the yardstick of the quantizers.
#include "bench/copy_baseline.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

namespace flamia::bench {
namespace {

constexpr size_t kTotalBytes = size_t{256} << 20;
constexpr int kRounds = 7;

}  // namespace

CopyRate measure_copy(int threads) {
  const size_t part = kTotalBytes / static_cast<size_t>(threads);
  // Filled, so that every page exists before the first round.
  std::vector<std::vector<char>> source(static_cast<size_t>(threads), std::vector<char>(part, 1));
  std::vector<std::vector<char>> target(static_cast<size_t>(threads), std::vector<char>(part, 2));
  CopyRate best;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    {
      std::vector<std::jthread> workers;
      for (size_t t = 0; t < source.size(); ++t) {
        workers.emplace_back([&, t] { std::memcpy(target[t].data(), source[t].data(), part); });
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
    const double gigabytes = 2e-9 * static_cast<double>(part * source.size());
    best.gb_per_s = std::max(best.gb_per_s, gigabytes / seconds.count());
    best.gb_per_cpu_s = std::max(best.gb_per_cpu_s, gigabytes / cpu_seconds);
  }
  return best;
}

}  // namespace flamia::bench
