// The result of attend: a table for a person, one JSON object for a program.
// Depends on: accuracy figures, leak verdicts. Used by: attend.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "audit/leak.h"
#include "flamia/attention.h"
#include "tools/accuracy.h"
#include "tools/attention_run.h"
#include "tools/attention_work.h"

namespace flamia::tools {

struct AttendReport {
  std::string input;  ///< what was computed, for a person
  Problem problem;
  Mask mask;
  std::string backend;
  std::string device;
  std::vector<std::string> kernels;
  Conventions conventions;
  bool output_gradient_generated = false;
  uint64_t seed = 0;
  int repeat = 1;

  AttentionWork work;
  PassTime forward_time;
  std::optional<PassTime> backward_time;
  std::optional<PassStatistics> backward_statistics;
  std::optional<Accuracy> accuracy;
  std::optional<audit::LeakVerdict> leak;
};

/// What makes the exit code 1, one sentence each: NaN that the oracle does not have, an LSE that is
/// -inf on one side only, a leak beyond the promise.
std::vector<std::string> failed_checks(const AttendReport& report);

/// Time of the quantizers; nothing where the backend does not tell it apart.
std::optional<double> quantize_time(const AttendReport& report);

std::string report_table(const AttendReport& report);
/// A figure that was not computed is null, as is one that is not finite.
std::string report_json(const AttendReport& report);

/// Every field of the record by name.
nlohmann::ordered_json conventions_json(const Conventions& conventions);

}  // namespace flamia::tools
