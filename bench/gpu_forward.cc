// Times of a forward call on the GPU: each part alone, and together. Nothing is timed before it has
// written the right numbers: the whole call is compared with FP64, every part with the whole call,
// bit for bit, over outputs full of NaN.
// Burst: an idle pause, two launches, then about 20 ms of launches. Sustained: 50 ms of launches
// that do not count, then 80 ms. The median of three rounds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bench/gpu_timing.h"
#include "bench/speed.h"
#include "flamia/attention.h"
#include "oracle/oracle.h"
#include "problem/names.h"
#include "tools/accuracy.h"
#include "tools/attention_work.h"
#include "tools/device_memory.h"
#include "tools/errors.h"
#include "tools/input_source.h"

namespace flamia::bench {
namespace {

using tools::ElementType;
using tools::HostTensor;

/// A broken call is far below; docs/numerics.md has what the paths reach.
double smallest_cosine(Path path) {
  switch (path) {
    case Path::kBf16:
      return 0.9999;
    case Path::kMxfp8:
      return 0.99;
    default:
      return 0.96;
  }
}
double largest_lse_error(Path path) {
  switch (path) {
    case Path::kBf16:
      return 0.01;
    case Path::kMxfp8:
      return 0.25;
    default:
      return 0.75;
  }
}
constexpr int64_t kFewDocuments = 32;

/// As kernels are named: the path, and what is not its default.
std::string variant_name(const Options& options) {
  std::string text = fmt::format("flamia_{}", name(options.path));
  if (options.safety != Safety::kDefault) text += fmt::format("_{}", name(options.safety));
  if (options.exponential != Exponential::kExact) {
    text += fmt::format("_{}", name(options.exponential));
  }
  return text;
}

struct TimedPart {
  const char* name;
  uint32_t parts;
  bool residual;
  bool has_flops;
};
constexpr TimedPart kTimedParts[] = {
    {"forward", kAttendPart, false, true},
    {"forward_residual", kAttendPart, true, true},
    {"quantize", kQuantizePart, false, false},
    {"worklist", kWorkListPart, false, false},
    {"quantize+forward", kQuantizePart | kAttendPart, false, true},
    {"call", kAllForwardParts, false, true},
};

/// A call in device memory.
class GpuCall {
 public:
  GpuCall(const tools::InputSource& source, const Options& options)
      : source_(source), options_(options) {}

  Status prepare() {
    const Problem& problem = source_.problem();
    std::vector<int64_t> lse_shape{problem.heads, problem.query_tokens};
    if (problem.batch > 0) {
      lse_shape = {problem.batch, problem.heads, problem.query_tokens / problem.batch};
    }
    const std::vector<int64_t>& shape = source_.inputs().q.shape();
    Status status = HostTensor::allocate(ElementType::kBF16, shape, &host_.o);
    if (status.ok()) status = HostTensor::allocate(ElementType::kBF16, shape, &host_.o_residual);
    if (status.ok()) status = HostTensor::allocate(ElementType::kF32, lse_shape, &host_.lse);
    if (!status.ok()) return status;
    tensors_ = tools::forward_inputs(source_.inputs());
    tensors_.o = host_.o.view();
    tensors_.lse = host_.lse.view();
    tensors_.o_residual = host_.o_residual.view();
    for (TensorView* view :
         {&tensors_.q, &tensors_.k, &tensors_.v, &tensors_.cu_seqlens_q, &tensors_.cu_seqlens_k}) {
      if (status = copies_.add_input(view); !status.ok()) return status;
    }
    for (TensorView* view : {&tensors_.o, &tensors_.lse, &tensors_.o_residual}) {
      if (status = copies_.add_output(view); !status.ok()) return status;
    }
    status = workspace_size(problem, options_, Pass::kForward, &workspace_.bytes);
    return status.ok() ? copies_.allocate(workspace_.bytes, &workspace_.data) : status;
  }

  Status run(uint32_t parts, bool residual) {
    ForwardTensors tensors = tensors_;
    if (!residual) tensors.o_residual = {};
    return attention_forward_parts(source_.problem(), options_, tensors, workspace_, nullptr, parts,
                                   nullptr);
  }

  /// The whole call against FP64 on sampled rows; its bits are what every part must give again.
  Status check(double softmax_scale) {
    if (Status status = run_clean(kAllForwardParts, true); !status.ok()) return status;
    const Problem& problem = source_.problem();
    oracle::Settings settings;
    settings.backward = false;
    settings.rows_per_document = problem.documents <= kFewDocuments ? 8 : 2;
    settings.threads = options_.threads;
    oracle::Result exact;
    Status status =
        oracle::attention(problem, options_.mask, softmax_scale,
                          tools::forward_inputs(source_.inputs()), {}, settings, &exact);
    if (!status.ok()) return status;
    const tools::Accuracy accuracy =
        tools::compare_outputs(problem, host_, exact, options_.threads);
    const double cosine = accuracy.o.cosine.value_or(1.0);
    if (accuracy.o.unexpected_nans + accuracy.lse_unexpected_nans > 0 || has_nan(host_.o)) {
      return tools::failure("the result must have no NaN");
    }
    if (!(cosine >= smallest_cosine(options_.path))) {
      return tools::failure("O must have a cosine of at least {} with FP64; got {}",
                            smallest_cosine(options_.path), cosine);
    }
    if (!(accuracy.lse_max_abs.value_or(0.0) <= largest_lse_error(options_.path))) {
      return tools::failure("LSE must be within {} of FP64; got {}",
                            largest_lse_error(options_.path), *accuracy.lse_max_abs);
    }
    bits_ = {bytes_of(host_.o), bytes_of(host_.lse)};
    return {};
  }

  /// Runs parts, and what is missing to the end, over NaN; refuses other bits than check() saw.
  Status check_part(const TimedPart& part) {
    if (Status status = run_clean(part.parts, part.residual); !status.ok()) return status;
    if (bytes_of(host_.o) == bits_[0] && bytes_of(host_.lse) == bits_[1]) return {};
    return tools::failure("{} must give the bits of the whole call", part.name);
  }

  size_t workspace_bytes() const { return workspace_.bytes; }

 private:
  Status run_clean(uint32_t parts, bool residual) {
    Status status = copies_.poison_outputs();
    if (status.ok()) status = run(parts, residual);
    if (status.ok() && (parts & kAttendPart) == 0) {
      const uint32_t later = kAllForwardParts & ~(2 * parts - 1);
      status = run(later, residual);
    }
    return status.ok() ? copies_.fetch() : status;
  }

  static std::vector<unsigned char> bytes_of(const HostTensor& tensor) {
    std::vector<unsigned char> bytes(tensor.bytes());
    std::memcpy(bytes.data(), tensor.data(), bytes.size());
    return bytes;
  }

  static bool has_nan(const HostTensor& o) {
    const auto* values = o.as<uint16_t>();
    return std::any_of(values, values + o.elements(),
                       [](uint16_t bits) { return (bits & 0x7fff) > 0x7f80; });
  }

  const tools::InputSource& source_;
  const Options& options_;
  tools::DeviceCopies copies_;
  tools::AttentionOutputs host_;
  ForwardTensors tensors_;
  Workspace workspace_;
  std::vector<std::vector<unsigned char>> bits_;
};

}  // namespace

Status measure_gpu_forward(const SpeedSettings& settings, const SpeedOutput& output) {
  const Options& options = settings.arguments.options;
  tools::InputSource source;
  output.progress->phase("inputs");
  Conventions conventions;
  Status status = source.open(settings.arguments.input, options);
  if (status.ok()) status = resolve_conventions(source.problem(), options, &conventions);
  if (status.ok()) status = source.load(false);
  if (!status.ok()) return status;
  GpuCall call(source, options);
  if (status = call.prepare(); !status.ok()) return status;
  output.progress->phase("check");
  if (status = call.check(static_cast<double>(conventions.softmax_scale)); !status.ok()) {
    return status;
  }

  const std::string impl = variant_name(options);
  const std::string group =
      fmt::format("{} {} {}, TFLOP/s", impl, settings.workload_name(), mask_text(options.mask));
  const double flops = tools::count_work(source.problem(), options.mask, source.cu_seqlens_q(),
                                         source.cu_seqlens_k())
                           .forward_flops;
  const MemoryBytes memory = memory_of(source.problem(), conventions, call.workspace_bytes());
  output.table->note(group, memory.text());
  for (const Regime regime : {Regime::kBurst, Regime::kSustained}) {
    if (!contains_word(settings.regimes, regime_name(regime))) continue;
    for (const TimedPart& part : kTimedParts) {
      if (!settings.passes.empty() && !contains_word(settings.passes, part.name)) continue;
      output.progress->phase(part.name);
      if (status = call.check_part(part); !status.ok()) return status;
      RegimeTime time;
      status = measure_regime(
          regime, settings.repetitions(kUsualRounds),
          [&] { return call.run(part.parts, part.residual); }, &time);
      if (!status.ok()) return status;
      const std::string label = fmt::format("{} {}", part.name, regime_name(regime));
      const double rate = part.has_flops ? flops / time.median_ms * 1e-9 : 0;
      if (part.has_flops) output.table->add({group, label, rate, Rule::kNoted, 0, 0});
      output.table->note(group, fmt::format("  {}: {:.4f} ms ({:.4f} to {:.4f})", label,
                                            time.median_ms, time.least_ms, time.most_ms));
      nlohmann::ordered_json row;
      row["workload"] = settings.workload_name();
      row["mask"] = mask_text(options.mask);
      row["pass"] = part.name;
      row["impl"] = impl;
      row["regime"] = regime_name(regime);
      row["head_dim"] = source.problem().head_dim;
      time.write(&row);
      row["tflops"] = part.has_flops ? nlohmann::ordered_json(rate) : nlohmann::ordered_json();
      row["workspace_bytes"] = call.workspace_bytes();
      output.rows->push_back(row);
    }
  }
  return {};
}

}  // namespace flamia::bench
