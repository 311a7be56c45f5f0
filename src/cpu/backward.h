// Backward pass of the CPU backend. Used by: backend.cc.
#pragma once

#include "flamia/attention.h"
#include "plan/plan.h"

namespace flamia::cpu {

void backward(const Plan& plan, const BackwardTensors& tensors, Workspace workspace,
              PassStatistics* statistics);

}  // namespace flamia::cpu
