// Ordinary kernels for the interpreter: vector add, softmax, tiled product, reduction, histogram.
// Used by: execution_kernels_test.cc as data/execution_kernels_sm90a.ptx, made by
// nvcc -std=c++20 -ptx -arch=compute_90a tests/emulator/execution_kernels.cu
#include <cstdint>

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) c[i] = a[i] + b[i];
}

// One row a warp, columns in registers.
extern "C" __global__ void softmax(const float* in, float* out, int rows, int columns) {
  const int row = static_cast<int>((blockIdx.x * blockDim.x + threadIdx.x) / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (row >= rows) return;
  const float* const x = in + static_cast<int64_t>(row) * columns;
  float largest = -INFINITY;
  for (int c = lane; c < columns; c += 32) largest = fmaxf(largest, x[c]);
  for (int step = 16; step > 0; step /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  }
  float sum = 0.0f;
  for (int c = lane; c < columns; c += 32) sum += expf(x[c] - largest);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  for (int c = lane; c < columns; c += 32) {
    out[static_cast<int64_t>(row) * columns + c] = expf(x[c] - largest) / sum;
  }
}

constexpr int kTile = 16;

// c [m][n] = a [m][k] b [k][n]; all multiples of 16.
extern "C" __global__ void tiled_product(const float* a, const float* b, float* c, int n, int k) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile + 1];
  const int row = static_cast<int>(blockIdx.y) * kTile + static_cast<int>(threadIdx.y);
  const int column = static_cast<int>(blockIdx.x) * kTile + static_cast<int>(threadIdx.x);
  float sum = 0.0f;
  for (int start = 0; start < k; start += kTile) {
    a_tile[threadIdx.y][threadIdx.x] = a[row * k + start + static_cast<int>(threadIdx.x)];
    b_tile[threadIdx.y][threadIdx.x] = b[(start + static_cast<int>(threadIdx.y)) * n + column];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum = fmaf(a_tile[threadIdx.y][i], b_tile[i][threadIdx.x], sum);
    __syncthreads();
  }
  c[row * n + column] = sum;
}

extern "C" __global__ void block_sum(const int* in, unsigned long long* out, int n) {
  __shared__ int sums[256];
  int sum = 0;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    sum += in[i];
  }
  sums[threadIdx.x] = sum;
  for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
  }
  if (threadIdx.x == 0) atomicAdd(out, static_cast<unsigned long long>(sums[0]));
}

extern "C" __global__ void histogram(const uint8_t* in, unsigned* counts, int n) {
  __shared__ unsigned mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    atomicAdd(&mine[in[i]], 1u);
  }
  __syncthreads();
  if (mine[threadIdx.x] != 0) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
