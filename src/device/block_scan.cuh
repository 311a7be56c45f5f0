// Sums before each thread of a CTA, in the order of threads.
// Used by: the schedule's kernels. A type T brings plus(T, T), with plus(T{}, x) == x, and
// shuffle_up(T, lanes).
#pragma once

#include <cstdint>

namespace flamia {

constexpr uint32_t kAllLanes = 0xffffffffu;

__device__ inline uint32_t plus(uint32_t a, uint32_t b) { return a + b; }
__device__ inline uint32_t shuffle_up(uint32_t value, int lanes) {
  return __shfl_up_sync(kAllLanes, value, lanes);
}

/// Returns the sum of the values of earlier threads and, to every thread, *total of all. `scratch`
/// holds kThreads / 32 values and may be reused after the next __syncthreads().
template <int kThreads, typename T>
__device__ T block_exclusive_scan(const T& value, T* scratch, T* total) {
  constexpr int kWarps = kThreads / 32;
  static_assert(kThreads % 32 == 0 && kWarps <= 32);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  T before{};  // of this lane in its warp
  T sum = value;
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const T lower = shuffle_up(sum, lanes);
    if (lane >= lanes) sum = plus(lower, sum);
  }
  const T lower = shuffle_up(sum, 1);
  if (lane > 0) before = lower;
  if (lane == 31) scratch[warp] = sum;
  __syncthreads();
  T earlier{};
  T all{};
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp) earlier = all;
    all = plus(all, scratch[w]);
  }
  *total = all;
  return plus(earlier, before);
}

}  // namespace flamia
