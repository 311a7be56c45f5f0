// Adds two vectors: device memory, copies, events, a grid with a ragged end.
#include <vector>

#include "check.h"

__global__ void add(const float* a, const float* b, float* sum, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) sum[i] = a[i] + b[i];
}

int main() {
  constexpr int kCount = 1000;
  constexpr size_t kBytes = kCount * sizeof(float);
  std::vector<float> a(kCount), b(kCount), sum(kCount);
  for (int i = 0; i < kCount; ++i) {
    a[i] = 0.5f * static_cast<float>(i);
    b[i] = 3.0f;
  }
  float *device_a = nullptr, *device_b = nullptr, *device_sum = nullptr;
  EXPECT_OK(cudaMalloc(&device_a, kBytes));
  EXPECT_OK(cudaMalloc(&device_b, kBytes));
  EXPECT_OK(cudaMalloc(&device_sum, kBytes));
  EXPECT_OK(cudaMemcpy(device_a, a.data(), kBytes, cudaMemcpyHostToDevice));
  EXPECT_OK(cudaMemcpy(device_b, b.data(), kBytes, cudaMemcpyHostToDevice));
  cudaEvent_t start, end;
  EXPECT_OK(cudaEventCreate(&start));
  EXPECT_OK(cudaEventCreate(&end));
  EXPECT_OK(cudaEventRecord(start));
  add<<<(kCount + 127) / 128, 128>>>(device_a, device_b, device_sum, kCount);
  EXPECT_OK(cudaGetLastError());
  EXPECT_OK(cudaEventRecord(end));
  EXPECT_OK(cudaEventSynchronize(end));
  float milliseconds = -1;
  EXPECT_OK(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT(milliseconds >= 0);
  EXPECT_OK(cudaMemcpy(sum.data(), device_sum, kBytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kCount; ++i) EXPECT(sum[i] == a[i] + 3.0f);
  EXPECT_OK(cudaFree(device_a));
  EXPECT_OK(cudaFree(device_b));
  EXPECT_OK(cudaFree(device_sum));
  std::printf("passed\n");
}
