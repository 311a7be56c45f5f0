// One call of the library on an audit's inputs, through the public API, as users call it.
// Used by: library.cc, probe.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "flamia/attention.h"
#include "flamia/audit.h"

namespace flamia::audit {

/// A forward call on tensors in host memory by a backend that does not work there: whoever has
/// device memory copies.
using HostForward = std::function<Status(const Problem& problem, const Options& options,
                                         const ForwardTensors& tensors, Conventions* conventions)>;

/// Forward and, with d_o, backward. Mask and softmax scale are those of the options.
class LibraryCall {
 public:
  /// forward: runs the forward pass of a GPU backend; without it those are refused.
  LibraryCall(const AuditInputs& inputs, const Options& options, HostForward forward = {});

  Status forward();
  Status backward();

  Conventions& conventions() { return conventions_; }
  const std::vector<uint16_t>& o() const { return o_; }    ///< BF16 [tokens, heads, head_dim]
  const std::vector<float>& lse() const { return lse_; }   ///< [heads, tokens]
  const std::vector<uint16_t>& dq() const { return dq_; }  ///< empty before backward()
  void store(AuditOutputs* outputs) const;

 private:
  TensorView dense(std::vector<uint16_t>* values, int64_t heads) const;
  TensorView of_queries(std::vector<uint16_t>* values) const;
  TensorView of_keys(std::vector<uint16_t>* values) const;
  TensorView lengths();
  TensorView lse_view();

  AuditInputs inputs_;
  Options options_;
  Problem problem_;
  bool gradients_;
  HostForward host_forward_;
  Conventions conventions_;
  std::vector<uint16_t> o_, residual_, dq_, dk_, dv_;
  std::vector<float> lse_;
};

}  // namespace flamia::audit
