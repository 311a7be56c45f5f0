// Tensor cores: wgmma of FP8 from shared memory, of BF16 with A in registers, mma.sync, and a small
// kernel whose producer warp streams tiles to two warp groups that multiply and promote.
// All elements are 2^-6, so that the sums are exact and the layout does not matter.
// Build: see compare.py.
#include "bench/vgpu_calibration/harness.h"

namespace {

using calibration::Case;
using calibration::Clock;
using calibration::Launch;

constexpr int kSms = 132;
constexpr int kGroupThreads = 128;
constexpr uint32_t kFp8 = 0x08080808u;   // 2^-6
constexpr uint32_t kBf16 = 0x3c803c80u;  // 2^-6
constexpr float kProduct = 1.0f / 4096;
constexpr int kTileBytes = 128 * 128;

float* g_out = nullptr;
uint32_t* g_tiles = nullptr;

/// Rows of 128 bytes, swizzled by 128 bytes, eight rows a block.
__device__ inline uint64_t descriptor(const void* tile) {
  const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(tile));
  return (address & 0x3ffff) >> 4 | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62;
}
__device__ inline void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ inline void wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

/// d += A * B^T over 32 bytes of K, both from shared memory.
__device__ inline void product_fp8(float (&d)[64], uint64_t a, uint64_t b, int keep) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a), "l"(b), "r"(keep));
}

/// The same of BF16, A from registers.
__device__ inline void product_bf16(float (&d)[64], uint32_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %64, %64, %64}, %65, 1, 1, 1, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "r"(a), "l"(b));
}

__device__ inline void fill(uint32_t* tile, uint32_t value) {
  for (int i = threadIdx.x; i < kTileBytes / 4; i += blockDim.x) tile[i] = value;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}

__device__ inline void store(float* out, const float (&d)[64], int row) {
  float sum = 0;
  for (int i = 0; i < 64; ++i) sum += d[i];
  out[blockIdx.x * 256 + row] = sum;
}

void prepare(int ctas) {
  g_out = calibration::allocate<float>(static_cast<size_t>(ctas) * 512);
  const std::vector<uint32_t> host(kTileBytes / 4, kFp8);
  g_tiles = calibration::allocate<uint32_t>(kTileBytes / 4);
  calibration::require(cudaMemcpy(g_tiles, host.data(), kTileBytes, cudaMemcpyHostToDevice),
                       "upload");
}
bool check_all(int ctas, int threads, float expected) {
  const auto values = calibration::download(g_out, static_cast<size_t>(ctas) * threads);
  return std::all_of(values.begin(), values.end(), [=](float x) { return x == expected; });
}

// ---- wgmma

constexpr int kGroups = 64;  // commit groups of 16 and 32 instructions

__global__ void __launch_bounds__(256) fp8_kernel(float* out, int groups, Clock* clock) {
  __shared__ alignas(1024) uint32_t tile[kTileBytes / 4];
  calibration::read_clock(clock, -1);
  fill(tile, kFp8);
  const uint64_t b = descriptor(tile);
  float d[64] = {};
  for (int g = 0; g < groups; ++g) {
    fence();
#pragma unroll
    for (int i = 0; i < 32; ++i) product_fp8(d, b + 2 * (i % 4), b + 2 * (i % 4), 1);
    commit();
    wait();
  }
  store(out, d, threadIdx.x);
  calibration::read_clock(clock, 1);
}
void run_fp8(const Launch& launch) {
  fp8_kernel<<<launch.ctas, 256>>>(g_out, kGroups, launch.clock);
}
bool check_fp8(int ctas) {
  // The sum keeps 13 fraction bits: at 2^14 products it stops growing.
  return check_all(ctas, 256, 64 * 16384 * kProduct);
}

__global__ void __launch_bounds__(256)
    bf16_kernel(float* out, uint32_t a, int groups, Clock* clock) {
  __shared__ alignas(1024) uint32_t tile[kTileBytes / 4];
  calibration::read_clock(clock, -1);
  fill(tile, kBf16);
  const uint64_t b = descriptor(tile);
  float d[64] = {};
  for (int g = 0; g < groups; ++g) {
    fence();
#pragma unroll
    for (int i = 0; i < 32; ++i) product_bf16(d, a, b + 2 * (i % 4));
    commit();
    wait();
  }
  store(out, d, threadIdx.x);
  calibration::read_clock(clock, 1);
}
void run_bf16(const Launch& launch) {
  bf16_kernel<<<launch.ctas, 256>>>(g_out, kBf16, kGroups, launch.clock);
}
bool check_bf16(int ctas) { return check_all(ctas, 256, 64 * 16 * 32 * kGroups * kProduct); }

// ---- mma.sync

constexpr int kSyncSteps = 1024;

__global__ void __launch_bounds__(512)
    sync_kernel(float* out, uint32_t a, int steps, Clock* clock) {
  calibration::read_clock(clock, -1);
  float d[8][4] = {};
  for (int i = 0; i < steps; i += 2) {
#pragma unroll
    for (int c = 0; c < 16; ++c) {
      float(&e)[4] = d[c % 8];
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
          "{%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
          : "+f"(e[0]), "+f"(e[1]), "+f"(e[2]), "+f"(e[3])
          : "r"(a));
    }
  }
  float sum = 0;
  for (const auto& e : d) sum += (e[0] + e[1]) + (e[2] + e[3]);
  out[blockIdx.x * 512 + threadIdx.x] = sum;
  calibration::read_clock(clock, 1);
}
void run_sync(const Launch& launch) {
  sync_kernel<<<launch.ctas, 512>>>(g_out, kBf16, kSyncSteps, launch.clock);
}
bool check_sync(int ctas) { return check_all(ctas, 512, 32 * 16 * kSyncSteps * kProduct); }

// ---- Producer and consumers

constexpr int kStages = 4;
constexpr int kTiles = 512;

__device__ inline void await(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again;}"
      :
      : "r"(barrier), "r"(parity)
      : "memory");
}

__device__ inline void produce(const uint32_t* from, uint32_t tiles, uint32_t full, uint32_t free,
                               int count) {
  for (int i = 0; i < count; ++i) {
    const uint32_t stage = i % kStages;
    if (i >= kStages) await(free + 8 * stage, (i / kStages - 1) % 2);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full + 8 * stage),
                 "r"(kTileBytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(tiles + stage * kTileBytes),
        "l"(from), "r"(kTileBytes), "r"(full + 8 * stage)
        : "memory");
  }
}

__global__ void __launch_bounds__(384)
    specialized_kernel(const uint32_t* from, float* out, float keep, int count, Clock* clock) {
  extern __shared__ __align__(1024) char stages[];
  __shared__ alignas(1024) uint32_t a_tile[kTileBytes / 4];
  __shared__ alignas(8) uint64_t barriers[2 * kStages];
  calibration::read_clock(clock, -1);
  const uint32_t full = static_cast<uint32_t>(__cvta_generic_to_shared(barriers));
  const uint32_t free = full + 8 * kStages;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + 8 * s) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(free + 8 * s) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  fill(a_tile, kFp8);
  if (threadIdx.x < kGroupThreads) {
    if (threadIdx.x == 0) {
      produce(from, static_cast<uint32_t>(__cvta_generic_to_shared(stages)), full, free, count);
    }
  } else {
    const uint64_t a = descriptor(a_tile);
    float sum[64] = {};
    for (int i = 0; i < count; ++i) {
      const int stage = i % kStages;
      await(full + 8 * stage, i / kStages % 2);
      const uint64_t b = descriptor(stages + stage * kTileBytes);
      float d[64];
      fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) product_fp8(d, a + 2 * k, b + 2 * k, k);
      commit();
      wait();
      if (threadIdx.x % kGroupThreads == 0) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(free + 8 * stage) : "memory");
      }
#pragma unroll
      for (int r = 0; r < 64; ++r) sum[r] = fmaf(sum[r], keep, d[r]);
    }
    store(out, sum, threadIdx.x - kGroupThreads);
  }
  calibration::read_clock(clock, 1);
}
void run_specialized(const Launch& launch) {
  constexpr int kBytes = kStages * kTileBytes;
  static const cudaError_t set =
      cudaFuncSetAttribute(specialized_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  calibration::require(set, "shared memory");
  specialized_kernel<<<launch.ctas, 384, kBytes>>>(g_tiles, g_out, 0.5f, kTiles, launch.clock);
}
bool check_specialized(int ctas) {
  // s = s / 2 + 2^-5 goes to 2^-4.
  return check_all(ctas, 256, 64 * 2 * 128 * kProduct);
}

constexpr Case kCases[] = {
    {"wgmma_fp8_ss", kSms, 1, prepare, run_fp8, check_fp8},
    {"wgmma_bf16_rs", kSms, 1, prepare, run_bf16, check_bf16},
    {"mma_sync_bf16", kSms, 1, prepare, run_sync, check_sync},
    {"specialized", kSms, 1, prepare, run_specialized, check_specialized},
};

}  // namespace

int main(int argc, char** argv) { return calibration::main_of(kCases, argc, argv); }
