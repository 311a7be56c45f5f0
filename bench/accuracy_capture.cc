// Every path on q, k, v, dO of a trained model: what normal inputs hide is in the rows of dQ.
// No verdicts: the capture decides the figures. What FlashAttention does is the row of bf16 with
// row sums from P and D from the BF16 O; a path is better than it where its row cosine is higher.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "bench/accuracy.h"
#include "bench/generated_call.h"
#include "problem/names.h"
#include "tools/accuracy.h"
#include "tools/attention_run.h"
#include "tools/input_source.h"

namespace flamia::bench {
namespace {

const char* const kGroup = "trained activations, causal: cosines";

struct CaptureCase {
  Path path;
  RowSum row_sum;
  Delta delta;
  const char* words;
};

constexpr CaptureCase kCases[] = {
    {Path::kBf16, RowSum::kP, Delta::kOBf16, "bf16 as FlashAttention"},
    {Path::kBf16, RowSum::kPHat, Delta::kOBf16, "bf16 o_bf16"},
    {Path::kBf16, RowSum::kPHat, Delta::kOResidual, "bf16 o_residual"},
    {Path::kMxfp8, RowSum::kPHat, Delta::kOBf16, "mxfp8 o_bf16"},
    {Path::kMxfp8, RowSum::kPHat, Delta::kOResidual, "mxfp8 o_residual"},
    {Path::kNvfp4, RowSum::kPHat, Delta::kOBf16, "nvfp4 o_bf16"},
    {Path::kNvfp4, RowSum::kPHat, Delta::kOResidual, "nvfp4 o_residual"},
    {Path::kAll4Bit, RowSum::kPHat, Delta::kOBf16, "all4bit o_bf16"},
    {Path::kAll4Bit, RowSum::kPHat, Delta::kOResidual, "all4bit o_residual"},
};

void add_case(const std::string& words, const tools::Accuracy& accuracy,
              const PassStatistics& statistics, FigureTable* table) {
  const auto nonzero = static_cast<double>(std::max<int64_t>(1, statistics.ds_nonzero));
  Series series{kGroup, words, {}};
  const auto add = [&](const char* column, std::optional<double> value) {
    series.values.emplace_back(column, value.value_or(NAN));
  };
  add("O", accuracy.o.cosine);
  add("dQ", accuracy.dq->cosine);
  add("dQ by row", accuracy.dq->row_cosine);
  add("dK", accuracy.dk->cosine);
  add("dV", accuracy.dv->cosine);
  add("LSE nats", accuracy.lse_max_abs);
  add("flushed", static_cast<double>(statistics.ds_flushed) / nonzero);
  add("row sum", statistics.ds_row_sum_residual);
  table->add(std::move(series));
}

}  // namespace

Status add_capture_figures(const AccuracySettings& settings, tools::Progress* progress,
                           FigureTable* table) {
  std::error_code error;
  if (!std::filesystem::exists(settings.capture, error)) {
    table->note(kGroup, fmt::format("left out: there is no {}", settings.capture));
    return Status();
  }
  tools::InputArguments arguments;
  arguments.input = settings.capture;
  Options options =
      path_options(Path::kMxfp8, MaskKind::kCausal, Family::kHopper, settings.threads);
  tools::InputSource source;
  Status status = source.open(arguments, options);
  if (status.ok()) status = source.load(true);
  if (!status.ok()) return status;
  const Problem& problem = source.problem();
  oracle::Settings oracle_settings;
  oracle_settings.threads = settings.threads;
  oracle_settings.rows_per_document = settings.quick ? 64 : 0;
  oracle::Result exact;
  progress->phase("oracle, trained activations");
  status = oracle::attention(
      problem, options.mask, 1.0 / std::sqrt(static_cast<double>(problem.head_dim)),
      tools::forward_inputs(source.inputs()), source.inputs().d_o.view(), oracle_settings, &exact);
  if (!status.ok()) return status;
  for (const Family family : settings.families) {
    for (const CaptureCase& one : kCases) {
      options = path_options(one.path, MaskKind::kCausal, family, settings.threads);
      options.row_sum = one.row_sum;
      options.delta = one.delta;
      tools::AttentionRun run;
      status = tools::run_attention(problem, options, source.inputs(), tools::RunSettings(),
                                    progress, &run);
      if (!status.ok()) return status;
      const tools::Accuracy accuracy =
          tools::compare_outputs(problem, run.outputs, exact, settings.threads);
      add_case(fmt::format("{} {}", one.words, name(family)), accuracy, run.backward_statistics,
               table);
    }
  }
  return Status();
}

}  // namespace flamia::bench
