// One query of all devices per process; a call only asks which of them is current.
#include "cuda/device.h"

#include <cuda_runtime_api.h>

#include <utility>
#include <vector>

#include "base/refusals.h"

namespace flamia::cuda {

namespace {

struct Devices {
  std::vector<Device> list;
  std::string reason;  ///< why there is none
};

std::string sentence(const char* what, cudaError_t error) {
  (void)cudaGetLastError();  // a machine without a GPU leaves no error for the caller's own calls
  return concat(what, ": ", cudaGetErrorString(error));
}

Devices find_devices() {
  Devices devices;
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    devices.reason = sentence("no usable GPU", error);
    return devices;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    error = cudaGetDeviceProperties(&properties, i);
    if (error != cudaSuccess) {
      devices.reason = sentence("properties of a GPU", error);
      devices.list.clear();
      return devices;
    }
    devices.list.push_back({properties.name, properties.major, properties.minor,
                            properties.multiProcessorCount, i,
                            properties.pageableMemoryAccess != 0});
  }
  if (count == 0) devices.reason = "no GPU";
  return devices;
}

const Devices& all_devices() {
  static const Devices devices = find_devices();
  return devices;
}

/// Why the current device cannot be told; empty if it was.
std::string find_current(Device* device) {
  const Devices& devices = all_devices();
  if (devices.list.empty()) return devices.reason;
  int current = 0;
  const cudaError_t error = cudaGetDevice(&current);
  if (error != cudaSuccess) return sentence("current GPU", error);
  if (current < 0 || current >= static_cast<int>(devices.list.size())) {
    return concat("current GPU: number ", current, " of ", devices.list.size());
  }
  *device = devices.list[static_cast<size_t>(current)];
  return {};
}

}  // namespace

Status current_device(const char* function, Device* device) {
  const std::string reason = find_current(device);
  if (reason.empty()) return {};
  return {StatusCode::kUnsupported, concat(function, ": ", reason)};
}

Machine machine_of(const Device& device) {
  Machine machine;
  machine.no_hopper.clear();
  if (device.major == 9 && device.minor == 0) {
    machine.gpu = BackendKind::kHopper;
    return machine;
  }
  if (device.major == 10) machine.gpu = BackendKind::kBlackwell;
  machine.no_hopper = concat("the current GPU is ", device.name, " of compute capability ",
                             device.major, ".", device.minor, ", not 9.0");
  return machine;
}

Machine current_machine() {
  Device device;
  std::string reason = find_current(&device);
  if (reason.empty()) return machine_of(device);
  Machine machine;
  machine.no_hopper = std::move(reason);
  return machine;
}

}  // namespace flamia::cuda
