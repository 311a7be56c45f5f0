// Codes and scales of tensors, as the attention passes compute them.

#include "tools/quantized_tensors.h"

#include <string_view>
#include <utility>

namespace flamia::tools {

namespace {

/// Head channels of one block scale.
int64_t scale_group(const Representation& representation) {
  return std::string_view(representation.format) == "mxfp4" ? 32 : 16;
}

// The library writes [tokens, heads, ...]; a batch keeps its shape in the file.
TensorView packed_view(const HostTensor& tensor, bool batched) {
  TensorView view = tensor.view();
  if (!batched || tensor.empty()) return view;
  view.shape[0] *= view.shape[1];
  view.stride[0] = view.stride[1];
  for (int32_t i = 1; i + 1 < view.rank; ++i) {
    view.shape[i] = view.shape[i + 1];
    view.stride[i] = view.stride[i + 1];
  }
  --view.rank;
  return view;
}

}  // namespace

Status quantize_tensor(const HostTensor& input, const TensorView& cu_seqlens, Role role,
                       const Representation& representation, const Options& options,
                       QuantizedTensor* result) {
  std::vector<int64_t> shape = input.shape();
  Status status = HostTensor::allocate(ElementType::kU8, shape, &result->codes);
  if (!status.ok()) return status;
  if (representation.has_block_scales) {
    std::vector<int64_t> scales = shape;
    if (representation.axis == ContractionAxis::kHeadDim) {
      scales.back() /= scale_group(representation);
    }
    status = HostTensor::allocate(ElementType::kU8, scales, &result->scales);
    if (!status.ok()) return status;
  }
  shape.pop_back();
  status = HostTensor::allocate(ElementType::kI8, shape, &result->exp);
  if (!status.ok()) return status;

  const bool batched = input.shape().size() == 4;
  QuantizedTensors views;
  views.codes = packed_view(result->codes, batched);
  views.exp = packed_view(result->exp, batched);
  views.scales = packed_view(result->scales, batched);
  return quantize(input.view(), cu_seqlens, role, representation.axis, options, views);
}

Status QuantizedDump::add(const std::string& name, const HostTensor& input,
                          const TensorView& cu_seqlens, Role role, const Options& options) {
  const std::vector<Representation> all = representations(options.path, role);
  for (const Representation& one : all) {
    QuantizedTensor& tensor = tensors_.emplace_back();
    Status status = quantize_tensor(input, cu_seqlens, role, one, options, &tensor);
    if (!status.ok()) return status;
    const char* axis = one.axis == ContractionAxis::kHeadDim ? "_d" : "_t";
    const std::string prefix = all.size() == 1 ? name : name + axis;
    entries_.push_back({prefix + "_codes", &tensor.codes});
    entries_.push_back({prefix + "_exp", &tensor.exp});
    if (one.has_block_scales) entries_.push_back({prefix + "_scales", &tensor.scales});
  }
  return Status();
}

}  // namespace flamia::tools
