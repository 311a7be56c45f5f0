// Runs wgmma chains of every operand type on a GPU and writes the accumulators.
// Depends on: wgmma_inputs.h, which a model reads too. Used by: hand, on an H200
// (tests/emulator/silicon/README.md). A from shared memory and from registers must agree.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/cuda/silicon/case_inputs.h"
#include "tests/cuda/silicon/wgmma_inputs.h"

namespace {

using namespace flamia::silicon;

constexpr int kThreads = 128;
constexpr int kRegistersF32 = 16;
constexpr int kRegistersF16 = 8;

/// Descriptor of a K-major tile of 32 bytes without swizzle: core matrices of 8 rows of 16 bytes,
/// 128 bytes apart along K, 256 bytes along the rows.
__device__ uint64_t descriptor(const void* tile) {
  const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(tile));
  return ((address & 0x3ffffu) >> 4) | (uint64_t{128 >> 4} << 16) | (uint64_t{256 >> 4} << 32);
}

__device__ uint32_t tile_offset(uint32_t row, uint32_t byte) {
  return (row / 8) * 256 + (byte / 16) * 128 + (row % 8) * 16 + byte % 16;
}

// clang-format off
#define D16(d) \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define D8(d) \
  "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7])
#define LIST16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define LIST8 "{%0, %1, %2, %3, %4, %5, %6, %7}"
#define ALWAYS ".reg .pred p; setp.eq.u32 p, 0, 0; "

/// One instruction of each form; tail is what follows the scales (the transpose flags).
#define FLAMIA_WGMMA_F32(type, name, k, ab, tail_ss, tail_rs, code_a, code_b)                              \
  struct type {                                                                                      \
    static constexpr const char* kName = name;                                                       \
    static constexpr CodeType kA = code_a, kB = code_b;                                              \
    static constexpr bool kHalf = false;                                                             \
    using Register = float;                                                                          \
    static __device__ void ss(float (&d)[16], uint64_t a, uint64_t b) {                              \
      asm volatile("{" ALWAYS "wgmma.mma_async.sync.aligned.m64n32" k ".f32." ab " " LIST16          \
                   ", %16, %17, p, 1, 1" tail_ss ";}" : D16(d) : "l"(a), "l"(b));                    \
    }                                                                                                \
    static __device__ void rs(float (&d)[16], const uint32_t (&a)[4], uint64_t b) {                  \
      asm volatile("{" ALWAYS "wgmma.mma_async.sync.aligned.m64n32" k ".f32." ab " " LIST16          \
                   ", {%16, %17, %18, %19}, %20, p, 1, 1" tail_rs ";}"                               \
                   : D16(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                   \
    }                                                                                                \
  };
#define FLAMIA_WGMMA_F16(type, name, k, ab, tail_ss, tail_rs, code_a, code_b)                              \
  struct type {                                                                                      \
    static constexpr const char* kName = name;                                                       \
    static constexpr CodeType kA = code_a, kB = code_b;                                              \
    static constexpr bool kHalf = true;                                                              \
    using Register = uint32_t;                                                                       \
    static __device__ void ss(uint32_t (&d)[8], uint64_t a, uint64_t b) {                            \
      asm volatile("{" ALWAYS "wgmma.mma_async.sync.aligned.m64n32" k ".f16." ab " " LIST8           \
                   ", %8, %9, p, 1, 1" tail_ss ";}" : D8(d) : "l"(a), "l"(b));                       \
    }                                                                                                \
    static __device__ void rs(uint32_t (&d)[8], const uint32_t (&a)[4], uint64_t b) {                \
      asm volatile("{" ALWAYS "wgmma.mma_async.sync.aligned.m64n32" k ".f16." ab " " LIST8           \
                   ", {%8, %9, %10, %11}, %12, p, 1, 1" tail_rs ";}"                                 \
                   : D8(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                    \
    }                                                                                                \
  };
FLAMIA_WGMMA_F32(F32E4m3E4m3, "f32_e4m3_e4m3", "k32", "e4m3.e4m3", "", "", kCodeE4m3, kCodeE4m3)
FLAMIA_WGMMA_F32(F32E4m3E5m2, "f32_e4m3_e5m2", "k32", "e4m3.e5m2", "", "", kCodeE4m3, kCodeE5m2)
FLAMIA_WGMMA_F32(F32E5m2E4m3, "f32_e5m2_e4m3", "k32", "e5m2.e4m3", "", "", kCodeE5m2, kCodeE4m3)
FLAMIA_WGMMA_F32(F32E5m2E5m2, "f32_e5m2_e5m2", "k32", "e5m2.e5m2", "", "", kCodeE5m2, kCodeE5m2)
FLAMIA_WGMMA_F32(F32F16F16, "f32_f16_f16", "k16", "f16.f16", ", 0, 0", ", 0", kCodeF16, kCodeF16)
FLAMIA_WGMMA_F32(F32Bf16Bf16, "f32_bf16_bf16", "k16", "bf16.bf16", ", 0, 0", ", 0", kCodeBf16, kCodeBf16)
FLAMIA_WGMMA_F32(F32Tf32Tf32, "f32_tf32_tf32", "k8", "tf32.tf32", "", "", kCodeTf32, kCodeTf32)
FLAMIA_WGMMA_F16(F16E4m3E4m3, "f16_e4m3_e4m3", "k32", "e4m3.e4m3", "", "", kCodeE4m3, kCodeE4m3)
FLAMIA_WGMMA_F16(F16E5m2E5m2, "f16_e5m2_e5m2", "k32", "e5m2.e5m2", "", "", kCodeE5m2, kCodeE5m2)
FLAMIA_WGMMA_F16(F16F16F16, "f16_f16_f16", "k16", "f16.f16", ", 0, 0", ", 0", kCodeF16, kCodeF16)
// clang-format on

/// Writes one operand, all steps, into shared memory.
__device__ void fill(uint8_t* shared, CodeType type, uint32_t tile, uint32_t matrix,
                     uint32_t rows) {
  const uint32_t bytes = static_cast<uint32_t>(type.bits) / 8;
  const uint32_t per_step = kStepBytes / bytes;
  for (uint32_t i = threadIdx.x; i < rows * per_step * kSteps; i += kThreads) {
    const uint32_t row = i / (per_step * kSteps), k = i % (per_step * kSteps);
    const uint32_t code = code_operand(type, tile, matrix, row, k);
    uint8_t* at =
        shared + (k / per_step) * rows * kStepBytes + tile_offset(row, (k % per_step) * bytes);
    for (uint32_t byte = 0; byte < bytes; ++byte)
      at[byte] = static_cast<uint8_t>(code >> (8 * byte));
  }
}

template <typename Form>
__global__ void run_tile(uint32_t* outputs, bool from_registers) {
  __shared__ alignas(128) uint8_t a_tile[kSteps * kTileRows * kStepBytes];
  __shared__ alignas(128) uint8_t b_tile[kSteps * kTileCols * kStepBytes];
  const uint32_t tile = blockIdx.x;
  fill(a_tile, Form::kA, tile, 0, kTileRows);
  fill(b_tile, Form::kB, tile, 1, kTileCols);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  constexpr int count = Form::kHalf ? kRegistersF16 : kRegistersF32;
  typename Form::Register d[count];
  for (int i = 0; i < count; ++i) {
    const int element = Form::kHalf ? 2 * i : i;
    const uint32_t row = warp * 16 + lane / 4 + ((element >> 1) & 1) * 8;
    const uint32_t col = static_cast<uint32_t>(element >> 2) * 8 + (lane % 4) * 2 + (element & 1);
    if constexpr (Form::kHalf) {
      // binary16 from the upper bits of the binary32 pattern: any finite pattern will do.
      const uint32_t low = (start_operand(tile, row, col) >> 16) & 0xbbffu;
      const uint32_t high = (start_operand(tile, row, col + 1) >> 16) & 0xbbffu;
      d[i] = low | high << 16;
    } else {
      d[i] = __uint_as_float(start_operand(tile, row, col));
    }
  }
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const uint8_t* a_step = a_tile + step * kTileRows * kStepBytes;
    const uint64_t b = descriptor(b_tile + step * kTileCols * kStepBytes);
    if (from_registers) {
      uint32_t a[4];
      for (int i = 0; i < 4; ++i) {
        const uint32_t row = warp * 16 + lane / 4 + (i & 1) * 8;
        const uint32_t byte = (lane % 4) * 4 + static_cast<uint32_t>(i >> 1) * 16;
        a[i] = *reinterpret_cast<const uint32_t*>(a_step + tile_offset(row, byte));
      }
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      Form::rs(d, a, b);
    } else {
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      Form::ss(d, descriptor(a_step), b);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  uint32_t* out = outputs + tile * kTileRows * kTileCols;
  for (int i = 0; i < count; ++i) {
    const int element = Form::kHalf ? 2 * i : i;
    const uint32_t row = warp * 16 + lane / 4 + ((element >> 1) & 1) * 8;
    const uint32_t col = static_cast<uint32_t>(element >> 2) * 8 + (lane % 4) * 2 + (element & 1);
    if constexpr (Form::kHalf) {
      out[row * kTileCols + col] = d[i] & 0xffffu;
      out[row * kTileCols + col + 1] = d[i] >> 16;
    } else {
      out[row * kTileCols + col] = __float_as_uint(d[i]);
    }
  }
}

void must(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "silicon_wgmma: %s failed: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

constexpr uint32_t kOutputs = kTiles * kTileRows * kTileCols;
constexpr uint32_t kVerbatimTiles = 8;

/// Name, then a hash of each tile, then the first tiles as they are.
template <typename Form>
void record(std::FILE* file, uint32_t* device) {
  std::vector<uint32_t> outputs[2];
  for (int registers = 0; registers < 2; ++registers) {
    must(cudaMemset(device, 0xa5, kOutputs * sizeof(uint32_t)), "cudaMemset");
    run_tile<Form><<<kTiles, kThreads>>>(device, registers != 0);
    must(cudaGetLastError(), Form::kName);
    must(cudaDeviceSynchronize(), Form::kName);
    outputs[registers].resize(kOutputs);
    must(cudaMemcpy(outputs[registers].data(), device, kOutputs * sizeof(uint32_t),
                    cudaMemcpyDeviceToHost),
         "cudaMemcpy");
  }
  const bool equal = outputs[0] == outputs[1];
  uint32_t special = 0;
  for (const uint32_t value : outputs[0]) {
    special += Form::kHalf ? (value & 0x7c00u) == 0x7c00u : (value & 0x7f800000u) == 0x7f800000u;
  }
  std::printf("%-14s %u outputs, %u infinite or NaN, shared and registers %s\n", Form::kName,
              kOutputs, special, equal ? "agree" : "DIFFER");
  const uint8_t length = static_cast<uint8_t>(std::strlen(Form::kName));
  std::fwrite(&length, 1, 1, file);
  std::fwrite(Form::kName, 1, length, file);
  for (uint32_t tile = 0; tile < kTiles; ++tile) {
    uint64_t hash = kHashStart;
    for (uint32_t i = 0; i < kTileRows * kTileCols; ++i) {
      hash = hash_step(hash, outputs[0][tile * kTileRows * kTileCols + i]);
    }
    std::fwrite(&hash, sizeof hash, 1, file);
  }
  std::fwrite(outputs[0].data(), sizeof(uint32_t), kVerbatimTiles * kTileRows * kTileCols, file);
}

template <typename... Forms>
void record_all(std::FILE* file, uint32_t* device) {
  (record<Forms>(file, device), ...);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: silicon_wgmma OUTPUT\n");
    return 2;
  }
  std::FILE* file = std::fopen(argv[1], "wb");
  if (file == nullptr) {
    std::fprintf(stderr, "silicon_wgmma: %s must be writable\n", argv[1]);
    return 1;
  }
  uint32_t* device = nullptr;
  must(cudaMalloc(&device, kOutputs * sizeof(uint32_t)), "cudaMalloc");
  record_all<F32E4m3E4m3, F32E4m3E5m2, F32E5m2E4m3, F32E5m2E5m2, F32F16F16, F32Bf16Bf16,
             F32Tf32Tf32, F16E4m3E4m3, F16E5m2E5m2, F16F16F16>(file, device);
  std::fclose(file);
  return 0;
}
