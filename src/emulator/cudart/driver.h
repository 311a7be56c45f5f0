// The driver calls that programs reach through cudaGetDriverEntryPoint or libcuda.so.1.
// Depends on: cuda.h, runtime.h. Used by: driver_*.cc.
// Both libraries of a process share one state because the calls live in libcudart.so.13, which
// libcuda.so.1 loads. Error numbers of the driver and of the runtime are the same.
#pragma once

#include "emulator/cudart/api.h"
#include "emulator/cudart/runtime.h"

#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#include <string_view>

namespace flamia::emulator::cudart {

/// Calls of the runtime on behalf of a driver call: they leave cudaGetLastError as it was.
class KeepLastError {
 public:
  KeepLastError() : kept_(thread_state().last_error) {}
  ~KeepLastError() { thread_state().last_error = kept_; }
  KeepLastError(const KeepLastError&) = delete;
  KeepLastError& operator=(const KeepLastError&) = delete;

 private:
  cudaError_t kept_;
};

inline CUresult to_result(cudaError_t error) { return static_cast<CUresult>(error); }

template <typename Body>
CUresult driver_call(const char* name, Needs needs, Body body) {
  const KeepLastError keep;
  return to_result(api_call(name, needs, body));
}

inline void* to_pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

enum class EntryAnswer : uint8_t { kFound, kUnknown, kTooNew };

/// The function of a driver call by its name without a version suffix, as of a CUDA version
/// (12000 is 12.0). kTooNew: it came later.
EntryAnswer find_driver_entry(std::string_view name, int version, void** function);

}  // namespace flamia::emulator::cudart
