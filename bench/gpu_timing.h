// Two regimes of a GPU's clock and how a launch is timed in them; the memory of a call.
// Used by: bench forward on a GPU.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "flamia/conventions.h"
#include "flamia/problem.h"
#include "flamia/status.h"
#include "tools/device_memory.h"

namespace flamia::bench {

enum class Regime : uint8_t { kBurst, kSustained };
const char* regime_name(Regime regime);

inline constexpr int kUsualRounds = 3;

/// Milliseconds of one launch.
struct RegimeTime {
  double median_ms = 0;
  double least_ms = 0;
  double most_ms = 0;

  void write(nlohmann::ordered_json* row) const;
};
RegimeTime time_of_rounds(std::vector<double> rounds);

/// Whether a list separated by commas has a word.
bool contains_word(const std::string& list, const std::string& word);

/// What a call takes beside q, k, v and O.
struct MemoryBytes {
  size_t workspace = 0;
  int64_t lse = 0;
  int64_t o_residual = 0;

  std::string text() const;
};
MemoryBytes memory_of(const Problem& problem, const Conventions& conventions, size_t workspace);

/// Average of some launches back to back.
template <typename Launch>
Status time_launches(tools::DeviceTimer* timer, int launches, const Launch& launch, double* ms) {
  Status status = timer->start();
  for (int i = 0; i < launches && status.ok(); ++i) status = launch();
  double total = 0;
  if (status.ok()) status = timer->stop(&total);
  *ms = total / launches;
  return status;
}

/// Rounds of a regime. Burst: an idle pause, two launches, then about 20 ms of launches. Sustained:
/// 50 ms of launches that do not count, then 80 ms.
template <typename Launch>
Status measure_regime(Regime regime, int rounds, const Launch& launch, RegimeTime* time) {
  constexpr auto kPause = std::chrono::milliseconds(150);
  constexpr double kWarmMs = 50;
  constexpr double kSustainedMs = 80;
  constexpr double kBurstMs = 20;
  constexpr double kLeastMs = 1e-3;  // no launch is shorter
  tools::DeviceTimer timer;
  double one = 0;
  Status status = time_launches(&timer, 2, launch, &one);
  one = std::max(one, kLeastMs);
  std::vector<double> samples;
  for (int round = 0; round < rounds && status.ok(); ++round) {
    const bool sustained = regime == Regime::kSustained;
    if (!sustained) std::this_thread::sleep_for(kPause);
    double ignored = 0;
    const int warm = sustained ? std::max(1, static_cast<int>(kWarmMs / one)) : 2;
    const int timed = std::max(3, static_cast<int>((sustained ? kSustainedMs : kBurstMs) / one));
    double ms = 0;
    status = time_launches(&timer, warm, launch, &ignored);
    if (status.ok()) status = time_launches(&timer, timed, launch, &ms);
    samples.push_back(ms);
  }
  if (status.ok()) *time = time_of_rounds(std::move(samples));
  return status;
}

}  // namespace flamia::bench
