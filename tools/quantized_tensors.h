// Codes and scales of tensors, as the attention passes compute them, ready to be written.
// Used by: attend --dump-quantized, quantize.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "flamia/attention.h"
#include "tools/host_tensor.h"
#include "tools/tensor_file.h"
#include "tools/workload.h"

namespace flamia::tools {

/// One representation of one tensor.
struct QuantizedTensor {
  HostTensor codes;   ///< U8, shape of the input
  HostTensor exp;     ///< I8, without head_dim
  HostTensor scales;  ///< U8 block scales; empty where the format has none
};

/// Quantizes in the representation that is contracted along representation.axis.
Status quantize_tensor(const HostTensor& input, const TensorView& cu_seqlens, Role role,
                       const Representation& representation, const Options& options,
                       QuantizedTensor* result);

/// Tensors with names, as a file holds them.
class QuantizedDump {
 public:
  /// Adds every representation of a tensor: NAME_codes, NAME_exp, NAME_scales where there is one;
  /// NAME_d_codes and NAME_t_codes and so on where the axes differ.
  Status add(const std::string& name, const HostTensor& input, const TensorView& cu_seqlens,
             Role role, const Options& options);
  std::vector<NamedTensor> entries() const { return entries_; }

 private:
  std::list<QuantizedTensor> tensors_;  // addresses must not change
  std::vector<NamedTensor> entries_;
};

}  // namespace flamia::tools
