// A product in the way of Hopper: c [rows][32] = a [rows][k] b [32][k]^T, BF16 to FP32.
// Used by: mutation_test.cc as data/pipeline_sm90a.ptx, made by
// nvcc -std=c++20 -ptx -arch=compute_90a tests/cuda/emulator_mutation/pipeline_sm90a.cu
//
// Roles       warp   role     loop over                owns
//             0-3    product  tiles, blocks of K       rows 0-63 of the CTA
//             4-7    product  the same                 rows 64-127
//             8      load     the same                 ring of two stages
// Barriers    full[2]  load (1 + 20480 bytes) -> product
//             empty[2] product of both CTAs (4) -> load
// A cluster of two CTAs shares B: each loads one half and sends it to both.
// Deadlock: a stage is refilled only after both CTAs released it, and each releases what it waited
// for in the order of the ring.
#include "instructions.h"

namespace {

constexpr int kStages = 2;
constexpr uint32_t kStageBytes = 128 * 128 + 32 * 128;

struct alignas(1024) Storage {
  uint8_t a[kStages][128 * 128];
  uint8_t b[kStages][32 * 128];
  float staging[2][64 * 32];
  uint64_t full[kStages];
  uint64_t empty[kStages];
};

__device__ void wgmma(float (&d)[16], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
      "%9, %10, %11, %12, %13, %14, %15}, %16, %17, p, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(accumulate));
}

__device__ void load(Storage& s, const TensorMap* a, const TensorMap* b, int blocks, int tiles,
                     uint32_t rank) {
  int stage = 0;
  uint32_t phase = 0;
  for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      barrier_wait(&s.empty[stage], phase ^ 1);
      barrier_expect(&s.full[stage], kStageBytes);
      load_tile(s.a[stage], a, block * 64, tile * 256 + static_cast<int>(rank) * 128,
                &s.full[stage]);
      load_tile_multicast(s.b[stage] + rank * 16 * 128, b, block * 64, static_cast<int>(rank) * 16,
                          &s.full[stage], 3);
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
  }
  // The peer still arrives here: leave after it has released every stage.
#pragma unroll 1
  for (int i = 0; i < kStages; ++i) {
    barrier_wait(&s.empty[stage], phase ^ 1);
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
}

__device__ void release(Storage& s, int stage, int lane) {
  if (lane < 2) barrier_arrive_at(&s.empty[stage], lane);
}

__device__ void product_role(Storage& s, float* c, int blocks, int tiles, uint32_t rank) {
  const int group = static_cast<int>(threadIdx.x) / 128, lane = static_cast<int>(threadIdx.x) % 128;
  constexpr uint32_t kHigh = 1024 / 16 | 1u << 30;
  float* const staging = s.staging[group];
  int stage = 0;
  uint32_t phase = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    float d[16];
#pragma unroll 1
    for (int block = 0; block < blocks; ++block) {
      barrier_wait(&s.full[stage], phase);
      const uint64_t a = swizzled_descriptor(s.a[stage] + group * 64 * 128, kHigh);
      const uint64_t b = swizzled_descriptor(s.b[stage], kHigh);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma(d, a + 2 * k, b + 2 * k, block + k);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (block != 0) {
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        release(s, stage ^ 1, lane);
      }
      if (++stage == kStages) {
        stage = 0;
        phase ^= 1;
      }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release(s, stage ^ 1, lane);
    if (lane == 0) store_wait_read();
    group_barrier(1 + group);
    const int row = lane / 32 * 16 + lane % 32 / 4, column = lane % 4 * 2;
    for (int i = 0; i < 16; ++i) {
      staging[(row + i / 2 % 2 * 8) * 32 + i / 4 * 8 + column + i % 2] = d[i];
    }
    fence_proxy();
    group_barrier(3 + group);
    if (lane == 0) {
      store_bulk(c + (tile * 256 + static_cast<int>(rank) * 128 + group * 64) * 32, staging,
                 64 * 32 * 4);
      store_commit();
    }
  }
  if (lane == 0) store_wait();
}

}  // namespace

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(288)
    pipeline(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* c,
             int blocks, int tiles) {
  extern __shared__ uint8_t memory[];
  Storage& s = *reinterpret_cast<Storage*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(&s.full[i], 1);
      barrier_init(&s.empty[i], 4);
    }
    fence_init();
  }
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x >= 256) {
    if (threadIdx.x == 256) load(s, &a, &b, blocks, tiles, rank);
  } else {
    product_role(s, c, blocks, tiles, rank);
  }
}
