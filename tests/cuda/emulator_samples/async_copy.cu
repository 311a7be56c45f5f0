// mbarriers, bulk copies and TMA by inline PTX: a pipeline of two stages in a cluster of two CTAs.
// Used by: tests of the PTX parser and the interpreter.
#include <cstdint>

namespace {

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void barrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

__device__ void barrier_expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

__device__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni ready;\n"
      "bra.uni again;\n"
      "ready:\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

struct alignas(64) TensorMap {
  uint64_t words[16];
};

}  // namespace

extern "C" __global__ void __cluster_dims__(2, 1, 1)
    tma_pipeline(const __grid_constant__ TensorMap in, const __grid_constant__ TensorMap out,
                 const float* extra, int tiles) {
  __shared__ alignas(128) float tile[2][1024];
  __shared__ alignas(16) float row[64];
  __shared__ alignas(8) uint64_t full[2];
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&in) : "memory");
    barrier_init(&full[0], 1);
    barrier_init(&full[1], 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  for (int i = 0; i < tiles; ++i) {
    const int stage = i % 2;
    if (threadIdx.x == 0) {
      barrier_expect(&full[stage], 4096 + 256);
      asm volatile(
          "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
          " [%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(tile[stage])),
          "l"(&in), "r"(0), "r"(32 * i), "r"(shared_address(&full[stage]))
          : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
          "[%3];" ::"r"(shared_address(row)),
          "l"(extra + 64 * i), "r"(256), "r"(shared_address(&full[stage]))
          : "memory");
    }
    barrier_wait(&full[stage], static_cast<uint32_t>(i / 2) & 1u);
    tile[stage][threadIdx.x] += row[threadIdx.x % 64] + static_cast<float>(rank);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile(
          "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
          "cp.async.bulk.commit_group;\n"
          "cp.async.bulk.wait_group.read 0;" ::"l"(&out),
          "r"(0), "r"(32 * i), "r"(shared_address(tile[stage]))
          : "memory");
    }
    __syncthreads();
  }
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
}
