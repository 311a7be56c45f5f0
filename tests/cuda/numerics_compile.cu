// Compiles src/numerics as device code, for each GPU target of the build. Nothing runs: a host-only
// call, a double definition or a register spill fails the build.
// Used by: the target flamia_cuda_compile, part of every build that has nvcc.
#include <cstdint>

#include "base/bits.h"
#include "numerics_headers.inc"  // generated: one include per header of src/numerics

namespace {

__device__ int thread_index() { return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); }

}  // namespace

extern "C" __global__ void flamia_compile_codes(const float* in, uint32_t* out) {
  const int i = thread_index();
  const float x = in[i];
  const uint32_t random = static_cast<uint32_t>(i) * 2654435761u;
  uint32_t sum = flamia::encode_e4m3(x) + flamia::encode_e5m2(x) + flamia::encode_e2m1(x);
  sum += flamia::encode_e4m3_stochastic(x, random) + flamia::encode_e5m2_stochastic(x, random);
  sum += flamia::float_to_bf16(x) + flamia::float_to_f16(x);
  sum += flamia::encode_ue4m3(x) + flamia::encode_ue8m0(flamia::floor_log2(x));
  out[i] = sum;
}

extern "C" __global__ void flamia_compile_scales(const float* in, float* out) {
  const int i = thread_index();
  const float x = in[i];
  const int exponent = flamia::round_up_exponent_e4m3(x);
  const int token_exponent = flamia::nvfp4_token_exponent(x);
  const uint8_t scale = flamia::nvfp4_block_scale(x, token_exponent);
  out[i] = flamia::quantize_e4m3(x, exponent) +
           flamia::encode_nvfp4(x, flamia::nvfp4_scale_value(scale, token_exponent)) +
           flamia::scale_pow2(x, exponent);
}

extern "C" __global__ void flamia_compile_softmax(const float* in, float* out) {
  const int i = thread_index();
  const float x = in[i];
  const float m = flamia::next_row_max(x, out[i], 0.0f);
  float sum = flamia::exp2_exact(x - m) + flamia::exp2_polynomial(x - m);
  sum += flamia::mitchell_exp2(x - m) + flamia::schraudolph_exp2(x - m);
  out[i] = flamia::log_sum_exp(m, sum * flamia::rescale_factor(x, m));
}

extern "C" __global__ void flamia_compile_hadamard(float* inout) {
  float x[64];
  float* row = inout + 64 * thread_index();
  for (int c = 0; c < 64; ++c) x[c] = row[c];
  flamia::hadamard<64>(x);
  for (int c = 0; c < 64; ++c) row[c] = x[c];
}
