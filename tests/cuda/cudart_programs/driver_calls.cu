// Driver calls that a program links (libcuda.so.1) and that it asks the runtime for: one state.
#include <cuda.h>

#include "check.h"

static void check_tensor_map(void* entry, void* address) {
  CUtensorMap map;
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry);
  const cuuint64_t dims[] = {64, 8}, strides[] = {128};
  const cuuint32_t box[] = {64, 8}, steps[] = {1, 1};
  const auto call = [&](const cuuint32_t* size) {
    return encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, address, dims, strides, size, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  EXPECT(call(box) == CUDA_SUCCESS);
  const cuuint32_t wide[] = {128, 8};  // a row of more than the 128 bytes of the swizzle
  EXPECT(call(wide) == CUDA_ERROR_INVALID_VALUE);
}

int main() {
  EXPECT(cuInit(0) == CUDA_SUCCESS);
  void* pointer = nullptr;
  EXPECT_OK(cudaMalloc(&pointer, 1024));
  EXPECT(cuMemsetD32Async(reinterpret_cast<CUdeviceptr>(pointer), 7, 256, nullptr) == CUDA_SUCCESS);
  int words[256] = {};
  EXPECT_OK(cudaMemcpy(words, pointer, sizeof(words), cudaMemcpyDeviceToHost));
  EXPECT(words[0] == 7 && words[255] == 7);
  const char* text = nullptr;
  EXPECT(cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text) == CUDA_SUCCESS && text != nullptr);

  void* entry = nullptr;
  cudaDriverEntryPointQueryResult result;
  EXPECT_OK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                             cudaEnableDefault, &result));
  EXPECT(result == cudaDriverEntryPointSuccess);
  check_tensor_map(entry, pointer);
  EXPECT_OK(cudaFree(pointer));
  EXPECT(cuMemFree(reinterpret_cast<CUdeviceptr>(pointer)) == CUDA_ERROR_INVALID_VALUE);
  std::printf("passed\n");
}
