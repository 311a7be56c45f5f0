// Entries of the MXFP8 forward kernels of sm_90a with exponents per token (exact causal safety) and
// with other exponentials, and their rows of the kernel table.
#include "kernels/hopper/forward.cuh"

namespace flamia::hopper {
namespace {

constexpr ForwardConfig form(int dim, bool per_token, ForwardExponential exponential) {
  return {dim, dim == 128 ? 4 : 6, per_token, exponential};
}

}  // namespace
}  // namespace flamia::hopper

/// The entry flamia_sm90a_forward_mxfp8_<form>_d<dim> and its row kForwardMxfp8<row>D<dim>.
#define FLAMIA_FORWARD_FORM_OF_DIM(form_name, row, dim, per_token, exponential)              \
  namespace flamia {                                                                         \
  namespace {                                                                                \
  constexpr hopper::ForwardConfig k##row##D##dim =                                           \
      hopper::form(dim, per_token, hopper::ForwardExponential::exponential);                 \
  }                                                                                          \
  extern "C" __global__ void __launch_bounds__(hopper::kForwardThreads,                      \
                                               1) flamia_sm90a_forward_mxfp8_##form_name##_d \
      ##dim(const __grid_constant__ ForwardArgs args) {                                      \
    hopper::forward<k##row##D##dim>(args);                                                   \
  }                                                                                          \
  extern const KernelInfo kForwardMxfp8##row##D##dim = {                                     \
      "flamia_sm90a_forward_mxfp8_" #form_name "_d" #dim,                                    \
      reinterpret_cast<const void*>(flamia_sm90a_forward_mxfp8_##form_name##_d##dim),        \
      hopper::kForwardThreads, hopper::ForwardSharedMap<k##row##D##dim>::kBytes};            \
  }
#define FLAMIA_FORWARD_FORM(form_name, row, per_token, exponential)       \
  FLAMIA_FORWARD_FORM_OF_DIM(form_name, row, 128, per_token, exponential) \
  FLAMIA_FORWARD_FORM_OF_DIM(form_name, row, 64, per_token, exponential)

FLAMIA_FORWARD_FORM(exact, Exact, true, kExact)
FLAMIA_FORWARD_FORM(polynomial, Polynomial, false, kPolynomial)
FLAMIA_FORWARD_FORM(schraudolph, Schraudolph, false, kSchraudolph)
FLAMIA_FORWARD_FORM(exact_schraudolph, ExactSchraudolph, true, kSchraudolph)
