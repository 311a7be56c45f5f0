// Memory calls of the runtime half, through its C symbols. The codes expected for wrong calls are
// those that the CUDA 13.0 runtime gave on an H200.
#include <gtest/gtest.h>

#include <array>

#include "tests/emulator/cudart_support.h"

namespace flamia::emulator::cudart {
namespace {

class CudartMemory : public CudartTest {
 protected:
  void SetUp() override {
    CudartTest::SetUp();
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device_), 1000), cudaSuccess);
  }
  uint8_t* device_ = nullptr;
  std::array<uint8_t, 256> host_bytes_ = {};
};

TEST_F(CudartMemory, AllocationsAreCountedAndFreed) {
  size_t free_before = 0, total = 0, free_after = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_before, &total), cudaSuccess);
  EXPECT_EQ(total - free_before, 1000u);
  EXPECT_EQ(cudaFree(device_), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free_after, &total), cudaSuccess);
  EXPECT_EQ(free_after, total);
  EXPECT_EQ(cudaFree(device_), cudaErrorInvalidValue);
}

TEST_F(CudartMemory, WrongAllocationsHaveTheCodesOfHardware) {
  void* pointer = device_;
  EXPECT_EQ(cudaMalloc(nullptr, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMalloc(&pointer, 0), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(cudaMalloc(&pointer, size_t{1} << 50), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&pointer, SIZE_MAX), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaFree(device_ + 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(host_bytes_.data()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMallocManaged(&pointer, 4, cudaMemAttachGlobal), cudaErrorNotSupported);
}

TEST_F(CudartMemory, CopiesGoThereAndBack) {
  for (size_t i = 0; i < host_bytes_.size(); ++i) host_bytes_[i] = static_cast<uint8_t>(i);
  std::array<uint8_t, 256> back = {};
  EXPECT_EQ(cudaMemcpy(device_, host_bytes_.data(), 256, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(device_ + 256, device_, 256, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(back.data(), device_ + 256, 256, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, host_bytes_);
}

TEST_F(CudartMemory, WrongCopiesHaveTheCodesOfHardware) {
  uint8_t* host = host_bytes_.data();
  EXPECT_EQ(cudaMemcpy(nullptr, host, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device_, nullptr, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device_, host, 4, static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpy(device_, host, 4, static_cast<cudaMemcpyKind>(-1)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(host, host + 8, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, host + 8, 4, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, host + 8, 4, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(device_, device_ + 8, 4, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(host, device_, size_t{1} << 40, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, device_, SIZE_MAX, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device_ + 997, host, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
}

TEST_F(CudartMemory, CopiedBytesStayMarkedAsUnwritten) {
  GlobalMemory& memory = Runtime::get().executor().memory();
  EXPECT_EQ(cudaMemset(device_, 1, 100), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(device_ + 500, device_ + 50, 100, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(memory.first_unwritten(reinterpret_cast<uint64_t>(device_) + 500, 100), 50u);
}

TEST_F(CudartMemory, RowsOfTwoDimensionsAreCopied) {
  for (size_t i = 0; i < host_bytes_.size(); ++i) host_bytes_[i] = static_cast<uint8_t>(i);
  EXPECT_EQ(cudaMemset(device_, 0, 1000), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2D(device_, 32, host_bytes_.data(), 16, 8, 3, cudaMemcpyHostToDevice),
            cudaSuccess);
  EXPECT_EQ(device_[64 + 7], 32 + 7);
  EXPECT_EQ(device_[8], 0);
  EXPECT_EQ(cudaMemset2D(device_, 32, 9, 4, 2), cudaSuccess);
  EXPECT_EQ(device_[32 + 3], 9);
  EXPECT_EQ(device_[32 + 4], 16 + 4);
}

TEST_F(CudartMemory, WrongPitchesHaveTheCodesOfHardware) {
  uint8_t* host = host_bytes_.data();
  EXPECT_EQ(cudaMemcpy2D(device_, 4, host, 16, 8, 2, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpy2D(device_, 16, host, 4, 8, 2, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpy2D(device_, 0, host, 0, 0, 2, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2D(device_, SIZE_MAX, host, SIZE_MAX, 8, SIZE_MAX, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset2D(device_, 4, 0, 8, 2), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset2D(device_, 4, 0, 8, 1), cudaSuccess);
}

TEST_F(CudartMemory, FillsNeedDeviceMemory) {
  EXPECT_EQ(cudaMemset(nullptr, 0, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(nullptr, 0, 0), cudaSuccess);
  EXPECT_EQ(cudaMemset(host_bytes_.data(), 0, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device_, 0, size_t{1} << 40), cudaErrorInvalidValue);
}

TEST_F(CudartMemory, PinnedMemoryIsKnownToTheDevice) {
  void* pinned = nullptr;
  EXPECT_EQ(cudaMallocHost(&pinned, 64), cudaSuccess);
  cudaPointerAttributes attributes;
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.devicePointer, pinned);
  void* mapped = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&mapped, pinned, 0), cudaSuccess);
  EXPECT_EQ(mapped, pinned);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(nullptr), cudaSuccess);
  EXPECT_EQ(cudaHostAlloc(&pinned, 64, 0xff00), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostAlloc(&pinned, SIZE_MAX, 0), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMallocHost(&pinned, 0), cudaSuccess);
  EXPECT_EQ(pinned, nullptr);
}

TEST_F(CudartMemory, MemoryIsRegisteredOnce) {
  uint8_t* host = host_bytes_.data();
  EXPECT_EQ(cudaHostRegister(host, 0, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostRegister(nullptr, 64, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostRegister(host, SIZE_MAX, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostRegister(host, 256, 0), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(host, 256, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(host), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(host), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaHostUnregister(nullptr), cudaErrorInvalidValue);
}

TEST_F(CudartMemory, PointersTellWhatTheyAre) {
  cudaPointerAttributes attributes;
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, device_ + 4), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.devicePointer, device_ + 4);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, host_bytes_.data()), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(attributes.device, -2);
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, nullptr), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaPointerGetAttributes(nullptr, device_), cudaErrorInvalidValue);
}

TEST_F(CudartMemory, VariablesAreCopiedBySymbol) {
  uint32_t value = 0;
  EXPECT_EQ(cudaMemcpyFromSymbol(&value, host("counter"), 4, 0, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(value, 7u);
  value = 9;
  EXPECT_EQ(cudaMemcpyToSymbol(host("counter"), &value, 4, 0, cudaMemcpyHostToDevice), cudaSuccess);
  void* address = nullptr;
  size_t size = 0;
  EXPECT_EQ(cudaGetSymbolAddress(&address, host("counter")), cudaSuccess);
  EXPECT_EQ(cudaGetSymbolSize(&size, host("counter")), cudaSuccess);
  EXPECT_EQ(size, 4u);
  uint32_t back = 0;
  EXPECT_EQ(cudaMemcpy(&back, address, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, 9u);
}

TEST_F(CudartMemory, ConstantsAreCopiedBySymbolAndByAddress) {
  const uint32_t values[4] = {1, 2, 3, 4};
  EXPECT_EQ(cudaMemcpyToSymbol(host("table"), values, 16, 0, cudaMemcpyHostToDevice), cudaSuccess);
  void* address = nullptr;
  EXPECT_EQ(cudaGetSymbolAddress(&address, host("table")), cudaSuccess);
  uint32_t back = 0;
  EXPECT_EQ(cudaMemcpy(&back, static_cast<uint8_t*>(address) + 8, 4, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(back, 3u);
}

TEST_F(CudartMemory, WrongSymbolCopiesHaveTheCodesOfHardware) {
  uint8_t* host_data = host_bytes_.data();
  constexpr auto kThere = cudaMemcpyHostToDevice;
  EXPECT_EQ(cudaMemcpyToSymbol(host("table"), host_data, 17, 0, kThere), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyToSymbol(host("table"), host_data, 16, 4, kThere), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyToSymbol(host("table"), host_data, SIZE_MAX, 4, kThere),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyToSymbol(host("table"), host_data, 4, 12, kThere), cudaSuccess);
  EXPECT_EQ(cudaMemcpyToSymbol(host_data, host_data, 4, 0, kThere), cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaMemcpyToSymbol(host("table"), host_data, 4, 0, cudaMemcpyDeviceToHost),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(cudaMemcpyFromSymbol(host_data, host("table"), 4, 0, kThere),
            cudaErrorInvalidMemcpyDirection);
  void* address = nullptr;
  EXPECT_EQ(cudaGetSymbolAddress(&address, host_data), cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaGetSymbolAddress(nullptr, host("table")), cudaErrorInvalidValue);
}

TEST_F(CudartMemory, OrderedAllocationsWork) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaMallocAsync(&pointer, 64, nullptr), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(pointer, 1, 64, nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(pointer, nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(nullptr, nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(host_bytes_.data(), nullptr), cudaErrorInvalidValue);
}

TEST_F(CudartMemory, PeersOtherThanTheDeviceDoNotExist) {
  EXPECT_EQ(cudaMemset(device_, 3, 128), cudaSuccess);
  EXPECT_EQ(cudaMemcpyPeer(device_ + 64, 0, device_, 0, 8), cudaSuccess);
  EXPECT_EQ(cudaMemcpyPeer(device_ + 64, 1, device_, 0, 8), cudaErrorInvalidDevice);
  int can = -1;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 0), cudaSuccess);
  EXPECT_EQ(can, 0);
}

}  // namespace
}  // namespace flamia::emulator::cudart
