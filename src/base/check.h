// Assertions about our own mistakes: always on, they print and abort.
// User input is never checked with these; it is validated and refused with a Status.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/message.h"

namespace flamia {

[[noreturn]] inline void fail_check(const char* what, const char* file, int line,
                                    const std::string& values) noexcept {
  std::fprintf(stderr, "flamia: internal error: %s at %s:%d%s%s\n", what, file, line,
               values.empty() ? "" : ": ", values.c_str());
  std::abort();
}

}  // namespace flamia

/// Aborts unless condition holds; further arguments are printed one after the other.
#define FLAMIA_CHECK(condition, ...)                                        \
  do {                                                                      \
    if (!(condition)) [[unlikely]] {                                        \
      ::flamia::fail_check("check failed: " #condition, __FILE__, __LINE__, \
                           ::flamia::concat(__VA_ARGS__));                  \
    }                                                                       \
  } while (false)

/// Aborts; for the place after a switch that handles every value. Arguments are printed.
#define FLAMIA_UNREACHABLE(...) \
  ::flamia::fail_check("unreachable code", __FILE__, __LINE__, ::flamia::concat(__VA_ARGS__))
