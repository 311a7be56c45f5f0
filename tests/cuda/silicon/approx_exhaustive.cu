// Compares the model of the approximate functions with the GPU it runs on, for every operand.
// Prints one line per function: operands compared, differences, and the first few of them.
// Used by: hand, on an H200 (tests/emulator/silicon/README.md has the command and the result).
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/philox.h"
#include "emulator/isa/approx.h"

namespace {

using namespace flamia;
using namespace flamia::emulator::isa;

constexpr int kShown = 8;

struct Differences {
  unsigned long long count;
  unsigned long long operand[kShown];
  uint32_t hardware[kShown];
  uint32_t model[kShown];
};

__device__ void record(Differences* out, uint64_t operand, uint32_t hardware, uint32_t model) {
  const unsigned long long at = atomicAdd(&out->count, 1ull);
  if (at >= kShown) return;
  out->operand[at] = operand;
  out->hardware[at] = hardware;
  out->model[at] = model;
}

#define FLAMIA_UNARY(name, instruction, model)                                                     \
  struct name {                                                                                    \
    static constexpr const char* kText = instruction;                                              \
    static __device__ uint32_t hardware(uint32_t x) {                                              \
      uint32_t r;                                                                                  \
      asm volatile(instruction " %0, %1;" : "=r"(r) : "r"(x));                                     \
      return r;                                                                                    \
    }                                                                                              \
    static __device__ uint32_t expected(const MufuTables& t, uint32_t x) { return approx::model; } \
  };
FLAMIA_UNARY(Ex2, "ex2.approx.f32", ex2_f32(t, x, false))
FLAMIA_UNARY(Ex2Ftz, "ex2.approx.ftz.f32", ex2_f32(t, x, true))
FLAMIA_UNARY(Rcp, "rcp.approx.f32", rcp_f32(t, x, false))
FLAMIA_UNARY(RcpFtz, "rcp.approx.ftz.f32", rcp_f32(t, x, true))
FLAMIA_UNARY(Rsqrt, "rsqrt.approx.f32", rsqrt_f32(t, x, false))
FLAMIA_UNARY(RsqrtFtz, "rsqrt.approx.ftz.f32", rsqrt_f32(t, x, true))
FLAMIA_UNARY(Sqrt, "sqrt.approx.f32", sqrt_f32(t, x, false))
FLAMIA_UNARY(SqrtFtz, "sqrt.approx.ftz.f32", sqrt_f32(t, x, true))
FLAMIA_UNARY(Lg2, "lg2.approx.f32", lg2_f32(t, x, false))
FLAMIA_UNARY(Lg2Ftz, "lg2.approx.ftz.f32", lg2_f32(t, x, true))
FLAMIA_UNARY(Sin, "sin.approx.f32", sin_f32(t, x))
FLAMIA_UNARY(SinFtz, "sin.approx.ftz.f32", sin_f32(t, x))
FLAMIA_UNARY(Cos, "cos.approx.f32", cos_f32(t, x))
FLAMIA_UNARY(CosFtz, "cos.approx.ftz.f32", cos_f32(t, x))
FLAMIA_UNARY(Tanh, "tanh.approx.f32", tanh_f32(t, x))

/// 16-bit functions in both halves of a packed operand.
#define FLAMIA_PACKED(name, instruction, model)                                             \
  struct name {                                                                             \
    static constexpr const char* kText = instruction;                                       \
    static __device__ uint32_t hardware(uint32_t x) {                                       \
      uint32_t r;                                                                           \
      asm volatile(instruction " %0, %1;" : "=r"(r) : "r"(x));                              \
      return r;                                                                             \
    }                                                                                       \
    static __device__ uint32_t expected(const MufuTables& t, uint32_t x) {                  \
      return approx::model(t, static_cast<uint16_t>(x)) |                                   \
             static_cast<uint32_t>(approx::model(t, static_cast<uint16_t>(x >> 16))) << 16; \
    }                                                                                       \
  };
FLAMIA_PACKED(Ex2F16, "ex2.approx.f16x2", ex2_f16)
FLAMIA_PACKED(Ex2Bf16, "ex2.approx.ftz.bf16x2", ex2_bf16)
FLAMIA_PACKED(TanhF16, "tanh.approx.f16x2", tanh_f16)
FLAMIA_PACKED(TanhBf16, "tanh.approx.bf16x2", tanh_bf16)

template <typename Function>
__global__ void compare_unary(const MufuTables* tables, Differences* out) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < (1ull << 32);
       i += stride) {
    const uint32_t x = static_cast<uint32_t>(i);
    const uint32_t hardware = Function::hardware(x);
    const uint32_t model = Function::expected(*tables, x);
    if (hardware != model) record(out, i, hardware, model);
  }
}

#define FLAMIA_BINARY(name, instruction, model)                                        \
  struct name {                                                                        \
    static constexpr const char* kText = instruction;                                  \
    static __device__ uint32_t hardware(uint32_t a, uint32_t b) {                      \
      uint32_t r;                                                                      \
      asm volatile(instruction " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));             \
      return r;                                                                        \
    }                                                                                  \
    static __device__ uint32_t expected(const MufuTables& t, uint32_t a, uint32_t b) { \
      return approx::model;                                                            \
    }                                                                                  \
  };
FLAMIA_BINARY(Div, "div.approx.f32", div_approx_f32(t, a, b, false))
FLAMIA_BINARY(DivFtz, "div.approx.ftz.f32", div_approx_f32(t, a, b, true))
FLAMIA_BINARY(DivFull, "div.full.f32", div_full_f32(t, a, b, false))
FLAMIA_BINARY(DivFullFtz, "div.full.ftz.f32", div_full_f32(t, a, b, true))

/// A quarter of the operands are near the edges of the exponent range.
__device__ uint32_t operand(uint32_t bits, uint32_t select) {
  if ((select & 3u) != 0) return bits;
  const uint32_t near = (select >> 2) & 7u;
  const uint32_t exponent = near < 4 ? near : 247u + near;
  return (bits & 0x807fffffu) | (exponent << 23);
}

template <typename Function>
__global__ void compare_binary(const MufuTables* tables, Differences* out, uint64_t count) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const Philox4 random = philox(1, 0, i);
    const uint32_t a = operand(random.word[0], random.word[2]);
    uint32_t b = operand(random.word[1], random.word[3]);
    // In a quarter of the cases b is close to a * 2^126: quotients near the smallest normal value.
    if ((random.word[2] & 0x60u) == 0) {
      b = (a & 0x007fffffu) + (((a >> 23 & 0xffu) + 126u) % 255u << 23) + (random.word[3] & 7u) -
          4u;
    }
    const uint32_t hardware = Function::hardware(a, b);
    const uint32_t model = Function::expected(*tables, a, b);
    if (hardware != model) record(out, static_cast<uint64_t>(a) << 32 | b, hardware, model);
  }
}

void must(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "approx_exhaustive: %s failed: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

MufuTables* tables_on_device = nullptr;
Differences* differences_on_device = nullptr;
bool all_equal = true;

template <typename Launch>
void report(const char* text, unsigned long long operands, Launch launch) {
  must(cudaMemset(differences_on_device, 0, sizeof(Differences)), "cudaMemset");
  launch();
  must(cudaGetLastError(), "launch");
  must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  Differences found;
  must(cudaMemcpy(&found, differences_on_device, sizeof found, cudaMemcpyDeviceToHost),
       "cudaMemcpy");
  std::printf("%-24s %llu operands, %llu differences\n", text, operands, found.count);
  all_equal = all_equal && found.count == 0;
  for (unsigned long long i = 0; i < found.count && i < kShown; ++i) {
    std::printf("    operand %016llx hardware %08x model %08x\n", found.operand[i],
                found.hardware[i], found.model[i]);
  }
}

template <typename... Functions>
void all_unary() {
  (report(
       Functions::kText, 1ull << 32,
       [] { compare_unary<Functions><<<132 * 8, 256>>>(tables_on_device, differences_on_device); }),
   ...);
}

template <typename... Functions>
void all_binary() {
  constexpr unsigned long long count = 1ull << 32;
  (report(Functions::kText, count,
          [] {
            compare_binary<Functions>
                <<<132 * 8, 256>>>(tables_on_device, differences_on_device, count);
          }),
   ...);
}

}  // namespace

int main() {
  must(cudaMalloc(&tables_on_device, sizeof(MufuTables)), "cudaMalloc");
  must(cudaMalloc(&differences_on_device, sizeof(Differences)), "cudaMalloc");
  must(cudaMemcpy(tables_on_device, &kMufuTables, sizeof(MufuTables), cudaMemcpyHostToDevice),
       "cudaMemcpy");
  all_unary<Ex2, Ex2Ftz, Rcp, RcpFtz, Rsqrt, RsqrtFtz, Sqrt, SqrtFtz, Lg2, Lg2Ftz, Sin, SinFtz, Cos,
            CosFtz, Tanh, Ex2F16, Ex2Bf16, TanhF16, TanhBf16>();
  all_binary<Div, DivFtz, DivFull, DivFullFtz>();
  return all_equal ? 0 : 1;
}
