// How the program fails: one line on standard error and an exit code.
// Depends on: Status. Used by: every file of the program.
// Library messages pass through unchanged; control characters of foreign text never reach a
// terminal.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "flamia/status.h"

namespace flamia::tools {

/// Exit codes of every subcommand.
constexpr int kExitDone = 0;
constexpr int kExitCheckFailed = 1;
constexpr int kExitBadInput = 2;
constexpr int kExitFailure = 3;

/// A status for bad usage or bad input.
template <typename... Args>
Status bad_input(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...));
}

/// A status for what went wrong while running: files, memory, devices.
template <typename... Args>
Status failure(fmt::format_string<Args...> format, Args&&... args) {
  return Status(StatusCode::kInternal, fmt::format(format, std::forward<Args>(args)...));
}

/// kExitBadInput for what the caller can change (arguments, unsupported requests), else
/// kExitFailure; kExitDone for success.
int exit_code(const Status& status);

/// Foreign text (file names, tensor names) for a message: control bytes as \xNN, cut after
/// 120 bytes with "...".
std::string printable(std::string_view text);

/// Prints "flamia COMMAND: message" as one line on standard error; returns exit_code(status).
int report_failure(std::string_view command, const Status& status);

/// Text of an errno value, e.g. "No space left on device".
std::string errno_text(int error);

}  // namespace flamia::tools
