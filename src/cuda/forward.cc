// The persistent grid of the forward kernel and its work counter.
#include "cuda/forward.h"

#include <cuda_runtime_api.h>

#include "base/refusals.h"
#include "cuda/launch.h"
#include "problem/names.h"

namespace flamia::cuda {

namespace {

constexpr const char* kFunction = "launch_forward";

struct KernelRow {
  ForwardForm form;
  Safety safety;
  Exponential exponential;
  const KernelInfo* d128;
  const KernelInfo* d64;
  ScoreAccumulator score_accumulator = ScoreAccumulator::kF32;
};

constexpr KernelRow kKernels[] = {
    {ForwardForm::kMxfp8, Safety::kDefault, Exponential::kExact, &kForwardMxfp8D128,
     &kForwardMxfp8D64},
    {ForwardForm::kMxfp8, Safety::kDefault, Exponential::kExact, &kForwardMxfp8HalfD128,
     &kForwardMxfp8HalfD64, ScoreAccumulator::kF16},
    {ForwardForm::kMxfp8, Safety::kDefault, Exponential::kPolynomial, &kForwardMxfp8PolynomialD128,
     &kForwardMxfp8PolynomialD64},
    {ForwardForm::kMxfp8, Safety::kDefault, Exponential::kSchraudolph,
     &kForwardMxfp8SchraudolphD128, &kForwardMxfp8SchraudolphD64},
    {ForwardForm::kMxfp8, Safety::kExact, Exponential::kExact, &kForwardMxfp8ExactD128,
     &kForwardMxfp8ExactD64},
    {ForwardForm::kMxfp8, Safety::kExact, Exponential::kPolynomial,
     &kForwardMxfp8ExactPolynomialD128, &kForwardMxfp8ExactPolynomialD64},
    {ForwardForm::kMxfp8, Safety::kExact, Exponential::kSchraudolph,
     &kForwardMxfp8ExactSchraudolphD128, &kForwardMxfp8ExactSchraudolphD64},
    {ForwardForm::kNvfp4, Safety::kDefault, Exponential::kExact, &kForwardNvfp4D128,
     &kForwardNvfp4D64},
    {ForwardForm::kNvfp4, Safety::kExact, Exponential::kExact, &kForwardNvfp4ExactD128,
     &kForwardNvfp4ExactD64},
    // Without scales there is nothing that leaks.
    {ForwardForm::kBf16, Safety::kDefault, Exponential::kExact, &kForwardBf16D128,
     &kForwardBf16D64},
    {ForwardForm::kBf16, Safety::kExact, Exponential::kExact, &kForwardBf16D128, &kForwardBf16D64},
};

}  // namespace

const KernelInfo* forward_kernel(ForwardForm form, const ForwardVariant& variant, int head_dim) {
  for (const KernelRow& row : kKernels) {
    if (row.form == form && row.safety == variant.safety &&
        row.exponential == variant.exponential &&
        row.score_accumulator == variant.score_accumulator) {
      return head_dim == 128 ? row.d128 : row.d64;
    }
  }
  return nullptr;
}

Status launch_forward(const ForwardArgs& args, int head_dim, int sms, void* stream,
                      const ForwardVariant& variant) {
  if (head_dim != 64 && head_dim != 128) {
    return invalid_argument(kFunction, "head_dim", "be 64 or 128", concat(head_dim));
  }
  if (!(args.score_multiplier >= 0)) {  // maxima are found before it is applied
    return invalid_argument(kFunction, "score_multiplier", "be at least 0",
                            concat(args.score_multiplier));
  }
  const KernelInfo* kernel = forward_kernel(args.form, variant, head_dim);
  if (kernel == nullptr) {
    return unsupported(kFunction, "exponential", "have a kernel", name(variant.exponential));
  }
  const cudaError_t error = cudaMemsetAsync(args.next_work, 0, sizeof(*args.next_work),
                                            static_cast<cudaStream_t>(stream));
  if (error != cudaSuccess) {
    return {StatusCode::kDeviceError,
            concat(kFunction, ": reset of the work counter: ", cudaGetErrorString(error))};
  }
  const LaunchShape shape{dim3(static_cast<unsigned>(sms)), kernel->shared_bytes, false};
  return launch(kFunction, *kernel, shape, &args, stream);
}

}  // namespace flamia::cuda
