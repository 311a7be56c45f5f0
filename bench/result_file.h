// The file of a benchmark: where, when and how it was measured, and its rows.
// Used by: every benchmark. Form: docs of bench/results in bench/README.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "flamia/status.h"

namespace flamia::bench {

/// Writes {"chip", "driver", "cuda", "date", "commit", "command", "rows"}: all or nothing.
/// commit is that of the git checkout around the working folder, null outside one.
Status write_results(const std::string& path, const std::string& command,
                     nlohmann::ordered_json rows);

/// Commit id of the checkout that holds the working folder, empty outside one.
std::string checkout_commit();

}  // namespace flamia::bench
