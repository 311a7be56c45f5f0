// One call of the library on an audit's inputs, through the public API, as users call it.
#include "audit/library_call.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "base/refusals.h"
#include "numerics/bf16.h"
#include "problem/names.h"

namespace flamia::audit {
namespace {

/// Workspace memory, aligned for vectors.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes) {
    if (bytes > 0) data_.reset(::operator new(bytes, kAlignment));
  }
  Workspace workspace() const { return {data_.get(), bytes_}; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(void* memory) const { ::operator delete(memory, kAlignment); }
  };
  size_t bytes_;
  std::unique_ptr<void, Free> data_;
};

/// Runs a pass with the memory it asks for.
template <typename Call>
Status with_workspace(const Problem& problem, const Options& options, Pass pass, const Call& call) {
  size_t bytes = 0;
  if (Status status = workspace_size(problem, options, pass, &bytes); !status.ok()) return status;
  const Scratch scratch(bytes);
  return call(scratch.workspace());
}

std::vector<float> widen(const std::vector<uint16_t>& values) {
  std::vector<float> wide(values.size());
  std::transform(values.begin(), values.end(), wide.begin(), bf16_to_float);
  return wide;
}

}  // namespace

LibraryCall::LibraryCall(const AuditInputs& inputs, const Options& options, HostForward forward)
    : inputs_(inputs),
      options_(options),
      gradients_(!inputs.d_o.empty()),
      host_forward_(std::move(forward)) {
  problem_ = {inputs.tokens,
              inputs.tokens,
              0,
              static_cast<int32_t>(inputs.cu_seqlens.size()) - 1,
              inputs.heads,
              inputs.kv_heads,
              inputs.head_dim};
  for (std::vector<uint16_t>* tensor : {&o_, &residual_}) tensor->resize(inputs.q.size());
  lse_.resize(static_cast<size_t>(inputs.tokens * inputs.heads));
}

Status LibraryCall::forward() {
  ForwardTensors tensors;
  tensors.q = of_queries(&inputs_.q);
  tensors.k = of_keys(&inputs_.k);
  tensors.v = of_keys(&inputs_.v);
  tensors.cu_seqlens_q = lengths();
  tensors.o = of_queries(&o_);
  tensors.lse = lse_view();
  if (gradients_) tensors.o_residual = of_queries(&residual_);
  Conventions planned;
  if (Status status = resolve_conventions(problem_, options_, &planned); !status.ok()) {
    return status;
  }
  if (planned.backend != BackendKind::kCpu) {
    if (host_forward_) return host_forward_(problem_, options_, tensors, &conventions_);
    return unsupported("audit", "backend", "be cpu", name(planned.backend),
                       "the tensors of an audit are in host memory");
  }
  return with_workspace(problem_, options_, Pass::kForward, [&](Workspace workspace) {
    return attention_forward(problem_, options_, tensors, workspace, nullptr, &conventions_);
  });
}

Status LibraryCall::backward() {
  dq_.resize(inputs_.q.size());
  for (std::vector<uint16_t>* tensor : {&dk_, &dv_}) tensor->resize(inputs_.k.size());
  BackwardTensors tensors;
  tensors.q = of_queries(&inputs_.q);
  tensors.k = of_keys(&inputs_.k);
  tensors.v = of_keys(&inputs_.v);
  tensors.cu_seqlens_q = lengths();
  tensors.o = of_queries(&o_);
  tensors.o_residual = of_queries(&residual_);
  tensors.lse = lse_view();
  tensors.d_o = of_queries(&inputs_.d_o);
  tensors.dq = of_queries(&dq_);
  tensors.dk = of_keys(&dk_);
  tensors.dv = of_keys(&dv_);
  return with_workspace(problem_, options_, Pass::kBackward, [&](Workspace workspace) {
    return attention_backward(problem_, conventions_, tensors, workspace, nullptr,
                              options_.threads);
  });
}

void LibraryCall::store(AuditOutputs* outputs) const {
  outputs->o = widen(o_);
  outputs->lse = lse_;
  outputs->dq = widen(dq_);
  outputs->dk = widen(dk_);
  outputs->dv = widen(dv_);
}

TensorView LibraryCall::dense(std::vector<uint16_t>* values, int64_t heads) const {
  return {values->data(),
          DType::kBF16,
          3,
          {inputs_.tokens, heads, inputs_.head_dim},
          {heads * inputs_.head_dim, inputs_.head_dim, 1}};
}
TensorView LibraryCall::of_queries(std::vector<uint16_t>* values) const {
  return dense(values, inputs_.heads);
}

TensorView LibraryCall::of_keys(std::vector<uint16_t>* values) const {
  return dense(values, inputs_.kv_heads);
}

TensorView LibraryCall::lengths() {
  return {inputs_.cu_seqlens.data(),
          DType::kI32,
          1,
          {static_cast<int64_t>(inputs_.cu_seqlens.size())},
          {1}};
}

TensorView LibraryCall::lse_view() {
  return {lse_.data(), DType::kF32, 2, {inputs_.heads, inputs_.tokens}, {inputs_.tokens, 1}};
}

}  // namespace flamia::audit
