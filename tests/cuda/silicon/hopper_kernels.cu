// Two whole Hopper kernels for the comparison with silicon: a warp-specialized FP8 product with
// promoted sums, and a causal attention forward with an online softmax.
// Compiled to tests/emulator/data/hopper_kernels_sm90a.ptx (tests/emulator/silicon/README.md).
// All floating point is written with a rounding mode, so that no compiler may fuse it.
#include <cstdint>

struct alignas(64) Map {
  uint8_t bytes[128];
};

namespace {

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void barrier_init(uint32_t barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ void barrier_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, "
        "p; }"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}
__device__ void load_tile(uint32_t to, const Map* map, int32_t x, int32_t y, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], [%4];" ::"r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
__device__ void fence_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// A descriptor with the 128-byte swizzle; stride: bytes between groups of eight rows.
__device__ uint64_t descriptor(uint32_t address) {
  return uint64_t{address >> 4} | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_finish() {
  asm volatile(
      "wgmma.commit_group.sync.aligned;\n"
      "wgmma.wait_group.sync.aligned 0;" ::
          : "memory");
}

#define ACC4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ACC16(d, i) ACC4(d, i), ACC4(d, i + 4), ACC4(d, i + 8), ACC4(d, i + 12)
#define ACC32(d) ACC16(d, 0), ACC16(d, 16)
#define ACC64(d) ACC32(d), ACC16(d, 32), ACC16(d, 48)
#define LIST32                                                                                 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24," \
  "%25,%26,%27,%28,%29,%30,%31"
#define LIST64                                                                        \
  LIST32                                                                              \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51," \
  "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

__device__ void wgmma_e4m3_n128(float (&d)[64], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" LIST64 "}, %64, %65, p, 1, 1; }"
      : ACC64(d)
      : "l"(a), "l"(b), "r"(accumulate));
}
__device__ void wgmma_bf16_n64(float (&d)[32], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LIST32
      "}, %32, %33, p, 1, 1, 0, 0; }"
      : ACC32(d)
      : "l"(a), "l"(b), "r"(accumulate));
}
/// A from registers, B with its columns contiguous.
__device__ void wgmma_bf16_n64_rs(float (&d)[32], const uint32_t* a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" LIST32
               "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
               : ACC32(d)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ float log2_approximate(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
/// Over the four lanes that share a row.
__device__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ float row_sum(float x) {
  x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

extern __shared__ __align__(1024) uint8_t pool[];

constexpr int kProductK = 512, kProductTile = 128, kStages = 3;
constexpr uint32_t kStageBytes = 32768;

}  // namespace

/// D[256, 256], 128 x 128 a CTA. Roles: warp group 0 loads, 1 and 2 multiply 64 rows each.
extern "C" __global__ void __launch_bounds__(384, 1)
    product(const float* in, float* out, const __grid_constant__ Map map_a,
            const __grid_constant__ Map map_b) {
  const uint32_t tiles = shared_address(pool);
  const uint32_t full = tiles + kStages * kStageBytes, empty = full + 8 * kStages;
  const int row = static_cast<int>(blockIdx.x) / 2 * kProductTile;
  const int column = static_cast<int>(blockIdx.x) % 2 * kProductTile;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, 256);
    }
    fence_barriers();
  }
  __syncthreads();
  constexpr int kTiles = kProductK / kProductTile;
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      for (int k = 0; k < kTiles; ++k) {
        const int stage = k % kStages, round = k / kStages;
        if (round > 0) barrier_wait(empty + 8 * stage, (round - 1) & 1);
        barrier_expect(full + 8 * stage, kStageBytes);
        load_tile(tiles + stage * kStageBytes, &map_a, k * kProductTile, row, full + 8 * stage);
        load_tile(tiles + stage * kStageBytes + 16384, &map_b, k * kProductTile, column,
                  full + 8 * stage);
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    const uint32_t group = threadIdx.x / 128 - 1;
    float sums[64], part[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] = 0.0f;
    for (int k = 0; k < kTiles; ++k) {
      const int stage = k % kStages, round = k / kStages;
      barrier_wait(full + 8 * stage, round & 1);
      const uint32_t a = tiles + stage * kStageBytes + group * 8192;
      const uint32_t b = tiles + stage * kStageBytes + 16384;
      wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        wgmma_e4m3_n128(part, descriptor(a + 32 * step), descriptor(b + 32 * step), step != 0);
      }
      wgmma_finish();
      barrier_arrive(empty + 8 * stage);
      const float scale = in[k];
#pragma unroll
      for (int i = 0; i < 64; ++i) sums[i] = __fmaf_rn(part[i], scale, sums[i]);
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    float* const corner = out + (row + 64 * group + 16 * warp + lane / 4) * 256 + column;
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      corner[(i >> 1 & 1) * 8 * 256 + (i >> 2) * 8 + lane % 4 * 2 + (i & 1)] = sums[i];
    }
  }
}

/// O[256, 64], then 256 log2-sums. Q, K, V are rows 0, 256 and 512 of one tensor. CTA c: query rows
/// 64c to 64c+63 and the keys up to them. Roles: warp group 0 computes, warp 4 loads.
extern "C" __global__ void __launch_bounds__(160, 1)
    attention(const uint8_t*, float* out, const __grid_constant__ Map map,
              const __grid_constant__ Map) {
  const uint32_t tiles = shared_address(pool);
  const uint32_t barriers = tiles + 5 * 8192;
  const uint32_t q_full = barriers, full = barriers + 8, empty = barriers + 24;
  const int tile = static_cast<int>(blockIdx.x);
  if (threadIdx.x == 0) {
    barrier_init(q_full, 1);
    for (int s = 0; s < 2; ++s) {
      barrier_init(full + 8 * s, 1);
      barrier_init(empty + 8 * s, 128);
    }
    fence_barriers();
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      barrier_expect(q_full, 8192);
      load_tile(tiles, &map, 0, 64 * tile, q_full);
      for (int k = 0; k <= tile; ++k) {
        const int stage = k % 2, round = k / 2;
        if (round > 0) barrier_wait(empty + 8 * stage, (round - 1) & 1);
        barrier_expect(full + 8 * stage, 16384);
        load_tile(tiles + 8192 + 16384 * stage, &map, 0, 256 + 64 * k, full + 8 * stage);
        load_tile(tiles + 16384 + 16384 * stage, &map, 0, 512 + 64 * k, full + 8 * stage);
      }
    }
    return;
  }
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first = 16 * warp + lane / 4;  // of the two rows of this thread; the other is + 8
  const float scale = 0.125f * 1.44269504f;
  float output[32], largest[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < 32; ++i) output[i] = 0.0f;
  barrier_wait(q_full, 0);
  for (int k = 0; k <= tile; ++k) {
    const int stage = k % 2, round = k / 2;
    barrier_wait(full + 8 * stage, round & 1);
    const uint32_t keys = tiles + 8192 + 16384 * stage, values = keys + 8192;
    float scores[32];
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      wgmma_bf16_n64(scores, descriptor(tiles + 32 * step), descriptor(keys + 32 * step),
                     step != 0);
    }
    wgmma_finish();
    float now[2] = {largest[0], largest[1]};
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int row = first + (i >> 1 & 1) * 8, column = (i >> 2) * 8 + lane % 4 * 2 + (i & 1);
      if (k == tile && column > row) scores[i] = -INFINITY;
      now[i >> 1 & 1] = fmaxf(now[i >> 1 & 1], scores[i]);
    }
    float shrink[2], part[2] = {0.0f, 0.0f};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      now[h] = row_max(now[h]);
      shrink[h] = exp2_approximate(__fmul_rn(__fsub_rn(largest[h], now[h]), scale));
      largest[h] = now[h];
    }
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int h = i >> 1 & 1;
      scores[i] = exp2_approximate(__fmul_rn(__fsub_rn(scores[i], now[h]), scale));
      part[h] = __fadd_rn(part[h], scores[i]);
      output[i] = __fmul_rn(output[i], shrink[h]);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) sum[h] = __fmaf_rn(sum[h], shrink[h], row_sum(part[h]));
    uint32_t p[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) p[i] = pack_bf16(scores[2 * i], scores[2 * i + 1]);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      wgmma_bf16_n64_rs(output, p + 4 * step, descriptor(values + 2048 * step));
    }
    wgmma_finish();
    barrier_arrive(empty + 8 * stage);
  }
  float* const corner = out + (64 * tile + first) * 64;
  const float inverse[2] = {reciprocal_approximate(sum[0]), reciprocal_approximate(sum[1])};
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int h = i >> 1 & 1;
    corner[h * 8 * 64 + (i >> 2) * 8 + lane % 4 * 2 + (i & 1)] = __fmul_rn(output[i], inverse[h]);
  }
  if (lane % 4 == 0) {
    for (int h = 0; h < 2; ++h) {
      out[256 * 64 + 64 * tile + first + 8 * h] =
          __fmaf_rn(largest[h], scale, log2_approximate(sum[h]));
    }
  }
}
