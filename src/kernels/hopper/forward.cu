// Entries of the MXFP8 forward kernels of sm_90a and their rows of the kernel table.
#include "kernels/hopper/forward.cuh"

namespace flamia {
namespace {

constexpr hopper::ForwardConfig kD128{.head_dim = 128, .stages = 4};
constexpr hopper::ForwardConfig kD64{.head_dim = 64, .stages = 6};

}  // namespace

extern "C" __global__ void __launch_bounds__(hopper::kForwardThreads, 1)
    flamia_sm90a_forward_mxfp8_d128(const __grid_constant__ ForwardArgs args) {
  hopper::forward<kD128>(args);
}

extern "C" __global__ void __launch_bounds__(hopper::kForwardThreads, 1)
    flamia_sm90a_forward_mxfp8_d64(const __grid_constant__ ForwardArgs args) {
  hopper::forward<kD64>(args);
}

extern const KernelInfo kForwardMxfp8D128 = {
    "flamia_sm90a_forward_mxfp8_d128",
    reinterpret_cast<const void*>(flamia_sm90a_forward_mxfp8_d128), hopper::kForwardThreads,
    hopper::ForwardSharedMap<kD128>::kBytes};
extern const KernelInfo kForwardMxfp8D64 = {
    "flamia_sm90a_forward_mxfp8_d64", reinterpret_cast<const void*>(flamia_sm90a_forward_mxfp8_d64),
    hopper::kForwardThreads, hopper::ForwardSharedMap<kD64>::kBytes};

}  // namespace flamia
