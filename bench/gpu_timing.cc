// Names, medians and sums of the GPU's benchmarks.
#include "bench/gpu_timing.h"

#include <fmt/format.h>

#include "plan/plan.h"

namespace flamia::bench {

const char* regime_name(Regime regime) { return regime == Regime::kBurst ? "burst" : "sustained"; }

void RegimeTime::write(nlohmann::ordered_json* row) const {
  (*row)["ms"] = median_ms;
  (*row)["least_ms"] = least_ms;
  (*row)["most_ms"] = most_ms;
}

RegimeTime time_of_rounds(std::vector<double> rounds) {
  std::sort(rounds.begin(), rounds.end());
  return {rounds[rounds.size() / 2], rounds.front(), rounds.back()};
}

bool contains_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

std::string MemoryBytes::text() const {
  constexpr double kMega = 1e6;
  return fmt::format(
      "memory: workspace {:.1f} MB; saved for a backward: LSE {:.1f} MB, residual of O {:.1f} MB",
      static_cast<double>(workspace) / kMega, static_cast<double>(lse) / kMega,
      static_cast<double>(o_residual) / kMega);
}

MemoryBytes memory_of(const Problem& problem, const Conventions& conventions, size_t workspace) {
  Plan plan;
  plan.problem = problem;
  plan.conventions = conventions;
  const SavedBytes saved = saved_for_backward(plan);
  return {workspace, saved.lse, saved.o_residual};
}

}  // namespace flamia::bench
