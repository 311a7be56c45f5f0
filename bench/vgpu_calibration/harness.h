// What the calibration programs share: cases, timing on a card, one launch on the virtual GPU.
// Depends on: CUDA runtime. Used by: scalar.cu, memory.cu, tensor.cu.
// PROGRAM --list                 names of the cases, one a line
// PROGRAM --case NAME            full grid: times of kSamples launches, result checked
// PROGRAM --case NAME --count    few CTAs, one launch, result checked: for vgpu-run --stats
// Every line of output is a JSON object.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace calibration {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "calibration: %s\n", what);
  std::exit(1);
}
inline void require(cudaError_t code, const char* what) {
  if (code != cudaSuccess) std::fprintf(stderr, "%s: ", cudaGetErrorString(code));
  require(code == cudaSuccess, what);
}

/// Clocks and nanoseconds of CTA 0, so that a time can be read as clocks.
struct Clock {
  long long clocks;
  long long nanoseconds;
};

#ifdef __CUDACC__
__device__ inline void read_clock(Clock* out, int sign) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  long long clocks, nanoseconds;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(clocks));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  out->clocks = sign * clocks + (sign > 0 ? out->clocks : 0);
  out->nanoseconds = sign * nanoseconds + (sign > 0 ? out->nanoseconds : 0);
}
#endif

struct Launch {
  int ctas = 0;
  Clock* clock = nullptr;
};

struct Case {
  const char* name;
  int full_ctas;   ///< on a card
  int count_ctas;  ///< on the virtual GPU
  void (*prepare)(int ctas);
  void (*run)(const Launch& launch);
  bool (*check)(int ctas);
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Copies a device array to the host.
template <typename T>
std::vector<T> download(const T* device, size_t count) {
  std::vector<T> host(count);
  require(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost), "download");
  return host;
}
template <typename T>
T* allocate(size_t count) {
  T* pointer = nullptr;
  require(cudaMalloc(&pointer, count * sizeof(T)), "allocate");
  require(cudaMemset(pointer, 0, count * sizeof(T)), "clear");
  return pointer;
}

inline void measure(const Case& c) {
  constexpr int kSamples = 21, kWarm = 5;
  Launch launch{c.full_ctas, allocate<Clock>(1)};
  c.prepare(c.full_ctas);
  cudaEvent_t start, stop;
  require(cudaEventCreate(&start), "event");
  require(cudaEventCreate(&stop), "event");
  std::vector<double> times, clocks;
  for (int i = 0; i < kWarm + kSamples; ++i) {
    require(cudaEventRecord(start), "record");
    c.run(launch);
    require(cudaEventRecord(stop), "record");
    require(cudaEventSynchronize(stop), "run");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, start, stop), "elapsed");
    const Clock clock = download(launch.clock, 1)[0];
    if (i < kWarm) continue;
    times.push_back(ms * 1000);
    clocks.push_back(static_cast<double>(clock.clocks) / static_cast<double>(clock.nanoseconds));
  }
  const double low = *std::min_element(times.begin(), times.end());
  const double high = *std::max_element(times.begin(), times.end());
  const bool correct = c.check(c.full_ctas);
  std::printf(
      "{\"case\": \"%s\", \"ctas\": %d, \"median_us\": %.3f, \"low_us\": %.3f, "
      "\"high_us\": %.3f, \"samples\": %d, \"clock_ghz\": %.3f, \"correct\": %s}\n",
      c.name, c.full_ctas, median(times), low, high, kSamples, median(clocks),
      correct ? "true" : "false");
}

inline void count(const Case& c) {
  Launch launch{c.count_ctas, allocate<Clock>(1)};
  c.prepare(c.count_ctas);
  c.run(launch);
  require(cudaDeviceSynchronize(), "run");
  std::printf("{\"case\": \"%s\", \"ctas\": %d, \"correct\": %s}\n", c.name, c.count_ctas,
              c.check(c.count_ctas) ? "true" : "false");
}

template <size_t Count>
int main_of(const Case (&cases)[Count], int argc, char** argv) {
  std::string wanted;
  bool list = false, counting = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--list") == 0) list = true;
    if (std::strcmp(argv[i], "--count") == 0) counting = true;
    if (std::strcmp(argv[i], "--case") == 0 && i + 1 < argc) wanted = argv[++i];
  }
  bool found = false;
  for (const Case& c : cases) {
    if (list) std::printf("%s\n", c.name);
    if (list || (!wanted.empty() && wanted != c.name)) continue;
    found = true;
    counting ? count(c) : measure(c);
  }
  require(list || found, "--case must name a case of --list");
  return 0;
}

}  // namespace calibration
