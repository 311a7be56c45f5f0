// The quantizer's entry points and what the host knows of them.
#include "kernels/shared/quantize.cuh"

extern "C" __global__ void __launch_bounds__(flamia::kernels::kQuantizeThreads, 7)
    flamia_shared_quantize_d128(const __grid_constant__ flamia::QuantizeArgs args) {
  flamia::kernels::quantize<128>(args);
}

extern "C" __global__ void __launch_bounds__(flamia::kernels::kQuantizeThreads, 12)
    flamia_shared_quantize_d64(const __grid_constant__ flamia::QuantizeArgs args) {
  flamia::kernels::quantize<64>(args);
}

namespace flamia {

const KernelInfo kQuantizeD128 = {"flamia_shared_quantize_d128",
                                  reinterpret_cast<const void*>(&flamia_shared_quantize_d128),
                                  kernels::kQuantizeThreads, 0};
const KernelInfo kQuantizeD64 = {"flamia_shared_quantize_d64",
                                 reinterpret_cast<const void*>(&flamia_shared_quantize_d64),
                                 kernels::kQuantizeThreads, 0};

}  // namespace flamia
