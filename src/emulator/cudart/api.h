// The CUDA headers, with the visibility of an exported symbol, and macros for the twins that
// programs with a per-thread default stream call.
// Depends on: cuda_runtime_api.h. Used by: every file of cudart/ that has a symbol.
#pragma once

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#define FLAMIA_VGPU_EXPORT extern "C" __attribute__((visibility("default")))

namespace flamia::emulator::cudart {

/// The stream of a call of the per-thread flavour: 0 means the thread's own.
inline cudaStream_t own_stream(cudaStream_t stream) {
  return stream == nullptr ? cudaStreamPerThread : stream;
}

}  // namespace flamia::emulator::cudart

/// Defines `name`, whose parameter `stream` is a stream, and `name_ptsz`. The last argument is the
/// call that both make.
#define FLAMIA_VGPU_STREAM_CALL(name, parameters, ...)                   \
  FLAMIA_VGPU_EXPORT cudaError_t name parameters { return __VA_ARGS__; } \
  FLAMIA_VGPU_EXPORT cudaError_t name##_ptsz parameters {                \
    stream = ::flamia::emulator::cudart::own_stream(stream);             \
    return __VA_ARGS__;                                                  \
  }

/// Defines `name`, which has no parameter for a stream and works in the legacy one, and
/// `name_ptds`.
#define FLAMIA_VGPU_DEFAULT_STREAM_CALL(name, parameters, ...) \
  FLAMIA_VGPU_EXPORT cudaError_t name parameters {             \
    cudaStream_t const stream = nullptr;                       \
    return __VA_ARGS__;                                        \
  }                                                            \
  FLAMIA_VGPU_EXPORT cudaError_t name##_ptds parameters {      \
    cudaStream_t const stream = cudaStreamPerThread;           \
    return __VA_ARGS__;                                        \
  }
