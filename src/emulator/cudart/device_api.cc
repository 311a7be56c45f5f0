// Calls for the device, its properties, limits and preferences, and for errors and versions.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/message.h"
#include "emulator/cudart/api.h"
#include "emulator/cudart/chip.h"
#include "emulator/cudart/runtime.h"

namespace flamia::emulator::cudart {
namespace {

constexpr int kVersion = 13000;
constexpr size_t kMostStackBytes = 512 * 1024 - 1024;
constexpr unsigned int kDeviceFlags =
    cudaDeviceScheduleMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax | cudaDeviceSyncMemops;
constexpr const char* kUnknownCode = "unrecognized error code";

template <typename Value>
cudaError_t answer(const char* name, Value* out, Value value) {
  return api_call(name, Needs::kNothing, [&](Runtime&) -> Outcome {
    if (out == nullptr) return cudaErrorInvalidValue;
    *out = value;
    return cudaSuccess;
  });
}

/// Everything that was enqueued has run.
Outcome synchronize(Runtime& runtime) {
  return runtime.streams.forbids_synchronize() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

Outcome set_limit(Runtime& runtime, cudaLimit limit, size_t value) {
  switch (limit) {
    case cudaLimitStackSize:
      // The frames of device functions have the size that they need; the number is kept.
      if (value > kMostStackBytes) return cudaErrorInvalidValue;
      break;
    case cudaLimitPrintfFifoSize:
    case cudaLimitMallocHeapSize:
      break;
    case cudaLimitMaxL2FetchGranularity:
      if (value > 128) return cudaErrorInvalidValue;
      break;
    case cudaLimitDevRuntimeSyncDepth:
    case cudaLimitDevRuntimePendingLaunchCount:
    case cudaLimitPersistingL2CacheSize:
      return {cudaErrorUnsupportedLimit,
              concat("limit must be stack, printf, heap or L2 fetch granularity; got ",
                     static_cast<int>(limit))};
    default:
      return cudaErrorInvalidValue;
  }
  runtime.limits[limit] = value;
  return cudaSuccess;
}

Outcome get_limit(const Runtime& runtime, cudaLimit limit, size_t* value) {
  if (value == nullptr) return cudaErrorInvalidValue;
  if (limit == cudaLimitDevRuntimeSyncDepth) return cudaErrorUnsupportedLimit;
  if (limit < cudaLimitStackSize || limit > cudaLimitPersistingL2CacheSize) {
    return cudaErrorInvalidValue;
  }
  *value = runtime.limits[limit];
  return cudaSuccess;
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  return answer("cudaGetDeviceCount", count, 1);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGetDevice(int* device) {
  return answer("cudaGetDevice", device, 0);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaSetDevice(int device) {
  return api_call("cudaSetDevice", Needs::kDevice, [&](Runtime&) -> Outcome {
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaInitDevice(int device, unsigned int device_flags,
                                              unsigned int flags) {
  return api_call("cudaInitDevice", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (device != 0) return cudaErrorInvalidDevice;
    if ((flags & ~unsigned{cudaInitDeviceFlagsAreValid}) != 0) return cudaErrorInvalidValue;
    if (flags == 0) return cudaSuccess;
    if ((device_flags & ~kDeviceFlags) != 0) return cudaErrorInvalidValue;
    runtime.device_flags = device_flags;
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return api_call("cudaSetDeviceFlags", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if ((flags & ~kDeviceFlags) != 0) return cudaErrorInvalidValue;
    runtime.device_flags = flags;  // how the host waits: it never does
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  return api_call("cudaGetDeviceFlags", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (flags == nullptr) return cudaErrorInvalidValue;
    *flags = runtime.device_flags;
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDeviceSynchronize() {
  return api_call("cudaDeviceSynchronize", Needs::kDevice, &synchronize);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDeviceReset() {
  return api_call("cudaDeviceReset", Needs::kNothing, [](Runtime& runtime) {
    runtime.reset();
    return Outcome();
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                                      int device) {
  return api_call("cudaDeviceGetAttribute", Needs::kNothing, [&](Runtime& runtime) -> Outcome {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (device != 0) return cudaErrorInvalidDevice;
    const auto found = device_attribute(runtime.executor().options(), attribute);
    if (!found) return cudaErrorInvalidValue;
    *value = *found;
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return api_call("cudaGetDeviceProperties", Needs::kNothing, [&](Runtime& runtime) -> Outcome {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (device != 0) return cudaErrorInvalidDevice;
    *properties =
        device_properties(runtime.executor().options(), runtime.executor().memory().limit_bytes());
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  return api_call("cudaDeviceGetPCIBusId", Needs::kNothing, [&](Runtime&) -> Outcome {
    constexpr char kId[] = "0000:01:00.0";  // as the attributes say
    if (id == nullptr || bytes < static_cast<int>(sizeof(kId))) return cudaErrorInvalidValue;
    if (device != 0) return cudaErrorInvalidDevice;
    std::memcpy(id, kId, sizeof(kId));
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return api_call("cudaDeviceCanAccessPeer", Needs::kNothing, [&](Runtime&) -> Outcome {
    if (can == nullptr) return cudaErrorInvalidValue;
    if (device != 0 || peer != 0) return cudaErrorInvalidDevice;
    *can = 0;  // there is no other device
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return api_call("cudaDeviceSetLimit", Needs::kDevice,
                  [&](Runtime& runtime) { return set_limit(runtime, limit, value); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return api_call("cudaDeviceGetLimit", Needs::kDevice,
                  [&](Runtime& runtime) { return get_limit(runtime, limit, value); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache preference) {
  return api_call("cudaDeviceSetCacheConfig", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (preference < cudaFuncCachePreferNone || preference > cudaFuncCachePreferEqual) {
      return cudaErrorInvalidValue;
    }
    runtime.cache_preference = preference;  // a preference: shared memory has its full size
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* preference) {
  return api_call("cudaDeviceGetCacheConfig", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (preference == nullptr) return cudaErrorInvalidValue;
    *preference = runtime.cache_preference;
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaCtxResetPersistingL2Cache() {
  // No line is ever kept: all are in the normal state, as the call promises.
  return api_call("cudaCtxResetPersistingL2Cache", Needs::kDevice,
                  [](Runtime&) { return Outcome(); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  return answer("cudaDriverGetVersion", version, kVersion);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  return answer("cudaRuntimeGetVersion", version, kVersion);
}

FLAMIA_VGPU_EXPORT cudaError_t cudaProfilerStart() {
  // Tells an attached profiler to collect. None can be attached, so there is nothing to tell.
  return api_call("cudaProfilerStart", Needs::kDevice, [](Runtime&) { return Outcome(); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaProfilerStop() {
  return api_call("cudaProfilerStop", Needs::kDevice, [](Runtime&) { return Outcome(); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGetLastError() {
  const cudaError_t error = thread_state().last_error;
  thread_state().last_error = cudaSuccess;
  return error;
}

FLAMIA_VGPU_EXPORT cudaError_t cudaPeekAtLastError() { return thread_state().last_error; }

FLAMIA_VGPU_EXPORT const char* cudaGetErrorName(cudaError_t error) {
  const char* name = error_name(error);
  return name != nullptr ? name : kUnknownCode;
}

FLAMIA_VGPU_EXPORT const char* cudaGetErrorString(cudaError_t error) {
  const char* text = error_text(error);
  return text != nullptr ? text : kUnknownCode;
}
