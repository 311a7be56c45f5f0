// flamia pcast predict: what one kernel does to P at one sink strength.

#include <fmt/format.h>

#include <cmath>

#include "numerics/e4m3.h"
#include "pcast/known_kernels.h"
#include "pcast/published.h"
#include "pcast/verdict.h"
#include "tools/pcast_commands.h"
#include "tools/pcast_runs.h"
#include "tools/progress.h"

namespace flamia::tools {

namespace {

using Json = nlohmann::ordered_json;
using pcast::CastKernel;
using pcast::KernelFigures;
using pcast::KeyOrder;

// Each thread holds the values of one instance: 64 MB at this length.
constexpr int64_t kMostSimulatedKeys = int64_t{1} << 17;
constexpr int32_t kDefaultSeeds = 12;

struct Prediction {
  double zeroed_closed = 0;
  double zeroed_exact = 0;
  double mass_closed = 0;
  double lost_closed = 0;
};

Prediction predict(const pcast::CastProblem& problem) {
  Prediction result;
  result.zeroed_exact = pcast::zeroed_fraction_exact(problem);
  result.mass_closed = pcast::mass_at_risk(problem);
  if (problem.order == KeyOrder::kForward) {
    result.zeroed_closed =
        pcast::zeroed_fraction(problem.sink, problem.scale, static_cast<double>(problem.sinks));
    result.lost_closed = pcast::lost_mass(problem);
  } else {
    result.zeroed_closed =
        pcast::reverse_underflow_bound(problem.scale, static_cast<double>(problem.keys));
    result.lost_closed = result.mass_closed * result.zeroed_exact;
  }
  return result;
}

}  // namespace

Status pcast_predict(const PredictArguments& arguments) {
  if (Status status = check_pcast_json(arguments.common); !status.ok()) return status;
  const pcast::CastProblem& problem = arguments.problem;
  int32_t seeds = arguments.common.seeds.value_or(kDefaultSeeds);
  if (problem.keys > kMostSimulatedKeys) seeds = 0;
  const bool forward = problem.order == KeyOrder::kForward;
  const Prediction closed = predict(problem);
  const CastKernel kernel = {problem.order, static_cast<float>(problem.scale), problem.block};
  const CastKernel best = {KeyOrder::kReverse, 256.0f, problem.block};

  pcast::CastOutcome outcome;
  outcome.zeroed_fraction = closed.zeroed_exact;
  outcome.lost_mass = closed.lost_closed;
  outcome.saturated_fraction = problem.scale > static_cast<double>(kE4m3Max) ? 1.0 : 0.0;
  Json json = pcast_json("predict", arguments.common, seeds);
  json["sink"] = problem.sink;
  json["scale"] = problem.scale;
  json["sinks"] = problem.sinks;
  json["keys"] = problem.keys;
  json["block"] = problem.block;
  json["order"] = pcast::order_name(problem.order);
  const double critical = pcast::critical_sink(problem.scale, static_cast<double>(problem.sinks));
  json["critical_sink"] = critical;
  json["closed_form"] = {{forward ? "zeroed" : "zeroed_before_sinks_bound", closed.zeroed_closed},
                         {"zeroed_with_spread", closed.zeroed_exact},
                         {"mass_at_risk", closed.mass_closed},
                         {"lost_mass", closed.lost_closed}};
  std::string table =
      fmt::format("{} order, S = {:g}, {} sinks of strength {:g}, {} keys in blocks of {}\n\n",
                  pcast::order_name(problem.order), problem.scale, problem.sinks, problem.sink,
                  problem.keys, problem.block);
  table += fmt::format("{:<30}{:>12}{:>24}\n", "", "closed form", "simulated");
  const auto line = [&](const char* label, double value, const std::string& simulated) {
    table += fmt::format("{:<30}{:>11.4g}%{:>24}\n", label, 100 * value, simulated);
  };
  std::string zeroed = "-", mass = "-", lost = "-", ratio;
  if (seeds > 0) {
    Progress progress("pcast", ProgressMode::kIfTerminal);
    progress.phase("simulation");
    const InstanceSet set = {{problem.keys},
                             problem.sinks,
                             arguments.common.first_seed,
                             seeds,
                             arguments.common.threads};
    const CastKernel kernels[] = {kernel, best};
    const CaseFigures figures = measure_cases(set, {&problem.sink, 1}, kernels)[0];
    progress.finish();
    const Mean z = mean(figures.kernels[0], &KernelFigures::zeroed_fraction);
    const Mean m = mean(figures.other_mass);
    const Mean l = mean(figures.kernels[0], &KernelFigures::lost_mass);
    outcome.zeroed_fraction = z.value;
    outcome.lost_mass = l.value;
    outcome.saturated_fraction = mean(figures.kernels[0], &KernelFigures::saturated_fraction).value;
    const double error = mean(figures.kernels[0], &KernelFigures::mse).value;
    const double best_error = mean(figures.kernels[1], &KernelFigures::mse).value;
    outcome.error_ratio = std::sqrt(error / best_error);
    const auto text = [](const Mean& one) {
      return fmt::format("{:.4g}% +- {:.2g}", 100 * one.value, 100 * one.error);
    };
    zeroed = text(z);
    mass = text(m);
    lost = text(l);
    ratio = fmt::format(
        "MSE of the output {:.2e}: rms error {:.2f} times that of reverse order with S = 256\n",
        error, outcome.error_ratio);
    json["simulated"] = {{"zeroed", z.value},
                         {"mass_at_risk", m.value},
                         {"lost_mass", l.value},
                         {"saturated", outcome.saturated_fraction},
                         {"mse", error},
                         {"mse_reverse_s256", best_error},
                         {"error_ratio", outcome.error_ratio}};
  }
  line(forward ? "keys zeroed, F(Delta, S)" : "keys zeroed before the sinks", closed.zeroed_closed,
       forward ? zeroed : "-");
  line("keys zeroed, with spread", closed.zeroed_exact, zeroed);
  line("probability not on sinks", closed.mass_closed, mass);
  line("probability zeroed", closed.lost_closed, lost);
  table += fmt::format("\nforward order zeroes half of the keys at a sink strength of {:.2f}\n{}",
                       critical, ratio);
  if (problem.keys > kMostSimulatedKeys) {
    table += fmt::format("not simulated: more than {} keys\n", kMostSimulatedKeys);
  }
  const pcast::Verdict verdict = pcast::judge(outcome);
  const std::string advice = pcast::advice(verdict, kernel);
  table += fmt::format("verdict: {}: {}; {}\n", pcast::verdict_name(verdict),
                       pcast::verdict_words(verdict), advice);
  json["verdict"] = {{"name", pcast::verdict_name(verdict)},
                     {"words", pcast::verdict_words(verdict)},
                     {"advice", advice}};
  return publish(arguments.common, table, json);
}

}  // namespace flamia::tools
