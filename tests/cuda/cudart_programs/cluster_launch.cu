// Blocks of a cluster read each other's shared memory; the cluster size is a launch attribute, or
// one of the kernel.
#include "check.h"

__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ __forceinline__ int read_remote(const int* local, unsigned rank) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(local)), remote;
  int value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(remote) : "memory");
  return value;
}

__device__ void exchange(int* out, unsigned size) {
  __shared__ int mine;
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x] = 0;
  const unsigned rank = cluster_rank();
  if (threadIdx.x == 0) mine = static_cast<int>(100 + blockIdx.x);
  cluster_sync();
  if (threadIdx.x == 0) out[blockIdx.x] = read_remote(&mine, (rank + 1) % size);
  cluster_sync();
}

__global__ void by_attribute(int* out) { exchange(out, 4); }
__global__ void __cluster_dims__(2, 1, 1) by_kernel(int* out) { exchange(out, 2); }

static void check(const int* device, int blocks, int size) {
  int out[16] = {};
  EXPECT_OK(cudaMemcpy(out, device, blocks * sizeof(int), cudaMemcpyDeviceToHost));
  for (int i = 0; i < blocks; ++i) EXPECT(out[i] == 100 + i / size * size + (i + 1) % size);
}

int main() {
  constexpr int kShared = 200 * 1024;
  int* device = nullptr;
  EXPECT_OK(cudaMalloc(&device, 16 * sizeof(int)));
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = 4;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = 8;
  config.blockDim = 64;
  config.dynamicSmemBytes = kShared;
  config.attrs = &attribute;
  config.numAttrs = 1;
  EXPECT_CODE(cudaLaunchKernelEx(&config, by_attribute, device), cudaErrorInvalidValue);
  EXPECT_CODE(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_OK(
      cudaFuncSetAttribute(by_attribute, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared));
  int clusters = 0;
  EXPECT_OK(cudaOccupancyMaxActiveClusters(&clusters, by_attribute, &config));
  EXPECT(clusters >= 1);
  EXPECT_OK(cudaLaunchKernelEx(&config, by_attribute, device));
  check(device, 8, 4);
  by_kernel<<<6, 32, 256>>>(device);
  EXPECT_OK(cudaGetLastError());
  check(device, 6, 2);
  config.gridDim = 6;
  EXPECT_CODE(cudaLaunchKernelEx(&config, by_attribute, device), cudaErrorInvalidClusterSize);
  std::printf("passed\n");
}
