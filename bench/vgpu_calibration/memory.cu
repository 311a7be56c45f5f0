// Memories: shared loads without and with bank conflicts, a copy through HBM, a copy within the L2,
// bulk copies from the L2 to shared memory.
// Build: see compare.py.
#include "bench/vgpu_calibration/harness.h"

namespace {

using calibration::Case;
using calibration::Clock;
using calibration::Launch;

constexpr int kThreads = 512;
constexpr int kSms = 132;

uint32_t* g_words = nullptr;

void prepare_words(int ctas) {
  g_words = calibration::allocate<uint32_t>(static_cast<size_t>(ctas) * kThreads);
}

// ---- Shared memory

constexpr int kVectorSteps = 4096;
constexpr int kConflictSteps = 1024;
constexpr int kStride = 8;  // words: eight lanes meet in a bank

__device__ inline void fill(uint32_t* shared, int words) {
  for (int i = threadIdx.x; i < words; i += kThreads) shared[i] = i * 2654435761u;
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads) vector_kernel(uint32_t* out, int steps, Clock* clock) {
  __shared__ alignas(16) uint4 shared[kThreads * 4];
  calibration::read_clock(clock, -1);
  fill(reinterpret_cast<uint32_t*>(shared), kThreads * 16);
  uint32_t sum = 0;
  for (int i = 0; i < steps; i += 4) {
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      uint4 v;
      asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                   : "r"(static_cast<uint32_t>(
                       __cvta_generic_to_shared(&shared[u * kThreads + threadIdx.x]))));
      sum += v.x ^ v.y ^ v.z ^ v.w;
    }
  }
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
  calibration::read_clock(clock, 1);
}

void run_vector(const Launch& launch) {
  vector_kernel<<<launch.ctas, kThreads>>>(g_words, kVectorSteps, launch.clock);
}
uint32_t pattern(uint32_t i) { return i * 2654435761u; }
bool check_vector(int ctas) {
  const auto values = calibration::download(g_words, static_cast<size_t>(ctas) * kThreads);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t sum = 0;
    for (uint32_t u = 0; u < 4; ++u) {
      const uint32_t at = (u * kThreads + static_cast<uint32_t>(i % kThreads)) * 4;
      sum += pattern(at) ^ pattern(at + 1) ^ pattern(at + 2) ^ pattern(at + 3);
    }
    if (values[i] != sum * (kVectorSteps / 4)) return false;
  }
  return true;
}

__global__ void __launch_bounds__(kThreads)
    conflict_kernel(uint32_t* out, int steps, Clock* clock) {
  __shared__ uint32_t shared[kThreads * kStride];
  calibration::read_clock(clock, -1);
  fill(shared, kThreads * kStride);
  uint32_t sum = 0;
  for (int i = 0; i < steps; i += 8) {
#pragma unroll
    for (int u = 0; u < 8; ++u) {
      uint32_t v;
      asm volatile("ld.volatile.shared.u32 %0, [%1];"
                   : "=r"(v)
                   : "r"(static_cast<uint32_t>(
                       __cvta_generic_to_shared(&shared[threadIdx.x * kStride + u]))));
      sum += v;
    }
  }
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
  calibration::read_clock(clock, 1);
}

void run_conflict(const Launch& launch) {
  conflict_kernel<<<launch.ctas, kThreads>>>(g_words, kConflictSteps, launch.clock);
}
bool check_conflict(int ctas) {
  const auto values = calibration::download(g_words, static_cast<size_t>(ctas) * kThreads);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t sum = 0;
    for (uint32_t u = 0; u < 8; ++u) sum += pattern(static_cast<uint32_t>(i % kThreads) * 8 + u);
    if (values[i] != sum * (kConflictSteps / 8)) return false;
  }
  return true;
}

// ---- Copies through global memory. Each CTA has a slice.

uint4* g_from = nullptr;
uint4* g_to = nullptr;

constexpr size_t kHbmSlice = 512 * 1024;  // vectors of 16 bytes: 8 MiB, 2 GiB for 264 CTAs
constexpr size_t kL2Slice = 4 * 1024;     // 64 KiB, 8.25 MiB on all SMs, twice
constexpr int kL2Rounds = 64;

template <size_t Slice>
void prepare_copy(int ctas) {
  const size_t count = static_cast<size_t>(ctas) * Slice;
  g_from = calibration::allocate<uint4>(count);
  g_to = calibration::allocate<uint4>(count);
  std::vector<uint4> host(count);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t base = static_cast<uint32_t>(i);
    host[i] = make_uint4(base, base * 3, base * 5, base * 7);
  }
  calibration::require(
      cudaMemcpy(g_from, host.data(), count * sizeof(uint4), cudaMemcpyHostToDevice), "upload");
}
template <size_t Slice>
bool check_copy(int ctas) {
  const auto values = calibration::download(g_to, static_cast<size_t>(ctas) * Slice);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t base = static_cast<uint32_t>(i);
    if (values[i].x != base || values[i].y != base * 3 || values[i].w != base * 7) return false;
  }
  return true;
}

/// Past the L1, eight loads in flight.
__global__ void __launch_bounds__(1024)
    copy_kernel(const uint4* from, uint4* to, int slice, int rounds, Clock* clock) {
  calibration::read_clock(clock, -1);
  from += static_cast<size_t>(blockIdx.x) * slice;
  to += static_cast<size_t>(blockIdx.x) * slice;
  for (int round = 0; round < rounds; ++round) {
    for (int i = threadIdx.x; i < slice; i += 4 * blockDim.x) {
      uint4 v[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[u].x), "=r"(v[u].y), "=r"(v[u].z), "=r"(v[u].w)
                     : "l"(from + i + u * blockDim.x));
      }
#pragma unroll
      for (int u = 0; u < 4; ++u) to[i + u * blockDim.x] = v[u];
    }
  }
  calibration::read_clock(clock, 1);
}

void run_hbm(const Launch& launch) {
  copy_kernel<<<launch.ctas, 1024>>>(g_from, g_to, kHbmSlice, 1, launch.clock);
}
void run_l2(const Launch& launch) {
  copy_kernel<<<launch.ctas, 1024>>>(g_from, g_to, kL2Slice, kL2Rounds, launch.clock);
}

// ---- L2 to registers: reads only.

__global__ void __launch_bounds__(1024)
    read_kernel(const uint4* from, uint4* to, int slice, int rounds, Clock* clock) {
  calibration::read_clock(clock, -1);
  from += static_cast<size_t>(blockIdx.x) * slice;
  uint4 sum = make_uint4(0, 0, 0, 0);
  for (int round = 0; round < rounds; ++round) {
    for (int i = threadIdx.x; i < slice; i += 4 * blockDim.x) {
      uint4 v[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[u].x), "=r"(v[u].y), "=r"(v[u].z), "=r"(v[u].w)
                     : "l"(from + i + u * blockDim.x));
      }
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        sum.x += v[u].x;
        sum.y ^= v[u].y;
        sum.z += v[u].z;
        sum.w ^= v[u].w;
      }
    }
  }
  to[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  calibration::read_clock(clock, 1);
}

void run_read(const Launch& launch) {
  read_kernel<<<launch.ctas, 1024>>>(g_from, g_to, kL2Slice, kL2Rounds, launch.clock);
}
bool check_read(int ctas) {
  const auto values = calibration::download(g_to, static_cast<size_t>(ctas) * 1024);
  for (size_t t = 0; t < values.size(); ++t) {
    uint32_t sum = 0;
    for (size_t u = 0; u < kL2Slice / 1024; ++u) {
      sum += static_cast<uint32_t>(t / 1024 * kL2Slice + u * 1024 + t % 1024);
    }
    if (values[t].x != sum * kL2Rounds || values[t].z != sum * 5 * kL2Rounds) return false;
  }
  return true;
}

// ---- Bulk copies: one thread keeps four in flight.

constexpr int kStages = 4;
constexpr int kTile = 32 * 1024;
constexpr int kTiles = 512;  // of a CTA
constexpr int kOwn = 2;      // tiles that a CTA reads again and again, and nobody else

void prepare_bulk(int ctas) {
  prepare_words(ctas);
  const size_t bytes = static_cast<size_t>(ctas) * kOwn * kTile;
  g_from = calibration::allocate<uint4>(bytes / sizeof(uint4));
  std::vector<uint32_t> host(bytes / 4);
  for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<uint32_t>(i / (kTile / 4)) + 1;
  calibration::require(cudaMemcpy(g_from, host.data(), bytes, cudaMemcpyHostToDevice), "upload");
}

__device__ inline void await(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{.reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@!p bra again;}"
      :
      : "r"(barrier), "r"(parity)
      : "memory");
}
__device__ inline void load_tile(uint32_t to, const char* from, uint32_t barrier) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kTile)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(kTile), "r"(barrier)
      : "memory");
}

__global__ void __launch_bounds__(32)
    bulk_kernel(const char* from, uint32_t* out, int tiles, Clock* clock) {
  extern __shared__ __align__(128) char tile[];
  __shared__ alignas(8) uint64_t barriers[kStages];
  calibration::read_clock(clock, -1);
  if (threadIdx.x == 0) {
    const uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
    const uint32_t barrier = static_cast<uint32_t>(__cvta_generic_to_shared(barriers));
    for (int s = 0; s < kStages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier + 8 * s) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    from += static_cast<size_t>(blockIdx.x) * kOwn * kTile;
    for (int i = 0; i < kStages; ++i) {
      load_tile(base + i * kTile, from + i % kOwn * kTile, barrier + 8 * i);
    }
    uint32_t sum = 0;
    for (int i = 0; i < tiles; ++i) {
      const int stage = i % kStages;
      await(barrier + 8 * stage, i / kStages % 2);
      sum += *reinterpret_cast<volatile uint32_t*>(tile + stage * kTile + 64);
      if (i + kStages >= tiles) continue;
      load_tile(base + stage * kTile, from + i % kOwn * kTile, barrier + 8 * stage);
    }
    out[blockIdx.x] = sum;
  }
  calibration::read_clock(clock, 1);
}

void run_bulk(const Launch& launch) {
  static const cudaError_t set = cudaFuncSetAttribute(
      bulk_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kStages * kTile);
  calibration::require(set, "shared memory");
  bulk_kernel<<<launch.ctas, 32, kStages * kTile>>>(reinterpret_cast<const char*>(g_from), g_words,
                                                    kTiles, launch.clock);
}
bool check_bulk(int ctas) {
  const auto values = calibration::download(g_words, static_cast<size_t>(ctas));
  for (uint32_t cta = 0; cta < values.size(); ++cta) {
    if (values[cta] != kTiles / 2 * (4 * cta + 3)) return false;
  }
  return true;
}

constexpr Case kCases[] = {
    {"shared_vector", kSms, 4, prepare_words, run_vector, check_vector},
    {"shared_conflict", kSms, 4, prepare_words, run_conflict, check_conflict},
    {"hbm_copy", 2 * kSms, 2, prepare_copy<kHbmSlice>, run_hbm, check_copy<kHbmSlice>},
    {"l2_copy", kSms, 4, prepare_copy<kL2Slice>, run_l2, check_copy<kL2Slice>},
    {"l2_read", kSms, 4, prepare_copy<kL2Slice>, run_read, check_read},
    {"bulk_load", kSms, 2, prepare_bulk, run_bulk, check_bulk},
};

}  // namespace

int main(int argc, char** argv) { return calibration::main_of(kCases, argc, argv); }
