// Calls for memory: device and page-locked allocations, what a pointer is, addresses of variables.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/message.h"
#include "emulator/cudart/api.h"
#include "emulator/cudart/enqueue.h"
#include "emulator/cudart/transfer.h"

namespace flamia::emulator::cudart {
namespace {

constexpr size_t kPitchUnit = 512;
constexpr size_t kPageBytes = 4096;
constexpr unsigned int kAllocFlags =
    cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
constexpr unsigned int kRegisterFlags = cudaHostRegisterPortable | cudaHostRegisterMapped;

Outcome allocate(Runtime& runtime, const char* name, void** pointer, size_t bytes) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  if (bytes == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  uint64_t address = 0;
  const Status status =
      runtime.executor().memory().allocate(bytes, concat(name, " of ", bytes, " bytes"), &address);
  // Programs probe for what fits: running out is no line on stderr.
  if (!status.ok()) return to_outcome(status).error;
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

Outcome release(Runtime& runtime, void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  GlobalMemory& memory = runtime.executor().memory();
  const auto address = reinterpret_cast<uint64_t>(pointer);
  if (!memory.contains(address)) return cudaErrorInvalidValue;
  const Status status = memory.release(address);
  return status.ok() ? Outcome() : Outcome(cudaErrorInvalidValue, status.message());
}

/// Allocation in stream order. Work runs when it is enqueued, so the memory is there at once.
Outcome allocate_ordered(Runtime& runtime, void** pointer, size_t bytes, cudaStream_t handle) {
  Stream* stream = nullptr;
  Capture* capture = nullptr;
  const Outcome outcome = open_stream(runtime, handle, &stream, &capture);
  if (!outcome.ok()) return outcome;
  if (capture != nullptr) {
    capture->invalid = true;
    return {cudaErrorNotSupported, "allocations must not be captured into a graph"};
  }
  return allocate(runtime, "cudaMallocAsync", pointer, bytes);
}

Outcome release_ordered(Runtime& runtime, void* pointer, cudaStream_t handle) {
  Stream* stream = nullptr;
  Capture* capture = nullptr;
  const Outcome outcome = open_stream(runtime, handle, &stream, &capture);
  if (!outcome.ok()) return outcome;
  if (capture != nullptr) {
    capture->invalid = true;
    return {cudaErrorNotSupported, "frees must not be captured into a graph"};
  }
  return release(runtime, pointer);
}

/// Page-locked memory is memory: what the host does not have, it cannot lock.
bool host_has(size_t bytes) {
  const long pages = sysconf(_SC_PHYS_PAGES);
  return pages <= 0 || bytes / kPageBytes < static_cast<size_t>(pages);
}

/// Whether all pages of a range exist.
bool is_mapped(uint64_t address, size_t bytes) {
  const uint64_t first = address / kPageBytes * kPageBytes;
  return msync(reinterpret_cast<void*>(first), bytes + (address - first), MS_ASYNC) == 0;
}

Outcome allocate_host(Runtime& runtime, void** pointer, size_t bytes, unsigned int flags) {
  if (pointer == nullptr || (flags & ~kAllocFlags) != 0) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (!host_has(bytes)) return cudaErrorMemoryAllocation;
  void* data = std::aligned_alloc(kPageBytes, (bytes + kPageBytes - 1) / kPageBytes * kPageBytes);
  if (data == nullptr) return cudaErrorMemoryAllocation;
  std::memset(data, 0, bytes);
  const Status status = runtime.executor().memory().register_host(
      data, bytes, concat("host allocation of ", bytes, " bytes"));
  if (!status.ok()) {
    std::free(data);
    return {cudaErrorMemoryAllocation, status.message()};
  }
  runtime.host_blocks[reinterpret_cast<uint64_t>(data)] = HostBlock{bytes, flags, true};
  *pointer = data;
  return cudaSuccess;
}

Outcome release_host(Runtime& runtime, void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  const auto it = runtime.host_blocks.find(reinterpret_cast<uint64_t>(pointer));
  if (it == runtime.host_blocks.end() || !it->second.is_ours) return cudaErrorInvalidValue;
  const Status status = runtime.executor().memory().release(it->first);
  if (!status.ok()) return {cudaErrorInvalidValue, status.message()};
  runtime.host_blocks.erase(it);
  std::free(pointer);
  return cudaSuccess;
}

Outcome register_host(Runtime& runtime, void* pointer, size_t bytes, unsigned int flags) {
  if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
  if ((flags & (cudaHostRegisterIoMemory | cudaHostRegisterReadOnly)) != 0) {
    return {cudaErrorNotSupported, "memory of devices and read-only memory must not be registered"};
  }
  if ((flags & ~kRegisterFlags) != 0) return cudaErrorInvalidValue;
  const auto address = reinterpret_cast<uint64_t>(pointer);
  if (bytes > UINT64_MAX - address || !is_mapped(address, bytes)) return cudaErrorInvalidValue;
  if (runtime.executor().memory().contains(address)) return cudaErrorInvalidValue;
  const Status status = runtime.executor().memory().register_host(
      pointer, bytes, concat("registered host memory of ", bytes, " bytes"));
  if (!status.ok()) return cudaErrorHostMemoryAlreadyRegistered;
  runtime.host_blocks[address] = HostBlock{bytes, flags, false};
  return cudaSuccess;
}

Outcome unregister_host(Runtime& runtime, void* pointer) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  const auto it = runtime.host_blocks.find(reinterpret_cast<uint64_t>(pointer));
  if (it == runtime.host_blocks.end() || it->second.is_ours) {
    return cudaErrorHostMemoryNotRegistered;
  }
  const Status status = runtime.executor().memory().release(it->first);
  runtime.host_blocks.erase(it);
  return to_outcome(status);
}

/// The page-locked block that holds an address; null if there is none.
const HostBlock* host_block(Runtime& runtime, const void* pointer) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  auto it = runtime.host_blocks.upper_bound(address);
  if (it == runtime.host_blocks.begin()) return nullptr;
  --it;
  return address - it->first < it->second.bytes ? &it->second : nullptr;
}

Outcome pointer_attributes(Runtime& runtime, cudaPointerAttributes* attributes,
                           const void* pointer) {
  if (attributes == nullptr) return cudaErrorInvalidValue;
  std::memset(attributes, 0, sizeof(*attributes));
  const Place place = pointer == nullptr ? Place::kPageable : place_of(runtime, pointer, 1);
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = cudaInvalidDeviceId;
  if (place == Place::kPageable) {
    attributes->hostPointer = const_cast<void*>(pointer);
  } else if (place == Place::kPinned) {
    attributes->type = cudaMemoryTypeHost;
    attributes->hostPointer = const_cast<void*>(pointer);
    attributes->devicePointer = const_cast<void*>(pointer);
  } else if (place == Place::kDevice || place == Place::kConstant) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(pointer);
  }
  if (attributes->type != cudaMemoryTypeUnregistered) attributes->device = 0;
  return cudaSuccess;
}

}  // namespace
}  // namespace flamia::emulator::cudart

using namespace flamia::emulator::cudart;  // NOLINT: this file is the C boundary

FLAMIA_VGPU_EXPORT cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return api_call("cudaMalloc", Needs::kNoCapture, [&](Runtime& runtime) {
    return allocate(runtime, "cudaMalloc", pointer, bytes);
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width,
                                               size_t height) {
  return api_call("cudaMallocPitch", Needs::kNoCapture, [&](Runtime& runtime) -> Outcome {
    if (pitch == nullptr) return cudaErrorInvalidValue;
    if (width > SIZE_MAX - kPitchUnit) return cudaErrorMemoryAllocation;
    *pitch = (width + kPitchUnit - 1) / kPitchUnit * kPitchUnit;
    size_t bytes = 0;
    if (__builtin_mul_overflow(*pitch, height, &bytes)) return cudaErrorMemoryAllocation;
    return allocate(runtime, "cudaMallocPitch", pointer, bytes);
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaMallocManaged(void**, size_t, unsigned int) {
  return api_call("cudaMallocManaged", Needs::kNoCapture, [](Runtime&) {
    return Outcome(cudaErrorNotSupported,
                   "managed memory must not be used; the checks of uninitialized reads and of "
                   "hazards need to see every copy (use cudaMalloc and cudaMemcpy)");
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaFree(void* pointer) {
  return api_call("cudaFree", Needs::kNoCapture,
                  [&](Runtime& runtime) { return release(runtime, pointer); });
}

namespace flamia::emulator::cudart {
namespace {

cudaError_t malloc_async(void** pointer, size_t bytes, cudaStream_t stream) {
  return api_call("cudaMallocAsync", Needs::kDevice, [&](Runtime& runtime) {
    return allocate_ordered(runtime, pointer, bytes, stream);
  });
}

cudaError_t free_async(void* pointer, cudaStream_t stream) {
  return api_call("cudaFreeAsync", Needs::kDevice,
                  [&](Runtime& runtime) { return release_ordered(runtime, pointer, stream); });
}

}  // namespace
}  // namespace flamia::emulator::cudart

FLAMIA_VGPU_STREAM_CALL(cudaMallocAsync, (void** pointer, size_t bytes, cudaStream_t stream),
                        malloc_async(pointer, bytes, stream))
FLAMIA_VGPU_STREAM_CALL(cudaFreeAsync, (void* pointer, cudaStream_t stream),
                        free_async(pointer, stream))

FLAMIA_VGPU_EXPORT cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return api_call("cudaMallocHost", Needs::kNoCapture,
                  [&](Runtime& runtime) { return allocate_host(runtime, pointer, bytes, 0); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  return api_call("cudaHostAlloc", Needs::kNoCapture,
                  [&](Runtime& runtime) { return allocate_host(runtime, pointer, bytes, flags); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaFreeHost(void* pointer) {
  return api_call("cudaFreeHost", Needs::kNoCapture,
                  [&](Runtime& runtime) { return release_host(runtime, pointer); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return api_call("cudaHostRegister", Needs::kNoCapture,
                  [&](Runtime& runtime) { return register_host(runtime, pointer, bytes, flags); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  return api_call("cudaHostUnregister", Needs::kNoCapture,
                  [&](Runtime& runtime) { return unregister_host(runtime, pointer); });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaHostGetDevicePointer(void** device, void* host,
                                                        unsigned int flags) {
  return api_call("cudaHostGetDevicePointer", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (device == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (host_block(runtime, host) == nullptr) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaHostGetFlags(unsigned int* flags, void* host) {
  return api_call("cudaHostGetFlags", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    const HostBlock* block = host_block(runtime, host);
    if (flags == nullptr || block == nullptr) return cudaErrorInvalidValue;
    *flags = block->flags;
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return api_call("cudaMemGetInfo", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (free_bytes == nullptr || total_bytes == nullptr) return cudaErrorInvalidValue;
    const flamia::emulator::GlobalMemory& memory = runtime.executor().memory();
    *total_bytes = memory.limit_bytes();
    *free_bytes = memory.limit_bytes() - memory.used_bytes();
    return cudaSuccess;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                        const void* pointer) {
  return api_call("cudaPointerGetAttributes", Needs::kDevice, [&](Runtime& runtime) {
    return pointer_attributes(runtime, attributes, pointer);
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return api_call("cudaGetSymbolAddress", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    uint64_t address = 0, bytes = 0;
    Outcome outcome = symbol_address(runtime, symbol, &address, &bytes);
    if (outcome.ok()) *pointer = reinterpret_cast<void*>(address);
    return outcome;
  });
}

FLAMIA_VGPU_EXPORT cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
  return api_call("cudaGetSymbolSize", Needs::kDevice, [&](Runtime& runtime) -> Outcome {
    if (size == nullptr) return cudaErrorInvalidValue;
    uint64_t address = 0, bytes = 0;
    Outcome outcome = symbol_address(runtime, symbol, &address, &bytes);
    if (outcome.ok()) *size = bytes;
    return outcome;
  });
}
