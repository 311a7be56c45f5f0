// Copies of host tensors in device memory, and the time a device spends on a call.
// Depends on: the CUDA runtime where the build has it; else everything is refused.
// Used by: calls on GPU backends.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "flamia/problem.h"
#include "flamia/status.h"

namespace flamia::tools {

/// Device memory that lives as long as this object. All work is on the default stream.
class DeviceCopies {
 public:
  DeviceCopies();
  ~DeviceCopies();
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  /// Copies a dense host tensor and points the view to the copy; a view without data stays.
  Status add_input(TensorView* view);
  /// The same, and fetch() copies it back.
  Status add_output(TensorView* view);
  /// Uninitialized memory.
  Status allocate(size_t bytes, void** data);
  /// Waits for the device, then copies every output to where its view pointed before.
  Status fetch();
  /// Every byte of every output 0xff: NaN in BF16 and in FP32.
  Status poison_outputs();

 private:
  struct Copy;
  Status copy(TensorView* view, bool output);

  std::vector<std::unique_ptr<Copy>> copies_;
};

/// The current GPU, as results name it.
struct DeviceIdentity {
  std::string chip;
  std::string driver;  ///< of the kernel module; empty where the system does not tell
  std::string cuda;    ///< of the runtime, "13.0"
};
Status identify_device(DeviceIdentity* identity);

/// Time between two points of the default stream.
class DeviceTimer {
 public:
  DeviceTimer();
  ~DeviceTimer();
  DeviceTimer(const DeviceTimer&) = delete;
  DeviceTimer& operator=(const DeviceTimer&) = delete;

  Status start();
  /// Waits for all work before it. Errors of that work are reported here.
  Status stop(double* milliseconds);

 private:
  void* events_[2] = {nullptr, nullptr};
};

}  // namespace flamia::tools
