// A small attention call of its own, copied from a larger one, whose inputs a test may change.
// Used by: leak.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "audit/library_call.h"
#include "audit/perturbation.h"
#include "flamia/attention.h"

namespace flamia::audit {

/// One document with as many queries as keys; dense tensors [rows, heads, head_dim].
class Probe {
 public:
  /// Outputs of one run.
  struct Outputs {
    std::vector<uint16_t> o;
    std::vector<float> lse;    ///< [heads, rows]
    std::vector<uint16_t> dq;  ///< empty without d_o
    Conventions conventions;
  };

  /// Copies at most max_rows rows of the longest document, and few heads. Rows are the first ones
  /// that are both query and key under bottom-right alignment. inputs must be BF16.
  Probe(const Problem& problem, const ForwardTensors& inputs, const TensorView& d_o,
        int64_t max_rows, HostForward forward = {});

  int64_t rows() const { return inputs_.tokens; }
  int64_t heads() const { return inputs_.heads; }
  int64_t head_dim() const { return inputs_.head_dim; }
  bool has_gradient() const { return !inputs_.d_o.empty(); }

  /// Multiplies the operand's rows of one token by factor, a power of two or zero; rows of zeros
  /// become factor. Overflow gives the largest finite value.
  void scale_token(Operand operand, int64_t token, float factor);
  /// Undoes every scale_token().
  void restore();

  Status run(const Options& options, Outputs* outputs) const;

  /// Upper bound of what the rounding of FP16 partials, prescaled by maxima of this document, can
  /// change in an entry of dQ before it is rounded to BF16.
  double dq_rounding_bound(double softmax_scale) const;

 private:
  AuditInputs inputs_, original_;
  HostForward host_forward_;
};

}  // namespace flamia::audit
