// Pipes of the scalar units: FP32, MUFU, packed half, conversion to E4M3, a softmax, and one chain
// that waits for its own latency, which the model does not claim to predict.
// Build: see compare.py.
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cmath>

#include "bench/vgpu_calibration/harness.h"

namespace {

using calibration::Case;
using calibration::Clock;
using calibration::Launch;

constexpr int kThreads = 512;
constexpr int kChains = 8;
constexpr int kSms = 132;

float* g_floats = nullptr;
uint32_t* g_words = nullptr;

void prepare(int ctas) {
  g_floats = calibration::allocate<float>(static_cast<size_t>(ctas) * kThreads);
  g_words = calibration::allocate<uint32_t>(static_cast<size_t>(ctas) * kThreads);
}

template <typename Holds>
bool all_floats(int ctas, Holds holds) {
  const auto values = calibration::download(g_floats, static_cast<size_t>(ctas) * kThreads);
  return std::all_of(values.begin(), values.end(), holds);
}

// ---- FP32: eight chains of multiply-adds a thread.

constexpr int kFmaSteps = 16384;  // a chain

template <int Chains>
__global__ void __launch_bounds__(kThreads)
    fma_kernel(float* out, float a, float b, int steps, Clock* clock) {
  calibration::read_clock(clock, -1);
  float x[Chains];
  for (int c = 0; c < Chains; ++c) x[c] = static_cast<float>(c);
  for (int i = 0; i < steps; i += 8) {
#pragma unroll
    for (int u = 0; u < 8; ++u) {
#pragma unroll
      for (int c = 0; c < Chains; ++c) x[c] = fmaf(x[c], a, b);
    }
  }
  float sum = 0;
  for (int c = 0; c < Chains; ++c) sum += x[c];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  calibration::read_clock(clock, 1);
}

void run_fma(const Launch& launch) {
  fma_kernel<kChains><<<launch.ctas, kThreads>>>(g_floats, 1.0f, 1.0f, kFmaSteps, launch.clock);
}
bool check_fma(int ctas) {
  // Integers below 2^24: exact.
  return all_floats(ctas, [](float x) { return x == kChains * kFmaSteps + 28.0f; });
}

void run_latency(const Launch& launch) {
  fma_kernel<1><<<launch.ctas, 128>>>(g_floats, 1.0f, 1.0f, kFmaSteps, launch.clock);
}
bool check_latency(int ctas) {
  const auto values = calibration::download(g_floats, static_cast<size_t>(ctas) * 128);
  return std::all_of(values.begin(), values.end(), [](float x) { return x == kFmaSteps; });
}

// ---- MUFU: x = 2^-x goes to its fixed point.

constexpr int kExpSteps = 1024;

__global__ void __launch_bounds__(kThreads) exp_kernel(float* out, int steps, Clock* clock) {
  calibration::read_clock(clock, -1);
  float x[kChains];
  for (int c = 0; c < kChains; ++c) x[c] = 0.1f * static_cast<float>(c);
  for (int i = 0; i < steps; i += 8) {
#pragma unroll
    for (int u = 0; u < 8; ++u) {
#pragma unroll
      for (int c = 0; c < kChains; ++c) {
        asm("{.reg .f32 n; neg.f32 n, %0; ex2.approx.ftz.f32 %0, n;}" : "+f"(x[c]));
      }
    }
  }
  float sum = 0;
  for (int c = 0; c < kChains; ++c) sum += x[c];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  calibration::read_clock(clock, 1);
}

void run_exp(const Launch& launch) {
  exp_kernel<<<launch.ctas, kThreads>>>(g_floats, kExpSteps, launch.clock);
}
bool check_exp(int ctas) {
  const double fixed = 0.6411857445;
  return all_floats(ctas, [=](float x) { return std::fabs(x - kChains * fixed) < 1e-4; });
}

// ---- Packed half: x = x / 2 + 1 goes to 2.

constexpr int kHalfSteps = 8192;

__global__ void __launch_bounds__(kThreads)
    half_kernel(float* out, __half2 a, __half2 b, int steps, Clock* clock) {
  calibration::read_clock(clock, -1);
  __half2 x[kChains];
  for (int c = 0; c < kChains; ++c) x[c] = __float2half2_rn(static_cast<float>(c));
  for (int i = 0; i < steps; i += 8) {
#pragma unroll
    for (int u = 0; u < 8; ++u) {
#pragma unroll
      for (int c = 0; c < kChains; ++c) x[c] = __hfma2(x[c], a, b);
    }
  }
  float sum = 0;
  for (int c = 0; c < kChains; ++c) sum += __low2float(x[c]) + __high2float(x[c]);
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  calibration::read_clock(clock, 1);
}

void run_half(const Launch& launch) {
  half_kernel<<<launch.ctas, kThreads>>>(g_floats, __float2half2_rn(0.5f), __float2half2_rn(1.0f),
                                         kHalfSteps, launch.clock);
}
bool check_half(int ctas) {
  return all_floats(ctas, [](float x) { return std::fabs(x - 4.0f * kChains) < 0.1f; });
}

// ---- Conversion: four codes, from the bits of the last four and a constant.

constexpr int kConvertSteps = 4096;
constexpr float kFixed = 1.75f;

__host__ __device__ inline uint32_t pack(float x, float constant) {
#ifdef __CUDA_ARCH__
  uint32_t out;
  asm("{.reg .b16 lo, hi; cvt.rn.satfinite.e4m3x2.f32 lo, %1, %2;"
      " cvt.rn.satfinite.e4m3x2.f32 hi, %2, %1; mov.b32 %0, {lo, hi};}"
      : "=r"(out)
      : "f"(x), "f"(constant));
  return out;
#else
  const uint32_t code = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
  const uint32_t fixed = __nv_cvt_float_to_fp8(constant, __NV_SATFINITE, __NV_E4M3);
  return fixed | code << 8 | code << 16 | fixed << 24;
#endif
}
__host__ __device__ inline float as_float(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

__global__ void __launch_bounds__(kThreads)
    convert_kernel(const float* zeros, uint32_t* out, int steps, Clock* clock) {
  calibration::read_clock(clock, -1);
  const float fixed = kFixed + zeros[blockIdx.x * blockDim.x + threadIdx.x];  // in a register
  uint32_t v[kChains];
  for (int c = 0; c < kChains; ++c) v[c] = 0x40000000u + c * 0x00100000u;
  for (int i = 0; i < steps; i += 8) {
#pragma unroll
    for (int u = 0; u < 8; ++u) {
#pragma unroll
      for (int c = 0; c < kChains; ++c) v[c] = pack(as_float(v[c]), fixed);
    }
  }
  uint32_t sum = 0;
  for (int c = 0; c < kChains; ++c) sum += v[c];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  calibration::read_clock(clock, 1);
}

void run_convert(const Launch& launch) {
  convert_kernel<<<launch.ctas, kThreads>>>(g_floats, g_words, kConvertSteps, launch.clock);
}
bool check_convert(int ctas) {
  uint32_t sum = 0;
  for (int c = 0; c < kChains; ++c) {
    uint32_t v = 0x40000000u + static_cast<uint32_t>(c) * 0x00100000u;
    for (int i = 0; i < kConvertSteps; ++i) v = pack(as_float(v), kFixed);
    sum += v;
  }
  const auto values = calibration::download(g_words, static_cast<size_t>(ctas) * kThreads);
  return std::all_of(values.begin(), values.end(), [=](uint32_t x) { return x == sum; });
}

// ---- A softmax row: scale and shift, 2^x, running maximum and sum, four codes.

constexpr int kRowSteps = 256;
constexpr int kRow = 32;
constexpr float kStart = 0.125f;

template <int Threads>
__global__ void __launch_bounds__(Threads)
    softmax_kernel(float* out, uint32_t* codes, float scale, float start, int steps, Clock* clock) {
  calibration::read_clock(clock, -1);
  float s[kRow];
  for (int k = 0; k < kRow; ++k) s[k] = start * static_cast<float>(k);
  float top = 0, sum = 0;
  uint32_t mixed = 0;
  for (int i = 0; i < steps; ++i) {
    float row_top = top;
#pragma unroll
    for (int k = 0; k < kRow; ++k) row_top = fmaxf(row_top, s[k]);
    const float shift = -row_top * scale;
    top = row_top;
    float part[4] = {};
#pragma unroll
    for (int k = 0; k < kRow; k += 4) {
      float p[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(p[e]) : "f"(fmaf(s[k + e], scale, shift)));
        part[e] += p[e];
        s[k + e] = s[k + e] * 0.5f + 1.0f;  // the next scores: they go to 2
      }
      uint32_t word;
      asm("{.reg .b16 lo, hi; cvt.rn.satfinite.e4m3x2.f32 lo, %2, %1;"
          " cvt.rn.satfinite.e4m3x2.f32 hi, %4, %3; mov.b32 %0, {lo, hi};}"
          : "=r"(word)
          : "f"(p[0]), "f"(p[1]), "f"(p[2]), "f"(p[3]));
      mixed ^= word;
    }
    sum += (part[0] + part[1]) + (part[2] + part[3]);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  codes[blockIdx.x * blockDim.x + threadIdx.x] = mixed;
  calibration::read_clock(clock, 1);
}

void run_softmax(const Launch& launch) {
  softmax_kernel<kThreads>
      <<<launch.ctas, kThreads>>>(g_floats, g_words, 1.0f, kStart, kRowSteps, launch.clock);
}
/// Twice the warps, to hide the chain of maxima.
void run_wide(const Launch& launch) {
  softmax_kernel<2 * kThreads>
      <<<launch.ctas, 2 * kThreads>>>(g_floats, g_words, 1.0f, kStart, kRowSteps, launch.clock);
}
bool check_softmax(int ctas) {
  float s[kRow];
  for (int k = 0; k < kRow; ++k) s[k] = kStart * static_cast<float>(k);
  double sum = 0, top = 0;
  for (int i = 0; i < kRowSteps; ++i) {
    for (const float x : s) top = std::max<double>(top, x);
    for (float& x : s) {
      sum += std::exp2(x - top);
      x = x * 0.5f + 1.0f;
    }
  }
  return all_floats(ctas, [=](float x) { return std::fabs(x - sum) < 1e-3 * sum; });
}

void prepare_wide(int ctas) { prepare(2 * ctas); }
bool check_wide(int ctas) { return check_softmax(2 * ctas); }

// ---- What a launch costs by itself.

__global__ void empty_kernel(Clock* clock) {
  calibration::read_clock(clock, -1);
  calibration::read_clock(clock, 1);
}
void run_empty(const Launch& launch) { empty_kernel<<<launch.ctas, 32>>>(launch.clock); }
bool check_empty(int) { return true; }

constexpr Case kCases[] = {
    {"empty", kSms, 4, prepare, run_empty, check_empty},
    {"fma", kSms, 4, prepare, run_fma, check_fma},
    {"fma_latency", kSms, 4, prepare, run_latency, check_latency},
    {"mufu_ex2", kSms, 4, prepare, run_exp, check_exp},
    {"half2", kSms, 1, prepare, run_half, check_half},
    {"convert_e4m3", kSms, 4, prepare, run_convert, check_convert},
    {"softmax", kSms, 4, prepare, run_softmax, check_softmax},
    {"softmax_wide", kSms, 4, prepare_wide, run_wide, check_wide},
};

}  // namespace

int main(int argc, char** argv) { return calibration::main_of(kCases, argc, argv); }
