// Scalar arithmetic of every width, conversions, selections and a switch with a branch table.
// Used by: tests of the PTX parser and the interpreter.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

__constant__ int32_t table[16] = {1, -2, 3, -4, 5, -6, 7, -8, 9, 10, 11, 12, 13, 14, 15, 16};
__device__ const char* names[2] = {"even", "odd"};
__device__ unsigned long long calls;

__device__ __noinline__ int32_t choose(int32_t kind, int32_t a, int32_t b) {
  switch (kind) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return b != 0 ? a / b : 0;
    case 4:
      return a << (b & 31);
    case 5:
      return a ^ b;
    case 6:
      return __popc(a) + __clz(b);
    case 7:
      return table[a & 15];
    default:
      return static_cast<int32_t>(__brev(static_cast<uint32_t>(a)));
  }
}

extern "C" __global__ void integers(const int32_t* a, const int32_t* b, int32_t* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  out[i] = choose(i % 9, a[i], b[i]) + names[i & 1][0];
  atomicAdd(&calls, 1ull);
}

extern "C" __global__ void wide(const int64_t* a, const uint64_t* b, int64_t* out) {
  const int64_t x = a[threadIdx.x];
  const uint64_t y = b[threadIdx.x];
  out[threadIdx.x] = static_cast<int64_t>(__umul64hi(static_cast<uint64_t>(x), y)) + x / 7 +
                     static_cast<int64_t>(y % 11u) + (x >> 3) + __popcll(y);
}

extern "C" __global__ void floats(const float* a, const double* b, float* out) {
  const float x = a[threadIdx.x];
  const double y = b[threadIdx.x];
  float sum =
      fmaf(x, 1.5f, -2.25f) + exp2f(x) + __log2f(x) + rsqrtf(x) + sqrtf(x) + __fdividef(x, 3.f);
  sum += static_cast<float>(y * 0.1 + x) + fminf(x, 4.0f) + __sinf(x) + truncf(x);
  out[threadIdx.x] = isnan(sum) ? 0.0f : sum;
}

extern "C" __global__ void narrow(const float* a, uint16_t* out) {
  const float x = a[threadIdx.x];
  const __nv_bfloat162 pair = __floats2bfloat162_rn(x, -x);
  const __half2 half =
      __hfma2(__floats2half2_rn(x, x), __float2half2_rn(2.0f), __float2half2_rn(1.0f));
  const __nv_fp8x2_storage_t codes =
      __nv_cvt_float2_to_fp8x2(make_float2(x, x * 0.5f), __NV_SATFINITE, __NV_E4M3);
  out[threadIdx.x] = static_cast<uint16_t>(codes + __bfloat16_as_ushort(pair.x) +
                                           __half_as_ushort(__low2half(half)));
}
