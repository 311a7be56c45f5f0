// Forward pass of the CPU backend. Used by: backend.cc.
#pragma once

#include "flamia/attention.h"
#include "plan/plan.h"

namespace flamia::cpu {

void forward(const Plan& plan, const ForwardTensors& tensors, Workspace workspace,
             PassStatistics* statistics);

}  // namespace flamia::cpu
