// How the program fails: one line on standard error and an exit code.

#include "tools/errors.h"

#include <cstdio>
#include <system_error>

namespace flamia::tools {

namespace {

std::string escaped(std::string_view text, size_t limit) {
  std::string result;
  for (const char character : text) {
    if (result.size() >= limit) return result + "...";
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += character;
    }
  }
  return result;
}

}  // namespace

int exit_code(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitDone;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return kExitBadInput;
    case StatusCode::kOutOfMemory:
    case StatusCode::kDeviceError:
    case StatusCode::kInternal:
      break;
  }
  return kExitFailure;
}

std::string printable(std::string_view text) { return escaped(text, 120); }

int report_failure(std::string_view command, const Status& status) {
  constexpr size_t kLongestMessage = 4000;
  const std::string line = escaped(status.message(), kLongestMessage);
  fmt::print(stderr, "flamia{}{}: {}\n", command.empty() ? "" : " ", command, line);
  return exit_code(status);
}

std::string errno_text(int error) { return std::generic_category().message(error); }

}  // namespace flamia::tools
