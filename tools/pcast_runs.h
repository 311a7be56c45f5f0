// Many simulated instances, spread over threads.
// Depends on: src/pcast (one instance), parallel.h. Used by: tables, sweeps, predictions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "pcast/sink_instance.h"
#include "tools/pcast_commands.h"

namespace flamia::tools {

/// Instances first_seed, first_seed + 1, ...
struct InstanceSet {
  pcast::InstanceShape shape;
  int64_t sinks = 4;
  uint64_t first_seed = 0;
  int32_t count = 0;
  int32_t threads = 0;
};

/// All instances at one sink strength. Order does not depend on threads.
struct CaseFigures {
  std::vector<double> other_mass;                          ///< [seed]
  std::vector<std::vector<pcast::KernelFigures>> kernels;  ///< [kernel][seed]
};

/// Every kernel on every instance, for each sink strength.
std::vector<CaseFigures> measure_cases(const InstanceSet& set, std::span<const double> strengths,
                                       std::span<const pcast::CastKernel> kernels);

/// Mean and its standard error (0 for one value).
struct Mean {
  double value = 0;
  double error = 0;
};
Mean mean(std::span<const double> values);

/// One figure of every seed.
std::vector<double> column(const std::vector<pcast::KernelFigures>& figures,
                           double pcast::KernelFigures::*member);
Mean mean(const std::vector<pcast::KernelFigures>& figures, double pcast::KernelFigures::*member);

/// Head of every JSON report: version, command, seeds.
nlohmann::ordered_json pcast_json(const std::string& command, const PcastArguments& arguments,
                                  int32_t seeds);
/// Refuses a --json path that could not be written, before any work.
Status check_pcast_json(const PcastArguments& arguments);
/// Prints the table, then writes the JSON file if one was asked for.
Status publish(const PcastArguments& arguments, const std::string& table,
               const nlohmann::ordered_json& json);
/// Says on standard error that cells missed their tolerance.
void report_misses(const char* command, int missed, int cells, const std::string& tolerance);

}  // namespace flamia::tools
