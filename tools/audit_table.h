// flamia audit table5: the leak table of known schemes, ours beside the reference.
// Paper: 4.5 (Table 5). Depends on: src/audit. Used by: the audit command, tests.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "flamia/status.h"

namespace flamia::tools {

struct AuditTableArguments {
  std::string input;  ///< captured tensors to measure as well; empty: generated ones only
  std::string json;
  std::vector<std::string> schemes;  ///< empty: all
  int32_t seeds = 3;
  uint64_t first_seed = 0;
  int32_t threads = 0;
};

/// Prints the table of the generated inputs, then that of the file, then writes the JSON file if
/// one is asked for. passed becomes false if a figure of the generated inputs, from which the
/// reference's come, misses it, or if a column that must be zero is not, in either table.
Status audit_table(const AuditTableArguments& arguments, bool* passed);

/// Adds table5 to the audit command.
void add_audit_table_command(CLI::App& parent, int* exit_code);

}  // namespace flamia::tools
