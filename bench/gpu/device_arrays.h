// Device memory and events for benchmarks of single kernels; errors as sentences.
// Used by: bench/gpu.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/message.h"
#include "flamia/status.h"

namespace flamia::bench {

inline Status cuda_status(const char* what, cudaError_t error) {
  if (error == cudaSuccess) return {};
  const bool memory = error == cudaErrorMemoryAllocation;
  return {memory ? StatusCode::kOutOfMemory : StatusCode::kDeviceError,
          concat(what, ": ", cudaGetErrorString(error))};
}

/// Arrays that live as long as this object. The first error is kept; arrays are null after it.
class DeviceArrays {
 public:
  DeviceArrays() = default;
  DeviceArrays(const DeviceArrays&) = delete;
  DeviceArrays& operator=(const DeviceArrays&) = delete;
  ~DeviceArrays() {
    for (void* data : all_) cudaFree(data);
  }

  template <typename T>
  T* take(int64_t count) {
    if (!status_.ok()) return nullptr;
    void* data = nullptr;
    const size_t bytes = static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(T);
    status_ = cuda_status("cudaMalloc", cudaMalloc(&data, bytes));
    if (status_.ok()) all_.push_back(data);
    return static_cast<T*>(status_.ok() ? data : nullptr);
  }
  template <typename T>
  T* copy_of(const std::vector<T>& values) {
    T* const data = take<T>(static_cast<int64_t>(values.size()));
    if (status_.ok()) {
      status_ = cuda_status("cudaMemcpy", cudaMemcpy(data, values.data(), values.size() * sizeof(T),
                                                     cudaMemcpyHostToDevice));
    }
    return data;
  }
  const Status& status() const { return status_; }

 private:
  std::vector<void*> all_;
  Status status_;
};

template <typename T>
Status read_array(const T* device, int64_t count, std::vector<T>* values) {
  values->resize(static_cast<size_t>(count));
  return cuda_status("cudaMemcpy", cudaMemcpy(values->data(), device, values->size() * sizeof(T),
                                              cudaMemcpyDeviceToHost));
}

/// Time between two points of a stream.
class EventPair {
 public:
  explicit EventPair(cudaStream_t stream) : stream_(stream) {
    status_ = cuda_status("cudaEventCreate", cudaEventCreate(&begin_));
    if (status_.ok()) status_ = cuda_status("cudaEventCreate", cudaEventCreate(&end_));
  }
  EventPair(const EventPair&) = delete;
  EventPair& operator=(const EventPair&) = delete;
  ~EventPair() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
  }

  /// work returns a Status.
  template <typename Work>
  Status microseconds(const Work& work, double* result) {
    if (!status_.ok()) return status_;
    Status status = cuda_status("cudaEventRecord", cudaEventRecord(begin_, stream_));
    if (status.ok()) status = work();
    if (status.ok()) status = cuda_status("cudaEventRecord", cudaEventRecord(end_, stream_));
    if (status.ok()) status = cuda_status("work of the device", cudaEventSynchronize(end_));
    float ms = 0;
    if (status.ok()) {
      status = cuda_status("cudaEventElapsedTime", cudaEventElapsedTime(&ms, begin_, end_));
    }
    *result = 1e3 * static_cast<double>(ms);
    return status;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  Status status_;
};

inline double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace flamia::bench
