// What this build can do, with every reason against a call.
// Paper: 3.4 (the bound of P-hat). Used by: planning, is_supported(), explain().
#pragma once

#include <cstdint>

#include "base/refusals.h"
#include "flamia/options.h"
#include "flamia/problem.h"
#include "plan/machine.h"
#include "problem/names.h"

namespace flamia {

/// Largest number of worker threads.
constexpr int32_t kMaxThreads = 1024;

/// Refuses a value that is none of its enum's: values from C, from a file or from a cast may be.
template <typename Enum>
void check_choice(const char* argument, Enum value, Refusals* refusals) {
  if (is_valid(value)) return;
  refusals->invalid(argument, concat("be ", choices<Enum>()), shown(value));
}

/// Adds every reason why a forward call with these shapes and options cannot run: shapes, values
/// outside their range, choices that contradict each other, choices that are not there yet, choices
/// that the backend cannot run, a backend that this machine does not have.
void check_support(const Problem& problem, const Options& options, const Machine& machine,
                   Refusals* refusals);

/// Adds every reason why such a forward call cannot be followed by a backward call.
void check_backward_support(const Options& options, BackendKind backend, Refusals* refusals);

}  // namespace flamia
