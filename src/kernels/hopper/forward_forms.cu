// Entries of the forward kernels of sm_90a with exponents per token (exact causal safety) and with
// other exponentials, and their rows of the kernel table.
#include "kernels/hopper/forward.cuh"

namespace flamia::hopper {
namespace {

constexpr ForwardConfig variant(ForwardForm form, int dim, bool per_token,
                                ForwardExponential exponential) {
  const int stages_at_128 = form == ForwardForm::kNvfp4 ? 2 : 4;
  return {dim, dim == 128 ? stages_at_128 : 6, form, per_token, exponential};
}

}  // namespace
}  // namespace flamia::hopper

/// The entry flamia_sm90a_forward_<name>_d<dim> and its row kForward<row>D<dim>.
#define FLAMIA_FORWARD_VARIANT_OF_DIM(name, row, dim, form, per_token, exponential)                \
  namespace flamia {                                                                               \
  namespace {                                                                                      \
  constexpr hopper::ForwardConfig k##row##D##dim =                                                 \
      hopper::variant(ForwardForm::form, dim, per_token, hopper::ForwardExponential::exponential); \
  }                                                                                                \
  extern "C" __global__ void __launch_bounds__(hopper::kForwardThreads, 1) flamia_sm90a_forward_   \
      ##name##_d##dim(const __grid_constant__ ForwardArgs args) {                                  \
    hopper::forward<k##row##D##dim>(args);                                                         \
  }                                                                                                \
  extern const KernelInfo kForward##row##D##dim = {                                                \
      "flamia_sm90a_forward_" #name "_d" #dim,                                                     \
      reinterpret_cast<const void*>(flamia_sm90a_forward_##name##_d##dim),                         \
      hopper::kForwardThreads, hopper::ForwardSharedMap<k##row##D##dim>::kBytes};                  \
  }
#define FLAMIA_FORWARD_VARIANT(name, row, form, per_token, exponential)       \
  FLAMIA_FORWARD_VARIANT_OF_DIM(name, row, 128, form, per_token, exponential) \
  FLAMIA_FORWARD_VARIANT_OF_DIM(name, row, 64, form, per_token, exponential)

FLAMIA_FORWARD_VARIANT(mxfp8_exact, Mxfp8Exact, kMxfp8, true, kExact)
FLAMIA_FORWARD_VARIANT(mxfp8_polynomial, Mxfp8Polynomial, kMxfp8, false, kPolynomial)
FLAMIA_FORWARD_VARIANT(mxfp8_schraudolph, Mxfp8Schraudolph, kMxfp8, false, kSchraudolph)
FLAMIA_FORWARD_VARIANT(mxfp8_exact_polynomial, Mxfp8ExactPolynomial, kMxfp8, true, kPolynomial)
FLAMIA_FORWARD_VARIANT(mxfp8_exact_schraudolph, Mxfp8ExactSchraudolph, kMxfp8, true, kSchraudolph)
FLAMIA_FORWARD_VARIANT(nvfp4_exact, Nvfp4Exact, kNvfp4, true, kExact)
