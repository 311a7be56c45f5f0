// Rates of the quantizers beside that of memcpy. Target: half of it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "bench/copy_baseline.h"
#include "bench/speed.h"
#include "flamia/attention.h"
#include "problem/names.h"
#include "tools/input_source.h"
#include "tools/parallel.h"

namespace flamia::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSmallestRatio = 0.5;
constexpr int kUsualRepetitions = 5;

/// Output memory of one representation, written once so that its pages exist.
struct Output {
  tools::HostTensor codes, exp, scales;

  Status allocate(const tools::HostTensor& input, const Representation& representation) {
    std::vector<int64_t> shape = input.shape();
    Status status = tools::HostTensor::allocate(tools::ElementType::kU8, shape, &codes);
    if (status.ok() && representation.has_block_scales) {
      const bool mxfp4 = std::string_view(representation.format) == "mxfp4";
      if (representation.axis == ContractionAxis::kHeadDim) shape.back() /= mxfp4 ? 32 : 16;
      status = tools::HostTensor::allocate(tools::ElementType::kU8, shape, &scales);
    }
    if (!status.ok()) return status;
    shape.pop_back();
    return tools::HostTensor::allocate(tools::ElementType::kI8, shape, &exp);
  }
  double bytes() const {
    return static_cast<double>(codes.bytes() + exp.bytes() + (scales.empty() ? 0 : scales.bytes()));
  }
  QuantizedTensors views() const { return {codes.view(), exp.view(), scales.view()}; }
};

struct CallTime {
  double seconds = 0;      ///< median
  double cpu_seconds = 0;  ///< mean of all threads together
};

template <typename Call>
Status time_call(int repeat, const Call& call, CallTime* time) {
  std::vector<double> samples;
  std::clock_t cpu_start = 0;
  for (int n = 0; n < repeat + 1; ++n) {  // the first one warms up
    if (n == 1) cpu_start = std::clock();
    const Clock::time_point start = Clock::now();
    const Status status = call();
    if (!status.ok()) return status;
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    if (n > 0) samples.push_back(elapsed.count());
  }
  time->cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC / repeat;
  std::sort(samples.begin(), samples.end());
  time->seconds = samples[samples.size() / 2];
  return Status();
}

struct Operand {
  const char* tensor;
  Role role;
  const tools::HostTensor* input;
};

}  // namespace

Status measure_quantizers(const SpeedSettings& settings, const SpeedOutput& result) {
  tools::Progress* const progress = result.progress;
  FigureTable* const table = result.table;
  const Options& options = settings.arguments.options;
  tools::InputSource source;
  progress->phase("inputs");
  Status status = source.open(settings.arguments.input, options);
  if (status.ok()) status = source.load(true);
  if (!status.ok()) return status;
  const tools::AttentionInputs& inputs = source.inputs();
  const int threads = tools::resolve_threads(options.threads);
  progress->phase("copy baseline");
  const CopyRate copy = measure_copy(threads);
  const double copy_gbs = copy.gb_per_s;
  const std::string group = fmt::format("quantize {}, rate over memcpy", name(options.path));
  table->note(group, fmt::format("memcpy {:.1f} GB/s (read + written, {} threads), {:.1f} GB a "
                                 "second of processor time",
                                 copy_gbs, threads, copy.gb_per_cpu_s));

  const Operand operands[] = {{"q", Role::kQ, &inputs.q},
                              {"k", Role::kK, &inputs.k},
                              {"v", Role::kV, &inputs.v},
                              {"do", Role::kDo, &inputs.d_o}};
  for (const Operand& operand : operands) {
    const bool keyed = operand.role == Role::kK || operand.role == Role::kV;
    const TensorView lengths = keyed && source.cu_seqlens_k().data != nullptr
                                   ? source.cu_seqlens_k()
                                   : source.cu_seqlens_q();
    for (const Representation& representation : representations(options.path, operand.role)) {
      progress->phase(fmt::format("quantize {}", operand.tensor));
      Output output;
      status = output.allocate(*operand.input, representation);
      if (!status.ok()) return status;
      CallTime time;
      status = time_call(
          settings.repetitions(kUsualRepetitions),
          [&] {
            return quantize(operand.input->view(), lengths, operand.role, representation.axis,
                            options, output.views());
          },
          &time);
      if (!status.ok()) return status;
      const double bytes = static_cast<double>(operand.input->bytes()) + output.bytes();
      const double gbs = bytes / time.seconds * 1e-9;
      const double cpu_ratio = bytes / time.cpu_seconds * 1e-9 / copy.gb_per_cpu_s;
      const char* const axis =
          representation.axis == ContractionAxis::kHeadDim ? "head_dim" : "tokens";
      table->add({group, fmt::format("{} {} along {}", operand.tensor, representation.format, axis),
                  gbs / copy_gbs, Rule::kAtLeast, kSmallestRatio, 0});
      table->note(group,
                  fmt::format("  {:.2f} ms, {:.2f} GB/s; {:.2f} ms of processor time, {:.2f} of "
                              "memcpy's rate",
                              time.seconds * 1e3, gbs, time.cpu_seconds * 1e3, cpu_ratio));
      nlohmann::ordered_json row;
      row["workload"] =
          settings.workload.empty() ? settings.arguments.input.documents : settings.workload;
      row["pass"] = "quantize";
      row["impl"] = fmt::format("flamia_{}_cpu", name(options.path));
      row["tensor"] = operand.tensor;
      row["format"] = representation.format;
      row["axis"] = axis;
      row["bytes"] = bytes;
      row["ms"] = time.seconds * 1e3;
      row["cpu_ms"] = time.cpu_seconds * 1e3;
      row["gb_per_s"] = gbs;
      row["copy_gb_per_s"] = copy_gbs;
      row["ratio"] = gbs / copy_gbs;
      row["cpu_ratio"] = cpu_ratio;
      result.rows->push_back(row);
    }
  }
  progress->finish();
  return Status();
}

}  // namespace flamia::bench
