// Arrays in device memory for tests of kernels: filled, handed to a launch, read back.
// Used by: tests/kernels, on the virtual GPU or a real one.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace flamia::test {

/// `count` elements of T; freed at the end.
template <typename T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(const std::vector<T>& values) : count_(values.size()) {
    // One element more: an empty array has an address too.
    EXPECT_EQ(cudaMalloc(&data_, (count_ + 1) * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  /// Uninitialized; the virtual GPU backs only what is touched.
  explicit DeviceBuffer(size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(&data_, count_ * sizeof(T)), cudaSuccess);
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data_); }

  T* data() const { return static_cast<T*>(data_); }

  /// The elements, after all work on the device.
  std::vector<T> read() const { return read(0, count_); }
  std::vector<T> read(size_t begin, size_t count) const {
    std::vector<T> values(count);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(values.data(), data() + begin, count * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }
  void write(size_t begin, const T* values, size_t count) {
    EXPECT_EQ(cudaMemcpy(data() + begin, values, count * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }

 private:
  size_t count_;
  void* data_ = nullptr;
};

}  // namespace flamia::test
