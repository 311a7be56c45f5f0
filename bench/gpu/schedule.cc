// Times build_schedule() on the device and compares its result with the CPU's list.
// Used by: hand, on a machine with a GPU: flamia_bench_schedule [--json F]. One row a shape:
//   latency_us   one build alone: from an event before its launches to one behind them, median
//   stream_us    builds back to back in a stream, host launches included, average
//   graph_us     builds back to back in a graph, average
#include "cuda/schedule.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "schedule/work_list.h"

namespace flamia {
namespace {

constexpr int kSingles = 101;
constexpr int kTogether = 50;
constexpr int kRounds = 7;

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "flamia_bench_schedule: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(3);
}

void check(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "flamia_bench_schedule: %s\n", status.message().c_str());
  std::exit(3);
}

struct Shape {
  std::string name;
  std::vector<int32_t> lengths;
};

std::vector<Shape> shapes() {
  std::vector<Shape> result;
  result.push_back({"4x4096", std::vector<int32_t>(4, 4096)});
  result.push_back({"1x131072", {131072}});
  std::mt19937 random(1);
  Shape mixed{"200 of 1 to 162", {}};
  for (int i = 0; i < 200; ++i) mixed.lengths.push_back(static_cast<int32_t>(random() % 162 + 1));
  result.push_back(mixed);
  Shape large{"200 of 1 to 1310", {}};
  for (int i = 0; i < 200; ++i) large.lengths.push_back(static_cast<int32_t>(random() % 1310 + 1));
  result.push_back(large);
  result.push_back({"1024x128", std::vector<int32_t>(1024, 128)});
  result.push_back({"131072x1", std::vector<int32_t>(131072, 1)});
  result.push_back({"1048576x1", std::vector<int32_t>(1048576, 1)});
  Shape skewed{"524288+524288x1", std::vector<int32_t>(524288, 1)};
  skewed.lengths.push_back(524288);
  result.push_back(skewed);
  result.push_back({"1x4194304", {4194304}});  // two digits
  return result;
}

template <typename T>
T* allocate(int64_t count) {
  void* data = nullptr;
  check(cudaMalloc(&data, static_cast<size_t>(count) * sizeof(T) + 1), "cudaMalloc");
  return static_cast<T*>(data);
}

/// Device memory of one shape, freed with the process's last shape.
struct Case {
  std::vector<int32_t> cumulative;
  ScheduleArgs args{};
  int64_t blocks = 0;

  explicit Case(const Shape& shape) {
    cumulative.push_back(0);
    for (const int32_t length : shape.lengths) cumulative.push_back(cumulative.back() + length);
    const int64_t tokens = cumulative.back();
    const auto documents = static_cast<int64_t>(shape.lengths.size());
    auto* const lengths = allocate<int32_t>(documents + 1);
    check(cudaMemcpy(lengths, cumulative.data(), cumulative.size() * sizeof(int32_t),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
    blocks = token_block_capacity(tokens, documents);
    args.queries = {
        lengths, 1, 0, 0, static_cast<int32_t>(tokens), static_cast<int32_t>(documents)};
    args.keys = args.queries;
    args.window_left = -1;
    args.window_right = 0;
    args.schedule.counts = allocate<ScheduleCounts>(1);
    args.schedule.query_blocks = allocate<TokenBlockRange>(blocks);
    args.schedule.key_blocks = args.schedule.query_blocks;
    args.schedule.items = allocate<ForwardItem>(forward_item_capacity(tokens, documents));
    args.scratch = allocate<unsigned char>(
        static_cast<int64_t>(cuda::schedule_scratch_bytes(tokens, tokens, documents)));
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;
  ~Case() {
    cudaFree(const_cast<void*>(args.queries.cu_seqlens));
    cudaFree(args.schedule.counts);
    cudaFree(args.schedule.query_blocks);
    cudaFree(args.schedule.items);
    cudaFree(args.scratch);
  }

  /// Whether counts, blocks and items are the CPU's.
  bool matches() const {
    Problem problem;
    problem.query_tokens = args.queries.tokens;
    problem.key_tokens = args.keys.tokens;
    problem.documents = args.queries.documents;
    TensorView view;
    std::vector<int32_t> entries = cumulative;
    view.data = entries.data();
    view.dtype = DType::kI32;
    view.stride[0] = 1;
    const WorkList wanted = build_work_list(PackedLayout(problem, view, {}), -1, 0);
    return equal(args.schedule.counts, &wanted.counts, 1) &&
           equal(args.schedule.query_blocks, wanted.query_blocks.data(),
                 wanted.query_blocks.size()) &&
           equal(args.schedule.items, wanted.items.data(), wanted.items.size());
  }

 private:
  template <typename T>
  static bool equal(const T* device, const T* wanted, size_t count) {
    std::vector<T> got(count);
    check(cudaMemcpy(got.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return std::memcmp(got.data(), wanted, count * sizeof(T)) == 0;
  }
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

class Timer {
 public:
  explicit Timer(cudaStream_t stream) : stream_(stream) {
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  template <typename Work>
  double microseconds(const Work& work) {
    check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    work();
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0.0f;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(milliseconds);
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_;
  cudaEvent_t end_;
};

cudaGraphExec_t capture(const ScheduleArgs& args, cudaStream_t stream, int builds) {
  cudaGraph_t graph;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  for (int i = 0; i < builds; ++i) check(cuda::build_schedule(args, stream));
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable;
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  return executable;
}

nlohmann::ordered_json measure(const Shape& shape, cudaStream_t stream) {
  Case job(shape);
  Timer timer(stream);
  for (int i = 0; i < 20; ++i) check(cuda::build_schedule(job.args, stream));
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const bool matches = job.matches();

  // Alone: the graph of one build, so that no gap between host launches counts.
  const cudaGraphExec_t one = capture(job.args, stream, 1);
  const cudaGraphExec_t many = capture(job.args, stream, kTogether);
  std::vector<double> latency;
  for (int i = 0; i < kSingles; ++i) {
    latency.push_back(
        timer.microseconds([&] { check(cudaGraphLaunch(one, stream), "cudaGraphLaunch"); }));
  }
  std::vector<double> in_stream;
  std::vector<double> in_graph;
  for (int round = 0; round < kRounds; ++round) {
    in_stream.push_back(timer.microseconds([&] {
      for (int i = 0; i < kTogether; ++i) check(cuda::build_schedule(job.args, stream));
    }) / kTogether);
    in_graph.push_back(timer.microseconds([&] {
      check(cudaGraphLaunch(many, stream), "cudaGraphLaunch");
    }) / kTogether);
  }
  check(cudaGraphExecDestroy(one), "cudaGraphExecDestroy");
  check(cudaGraphExecDestroy(many), "cudaGraphExecDestroy");
  return {{"kind", "worklist"},
          {"workload", shape.name},
          {"mask", "causal"},
          {"tokens", job.args.queries.tokens},
          {"documents", job.args.queries.documents},
          {"latency_us", median(latency)},
          {"stream_us", median(in_stream)},
          {"graph_us", median(in_graph)},
          {"matches", matches && job.matches()}};
}

int run(int argc, char** argv) {
  const bool to_file = argc == 3 && std::strcmp(argv[1], "--json") == 0;
  if (argc != 1 && !to_file) {
    std::fprintf(stderr, "usage: flamia_bench_schedule [--json FILE]\n");
    return 2;
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  bool all_match = true;
  for (const Shape& shape : shapes()) {
    rows.push_back(measure(shape, stream));
    all_match = all_match && rows.back()["matches"].get<bool>();
    std::fprintf(stderr, "%s\n", rows.back().dump().c_str());
  }
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  const nlohmann::ordered_json result = {{"chip", properties.name}, {"rows", rows}};
  const std::string text = result.dump(1) + "\n";
  if (to_file) {
    std::ofstream(argv[2]) << text;
  } else {
    std::fputs(text.c_str(), stdout);
  }
  return all_match ? 0 : 1;
}

}  // namespace
}  // namespace flamia

int main(int argc, char** argv) { return flamia::run(argc, argv); }
