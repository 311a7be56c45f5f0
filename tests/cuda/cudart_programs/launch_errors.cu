// Wrong launches have their codes and leave the device usable; a wrong access breaks it for good.
#include "check.h"

__global__ void store(int* out) { *out = 1; }
__global__ void __launch_bounds__(64) small(int* out) { *out = 1; }

int main() {
  int* device = nullptr;
  EXPECT_OK(cudaMalloc(&device, sizeof(int)));
  store<<<0, 1>>>(device);
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  store<<<1, 2048>>>(device);
  EXPECT_CODE(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  small<<<1, 96>>>(device);
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  store<<<1, 1, 64 * 1024>>>(device);
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  store<<<1, 1>>>(device);
  EXPECT_OK(cudaDeviceSynchronize());

  store<<<1, 1>>>(nullptr);
  EXPECT_CODE(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  void* more = nullptr;
  EXPECT_CODE(cudaMalloc(&more, 4), cudaErrorIllegalAddress);
  int count = 0;
  EXPECT_OK(cudaGetDeviceCount(&count));
  std::printf("passed\n");
}
