// From a request to what will run: checks, resolved choices, threads.
#include "plan/plan.h"

#include <algorithm>
#include <thread>

#include "plan/conventions.h"
#include "plan/support.h"
#include "problem/footprint.h"

namespace flamia {

namespace {

int32_t resolve_threads(int32_t threads) {
  if (threads > 0) return threads;
  const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
  return static_cast<int32_t>(std::clamp<int64_t>(cores, 1, kMaxThreads));
}

}  // namespace

SavedBytes saved_for_backward(const Plan& plan) {
  const Problem& problem = plan.problem;
  const int64_t rows = problem.query_tokens * problem.heads;
  SavedBytes saved;
  saved.lse = rows * dtype_bytes(DType::kF32);
  if (plan.conventions.delta == Delta::kOResidual) {
    saved.o_residual = rows * problem.head_dim * dtype_bytes(DType::kBF16);
  }
  return saved;
}

Status plan_forward(const char* function, const Problem& problem, const Options& options,
                    const Machine& machine, Plan* plan) {
  Refusals refusals;
  check_support(problem, options, machine, &refusals);
  if (!refusals.empty()) return refusals.status(function);
  plan->problem = problem;
  plan->backend = resolve_backend(options, machine);
  plan->conventions = resolve(problem, options, plan->backend);
  plan->threads = resolve_threads(options.threads);
  plan->assignment = options.assignment;
  return {};
}

Status plan_backward(const char* function, const Problem& problem, const Conventions& conventions,
                     int32_t threads, const Machine& machine, Plan* plan) {
  if (Status status = check_conventions(function, problem, conventions); !status.ok()) {
    return status;
  }
  Options options = options_of(conventions);
  options.threads = threads;
  Refusals refusals;
  check_support(problem, options, machine, &refusals);
  check_backward_support(options, options.backend, &refusals);
  if (!refusals.empty()) return refusals.status(function);
  if (Status status = check_unchanged(function, conventions); !status.ok()) return status;
  plan->problem = problem;
  plan->conventions = conventions;
  plan->backend = conventions.backend;
  plan->threads = resolve_threads(threads);
  return {};
}

}  // namespace flamia
