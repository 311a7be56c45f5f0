// Launch configuration, attributes, errors as sentences.
#include "cuda/launch.h"

#include "base/refusals.h"

namespace flamia::cuda {

namespace {

constexpr int kSharedBytesWithoutAsking = 48 * 1024;

Status device_error(const char* function, const KernelInfo& kernel, cudaError_t error) {
  return {StatusCode::kDeviceError,
          concat(function, ": launch of ", kernel.name, ": ", cudaGetErrorString(error))};
}

}  // namespace

Status launch(const char* function, const KernelInfo& kernel, const LaunchShape& shape,
              const void* arguments, void* stream) {
  if (shape.shared_bytes > kSharedBytesWithoutAsking) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel.entry, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes);
    if (error != cudaSuccess) return device_error(function, kernel, error);
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(kernel.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &attribute;
  config.numAttrs = shape.overlap ? 1 : 0;
  // The runtime copies the argument; it takes a pointer that is not const.
  void* parameters[] = {const_cast<void*>(arguments)};
  const cudaError_t error = cudaLaunchKernelExC(&config, kernel.entry, parameters);
  return error == cudaSuccess ? Status{} : device_error(function, kernel, error);
}

}  // namespace flamia::cuda
