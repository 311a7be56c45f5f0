// A product in the way of Blackwell: c [rows][32] = a [rows][k] b [32][k]^T, BF16 to FP32.
// Used by: mutation_test.cc as data/pipeline_sm100a.ptx, made by
// nvcc -std=c++20 -ptx -arch=compute_100a tests/cuda/emulator_mutation/pipeline_sm100a.cu
//
// Roles       warp   role     loop over             owns
//             0      load     tiles, blocks of K    ring of two stages
//             1      product  the same              tensor memory
//             4-7    store    tiles                 staging
// Barriers    full[2]      load (1 + 20480 bytes) -> product
//             empty[2]     product (commit) -> load
//             d_ready[2]   product (commit) -> store
//             d_free[2]    store (128) -> product
// Tensor memory: two accumulators of 32 columns.
// Deadlock: every wait is for what an earlier block or tile did.
#include "instructions.h"

namespace {

constexpr int kStages = 2;
constexpr uint32_t kStageBytes = 128 * 128 + 32 * 128;

struct alignas(1024) Storage {
  uint8_t a[kStages][128 * 128];
  uint8_t b[kStages][32 * 128];
  float staging[128 * 32];
  uint64_t full[kStages];
  uint64_t empty[kStages];
  uint64_t d_ready[2];
  uint64_t d_free[2];
  uint32_t columns;
};

__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

__device__ void commit(uint64_t* barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   shared_address(barrier))
               : "memory");
}

__device__ void mma(uint32_t d, uint64_t a, uint64_t b, uint32_t accumulate) {
  constexpr uint32_t kInstruction =
      1u << 4 | 1u << 7 | 1u << 10 | (32u / 8) << 17 | (128u / 16) << 24;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n"
      "}\n" ::"r"(d),
      "l"(a), "l"(b), "r"(kInstruction), "r"(accumulate));
}

__device__ void load(Storage& s, const TensorMap* a, const TensorMap* b, int blocks, int tiles) {
  int stage = 0;
  uint32_t phase = 0;
  for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      barrier_wait(&s.empty[stage], phase ^ 1);
      barrier_expect(&s.full[stage], kStageBytes);
      load_tile(s.a[stage], a, block * 64, tile * 128, &s.full[stage]);
      load_tile(s.b[stage], b, block * 64, 0, &s.full[stage]);
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }
}

__device__ void product_role(Storage& s, uint32_t columns, int blocks, int tiles) {
  constexpr uint32_t kHigh = 1024 / 16 | 1u << 14 | 2u << 29;
  int stage = 0;
  uint32_t phase = 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    const int half = tile % 2;
    barrier_wait(&s.d_free[half], static_cast<uint32_t>(tile / 2 % 2) ^ 1);
    fence_after();
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      barrier_wait(&s.full[stage], phase);
      const uint64_t a = swizzled_descriptor(s.a[stage], kHigh);
      const uint64_t b = swizzled_descriptor(s.b[stage], kHigh);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        mma(columns + static_cast<uint32_t>(half) * 32, a + 2 * k, b + 2 * k,
            static_cast<uint32_t>(block + k));
      }
      commit(&s.empty[stage]);
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
    commit(&s.d_ready[half]);
  }
}

__device__ void store_role(Storage& s, uint32_t columns, float* c, int tiles) {
  const uint32_t row = threadIdx.x - 128;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    const int half = tile % 2;
    barrier_wait(&s.d_ready[half], static_cast<uint32_t>(tile / 2 % 2));
    fence_after();
    uint32_t d[32];
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x32.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
        "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
        "%30, %31}, [%32];"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]), "=r"(d[4]), "=r"(d[5]), "=r"(d[6]),
          "=r"(d[7]), "=r"(d[8]), "=r"(d[9]), "=r"(d[10]), "=r"(d[11]), "=r"(d[12]), "=r"(d[13]),
          "=r"(d[14]), "=r"(d[15]), "=r"(d[16]), "=r"(d[17]), "=r"(d[18]), "=r"(d[19]), "=r"(d[20]),
          "=r"(d[21]), "=r"(d[22]), "=r"(d[23]), "=r"(d[24]), "=r"(d[25]), "=r"(d[26]), "=r"(d[27]),
          "=r"(d[28]), "=r"(d[29]), "=r"(d[30]), "=r"(d[31])
        : "r"(columns + static_cast<uint32_t>(half) * 32 + (row / 32 << 21)));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    fence_before();
    barrier_arrive(&s.d_free[half]);
    if (row == 0) store_wait_read();
    group_barrier(1);
    for (int i = 0; i < 32; ++i) s.staging[row * 32 + i] = __uint_as_float(d[i]);
    fence_proxy();
    group_barrier(2);
    if (row == 0) {
      store_bulk(c + tile * 128 * 32, s.staging, 128 * 32 * 4);
      store_commit();
    }
  }
  if (row == 0) store_wait();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    pipeline(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c,
             int blocks, int tiles) {
  extern __shared__ uint8_t memory[];
  Storage& s = *reinterpret_cast<Storage*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
  const uint32_t warp = threadIdx.x / 32;
  if (warp == 1) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(
                     shared_address(&s.columns))
                 : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      barrier_init(&s.full[i], 1);
      barrier_init(&s.empty[i], 1);
      barrier_init(&s.d_ready[i], 1);
      barrier_init(&s.d_free[i], 128);
    }
    fence_init();
  }
  asm volatile("bar.sync 0;" ::: "memory");
  const uint32_t columns = s.columns;
  if (threadIdx.x == 0) load(s, &a, &b, blocks, tiles);
  if (threadIdx.x == 32) product_role(s, columns, blocks, tiles);
  if (warp >= 4) store_role(s, columns, c, tiles);
  asm volatile("bar.sync 0;" ::: "memory");
  if (warp == 1) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(columns) : "memory");
  }
}
