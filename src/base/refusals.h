// The reasons against one call, collected so that a caller sees all of them at once.
// Used by: checks of shapes and options.
#pragma once

#include <string>
#include <string_view>

#include "base/message.h"
#include "flamia/status.h"

namespace flamia {

class Refusals {
 public:
  /// Adds "ARGUMENT must RULE; got VALUE (HINT)".
  void add(StatusCode code, std::string_view argument, std::string_view rule, std::string_view got,
           std::string_view hint = {}) {
    if (count_++ > 0) reasons_ += "; ";
    reasons_ += refusal(argument, rule, got, hint);
    // A wrong argument outweighs a missing feature: it is wrong everywhere.
    if (code_ != StatusCode::kInvalidArgument) code_ = code;
  }
  void invalid(std::string_view argument, std::string_view rule, std::string_view got,
               std::string_view hint = {}) {
    add(StatusCode::kInvalidArgument, argument, rule, got, hint);
  }
  void unsupported(std::string_view argument, std::string_view rule, std::string_view got,
                   std::string_view hint = {}) {
    add(StatusCode::kUnsupported, argument, rule, got, hint);
  }

  bool empty() const { return count_ == 0; }
  int count() const { return count_; }

  /// "FUNCTION: REASON; REASON", or success without reasons.
  Status status(std::string_view function) const {
    return empty() ? Status() : Status(code_, concat(function, ": ", reasons_));
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string reasons_;
  int count_ = 0;
};

/// One reason as a status: the caller is wrong.
inline Status invalid_argument(std::string_view function, std::string_view argument,
                               std::string_view rule, std::string_view got,
                               std::string_view hint = {}) {
  return {StatusCode::kInvalidArgument, concat(function, ": ", refusal(argument, rule, got, hint))};
}

/// One reason as a status: the library is incomplete.
inline Status unsupported(std::string_view function, std::string_view argument,
                          std::string_view rule, std::string_view got, std::string_view hint = {}) {
  return {StatusCode::kUnsupported, concat(function, ": ", refusal(argument, rule, got, hint))};
}

}  // namespace flamia
