// Times of the passes beside those of single-precision GEMM for the same multiply-adds.
// Target: forward and backward of a quantized path within 2.5 times GEMM (1x4096, 4 heads, d 128,
// causal, exact accumulation).
#include "bench/speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>

#include "bench/gemm_baseline.h"
#include "problem/names.h"
#include "tools/attention_run.h"
#include "tools/attention_work.h"
#include "tools/input_source.h"
#include "tools/parallel.h"

namespace flamia::bench {
namespace {

constexpr double kLargestRatio = 2.5;
constexpr int kUsualRepetitions = 5;

struct Timing {
  const char* pass;
  double ms = 0;
  double flops = 0;
  double quantize_ms = 0;  ///< part of ms
  double cpu_ms = 0;       ///< of all threads; 0: not measured
};

/// Processor time of all threads of this process, in milliseconds: unlike wall time it does not
/// grow while other programs hold the cores.
double process_cpu_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Report {
  const SpeedSettings& settings;
  const GemmRate& gemm;
  FigureTable* table;
  nlohmann::ordered_json* rows;

  void add(const Timing& timing, bool judged) const {
    const Options& options = settings.arguments.options;
    const double gemm_ms = timing.flops / gemm.gflops * 1e-6;
    const double ratio = timing.ms / gemm_ms;
    const std::string impl = fmt::format("flamia_{}_cpu", name(options.path));
    const std::string group =
        fmt::format("{} {} {}, time over {} GEMM", impl, settings.workload_name(),
                    mask_text(options.mask), gemm.library);
    table->add({group, timing.pass, ratio, judged ? Rule::kAtMost : Rule::kNoted,
                judged ? kLargestRatio : 0, 0});
    table->note(group, fmt::format("  {:.1f} ms ({:.1f} quantize), {:.1f} GFLOP/s; GEMM {:.1f} ms, "
                                   "{:.1f} GFLOP/s",
                                   timing.ms, timing.quantize_ms, timing.flops / timing.ms * 1e-6,
                                   gemm_ms, gemm.gflops));
    const double cpu_ratio = timing.cpu_ms / (timing.flops / gemm.gflops_per_cpu * 1e-6);
    if (timing.cpu_ms > 0) {
      table->add({group, fmt::format("{}, processor time of all threads", timing.pass), cpu_ratio,
                  Rule::kNoted, 0, 0});
    }
    nlohmann::ordered_json row;
    row["workload"] = settings.workload_name();
    row["mask"] = mask_text(options.mask);
    row["pass"] = timing.pass;
    row["impl"] = impl;
    row["regime"] = "sustained";
    row["ms"] = timing.ms;
    row["tflops"] = timing.flops / timing.ms * 1e-9;
    row["gemm"] = gemm.library;
    row["gemm_tflops"] = gemm.gflops * 1e-3;
    row["ratio"] = ratio;
    row["quantize_ms"] = timing.quantize_ms;
    if (timing.cpu_ms > 0) row["cpu_ratio"] = cpu_ratio;
    rows->push_back(row);
  }
};

GemmRate faster(const GemmRate& a, const GemmRate& b) {
  GemmRate best = a.gflops > b.gflops ? a : b;
  best.gflops_per_cpu = std::max(a.gflops_per_cpu, b.gflops_per_cpu);
  return best;
}

}  // namespace

std::string SpeedSettings::workload_name() const {
  if (!workload.empty()) return workload;
  const tools::InputArguments& input = arguments.input;
  if (!input.input.empty()) return input.input;
  return fmt::format("{} h{}/{} d{}", input.documents, input.heads,
                     input.kv_heads.value_or(input.heads), input.head_dim);
}

Status measure_passes(TimedPass pass, const SpeedSettings& settings, const SpeedOutput& output) {
  tools::Progress* const progress = output.progress;
  const Options& options = settings.arguments.options;
  const bool backward = pass != TimedPass::kForward;
  const int repeat = settings.repetitions(kUsualRepetitions);
  tools::InputSource source;
  progress->phase("inputs");
  Status status = source.open(settings.arguments.input, options);
  if (status.ok()) status = is_supported(source.problem(), options);
  if (status.ok()) status = source.load(backward);
  if (!status.ok()) return status;

  const int threads = tools::resolve_threads(options.threads);
  progress->phase("GEMM baseline");
  GemmRate gemm = measure_gemm(threads);
  tools::AttentionRun run;
  const double cpu_begin_ms = process_cpu_ms();
  status = tools::run_attention(source.problem(), options, source.inputs(), {backward, repeat},
                                progress, &run);
  if (!status.ok()) return status;
  const double cpu_ms = (process_cpu_ms() - cpu_begin_ms) / repeat;
  progress->phase("GEMM baseline");
  gemm = faster(gemm, measure_gemm(threads));
  progress->finish();

  const tools::AttentionWork work = tools::count_work(source.problem(), options.mask,
                                                      source.cu_seqlens_q(), source.cu_seqlens_k());
  const Timing forward_timing{"forward", run.forward_time.wall_ms, work.forward_flops,
                              run.forward_time.quantize_ms, backward ? 0 : cpu_ms};
  const Timing backward_timing{"backward", run.backward_time.wall_ms, work.backward_flops,
                               run.backward_time.quantize_ms, 0};
  const Timing train_timing{"train", forward_timing.ms + backward_timing.ms,
                            forward_timing.flops + backward_timing.flops,
                            forward_timing.quantize_ms + backward_timing.quantize_ms, cpu_ms};
  const Report report{settings, gemm, output.table, output.rows};
  if (pass != TimedPass::kBackward) report.add(forward_timing, false);
  if (backward) report.add(backward_timing, false);
  const bool judged = options.path != Path::kBf16 && options.accumulate != Accumulate::kHardware;
  if (pass == TimedPass::kTrain) report.add(train_timing, judged);
  return Status();
}

}  // namespace flamia::bench
