// The quantizer's entry points and what the host knows of them.
#include "kernels/shared/quantize.cuh"
#include "kernels/shared/quantize_forms.cuh"

namespace flamia::kernels {
namespace {

template <int kDim>
__device__ void quantize(const QuantizeArgs& args) {
  __shared__ QuantizeShared<kDim> shared;
  QuantizePlace place;
  if (find_place(args, place)) quantize_e4m3<kDim>(args.tensors[place.tensor], place, shared);
}

template <int kDim>
__device__ void quantize_forms(const QuantizeArgs& args) {
  __shared__ QuantizeShared<kDim> shared;
  QuantizePlace place;
  if (!find_place(args, place)) return;
  const QuantizeTensor& tensor = args.tensors[place.tensor];
  switch (tensor.form) {
    case QuantizeForm::kE4m3:
      return quantize_e4m3<kDim>(tensor, place, shared);
    case QuantizeForm::kNvfp4:
      return nvfp4_heads<kDim>(tensor, place);
    case QuantizeForm::kBf16:
      return bf16_heads<kDim>(tensor, place);
  }
}

}  // namespace
}  // namespace flamia::kernels

extern "C" __global__ void __launch_bounds__(flamia::kernels::kQuantizeThreads, 7)
    flamia_shared_quantize_d128(const __grid_constant__ flamia::QuantizeArgs args) {
  flamia::kernels::quantize<128>(args);
}

extern "C" __global__ void __launch_bounds__(flamia::kernels::kQuantizeThreads, 12)
    flamia_shared_quantize_d64(const __grid_constant__ flamia::QuantizeArgs args) {
  flamia::kernels::quantize<64>(args);
}

extern "C" __global__ void __launch_bounds__(flamia::kernels::kQuantizeThreads, 5)
    flamia_shared_quantize_forms_d128(const __grid_constant__ flamia::QuantizeArgs args) {
  flamia::kernels::quantize_forms<128>(args);
}

extern "C" __global__ void __launch_bounds__(flamia::kernels::kQuantizeThreads, 8)
    flamia_shared_quantize_forms_d64(const __grid_constant__ flamia::QuantizeArgs args) {
  flamia::kernels::quantize_forms<64>(args);
}

namespace flamia {

const KernelInfo kQuantizeD128 = {"flamia_shared_quantize_d128",
                                  reinterpret_cast<const void*>(&flamia_shared_quantize_d128),
                                  kernels::kQuantizeThreads, 0};
const KernelInfo kQuantizeD64 = {"flamia_shared_quantize_d64",
                                 reinterpret_cast<const void*>(&flamia_shared_quantize_d64),
                                 kernels::kQuantizeThreads, 0};
const KernelInfo kQuantizeFormsD128 = {
    "flamia_shared_quantize_forms_d128",
    reinterpret_cast<const void*>(&flamia_shared_quantize_forms_d128), kernels::kQuantizeThreads,
    0};
const KernelInfo kQuantizeFormsD64 = {
    "flamia_shared_quantize_forms_d64",
    reinterpret_cast<const void*>(&flamia_shared_quantize_forms_d64), kernels::kQuantizeThreads, 0};

}  // namespace flamia
