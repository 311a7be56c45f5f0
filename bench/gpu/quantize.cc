// Time of the quantizer launch on a real GPU: Q, K, V together, against bytes over bandwidth.
// Prints JSON. Usage: flamia_bench_quantize [--bandwidth GB/s] [--repeats N]
//        [--heads-of-cta N] [--tokens N] [--json F]
// --heads-of-cta launches grids by hand, so many heads to a CTA; otherwise the library chooses.
// Buffers take turns so that nothing stays in the L2: every set is larger than it, and there are
// at least two. A sample is several launches between two events; the median is reported.
#include "cuda/quantize.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "plan/kernel_info.h"
#include "problem/token_blocks.h"

namespace {

using flamia::QuantizeArgs;
using flamia::QuantizeForm;
using flamia::QuantizeTensor;
using flamia::TokenBlockRange;

constexpr int kHeads = 16;
constexpr int kLaunchesPerSample = 8;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "flamia_bench_quantize: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

template <typename T>
T* allocate(int64_t count) {
  void* data = nullptr;
  check(cudaMalloc(&data, static_cast<size_t>(count) * sizeof(T)), "cudaMalloc");
  return static_cast<T*>(data);
}

/// What is written of q, k and v.
struct Wanted {
  const char* name;
  QuantizeForm form[3];
  bool row[3], transposed[3], hadamard[3];

  double bytes_per_channel() const {
    double bytes = 0;
    for (int i = 0; i < 3; ++i) {
      bytes += form[i] == QuantizeForm::kE4m3 ? 2 + row[i] + transposed[i] : 4;
    }
    return bytes;
  }
};

constexpr QuantizeForm kE4m3 = QuantizeForm::kE4m3;
constexpr QuantizeForm kNvfp4 = QuantizeForm::kNvfp4;
constexpr QuantizeForm kBf16 = QuantizeForm::kBf16;
constexpr Wanted kWanted[] = {
    {"forward",
     {kE4m3, kE4m3, kE4m3},
     {true, true, false},
     {false, false, true},
     {true, true, false}},
    {"forward, not rotated",
     {kE4m3, kE4m3, kE4m3},
     {true, true, false},
     {false, false, true},
     {false, false, false}},
    {"training",
     {kE4m3, kE4m3, kE4m3},
     {true, true, true},
     {true, true, true},
     {true, true, false}},
    {"mixed forward",
     {kNvfp4, kNvfp4, kE4m3},
     {false, false, false},
     {false, false, true},
     {true, true, false}},
    {"bf16 blocks",
     {kBf16, kBf16, kBf16},
     {false, false, false},
     {false, false, false},
     {false, false, false}},
};

/// Documents of one length; bytes of BF16 that look like normal values.
struct Shape {
  int64_t tokens;
  int dim;

  int64_t blocks() const { return tokens / 32 + flamia::kSlackBlocks; }
  int64_t channels() const { return tokens * kHeads * dim; }
};

void fill(uint16_t* data, int64_t count) {
  std::vector<uint16_t> pattern(1 << 20);
  uint32_t state = 1;
  for (uint16_t& value : pattern) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<uint16_t>((state >> 31) << 15 | (0x3e00 + (state >> 16) % 0x240));
  }
  for (int64_t done = 0; done < count; done += static_cast<int64_t>(pattern.size())) {
    const int64_t part = std::min<int64_t>(count - done, static_cast<int64_t>(pattern.size()));
    check(cudaMemcpy(data + done, pattern.data(), static_cast<size_t>(part) * 2,
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
}

/// Buffers of q, k, v with all payloads.
QuantizeArgs make_set(const Shape& shape) {
  std::vector<TokenBlockRange> ranges(static_cast<size_t>(shape.blocks()));
  for (int64_t b = 0; b < shape.tokens / 32; ++b) {
    ranges[static_cast<size_t>(b)] = {static_cast<int32_t>(32 * b), 32};
  }
  auto* blocks = allocate<TokenBlockRange>(shape.blocks());
  check(cudaMemcpy(blocks, ranges.data(), ranges.size() * sizeof(TokenBlockRange),
                   cudaMemcpyHostToDevice),
        "cudaMemcpy");
  QuantizeArgs args = {};
  args.count = 3;
  for (QuantizeTensor& tensor : args.tensors) {
    auto* input = allocate<uint16_t>(shape.channels());
    fill(input, shape.channels());
    tensor.input = {input, 0, static_cast<int64_t>(kHeads) * shape.dim, shape.dim, 0, kHeads};
    const int64_t payload = kHeads * shape.blocks() * flamia::token_block_bytes(shape.dim);
    tensor.output.row_codes = allocate<uint8_t>(payload);
    tensor.output.transposed_codes = allocate<uint8_t>(payload);
    tensor.output.exponents = allocate<int8_t>(kHeads * shape.blocks() * 32);
    tensor.row_bf16 = allocate<uint16_t>(payload);
    tensor.output.blocks = shape.blocks();
    tensor.blocks = blocks;
  }
  return args;
}

void release(const QuantizeArgs& args) {
  for (const QuantizeTensor& tensor : args.tensors) {
    cudaFree(const_cast<uint16_t*>(tensor.input.data));
    cudaFree(tensor.output.row_codes);
    cudaFree(tensor.output.transposed_codes);
    cudaFree(tensor.output.exponents);
    cudaFree(tensor.row_bf16);
  }
  cudaFree(const_cast<TokenBlockRange*>(args.tensors[0].blocks));
}

QuantizeArgs select(const QuantizeArgs& set, const Wanted& wanted) {
  QuantizeArgs args = set;
  for (int i = 0; i < 3; ++i) {
    QuantizeTensor& tensor = args.tensors[i];
    tensor.form = wanted.form[i];
    tensor.hadamard = wanted.hadamard[i] ? 1 : 0;
    if (!wanted.row[i]) tensor.output.row_codes = nullptr;
    if (!wanted.transposed[i]) tensor.output.transposed_codes = nullptr;
  }
  return args;
}

/// One launch; heads_of_cta 0: as the library does it.
void launch(QuantizeArgs args, int dim, int heads_of_cta) {
  if (heads_of_cta == 0) {
    const flamia::Status status = flamia::cuda::launch_quantize(args, dim, nullptr);
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.message().c_str());
    std::exit(1);
  }
  const bool forms = args.tensors[0].form != kE4m3;
  const flamia::KernelInfo& codes = dim == 128 ? flamia::kQuantizeD128 : flamia::kQuantizeD64;
  const flamia::KernelInfo& kernel =
      forms ? (dim == 128 ? flamia::kQuantizeFormsD128 : flamia::kQuantizeFormsD64) : codes;
  const dim3 grid(static_cast<unsigned>((kHeads + heads_of_cta - 1) / heads_of_cta),
                  static_cast<unsigned>(args.tensors[0].output.blocks), 3);
  void* parameters[] = {&args};
  check(cudaLaunchKernel(kernel.entry, grid, dim3(static_cast<unsigned>(kernel.threads)),
                         parameters, static_cast<size_t>(kernel.shared_bytes), nullptr),
        "cudaLaunchKernel");
}

double median_us(const std::vector<QuantizeArgs>& sets, int dim, int repeats, int heads_of_cta) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<double> samples;
  size_t next = 0;
  for (int repeat = -2; repeat < repeats; ++repeat) {  // two to warm up
    check(cudaEventRecord(begin, nullptr), "cudaEventRecord");
    for (int i = 0; i < kLaunchesPerSample; ++i) {
      launch(sets[next++ % sets.size()], dim, heads_of_cta);
    }
    check(cudaEventRecord(end, nullptr), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    if (repeat >= 0) samples.push_back(1e3 * static_cast<double>(ms) / kLaunchesPerSample);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(samples.begin(), samples.begin() + repeats / 2, samples.end());
  return samples[static_cast<size_t>(repeats / 2)];
}

}  // namespace

int main(int argc, char** argv) {
  double bandwidth = 3950;  // GB/s of a copy on an H200
  int repeats = 21;
  int heads_of_cta = 0;
  int64_t tokens = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--bandwidth") == 0) bandwidth = std::atof(argv[i + 1]);
    if (std::strcmp(argv[i], "--repeats") == 0) repeats = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--heads-of-cta") == 0) heads_of_cta = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--json") == 0 && std::freopen(argv[i + 1], "w", stdout) == nullptr) {
      std::perror(argv[i + 1]);
      return 1;
    }
    if (std::strcmp(argv[i], "--tokens") == 0) tokens = std::atoll(argv[i + 1]) / 32 * 32;
  }
  cudaDeviceProp device = {};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  std::printf(
      "{\"device\": \"%s\", \"heads\": %d, \"bandwidth_GBps\": %.0f, \"heads_of_cta\": %d, "
      "\"rows\": [",
      device.name, kHeads, bandwidth, heads_of_cta);
  const char* separator = "\n";
  std::vector<Shape> shapes = {
      {16384, 128}, {65536, 128}, {131072, 128}, {16384, 64}, {131072, 64}};
  if (tokens > 0) shapes = {{tokens, 128}, {tokens, 64}};
  for (const Shape& shape : shapes) {
    const int64_t input_bytes = 3 * 2 * shape.channels();
    const int64_t wanted_sets =
        std::min<int64_t>(2 + 4 * static_cast<int64_t>(device.l2CacheSize) / input_bytes, 64);
    std::vector<QuantizeArgs> sets;
    for (int64_t i = 0; i < wanted_sets; ++i) sets.push_back(make_set(shape));
    for (const Wanted& wanted : kWanted) {
      std::vector<QuantizeArgs> selected;
      for (const QuantizeArgs& set : sets) selected.push_back(select(set, wanted));
      const double us = median_us(selected, shape.dim, repeats, heads_of_cta);
      const double bytes = wanted.bytes_per_channel() * static_cast<double>(shape.channels());
      const double floor_us = bytes / bandwidth * 1e-3;
      std::printf(
          "%s  {\"outputs\": \"%s\", \"tokens\": %lld, \"head_dim\": %d, \"us\": %.2f, "
          "\"GBps\": %.0f, \"floor_us\": %.2f, \"over_floor\": %.3f}",
          separator, wanted.name, static_cast<long long>(shape.tokens), shape.dim, us,
          bytes / us * 1e-3, floor_us, us / floor_us);
      separator = ",\n";
    }
    for (const QuantizeArgs& set : sets) release(set);
  }
  std::printf("\n]}\n");
  return 0;
}
