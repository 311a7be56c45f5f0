// Instances on threads, their means, and the frame of a report.

#include "tools/pcast_runs.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "flamia/attention.h"
#include "tools/atomic_file.h"
#include "tools/errors.h"
#include "tools/parallel.h"

namespace flamia::tools {

std::vector<CaseFigures> measure_cases(const InstanceSet& set, std::span<const double> strengths,
                                       std::span<const pcast::CastKernel> kernels) {
  const size_t seeds = static_cast<size_t>(set.count);
  std::vector<CaseFigures> cases(strengths.size());
  for (CaseFigures& one : cases) {
    one.other_mass.resize(seeds);
    one.kernels.assign(kernels.size(), std::vector<pcast::KernelFigures>(seeds));
  }
  parallel_chunks(set.count, 1, set.threads, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t seed = static_cast<size_t>(i);
      const pcast::SinkInstance instance(set.shape, set.first_seed + seed);
      for (size_t s = 0; s < strengths.size(); ++s) {
        const pcast::SinkCase sink_case(instance, set.sinks, strengths[s]);
        cases[s].other_mass[seed] = sink_case.other_mass();
        for (size_t k = 0; k < kernels.size(); ++k) {
          cases[s].kernels[k][seed] = sink_case.run(kernels[k]);
        }
      }
    }
  });
  return cases;
}

Mean mean(std::span<const double> values) {
  const double n = static_cast<double>(values.size());
  Mean result;
  for (const double value : values) result.value += value / n;
  double squares = 0;
  for (const double value : values) squares += (value - result.value) * (value - result.value);
  if (values.size() > 1) result.error = std::sqrt(squares / (n - 1.0) / n);
  return result;
}

std::vector<double> column(const std::vector<pcast::KernelFigures>& figures,
                           double pcast::KernelFigures::*member) {
  std::vector<double> values;
  for (const pcast::KernelFigures& one : figures) values.push_back(one.*member);
  return values;
}

Mean mean(const std::vector<pcast::KernelFigures>& figures, double pcast::KernelFigures::*member) {
  return mean(column(figures, member));
}

nlohmann::ordered_json pcast_json(const std::string& command, const PcastArguments& arguments,
                                  int32_t seeds) {
  nlohmann::ordered_json json;
  json["flamia"] = version();
  json["command"] = "pcast " + command;
  if (seeds > 0) {
    json["seeds"] = seeds;
    json["first_seed"] = arguments.first_seed;
  }
  return json;
}

Status check_pcast_json(const PcastArguments& arguments) {
  return arguments.json.empty() ? Status() : check_output_path("--json", arguments.json);
}

Status publish(const PcastArguments& arguments, const std::string& table,
               const nlohmann::ordered_json& json) {
  fmt::print("{}", table);
  if (std::fflush(stdout) != 0) return failure("standard output: writing failed");
  if (arguments.json.empty()) return Status();
  using Handler = nlohmann::ordered_json::error_handler_t;
  return write_file(arguments.json, json.dump(2, ' ', false, Handler::replace) + "\n");
}

void report_misses(const char* command, int missed, int cells, const std::string& tolerance) {
  if (missed == 0) return;
  fmt::print(stderr, "flamia pcast {}: {} of {} figures must be {}; they are marked\n", command,
             missed, cells, tolerance);
}

}  // namespace flamia::tools
