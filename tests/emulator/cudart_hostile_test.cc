// Calls of the runtime that no program means: sizes that nobody has, memory that is not there. They
// are refused before anything is touched.
#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "emulator/machine/memory.h"
#include "tests/emulator/cudart_support.h"

namespace flamia::emulator::cudart {
namespace {

TEST_F(CudartTest, PageLockedMemoryIsMemoryOfTheHost) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaMallocHost(&pointer, size_t{1} << 46), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMallocHost(&pointer, SIZE_MAX), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMallocHost(&pointer, 4096), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pointer), cudaSuccess);
}

TEST_F(CudartTest, OnlyMemoryThatExistsCanBeRegistered) {
  constexpr size_t kPage = 4096;
  void* const two =
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(two, MAP_FAILED);
  ASSERT_EQ(munmap(static_cast<uint8_t*>(two) + kPage, kPage), 0);
  EXPECT_EQ(cudaHostRegister(two, 2 * kPage, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostRegister(two, SIZE_MAX, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostRegister(two, kPage, 0), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(two), cudaSuccess);
  munmap(two, kPage);
}

TEST_F(CudartTest, RowsOfACopyMustAllLieInTheConstants) {
  void* table = nullptr;
  ASSERT_EQ(cudaGetSymbolAddress(&table, host("table")), cudaSuccess);
  std::vector<uint8_t> data(4096, 1);
  EXPECT_EQ(cudaMemcpy2D(table, 8, data.data(), 8, 8, 2, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_NE(cudaMemcpy2D(table, 8, data.data(), 8, 8, 100, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_NE(cudaMemcpy2D(data.data(), 8, table, 8, 8, 100, cudaMemcpyDeviceToHost), cudaSuccess);
}

}  // namespace
}  // namespace flamia::emulator::cudart
