// The file of a benchmark: where, when and how it was measured, and its rows.
// Used by: every benchmark. Form: docs of bench/results in bench/README.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "flamia/status.h"

namespace flamia::bench {

/// What was measured, and on what.
struct ResultOrigin {
  std::string chip;
  std::string driver;  ///< empty: none, as on a CPU
  std::string cuda;    ///< likewise
  std::string commit;  ///< empty: that of the git checkout around the working folder
  std::string command;
};

/// Writes {"chip", "driver", "cuda", "date", "commit", "command", "rows"}: all or nothing. What is
/// not known is null.
Status write_results(const std::string& path, const ResultOrigin& origin,
                     nlohmann::ordered_json rows);

/// Commit id of the checkout that holds the working folder, empty outside one.
std::string checkout_commit();

}  // namespace flamia::bench
