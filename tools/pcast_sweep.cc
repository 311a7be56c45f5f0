// flamia pcast sweep: figures 2 and 3, the output error against sink strength and length.

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <vector>

#include "pcast/published.h"
#include "tools/pcast_commands.h"
#include "tools/pcast_runs.h"
#include "tools/progress.h"

namespace flamia::tools {

namespace {

using Json = nlohmann::ordered_json;
using pcast::CastKernel;
using pcast::KernelFigures;

// Rows of kConfigurations.
constexpr size_t kForwardUnscaled = 0;
constexpr size_t kForwardScaled = 3;

std::string header(const char* first) {
  std::string line = fmt::format("{:>5}", first);
  for (const pcast::Configuration& one : pcast::kConfigurations) {
    line += fmt::format("{:>16}", one.name);
  }
  return line + "   zeroed: S=1   S=256   non-sink mass   lost: S=1\n";
}

// One line of a figure: errors of the five configurations, and what explains them.
void add_point(const CaseFigures& figures, const std::string& label, Json point, std::string* table,
               Json* points) {
  *table += fmt::format("{:>5}", label);
  for (size_t k = 0; k < figures.kernels.size(); ++k) {
    const Mean error = mean(figures.kernels[k], &KernelFigures::mse);
    *table += fmt::format("{:>16.3e}", error.value);
    point["mse"].push_back({{"configuration", pcast::kConfigurations[k].name},
                            {"mean", error.value},
                            {"standard_error", error.error}});
  }
  const auto value = [&](size_t kernel, double KernelFigures::*member) {
    return mean(figures.kernels[kernel], member).value;
  };
  const double unscaled = value(kForwardUnscaled, &KernelFigures::zeroed_fraction);
  const double scaled = value(kForwardScaled, &KernelFigures::zeroed_fraction);
  const double lost = value(kForwardUnscaled, &KernelFigures::lost_mass);
  const double mass = mean(figures.other_mass).value;
  *table += fmt::format("{:>14.1f}%{:>7.1f}%{:>15.1f}%{:>11.2f}%\n", 100 * unscaled, 100 * scaled,
                        100 * mass, 100 * lost);
  point["zeroed_s1"] = unscaled;
  point["zeroed_s256"] = scaled;
  point["non_sink_mass"] = mass;
  point["lost_mass_s1"] = lost;
  points->push_back(point);
}

// What S = 1 costs in forward order: its error beyond that of S = 256.
double excess(const CaseFigures& figures) {
  return mean(figures.kernels[kForwardUnscaled], &KernelFigures::mse).value -
         mean(figures.kernels[kForwardScaled], &KernelFigures::mse).value;
}

double error_ratio(const CaseFigures& figures) {
  return mean(figures.kernels[kForwardUnscaled], &KernelFigures::mse).value /
         mean(figures.kernels[kForwardScaled], &KernelFigures::mse).value;
}

}  // namespace

Status pcast_sweep(const PcastArguments& arguments, bool* passed) {
  if (Status status = check_pcast_json(arguments); !status.ok()) return status;
  const auto start = std::chrono::steady_clock::now();
  const int32_t seeds = arguments.seeds.value_or(pcast::kFigureSeeds);
  std::vector<CastKernel> kernels;
  for (const pcast::Configuration& one : pcast::kConfigurations) kernels.push_back(one.kernel);
  Progress progress("pcast", ProgressMode::kIfTerminal);
  InstanceSet set = {
      {pcast::kFigure2Keys}, pcast::kSinkTokens, arguments.first_seed, seeds, arguments.threads};
  Json json = pcast_json("sweep", arguments, seeds);

  progress.phase("sink strength");
  std::string table =
      fmt::format("P-Cast Figure 2: MSE against sink strength, {} keys, {} seeds from {}\n\n{}",
                  pcast::kFigure2Keys, seeds, arguments.first_seed, header("sink"));
  const std::vector<CaseFigures> strengths = measure_cases(set, pcast::kFigure2Sinks, kernels);
  size_t peak = 0;
  for (size_t i = 0; i < strengths.size(); ++i) {
    const double sink = pcast::kFigure2Sinks[i];
    add_point(strengths[i], fmt::format("{:g}", sink), {{"sink", sink}}, &table, &json["figure2"]);
    if (excess(strengths[i]) > excess(strengths[peak])) peak = i;
  }

  table += fmt::format("\nP-Cast Figure 3: MSE against keys, sink strength {:g}\n\n{}",
                       pcast::kTable2Sink, header("keys"));
  std::vector<double> ratios;
  for (const int64_t keys : pcast::kFigure3Keys) {
    progress.phase(fmt::format("{} keys", keys));
    set.shape.keys = keys;
    const std::vector<CaseFigures> one = measure_cases(set, {&pcast::kTable2Sink, 1}, kernels);
    add_point(one[0], fmt::format("{}", keys), {{"keys", keys}}, &table, &json["figure3"]);
    ratios.push_back(error_ratio(one[0]));
  }
  progress.finish();

  const double peak_sink = pcast::kFigure2Sinks[peak];
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  table += fmt::format(
      "\nforward S=1 costs most at sink strength {:g} (paper: {:g} to {:g}): {:.2e} beyond S=256, "
      "{:.2f} times its MSE.\n"
      "That ratio is {:.2f} at {} keys (paper {:g}) and {:.2f} at {} keys (paper {:g}). {:.1f} s\n",
      peak_sink, pcast::kFigure2PeakLow, pcast::kFigure2PeakHigh, excess(strengths[peak]),
      error_ratio(strengths[peak]), ratios.front(), pcast::kFigure3Keys[0],
      pcast::kFigure3RatioShort, ratios.back(),
      pcast::kFigure3Keys[std::size(pcast::kFigure3Keys) - 1], pcast::kFigure3RatioLong, seconds);
  json["largest_excess"] = {{"sink", peak_sink},
                            {"mse", excess(strengths[peak])},
                            {"ratio", error_ratio(strengths[peak])}};
  json["ratio_by_keys"] = ratios;
  json["seconds"] = seconds;
  const bool peak_good =
      peak_sink >= pcast::kFigure2PeakLow && peak_sink <= pcast::kFigure2PeakHigh;
  const auto near = [](double ours, double paper) {
    return std::fabs(ours / paper - 1) <= pcast::kFigure3Tolerance;
  };
  const bool short_good = near(ratios.front(), pcast::kFigure3RatioShort);
  const bool long_good = near(ratios.back(), pcast::kFigure3RatioLong);
  *passed = peak_good && short_good && long_good;
  json["passed"] = *passed;
  if (!*passed) {
    fmt::print(stderr,
               "flamia pcast sweep: the peak must lie at {:g} to {:g} and the ratios within {:g} % "
               "of the paper's; got {:g}, {:.2f} and {:.2f}\n",
               pcast::kFigure2PeakLow, pcast::kFigure2PeakHigh, 100 * pcast::kFigure3Tolerance,
               peak_sink, ratios.front(), ratios.back());
  }
  return publish(arguments, table, json);
}

}  // namespace flamia::tools
