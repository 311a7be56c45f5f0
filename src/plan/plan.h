// What one call will do, decided before anything runs: shapes, conventions, executor settings.
// Paper: 3.3. Both are pure functions; plan_backward() takes conventions, not options.
#pragma once

#include <cstdint>

#include "flamia/attention.h"
#include "plan/machine.h"

namespace flamia {

struct Plan {
  Problem problem;
  Conventions conventions;
  BackendKind backend = BackendKind::kCpu;       ///< resolved, never kAuto
  int32_t threads = 1;                           ///< CPU backend: resolved worker count
  Assignment assignment = Assignment::kDynamic;  ///< GPU backends
  uint32_t forward_parts = kAllForwardParts;     ///< GPU backends: a sum of ForwardPart
};

/// Bytes that a forward call leaves for its backward call beside q, k, v and O.
struct SavedBytes {
  int64_t lse = 0;
  int64_t o_residual = 0;  ///< 0 where the backward pass does not read it
};
SavedBytes saved_for_backward(const Plan& plan);

/// Support check, then the resolved choices. function names the API call in messages.
Status plan_forward(const char* function, const Problem& problem, const Options& options,
                    const Machine& machine, Plan* plan);

/// Checks that the record fits the problem and can be run backward.
Status plan_backward(const char* function, const Problem& problem, const Conventions& conventions,
                     int32_t threads, const Machine& machine, Plan* plan);

}  // namespace flamia
