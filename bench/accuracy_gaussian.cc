// Cosines against FP64 on normal inputs, and documents beside one that is 1e4 times larger.
// Targets: 64 heads of 4096 tokens, d = 128, flattened cosines. Those of mxfp8 and nvfp4 are the
// paper's (4.2) to the digits it gives, completed by an emulation of 12 heads; those of all4bit are
// the paper's, whose text leaves the recipe of the backward pass open, and carry no verdict.
#include <fmt/format.h>

#include <optional>
#include <span>

#include "bench/accuracy.h"
#include "bench/generated_call.h"
#include "numerics/bf16.h"
#include "problem/names.h"
#include "tools/accuracy.h"
#include "tools/attention_run.h"

namespace flamia::bench {
namespace {

using tools::Accuracy;
using tools::OutputAccuracy;

struct CosineTargets {
  Path path;
  MaskKind mask;
  Rule rule;
  double tolerance;
  double o, dq, dk, dv;
  double quick_o, quick_dq, quick_dk, quick_dv;  ///< lowest for one head of 4096 tokens
};

constexpr CosineTargets kTargets[] = {
    {Path::kBf16, MaskKind::kCausal, Rule::kAtLeast, 0, .9999, .9999, .9999, .9999, .9999, .9999,
     .9999, .9999},
    {Path::kBf16, MaskKind::kFull, Rule::kAtLeast, 0, .9999, .9999, .9999, .9999, .9999, .9999,
     .9999, .9999},
    {Path::kMxfp8, MaskKind::kCausal, Rule::kNear, 1e-4, .9988, .9979, .9979, .9987, .9985, .9973,
     .9973, .9982},
    {Path::kMxfp8, MaskKind::kFull, Rule::kNear, 1e-4, .9985, .9978, .9978, .9985, .9980, .9977,
     .9977, .9981},
    {Path::kNvfp4, MaskKind::kCausal, Rule::kNear, 3e-4, .9919, .9907, .9907, .9918, .9895, .9876,
     .9875, .9895},
    {Path::kNvfp4, MaskKind::kFull, Rule::kNear, 3e-4, .9898, .9891, .9891, .9897, .9875, .9887,
     .9885, .9870},
    {Path::kAll4Bit, MaskKind::kCausal, Rule::kNoted, 0, .9810, .9456, 0, 0, 0, 0, 0, 0},
    {Path::kAll4Bit, MaskKind::kFull, Rule::kNoted, 0, .9800, .9509, 0, 0, 0, 0, 0, 0},
};

const char* const kGroup = "cosines against FP64, N(0,1), d 128";

void add_cosine(const CosineTargets& targets, bool quick, const std::string& prefix,
                const char* tensor, const std::optional<OutputAccuracy>& accuracy, double target,
                double quick_target, FigureTable* table) {
  Figure figure;
  figure.group = kGroup;
  figure.name = prefix + tensor;
  figure.measured = accuracy && accuracy->cosine ? *accuracy->cosine : 0;
  figure.rule = targets.rule;
  figure.target = target;
  figure.tolerance = targets.tolerance;
  if (quick && figure.rule == Rule::kNear) {
    figure.rule = Rule::kAtLeast;
    figure.target = quick_target;
  }
  table->add(figure);
}

void add_cosines(const CosineTargets& targets, bool quick, Family family, const Accuracy& accuracy,
                 FigureTable* table) {
  const std::string prefix =
      fmt::format("{} {} {} ", name(targets.path), name(targets.mask), name(family));
  add_cosine(targets, quick, prefix, "O", accuracy.o, targets.o, targets.quick_o, table);
  add_cosine(targets, quick, prefix, "dQ", accuracy.dq, targets.dq, targets.quick_dq, table);
  add_cosine(targets, quick, prefix, "dK", accuracy.dk, targets.dk, targets.quick_dk, table);
  add_cosine(targets, quick, prefix, "dV", accuracy.dv, targets.dv, targets.quick_dv, table);
  Figure lse;
  lse.group = kGroup;
  lse.name = prefix + "LSE, largest error in nats";
  lse.measured = accuracy.lse_max_abs.value_or(0);
  table->add(lse);
}

/// Multiplies the rows [begin, end) of a BF16 tensor by factor.
void scale_rows(tools::HostTensor* tensor, int64_t begin, int64_t end, float factor) {
  const int64_t width = tensor->elements() / tensor->shape()[0];
  for (uint16_t& x : std::span(tensor->as<uint16_t>() + begin * width,
                               static_cast<size_t>((end - begin) * width))) {
    x = float_to_bf16(bf16_to_float(x) * factor);
  }
}

}  // namespace

Status add_gaussian_figures(const AccuracySettings& settings, tools::Progress* progress,
                            FigureTable* table) {
  GeneratedCall call;
  progress->phase("inputs");
  Status status = call.generate(settings.quick ? documents_spec(1, 4096, 2, settings.threads)
                                               : documents_spec(4, 4096, 16, settings.threads));
  if (!status.ok()) return status;
  for (const MaskKind mask : {MaskKind::kCausal, MaskKind::kFull}) {
    oracle::Result exact;
    progress->phase(fmt::format("oracle, {}", name(mask)));
    status = call.exact(Mask{mask, -1, -1}, true, settings.threads, &exact);
    if (!status.ok()) return status;
    for (const Family family : settings.families) {
      for (const CosineTargets& targets : kTargets) {
        if (targets.mask != mask) continue;
        tools::AttentionRun run;
        status = tools::run_attention(call.problem,
                                      path_options(targets.path, mask, family, settings.threads),
                                      call.inputs, tools::RunSettings(), progress, &run);
        if (!status.ok()) return status;
        const Accuracy accuracy =
            tools::compare_outputs(call.problem, run.outputs, exact, settings.threads);
        add_cosines(targets, settings.quick, family, accuracy, table);
      }
    }
  }
  return Status();
}

Status add_scaled_document_figures(const AccuracySettings& settings, tools::Progress* progress,
                                   FigureTable* table) {
  constexpr int64_t kLength = 1024;
  constexpr int kScaledDocument = 1;
  constexpr float kFactor = 1e4f;
  GeneratedCall call;
  progress->phase("one document times 1e4");
  Status status =
      call.generate(documents_spec(4, kLength, settings.quick ? 2 : 8, settings.threads));
  if (!status.ok()) return status;
  for (tools::HostTensor* tensor :
       {&call.inputs.q, &call.inputs.k, &call.inputs.v, &call.inputs.d_o}) {
    scale_rows(tensor, kScaledDocument * kLength, (kScaledDocument + 1) * kLength, kFactor);
  }
  std::vector<int64_t> other_tokens;
  for (int64_t token = 0; token < 4 * kLength; ++token) {
    if (token / kLength != kScaledDocument) other_tokens.push_back(token);
  }
  oracle::Result exact;
  status = call.exact(Mask{MaskKind::kCausal, -1, -1}, true, settings.threads, &exact);
  if (!status.ok()) return status;
  for (const Family family : settings.families) {
    tools::AttentionRun run;
    const Options options = path_options(Path::kMxfp8, MaskKind::kCausal, family, settings.threads);
    status = tools::run_attention(call.problem, options, call.inputs, tools::RunSettings(),
                                  progress, &run);
    if (!status.ok()) return status;
    Figure figure;
    figure.group = "one document of four, q k v dO times 1e4";
    figure.name = fmt::format("mxfp8 causal {} dK of the others", name(family));
    figure.measured = tools::compare_rows(run.outputs.dk, exact.dk, other_tokens, settings.threads)
                          .cosine.value_or(0);
    figure.rule = Rule::kAtLeast;
    figure.target = .9979;
    table->add(figure);
  }
  return Status();
}

}  // namespace flamia::bench
