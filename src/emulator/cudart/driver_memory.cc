// Driver calls for the device, its one context, memory, streams and events.
#include <algorithm>
#include <cstring>

#include "emulator/cudart/chip.h"
#include "emulator/cudart/driver.h"
#include "emulator/cudart/enqueue.h"
#include "emulator/cudart/errors.h"

namespace flamia::emulator::cudart {
namespace {

/// The primary context is the only one, and always current.
CUcontext primary_context() {
  static char context;
  return reinterpret_cast<CUcontext>(&context);
}

CUresult text_of_code(CUresult error, const char* text, const char** out) {
  static_cast<void>(error);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = text;
  return text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult fill(const char* name, CUdeviceptr to, uint32_t value, uint32_t element_bytes,
              size_t count, CUstream stream) {
  return driver_call(name, Needs::kDevice, [&](Runtime& runtime) {
    FillWork work;
    work.to = to_pointer(to);
    work.value = value;
    work.element_bytes = element_bytes;
    work.width = count;
    return enqueue(runtime, stream, work);
  });
}

template <typename Call>
CUresult forward(Call call) {
  const KeepLastError keep;
  return to_result(call());
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT CUresult cuInit(unsigned int flags) {
  return driver_call("cuInit", Needs::kNothing, [&](Runtime&) -> Outcome {
    return flags == 0 ? cudaSuccess : cudaErrorInvalidValue;
  });
}

FLAMIA_VGPU_EXPORT CUresult cuDriverGetVersion(int* version) {
  return forward([&] { return cudaDriverGetVersion(version); });
}

FLAMIA_VGPU_EXPORT CUresult cuGetErrorName(CUresult error, const char** name) {
  // Names of the two interfaces differ: CUDA_ERROR_..., cudaError...; the number is in both.
  return text_of_code(error, error_name(error), name);
}

FLAMIA_VGPU_EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  return text_of_code(error, error_text(error), text);
}

FLAMIA_VGPU_EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return driver_call("cuDeviceGet", Needs::kNothing, [&](Runtime&) -> Outcome {
    if (device == nullptr) return cudaErrorInvalidValue;
    if (ordinal != 0) return cudaErrorInvalidDevice;
    *device = 0;
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT CUresult cuDeviceGetCount(int* count) {
  return forward([&] { return cudaGetDeviceCount(count); });
}

FLAMIA_VGPU_EXPORT CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  return driver_call("cuDeviceGetName", Needs::kNothing, [&](Runtime& runtime) -> Outcome {
    if (name == nullptr || bytes <= 0) return cudaErrorInvalidValue;
    if (device != 0) return cudaErrorInvalidDevice;
    const std::string_view text = chip_facts(runtime.executor().options().chip).name;
    const size_t length = std::min(text.size(), static_cast<size_t>(bytes) - 1);
    std::memcpy(name, text.data(), length);
    name[length] = '\0';
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  return driver_call("cuDeviceTotalMem", Needs::kNothing, [&](Runtime& runtime) -> Outcome {
    if (bytes == nullptr) return cudaErrorInvalidValue;
    if (device != 0) return cudaErrorInvalidDevice;
    *bytes = runtime.executor().memory().limit_bytes();
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                                 CUdevice device) {
  return forward([&] {
    return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device);
  });
}

FLAMIA_VGPU_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return driver_call("cuDevicePrimaryCtxRetain", Needs::kDevice, [&](Runtime&) -> Outcome {
    if (context == nullptr) return cudaErrorInvalidValue;
    if (device != 0) return cudaErrorInvalidDevice;
    *context = primary_context();
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  // The runtime of the same process holds the context, too: it stays.
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

FLAMIA_VGPU_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = primary_context();
  return CUDA_SUCCESS;
}

FLAMIA_VGPU_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  return context == primary_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

FLAMIA_VGPU_EXPORT CUresult cuCtxGetDevice(CUdevice* device) { return cuDeviceGet(device, 0); }

FLAMIA_VGPU_EXPORT CUresult cuCtxSynchronize() {
  return forward([] { return cudaDeviceSynchronize(); });
}

FLAMIA_VGPU_EXPORT CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  void* pointer = nullptr;
  const CUresult result = forward([&] { return cudaMalloc(&pointer, bytes); });
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  return result;
}

FLAMIA_VGPU_EXPORT CUresult cuMemFree(CUdeviceptr address) {
  return forward([&] { return cudaFree(to_pointer(address)); });
}

FLAMIA_VGPU_EXPORT CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return forward([&] { return cudaMemGetInfo(free_bytes, total_bytes); });
}

FLAMIA_VGPU_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return forward(
      [&] { return cudaMemcpy(to_pointer(to), to_pointer(from), bytes, cudaMemcpyDefault); });
}

FLAMIA_VGPU_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                          CUstream stream) {
  return forward([&] {
    return cudaMemcpyAsync(to_pointer(to), to_pointer(from), bytes, cudaMemcpyDefault, stream);
  });
}

FLAMIA_VGPU_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  return forward([&] { return cudaMemcpy(to_pointer(to), from, bytes, cudaMemcpyHostToDevice); });
}

FLAMIA_VGPU_EXPORT CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  return forward([&] { return cudaMemcpy(to, to_pointer(from), bytes, cudaMemcpyDeviceToHost); });
}

FLAMIA_VGPU_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return forward([&] {
    return cudaMemcpy(to_pointer(to), to_pointer(from), bytes, cudaMemcpyDeviceToDevice);
  });
}

FLAMIA_VGPU_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes,
                                              CUstream stream) {
  return forward(
      [&] { return cudaMemcpyAsync(to_pointer(to), from, bytes, cudaMemcpyHostToDevice, stream); });
}

FLAMIA_VGPU_EXPORT CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes,
                                              CUstream stream) {
  return forward(
      [&] { return cudaMemcpyAsync(to, to_pointer(from), bytes, cudaMemcpyDeviceToHost, stream); });
}

FLAMIA_VGPU_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                              CUstream stream) {
  return forward([&] {
    return cudaMemcpyAsync(to_pointer(to), to_pointer(from), bytes, cudaMemcpyDeviceToDevice,
                           stream);
  });
}

FLAMIA_VGPU_EXPORT CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  return fill("cuMemsetD8", to, value, 1, count, nullptr);
}

FLAMIA_VGPU_EXPORT CUresult cuMemsetD16(CUdeviceptr to, unsigned short value, size_t count) {
  return fill("cuMemsetD16", to, value, 2, count, nullptr);
}

FLAMIA_VGPU_EXPORT CUresult cuMemsetD32(CUdeviceptr to, unsigned int value, size_t count) {
  return fill("cuMemsetD32", to, value, 4, count, nullptr);
}

FLAMIA_VGPU_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count,
                                            CUstream stream) {
  return fill("cuMemsetD8Async", to, value, 1, count, stream);
}

FLAMIA_VGPU_EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count,
                                             CUstream stream) {
  return fill("cuMemsetD16Async", to, value, 2, count, stream);
}

FLAMIA_VGPU_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count,
                                             CUstream stream) {
  return fill("cuMemsetD32Async", to, value, 4, count, stream);
}

FLAMIA_VGPU_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return forward([&] { return cudaStreamCreateWithFlags(stream, flags); });
}

FLAMIA_VGPU_EXPORT CUresult cuStreamDestroy(CUstream stream) {
  return forward([&] { return cudaStreamDestroy(stream); });
}

FLAMIA_VGPU_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  return forward([&] { return cudaStreamSynchronize(stream); });
}

FLAMIA_VGPU_EXPORT CUresult cuStreamQuery(CUstream stream) {
  return forward([&] { return cudaStreamQuery(stream); });
}

FLAMIA_VGPU_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return forward([&] { return cudaStreamWaitEvent(stream, event, flags); });
}

FLAMIA_VGPU_EXPORT CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  return forward([&] { return cudaEventCreateWithFlags(event, flags); });
}

FLAMIA_VGPU_EXPORT CUresult cuEventDestroy(CUevent event) {
  return forward([&] { return cudaEventDestroy(event); });
}

FLAMIA_VGPU_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  return forward([&] { return cudaEventRecord(event, stream); });
}

FLAMIA_VGPU_EXPORT CUresult cuEventQuery(CUevent event) {
  return forward([&] { return cudaEventQuery(event); });
}

FLAMIA_VGPU_EXPORT CUresult cuEventSynchronize(CUevent event) {
  return forward([&] { return cudaEventSynchronize(event); });
}

FLAMIA_VGPU_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return forward([&] { return cudaEventElapsedTime(milliseconds, start, end); });
}
