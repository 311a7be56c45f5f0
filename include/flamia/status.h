// The result of every call that can fail: a code and one sentence.
// Text: "function: argument must RULE; got VALUE (HINT)". No exceptions cross the API.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace flamia {

enum class StatusCode : int32_t {
  kOk = 0,
  kInvalidArgument = 1,  ///< the caller is wrong
  kUnsupported = 2,      ///< the library is incomplete; the message names the nearest choice
  kOutOfMemory = 3,
  kDeviceError = 4,
  kInternal = 5,
};

/// Lower-case name of a code, e.g. "invalid_argument".
const char* status_code_name(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

}  // namespace flamia
