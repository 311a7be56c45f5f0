// Shared memory: a tree reduction in static memory, and a dynamic array behind it.
// Used by: tests of the PTX parser and the interpreter.
#include <cstdint>

extern __shared__ __align__(128) float dynamic[];

extern "C" __global__ void __launch_bounds__(256, 2) reduce(const float* in, float* out, int n) {
  __shared__ float sums[8];
  __shared__ int last;
  float sum = 0.0f;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += 256) sum += in[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  if (threadIdx.x == 0) last = n;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = static_cast<float>(last);
    for (const float part : sums) total += part;
    *out = total;
  }
}

extern "C" __global__ void transpose(const float* in, float* out, int width) {
  const int row = static_cast<int>(threadIdx.y), column = static_cast<int>(threadIdx.x);
  dynamic[row * (width + 1) + column] = in[row * width + column];
  __syncthreads();
  out[row * width + column] = dynamic[column * (width + 1) + row];
}
