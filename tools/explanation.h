// The library's explanation of a call as data: "key: value" lines.
// Used by: explain, attend.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flamia::tools {

/// Keys and values in the order of the lines; lines without ": " are left out.
std::vector<std::pair<std::string, std::string>> explanation_lines(std::string_view text);

/// Value of one key; empty without such a line.
std::string explained(std::string_view explanation, std::string_view key);

/// Names of the kernels that the call launches.
std::vector<std::string> kernel_names(std::string_view explanation);

}  // namespace flamia::tools
