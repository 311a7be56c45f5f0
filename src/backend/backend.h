// The executor of a plan. Tensors are validated and the workspace is large enough when these run.
#pragma once

#include <cstddef>
#include <string>

#include "flamia/attention.h"
#include "plan/plan.h"

namespace flamia {

class Backend {
 public:
  virtual ~Backend() = default;
  /// Names of what runs, separated by ", ".
  virtual std::string kernels(const Plan& plan, Pass pass) const = 0;
  virtual size_t workspace_bytes(const Plan& plan, Pass pass) const = 0;
  virtual Status forward(const Plan& plan, const ForwardTensors& tensors, Workspace workspace,
                         void* stream, PassStatistics* statistics) const = 0;
  virtual Status backward(const Plan& plan, const BackwardTensors& tensors, Workspace workspace,
                          void* stream, PassStatistics* statistics) const = 0;
  virtual Status quantize(const Plan& plan, const TensorView& input, const TensorView& cu_seqlens,
                          Role role, ContractionAxis axis, const QuantizedTensors& output,
                          Workspace workspace, void* stream) const = 0;
  virtual size_t quantize_workspace_bytes(const Plan& plan) const = 0;
};

/// The CPU backend; refuses nothing that plan_* accepted. Needs AVX2 and FMA (x86-64-v3).
const Backend& cpu_backend();
/// Whether this machine can run the CPU backend's vector code.
bool cpu_backend_available();

}  // namespace flamia
