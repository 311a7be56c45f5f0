// Time of the forward pass on a real GPU: the kernel, the quantizer and both, on the workloads of
// packed documents. Prints JSON rows. Usage: flamia_bench_forward [--only NAMES] [--tau T]
//        [--path mxfp8|nvfp4|bf16] [--head-dim D] [--json F]
// Burst: an idle pause, two launches, then about 20 ms of launches. Sustained: 50 ms of launches
// not counted, then 80 ms. FLOPs are counted pair by pair. Inputs are checked for size only:
// numbers are the business of tests/kernels, which run on the same GPU.
#include "cuda/forward.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/quantize.h"
#include "cuda/schedule.h"
#include "numerics/bf16.h"
#include "numerics/online_softmax.h"
#include "numerics/p_hat.h"
#include "plan/kernel_info.h"
#include "problem/token_blocks.h"

namespace {

using flamia::ForwardArgs;
using flamia::QuantizeArgs;
using flamia::QuantizeTensor;
using flamia::ScheduleArgs;
using flamia::Status;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "flamia_bench_forward: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
void check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

/// Device memory that lives as long as its workload.
class Buffers {
 public:
  ~Buffers() {
    for (void* data : all_) cudaFree(data);
  }
  template <typename T>
  T* take(int64_t count) {
    void* data = nullptr;
    check(cudaMalloc(&data, static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(T)),
          "cudaMalloc");
    all_.push_back(data);
    return static_cast<T*>(data);
  }

 private:
  std::vector<void*> all_;
};

struct Workload {
  std::string name;
  std::vector<int32_t> lengths;
  int32_t kv_heads = 16;
};
constexpr int32_t kHeads = 16;

std::vector<int32_t> repeated(int count, int32_t length) {
  return std::vector<int32_t>(static_cast<size_t>(count), length);
}
std::vector<int32_t> one_and(int32_t first, int count, int32_t length) {
  std::vector<int32_t> all = repeated(count, length);
  all.insert(all.begin(), first);
  return all;
}

std::vector<Workload> workloads() {
  const std::vector<int32_t> mixed = {344, 198, 668, 245, 170, 684, 5856, 3593, 3102, 324, 1200};
  return {
      {"W1", repeated(4, 4096)},
      {"W2", repeated(16, 4096)},
      {"W3", repeated(16, 1024)},
      {"W4", repeated(64, 1024)},
      {"W5", one_and(8192, 32, 256)},
      {"W6", one_and(8192, 224, 256)},
      {"W7", mixed},
      {"W8", mixed, 4},
      {"W9", {1386, 766, 1425, 303,  3790, 3955, 1949, 251, 1122, 503,  364,  6769, 8120, 155, 4605,
              1581, 629, 419,  2132, 860,  2230, 2018, 224, 3136, 7656, 7252, 1650, 155,  131}},
      {"D1", repeated(1, 32768)},
      {"D2", repeated(2, 16384)},
      {"D3", repeated(4, 8192)}};
}

uint16_t* normal_values(Buffers* buffers, int64_t count, uint32_t seed) {
  std::vector<uint16_t> pattern(1 << 20);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (uint16_t& value : pattern) value = flamia::float_to_bf16(normal(generator));
  auto* data = buffers->take<uint16_t>(count);
  for (int64_t done = 0; done < count; done += static_cast<int64_t>(pattern.size())) {
    const int64_t part = std::min<int64_t>(count - done, static_cast<int64_t>(pattern.size()));
    check(cudaMemcpy(data + done, pattern.data(), static_cast<size_t>(part) * 2,
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  return data;
}

/// Everything that one workload needs, on the device.
struct Call {
  QuantizeArgs quantize = {};
  ForwardArgs forward = {};
  int head_dim = 128;
  int sms = 0;

  void run_quantize() const { check(flamia::cuda::launch_quantize(quantize, head_dim, nullptr)); }
  void run_forward(bool residual) const {
    ForwardArgs args = forward;
    if (!residual) args.o_residual.data = nullptr;
    check(flamia::cuda::launch_forward(args, head_dim, sms, nullptr));
  }
};

/// What a path makes of its operands, and its kernel.
struct PathForms {
  const char* name;
  flamia::ForwardForm kernel;
  flamia::QuantizeForm scores;
  flamia::QuantizeForm values;
};
constexpr PathForms kPaths[] = {
    {"mxfp8", flamia::ForwardForm::kMxfp8, flamia::QuantizeForm::kE4m3,
     flamia::QuantizeForm::kE4m3},
    {"nvfp4", flamia::ForwardForm::kNvfp4, flamia::QuantizeForm::kNvfp4,
     flamia::QuantizeForm::kE4m3},
    {"bf16", flamia::ForwardForm::kBf16, flamia::QuantizeForm::kBf16, flamia::QuantizeForm::kBf16},
};

struct Settings {
  PathForms path = kPaths[0];
  std::string only;
  std::string json;
  float tau = 0.0f;
  int head_dim = 128;
};

Call make_call(const Workload& workload, bool causal, const Settings& settings, Buffers* buffers) {
  Call call;
  call.head_dim = settings.head_dim;
  const int dim = settings.head_dim;
  check(cudaDeviceGetAttribute(&call.sms, cudaDevAttrMultiProcessorCount, 0), "attribute");
  std::vector<int32_t> cu(workload.lengths.size() + 1, 0);
  std::partial_sum(workload.lengths.begin(), workload.lengths.end(), cu.begin() + 1);
  const int32_t tokens = cu.back();
  const auto documents = static_cast<int32_t>(workload.lengths.size());
  auto* device_cu = buffers->take<int32_t>(documents + 1);
  check(cudaMemcpy(device_cu, cu.data(), cu.size() * sizeof(int32_t), cudaMemcpyHostToDevice),
        "cudaMemcpy");

  const int64_t blocks = flamia::token_block_capacity(tokens, documents);
  ScheduleArgs schedule = {};
  schedule.queries = {device_cu, 1, 0, 0, tokens, documents};
  schedule.keys = schedule.queries;
  schedule.window_left = -1;
  schedule.window_right = causal ? 0 : -1;
  schedule.schedule.counts = buffers->take<flamia::ScheduleCounts>(1);
  schedule.schedule.query_blocks = buffers->take<flamia::TokenBlockRange>(blocks);
  schedule.schedule.key_blocks = schedule.schedule.query_blocks;
  schedule.schedule.items =
      buffers->take<flamia::ForwardItem>(flamia::forward_item_capacity(tokens, documents));
  schedule.scratch = buffers->take<uint8_t>(
      static_cast<int64_t>(flamia::cuda::schedule_scratch_bytes(tokens, tokens, documents)));
  check(flamia::cuda::build_schedule(schedule, nullptr));

  const auto operand = [&](int index, int32_t heads, flamia::QuantizeForm form, bool transposed,
                           bool rotate, uint32_t seed) {
    QuantizeTensor& tensor = call.quantize.tensors[index];
    const int64_t row = static_cast<int64_t>(heads) * dim;
    tensor.input = {normal_values(buffers, tokens * row, seed), 0, row, dim, 0, heads};
    const bool fp8 = form == flamia::QuantizeForm::kE4m3;
    const int block_bytes = fp8 ? flamia::token_block_bytes(dim) : flamia::bf16_block_bytes(dim);
    auto* codes = buffers->take<uint8_t>(heads * blocks * block_bytes);
    tensor.form = form;
    if (!fp8) tensor.row_bf16 = reinterpret_cast<uint16_t*>(codes);
    if (transposed) {
      tensor.output.transposed_codes = codes;
    } else {
      tensor.output.row_codes = codes;
    }
    tensor.output.exponents = buffers->take<int8_t>(heads * blocks);
    tensor.output.blocks = blocks;
    tensor.blocks = schedule.schedule.query_blocks;
    tensor.hadamard = rotate ? 1 : 0;
    tensor.order = static_cast<int32_t>(flamia::TokenOrder::kAccumulator);
    return tensor.output;
  };
  ForwardArgs& args = call.forward;
  const PathForms& path = settings.path;
  const bool bf16 = path.kernel == flamia::ForwardForm::kBf16;
  const bool rotate = dim == 128 && !bf16;
  args.form = path.kernel;
  args.q = operand(0, kHeads, path.scores, false, rotate, 1);
  args.k = operand(1, workload.kv_heads, path.scores, false, rotate, 2);
  args.v = operand(2, workload.kv_heads, path.values, !bf16, false, 3);
  call.quantize.count = 3;
  args.schedule = schedule.schedule;
  args.next_work = buffers->take<uint32_t>(1);
  const int64_t row = static_cast<int64_t>(kHeads) * dim;
  args.o = {buffers->take<uint16_t>(tokens * row), 0, row, dim};
  args.o_residual = {buffers->take<uint16_t>(tokens * row), 0, row, dim};
  args.lse = {buffers->take<float>(static_cast<int64_t>(tokens) * kHeads), 0, tokens, 1};
  args.window_left = schedule.window_left;
  args.window_right = schedule.window_right;
  args.tokens = tokens;
  args.heads = kHeads;
  args.heads_per_kv_head = kHeads / workload.kv_heads;
  args.score_multiplier = flamia::score_multiplier(1.0f / std::sqrt(static_cast<float>(dim)));
  args.p_log2 = bf16 ? 0.0f : flamia::kHopperPHat.log2;
  args.tau = settings.tau;
  args.reverse = 1;
  call.run_quantize();
  call.run_forward(true);
  check(cudaDeviceSynchronize(), "first run");
  return call;
}

class Timer {
 public:
  Timer() {
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  template <typename Launch>
  double ms(int launches, const Launch& launch) {
    check(cudaEventRecord(begin_, nullptr), "cudaEventRecord");
    for (int i = 0; i < launches; ++i) launch();
    check(cudaEventRecord(end_, nullptr), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
    return static_cast<double>(ms) / launches;
  }

 private:
  cudaEvent_t begin_, end_;
};

/// Median of three rounds of a regime.
template <typename Launch>
double measured_ms(Timer* timer, bool sustained, const Launch& launch) {
  const double one = timer->ms(2, launch);
  std::vector<double> rounds;
  for (int round = 0; round < 3; ++round) {
    if (sustained) {
      timer->ms(std::max(1, static_cast<int>(50 / one)), launch);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(150));
      timer->ms(2, launch);
    }
    rounds.push_back(timer->ms(std::max(3, static_cast<int>((sustained ? 80 : 20) / one)), launch));
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[1];
}

double flops(const Workload& workload, bool causal, int dim) {
  double pairs = 0;
  for (const double length : workload.lengths) {
    pairs += causal ? length * (length + 1) / 2 : length * length;
  }
  return 4.0 * dim * kHeads * pairs;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--only") {
      settings.only = argv[i + 1];
    } else if (name == "--tau") {
      settings.tau = std::strtof(argv[i + 1], nullptr);
    } else if (name == "--path") {
      const auto* path =
          std::find_if(std::begin(kPaths), std::end(kPaths),
                       [&](const PathForms& one) { return std::string(one.name) == argv[i + 1]; });
      if (path == std::end(kPaths)) {
        std::fprintf(stderr, "flamia_bench_forward: no path %s\n", argv[i + 1]);
        return 2;
      }
      settings.path = *path;
    } else if (name == "--head-dim") {
      settings.head_dim = std::atoi(argv[i + 1]);
    } else if (name == "--json") {
      settings.json = argv[i + 1];
    } else {
      std::fprintf(stderr, "flamia_bench_forward: no option %s\n", name.c_str());
      return 2;
    }
  }
  if (argc % 2 == 0 || (settings.head_dim != 64 && settings.head_dim != 128)) {
    std::fprintf(stderr, "flamia_bench_forward: options are pairs; head dim is 64 or 128\n");
    return 2;
  }
  Timer timer;
  std::string rows;
  for (const bool causal : {true, false}) {
    for (const Workload& workload : workloads()) {
      if (!settings.only.empty() && settings.only.find(workload.name) == std::string::npos)
        continue;
      if (!causal && workload.name[0] == 'D') continue;
      Buffers buffers;
      const Call call = make_call(workload, causal, settings, &buffers);
      const auto report = [&](const char* pass, const char* regime, double ms, double work) {
        char line[512];
        std::snprintf(line, sizeof line,
                      "%s{\"workload\": \"%s\", \"mask\": \"%s\", \"pass\": \"%s\", \"impl\": "
                      "\"flamia_%s\", \"regime\": \"%s\", \"head_dim\": %d, \"ms\": %.4f, "
                      "\"tflops\": %s}",
                      rows.empty() ? "" : ",\n", workload.name.c_str(), causal ? "causal" : "full",
                      pass, settings.path.name, regime, settings.head_dim, ms,
                      work > 0 ? std::to_string(std::lround(work / ms * 1e-9)).c_str() : "null");
        rows += line;
        std::printf("%s\n", line + (line[0] == ',' ? 2 : 0));
        std::fflush(stdout);
      };
      const double work = flops(workload, causal, settings.head_dim);
      for (const bool sustained : {false, true}) {
        const char* regime = sustained ? "sustained" : "burst";
        const auto time = [&](const char* pass, double done, const auto& launch) {
          report(pass, regime, measured_ms(&timer, sustained, launch), done);
        };
        time("forward", work, [&] { call.run_forward(false); });
        if (!causal) continue;
        time("forward_residual", work, [&] { call.run_forward(true); });
        time("quantize", 0, [&] { call.run_quantize(); });
        time("quantize+forward", work, [&] {
          call.run_quantize();
          call.run_forward(false);
        });
      }
    }
  }
  if (settings.json.empty()) return 0;
  std::FILE* file = std::fopen(settings.json.c_str(), "w");
  if (file == nullptr || std::fprintf(file, "[\n%s\n]\n", rows.c_str()) < 0 ||
      std::fclose(file) != 0) {
    std::fprintf(stderr, "flamia_bench_forward: %s cannot be written\n", settings.json.c_str());
    return 3;
  }
  return 0;
}
