// Times build_schedule() on the device, after comparing its result with the CPU's list:
//   latency_us   one build alone: from an event before its launches to one behind them, median
//   stream_us    builds back to back in a stream, host launches included, median of rounds
//   graph_us     builds back to back in a graph, likewise
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu/device_arrays.h"
#include "bench/gpu/kernel_speed.h"
#include "cuda/schedule.h"
#include "problem/names.h"
#include "schedule/work_list.h"
#include "tools/document_list.h"
#include "tools/errors.h"

namespace flamia::bench {
namespace {

constexpr int kUsualSingles = 101;
constexpr int kWarmBuilds = 20;
constexpr int kTogether = 50;
constexpr int kMostRounds = 7;

struct Shape {
  std::string name;
  std::vector<int64_t> lengths;
};

std::vector<int64_t> drawn_lengths(std::mt19937* random, int count, unsigned longest) {
  std::vector<int64_t> lengths;
  for (int i = 0; i < count; ++i) lengths.push_back((*random)() % longest + 1);
  return lengths;
}

/// What is measured when no documents are given.
std::vector<Shape> usual_shapes() {
  std::mt19937 random(1);
  std::vector<Shape> shapes = {{"4x4096", std::vector<int64_t>(4, 4096)}, {"1x131072", {131072}}};
  shapes.push_back({"200 of 1 to 162", drawn_lengths(&random, 200, 162)});
  shapes.push_back({"200 of 1 to 1310", drawn_lengths(&random, 200, 1310)});
  shapes.push_back({"1024x128", std::vector<int64_t>(1024, 128)});
  shapes.push_back({"131072x1", std::vector<int64_t>(131072, 1)});
  shapes.push_back({"1048576x1", std::vector<int64_t>(1048576, 1)});
  Shape skewed{"524288x1+524288", std::vector<int64_t>(524288, 1)};
  skewed.lengths.push_back(524288);
  shapes.push_back(skewed);
  shapes.push_back({"1x4194304", {4194304}});  // a sort of two digits
  return shapes;
}

/// Device memory of one list.
class ListCase {
 public:
  ListCase(const Shape& shape, const Mask& mask) : cumulative_{0} {
    for (const int64_t length : shape.lengths) {
      cumulative_.push_back(cumulative_.back() + static_cast<int32_t>(length));
    }
    const int32_t tokens = cumulative_.back();
    const auto documents = static_cast<int32_t>(shape.lengths.size());
    const int64_t blocks = token_block_capacity(tokens, documents);
    args_.queries = {arrays_.copy_of(cumulative_), 1, 0, 0, tokens, documents};
    args_.keys = args_.queries;
    args_.window_left = mask.kind == MaskKind::kWindow ? mask.window_left : -1;
    args_.window_right = mask.kind == MaskKind::kWindow   ? mask.window_right
                         : mask.kind == MaskKind::kCausal ? 0
                                                          : -1;
    args_.schedule.counts = arrays_.take<ScheduleCounts>(1);
    args_.schedule.query_blocks = arrays_.take<TokenBlockRange>(blocks);
    args_.schedule.key_blocks = args_.schedule.query_blocks;
    args_.schedule.items = arrays_.take<ForwardItem>(forward_item_capacity(tokens, documents));
    args_.scratch = arrays_.take<unsigned char>(
        static_cast<int64_t>(cuda::schedule_scratch_bytes(tokens, tokens, documents)));
  }

  const Status& status() const { return arrays_.status(); }
  int32_t tokens() const { return args_.queries.tokens; }
  int32_t documents() const { return args_.queries.documents; }
  Status build(cudaStream_t stream) const { return cuda::build_schedule(args_, stream); }

  /// Refuses counts, blocks or items that are not the CPU's.
  Status check() {
    Problem problem;
    problem.query_tokens = problem.key_tokens = tokens();
    problem.documents = documents();
    TensorView view;
    view.data = cumulative_.data();
    view.dtype = DType::kI32;
    view.stride[0] = 1;
    const WorkList wanted =
        build_work_list(PackedLayout(problem, view, {}), args_.window_left, args_.window_right);
    Status status = compare("counts", args_.schedule.counts, &wanted.counts, 1);
    if (status.ok()) {
      status = compare("blocks", args_.schedule.query_blocks, wanted.query_blocks.data(),
                       wanted.query_blocks.size());
    }
    if (status.ok()) {
      status = compare("items", args_.schedule.items, wanted.items.data(), wanted.items.size());
    }
    return status;
  }

 private:
  template <typename T>
  static Status compare(const char* what, const T* device, const T* wanted, size_t count) {
    std::vector<T> got;
    Status status = read_array(device, static_cast<int64_t>(count), &got);
    if (!status.ok() || std::memcmp(got.data(), wanted, count * sizeof(T)) == 0) return status;
    return tools::failure("{} of the work list must be the CPU's", what);
  }

  std::vector<int32_t> cumulative_;
  DeviceArrays arrays_;
  ScheduleArgs args_{};
};

/// Builds captured together.
class BuildGraph {
 public:
  BuildGraph(const ListCase& job, cudaStream_t stream, int builds) : stream_(stream) {
    status_ = cuda_status("cudaStreamBeginCapture",
                          cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < builds && status_.ok(); ++i) status_ = job.build(stream);
    cudaGraph_t graph = nullptr;
    Status ended = cuda_status("cudaStreamEndCapture", cudaStreamEndCapture(stream, &graph));
    if (status_.ok()) status_ = std::move(ended);
    if (status_.ok()) {
      status_ = cuda_status("cudaGraphInstantiate", cudaGraphInstantiate(&executable_, graph, 0));
    }
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  BuildGraph(const BuildGraph&) = delete;
  BuildGraph& operator=(const BuildGraph&) = delete;
  ~BuildGraph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
  }
  Status launch() const {
    if (!status_.ok()) return status_;
    return cuda_status("cudaGraphLaunch", cudaGraphLaunch(executable_, stream_));
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
  Status status_;
};

/// Median of `rounds` times of work, divided by `units`.
template <typename Work>
Status sample(EventPair* events, int rounds, int units, const Work& work, double* us) {
  std::vector<double> samples;
  for (int i = 0; i < rounds; ++i) {
    double one = 0;
    if (Status status = events->microseconds(work, &one); !status.ok()) return status;
    samples.push_back(one / units);
  }
  *us = median_of(std::move(samples));
  return {};
}

Status measure_shape(const Shape& shape, const SpeedSettings& settings, cudaStream_t stream,
                     const SpeedOutput& output) {
  const Mask& mask = settings.arguments.options.mask;
  ListCase job(shape, mask);
  Status status = job.status();
  for (int i = 0; i < kWarmBuilds && status.ok(); ++i) status = job.build(stream);
  if (status.ok()) {
    status = cuda_status("cudaStreamSynchronize", cudaStreamSynchronize(stream));
  }
  if (status.ok()) status = job.check();
  if (!status.ok()) return status;
  const int singles = settings.repetitions(kUsualSingles);
  const int rounds = std::min(singles, kMostRounds);
  const BuildGraph one(job, stream, 1);
  const BuildGraph many(job, stream, kTogether);
  EventPair events(stream);
  double latency = 0;
  double in_stream = 0;
  double in_graph = 0;
  const auto builds = [&]() -> Status {
    Status built;
    for (int i = 0; i < kTogether && built.ok(); ++i) built = job.build(stream);
    return built;
  };
  status = sample(
      &events, singles, 1, [&] { return one.launch(); }, &latency);
  if (status.ok()) status = sample(&events, rounds, kTogether, builds, &in_stream);
  if (status.ok()) {
    status = sample(
        &events, rounds, kTogether, [&] { return many.launch(); }, &in_graph);
  }
  if (status.ok()) status = job.check();
  if (!status.ok()) return status;
  const std::string group = fmt::format("work list, {}, microseconds", mask_text(mask));
  output.table->add({group, shape.name, latency, Rule::kNoted, 0, 0});
  output.table->note(group, fmt::format("  {} tokens, {} documents; back to back {:.1f} in a "
                                        "stream, {:.1f} in a graph",
                                        job.tokens(), job.documents(), in_stream, in_graph));
  output.rows->push_back({{"kind", "worklist"},
                          {"workload", shape.name},
                          {"mask", mask_text(mask)},
                          {"tokens", job.tokens()},
                          {"documents", job.documents()},
                          {"latency_us", latency},
                          {"stream_us", in_stream},
                          {"graph_us", in_graph}});
  return {};
}

}  // namespace

Status measure_gpu_work_list(const SpeedSettings& settings, const SpeedOutput& output) {
  std::vector<Shape> shapes;
  if (settings.workload.empty()) {
    shapes = usual_shapes();
  } else {
    Shape shape{settings.workload, {}};
    if (Status status =
            tools::parse_documents("--docs", settings.arguments.input.documents, &shape.lengths);
        !status.ok()) {
      return status;
    }
    shapes.push_back(std::move(shape));
  }
  cudaStream_t stream = nullptr;
  Status status = cuda_status("cudaStreamCreate", cudaStreamCreate(&stream));
  for (const Shape& shape : shapes) {
    output.progress->phase(shape.name);
    if (status.ok()) status = measure_shape(shape, settings, stream, output);
  }
  if (stream != nullptr) cudaStreamDestroy(stream);
  return status;
}

}  // namespace flamia::bench
