// The persistent grid of the forward kernel and its work counter.
#include "cuda/forward.h"

#include <cuda_runtime_api.h>

#include "base/refusals.h"
#include "cuda/launch.h"

namespace flamia::cuda {

namespace {

constexpr const char* kFunction = "launch_forward";

}  // namespace

const KernelInfo& forward_kernel(ForwardForm form, int head_dim) {
  const bool wide = head_dim == 128;
  switch (form) {
    case ForwardForm::kBf16:
      return wide ? kForwardBf16D128 : kForwardBf16D64;
    case ForwardForm::kNvfp4:
      return wide ? kForwardNvfp4D128 : kForwardNvfp4D64;
    default:
      return wide ? kForwardMxfp8D128 : kForwardMxfp8D64;
  }
}

Status launch_forward(const ForwardArgs& args, int head_dim, int sms, void* stream) {
  if (head_dim != 64 && head_dim != 128) {
    return invalid_argument(kFunction, "head_dim", "be 64 or 128", concat(head_dim));
  }
  if (!(args.score_multiplier >= 0)) {  // maxima are found before it is applied
    return invalid_argument(kFunction, "score_multiplier", "be at least 0",
                            concat(args.score_multiplier));
  }
  const cudaError_t error = cudaMemsetAsync(args.next_work, 0, sizeof(*args.next_work),
                                            static_cast<cudaStream_t>(stream));
  if (error != cudaSuccess) {
    return {StatusCode::kDeviceError,
            concat(kFunction, ": reset of the work counter: ", cudaGetErrorString(error))};
  }
  const KernelInfo& kernel = forward_kernel(args.form, head_dim);
  const LaunchShape shape{dim3(static_cast<unsigned>(sms)), kernel.shared_bytes, false};
  return launch(kFunction, kernel, shape, &args, stream);
}

}  // namespace flamia::cuda
