// The CUDA runtime, or the refusal of builds without it.

#include "tools/device_memory.h"

#include <fstream>

#include "base/message.h"
#include "problem/footprint.h"

#ifdef FLAMIA_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace flamia::tools {

#ifdef FLAMIA_HAS_CUDA

namespace {

Status result(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return Status();
  const bool memory = error == cudaErrorMemoryAllocation;
  return Status(memory ? StatusCode::kOutOfMemory : StatusCode::kDeviceError,
                concat(what, ": ", cudaGetErrorString(error)));
}

/// The first word of the driver's own files that looks like a version.
std::string driver_version() {
  for (const char* path : {"/sys/module/nvidia/version", "/proc/driver/nvidia/version"}) {
    std::ifstream file(path);
    for (std::string word; file >> word;) {
      const bool digit = word[0] >= '0' && word[0] <= '9';
      if (digit && word.find('.') != std::string::npos) return word;
    }
  }
  return {};
}

size_t dense_bytes(const TensorView& view) {
  int64_t bytes = dtype_bytes(view.dtype);
  for (int32_t i = 0; i < view.rank; ++i) bytes *= view.shape[i];
  return static_cast<size_t>(bytes);
}

}  // namespace

struct DeviceCopies::Copy {
  ~Copy() { cudaFree(device); }
  void* device = nullptr;
  void* host = nullptr;  ///< where fetch() copies it; null: nowhere
  size_t bytes = 0;
};

Status DeviceCopies::allocate(size_t bytes, void** data) {
  auto copy = std::make_unique<Copy>();
  copy->bytes = bytes;
  const size_t some = bytes > 0 ? bytes : 1;  // an empty tensor has an address too
  Status status = result("device memory", cudaMalloc(&copy->device, some));
  if (!status.ok()) return status;
  *data = copy->device;
  copies_.push_back(std::move(copy));
  return status;
}

Status DeviceCopies::copy(TensorView* view, bool output) {
  if (view->data == nullptr) return Status();
  void* const host = view->data;
  const size_t bytes = dense_bytes(*view);
  Status status = allocate(bytes, &view->data);
  if (!status.ok()) return status;
  if (output) copies_.back()->host = host;
  return result("copy to the device", cudaMemcpy(view->data, host, bytes, cudaMemcpyHostToDevice));
}

Status DeviceCopies::fetch() {
  Status status = result("work of the device", cudaDeviceSynchronize());
  for (const std::unique_ptr<Copy>& copy : copies_) {
    if (!status.ok()) return status;
    if (copy->host == nullptr) continue;
    status = result("copy from the device",
                    cudaMemcpy(copy->host, copy->device, copy->bytes, cudaMemcpyDeviceToHost));
  }
  return status;
}

Status DeviceCopies::poison_outputs() {
  for (const std::unique_ptr<Copy>& copy : copies_) {
    if (copy->host == nullptr) continue;
    Status status = result("fill of the device", cudaMemset(copy->device, 0xff, copy->bytes));
    if (!status.ok()) return status;
  }
  return Status();
}

Status identify_device(DeviceIdentity* identity) {
  int device = 0;
  int version = 0;
  cudaDeviceProp properties{};
  Status status = result("current GPU", cudaGetDevice(&device));
  if (status.ok()) {
    status = result("properties of a GPU", cudaGetDeviceProperties(&properties, device));
  }
  if (status.ok()) status = result("version of CUDA", cudaRuntimeGetVersion(&version));
  if (!status.ok()) return status;
  identity->chip = properties.name;
  identity->cuda = concat(version / 1000, ".", version % 1000 / 10);
  identity->driver = driver_version();
  return status;
}

DeviceTimer::DeviceTimer() {
  for (void*& event : events_) {
    cudaEvent_t created = nullptr;
    if (cudaEventCreate(&created) == cudaSuccess) event = created;
  }
}

DeviceTimer::~DeviceTimer() {
  for (void* event : events_) {
    if (event != nullptr) cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }
}

Status DeviceTimer::start() {
  return result("start of a time", cudaEventRecord(static_cast<cudaEvent_t>(events_[0]), nullptr));
}

Status DeviceTimer::stop(double* milliseconds) {
  const auto begin = static_cast<cudaEvent_t>(events_[0]);
  const auto end = static_cast<cudaEvent_t>(events_[1]);
  Status status = result("end of a time", cudaEventRecord(end, nullptr));
  if (status.ok()) status = result("work of the device", cudaEventSynchronize(end));
  float elapsed = 0.0f;
  if (status.ok())
    status = result("time of the device", cudaEventElapsedTime(&elapsed, begin, end));
  *milliseconds = static_cast<double>(elapsed);
  return status;
}

#else

namespace {

Status no_device_code() {
  return Status(StatusCode::kUnsupported, "device memory: this build has no device code");
}

}  // namespace

struct DeviceCopies::Copy {};

Status DeviceCopies::allocate(size_t, void**) { return no_device_code(); }
Status DeviceCopies::copy(TensorView*, bool) { return no_device_code(); }
Status DeviceCopies::fetch() { return no_device_code(); }
Status DeviceCopies::poison_outputs() { return no_device_code(); }
Status identify_device(DeviceIdentity*) { return no_device_code(); }
DeviceTimer::DeviceTimer() = default;
DeviceTimer::~DeviceTimer() = default;
Status DeviceTimer::start() { return no_device_code(); }
Status DeviceTimer::stop(double*) { return no_device_code(); }

#endif

DeviceCopies::DeviceCopies() = default;
DeviceCopies::~DeviceCopies() = default;
Status DeviceCopies::add_input(TensorView* view) { return copy(view, false); }
Status DeviceCopies::add_output(TensorView* view) { return copy(view, true); }

}  // namespace flamia::tools
