// The GPUs of this machine, asked for once.
// Used by: the CUDA backend, and the API, which plans with what is found here.
#pragma once

#include <string>

#include "flamia/status.h"
#include "plan/machine.h"

namespace flamia::cuda {

struct Device {
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
  int multiprocessors = 0;
  int number = 0;                  ///< as cudaSetDevice() takes it
  bool reads_host_memory = false;  ///< also memory that the runtime does not know
};

/// The current device of the calling thread. Errors: kUnsupported with the runtime's reason where
/// there is no driver or no device. Creates no context.
Status current_device(const char* function, Device* device);

/// The same as planning sees it. Never fails: without a device it says why.
Machine current_machine();

/// What planning makes of a device.
Machine machine_of(const Device& device);

}  // namespace flamia::cuda
