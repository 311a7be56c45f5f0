// The main job: one attention call on a file or a generated workload, checked and reported.
// Depends on: everything else of the program. Used by: the attend command, tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "flamia/status.h"
#include "tools/attention_options.h"
#include "tools/progress.h"

namespace flamia::tools {

struct AttendArguments {
  AttentionArguments attention;
  bool check = true;                  ///< compare with the FP64 oracle
  std::optional<int64_t> check_rows;  ///< rows of each document and head; 0: all
  std::optional<bool> leak;           ///< default: where the mask hides later keys
  int32_t repeat = 1;
  ProgressMode progress = ProgressMode::kIfTerminal;
  std::string output;
  std::string dump_quantized;
  std::string report;
};

/// Runs the job: prints the table on standard output, then writes the files. checks_passed is
/// false if a check failed; what failed is said on standard error.
Status attend(const AttendArguments& arguments, bool* checks_passed);

}  // namespace flamia::tools
