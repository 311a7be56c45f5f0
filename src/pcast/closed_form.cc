// Closed forms of the zeroed fraction.

#include "pcast/closed_form.h"

#include <cmath>

#include "base/bits.h"
#include "numerics/online_softmax.h"
#include "pcast/normal.h"

namespace flamia::pcast {

namespace {

// Blocks at which the running maximum is evaluated; long rows are sampled geometrically.
constexpr int64_t kSampledBlocks = 192;

// P(s < M - depth) for s ~ N(0, 1) and M the maximum of `sinks` scores N(sink, 1) and `others`
// scores N(0, 1). Integrating over s keeps one smooth weight, however narrow M is.
double zeroed_below_maximum(double depth, double sink, double sinks, double others) {
  constexpr double kReach = 9.0;
  constexpr int kIntervals = 600;
  return integrate(-kReach, kReach, kIntervals, [=](double s) {
    double log_below = others * log_normal_cdf(s + depth);
    if (sinks > 0) log_below += sinks * log_normal_cdf(s + depth - sink);
    return normal_density(s) * -std::expm1(log_below);
  });
}

}  // namespace

double underflow_depth(double scale) { return -kZeroedLog2 * kLn2Double + std::log(scale); }

double zeroed_fraction(double sink, double scale, double sinks) {
  return normal_cdf(sink + expected_maximum(sinks) - underflow_depth(scale));
}

double critical_sink(double scale, double sinks) {
  return underflow_depth(scale) - expected_maximum(sinks);
}

double zeroed_fraction_exact(const CastProblem& problem) {
  const int64_t blocks = ceil_div(problem.keys, problem.block);
  const double depth = underflow_depth(problem.scale);
  double zeroed = 0;
  int64_t step = 1;
  // visited counts blocks in the order of the kernel; one evaluation stands for `step` of them.
  for (int64_t visited = 0; visited < blocks; visited += step) {
    // The last block in reverse order holds the sinks, the first in forward order: never merged.
    step = larger<int64_t>(1, visited / (kSampledBlocks / 8));
    step = smaller(step, larger<int64_t>(1, blocks - 1 - visited));
    int64_t block_keys = 0, others = 0, sinks_seen = 0;
    for (int64_t i = visited; i < visited + step; ++i) {
      const int64_t block = problem.order == KeyOrder::kForward ? i : blocks - 1 - i;
      const int64_t begin = block * problem.block;
      const int64_t end = smaller(begin + problem.block, problem.keys);
      block_keys += larger<int64_t>(0, end - larger(begin, problem.sinks));
    }
    const int64_t middle = visited + step / 2;
    if (problem.order == KeyOrder::kForward) {
      const int64_t seen = smaller((middle + 1) * problem.block, problem.keys);
      sinks_seen = smaller(seen, problem.sinks);
      others = seen - sinks_seen;
    } else {
      const int64_t begin = (blocks - 1 - middle) * problem.block;
      sinks_seen = larger<int64_t>(0, problem.sinks - begin);
      others = problem.keys - begin - sinks_seen;
    }
    zeroed += static_cast<double>(block_keys) *
              zeroed_below_maximum(depth, problem.sink, static_cast<double>(sinks_seen),
                                   static_cast<double>(others));
  }
  return zeroed / static_cast<double>(problem.keys - problem.sinks);
}

double mass_at_risk(const CastProblem& problem) {
  const double others = static_cast<double>(problem.keys - problem.sinks);
  return others / (others + static_cast<double>(problem.sinks) * std::exp(problem.sink));
}

double lost_mass(const CastProblem& problem) {
  const double below = problem.sink + expected_maximum(static_cast<double>(problem.sinks)) -
                       underflow_depth(problem.scale);
  return mass_at_risk(problem) * normal_cdf(below - 1.0);
}

double underflow_probability(double maximum, double scale) {
  return normal_cdf(maximum - underflow_depth(scale));
}

double reverse_underflow_bound(double scale, double keys) {
  return underflow_probability(std::sqrt(2.0 * std::log(keys)), scale);
}

}  // namespace flamia::pcast
