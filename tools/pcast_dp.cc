// flamia pcast dp: what the paper proves about the E4M3 line, by enumeration.

#include <fmt/format.h>

#include <cmath>

#include "numerics/p_hat.h"
#include "pcast/closed_form.h"
#include "pcast/normal.h"
#include "pcast/published.h"
#include "pcast/quantization_step.h"
#include "tools/pcast_commands.h"
#include "tools/pcast_runs.h"

namespace flamia::tools {

namespace {

using Json = nlohmann::ordered_json;
using pcast::Endpoint;

// A report with checks that either hold or not.
struct Checks {
  std::string table;
  Json json;
  int made = 0;
  int missed = 0;

  void add(const std::string& statement, bool holds) {
    ++made;
    if (!holds) ++missed;
    table += fmt::format("  {} {}\n", holds ? "holds:" : "FAILS:", statement);
    json["checks"].push_back({{"statement", statement}, {"holds", holds}});
  }
};

void add_steps(Checks* checks) {
  checks->table += fmt::format(
      "dp(S) over the {} positive values of E4M3; the range is [0, S), S itself excluded\n\n"
      "   S   dp(S)   paper   dp(S), S included   largest error * 2\n",
      pcast::positive_values());
  for (const pcast::PublishedStep& paper : pcast::kSteps) {
    const double step = pcast::quantization_step(paper.scale);
    const double closed = pcast::quantization_step(paper.scale, Endpoint::kIncluded);
    const double error = 2 * pcast::largest_cast_error(static_cast<float>(paper.scale));
    const bool same =
        paper.unit == 0 ? step == paper.step : std::fabs(step - paper.step) <= paper.unit / 2;
    ++checks->made;
    if (!same) ++checks->missed;
    checks->table += fmt::format("{:>4g}  {:.4f}  {:>6g}{}  {:>17.4f}   {:>17.4f}\n", paper.scale,
                                 step, paper.step, same ? " " : "!", closed, error);
    checks->json["steps"].push_back({{"scale", paper.scale},
                                     {"dp", step},
                                     {"paper", paper.step},
                                     {"same", same},
                                     {"dp_endpoint_included", closed},
                                     {"twice_largest_error", error}});
  }
  checks->table +=
      "\nA power of two starts the next binade: with S included its dp would be 0.125. Only P = 1\n"
      "meets that step, and it is a code, so the error that the cast makes agrees with 0.0625.\n\n";
}

void add_propositions(Checks* checks) {
  const pcast::UnderflowCheck underflow = pcast::check_underflow_rule();
  checks->add(fmt::format("Proposition 1 on {} values of FP32: P S < 2^-10 becomes zero, larger "
                          "does not",
                          underflow.values),
              underflow.contradictions == 0);
  checks->add("at P S = 2^-10, which the strict rule leaves out, the tie goes to zero, too",
              underflow.tie_is_zeroed);
  int64_t rounded = 0;
  for (float scale = 1; scale <= kHopperPHat.multiplier; scale *= 2) {
    const pcast::ExactnessCheck exact = pcast::check_scaling(scale);
    rounded += exact.rounded + exact.not_undone;
  }
  checks->add("Proposition 5: scaling by 1, 2, ..., 256 and back rounds no fraction of FP32",
              rounded == 0);
  const pcast::ExactnessCheck largest = pcast::check_scaling(kE4m3Max);
  checks->add(
      fmt::format(
          "scaling by {:g} rounds: {:.0f} % of the products, and {:.0f} % do not "
          "come back",
          kE4m3Max,
          100.0 * static_cast<double>(largest.rounded) / static_cast<double>(largest.values),
          100.0 * static_cast<double>(largest.not_undone) / static_cast<double>(largest.values)),
      largest.rounded > 0);
  checks->json["scaling_by_largest"] = {
      {"values", largest.values}, {"rounded", largest.rounded}, {"not_undone", largest.not_undone}};
}

void add_theorems(Checks* checks) {
  const double keys = 1e6;
  const double scale = static_cast<double>(kHopperPHat.multiplier);
  const double bound = pcast::reverse_underflow_bound(scale, keys);
  checks->add(fmt::format("Theorem 4: before the sinks, reverse with S = 256 zeroes a key with "
                          "probability {:.1e} at 1e6 keys (paper: 3.5e-13)",
                          bound),
              bound < 1e-12);
  checks->json["theorem4"] = {
      {"keys", keys},
      {"probability", bound},
      {"at_expected_maximum", pcast::underflow_probability(pcast::expected_maximum(keys), scale)}};
  checks->add("Theorem 6: of the multiples of 1/8 in [1, 1024], only 1, 2, ..., 256 reach 2^-4",
              pcast::scales_at_or_below_envelope() == 0);
  bool only = true;
  for (float power = 1; power <= 1024; power *= 2) {
    const bool fits = power <= kE4m3Max;
    const bool largest = fits && 2 * power > kE4m3Max;
    if (largest != (power == kHopperPHat.multiplier)) only = false;
  }
  checks->add("Theorem 7: 256 is the largest power of two that E4M3 holds", only);
}

void add_coverage(Checks* checks) {
  checks->table += "\n   S   smallest normal P   smallest P   zeroed up to   Delta_c (4 sinks)\n";
  for (const double scale : {1.0, 16.0, 64.0, 128.0, 256.0, static_cast<double>(kE4m3Max)}) {
    const pcast::Coverage one = pcast::coverage(scale);
    const double critical = pcast::critical_sink(scale, pcast::kSinkTokens);
    checks->table += fmt::format("{:>4g}  {:>18.2e}  {:>11.2e}  {:>13.2e}  {:>18.2f}\n", scale,
                                 one.normal, one.subnormal, one.zeroed, critical);
    checks->json["coverage"].push_back({{"scale", scale},
                                        {"smallest_normal", one.normal},
                                        {"smallest", one.subnormal},
                                        {"zeroed_up_to", one.zeroed},
                                        {"critical_sink", critical}});
  }
}

}  // namespace

Status pcast_dp(const PcastArguments& arguments, bool* passed) {
  if (Status status = check_pcast_json(arguments); !status.ok()) return status;
  Checks checks;
  checks.json = pcast_json("dp", arguments, 0);
  add_steps(&checks);
  add_propositions(&checks);
  add_theorems(&checks);
  add_coverage(&checks);
  // The sawtooth of Figure 1, for a plot.
  constexpr int kLargest = 512;
  for (int half = 2; half <= 2 * kLargest; ++half) {
    const double scale = half / 2.0;
    checks.json["sawtooth"].push_back({scale, pcast::quantization_step(scale)});
  }
  *passed = checks.missed == 0;
  checks.json["passed"] = *passed;
  report_misses("dp", checks.missed, checks.made, "as published");
  return publish(arguments, checks.table, checks.json);
}

}  // namespace flamia::tools
