// flamia audit: runs the probes and shows what they found.

#include "tools/audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "audit/library.h"
#include "audit/offender.h"
#include "audit/report_json.h"
#include "problem/names.h"
#include "tools/atomic_file.h"
#include "tools/attention_run.h"
#include "tools/errors.h"
#include "tools/input_source.h"
#include "tools/progress.h"

namespace flamia::tools {

namespace {

std::vector<uint16_t> bf16_entries(const HostTensor& tensor) {
  const TensorView view = tensor.view();
  size_t count = view.data == nullptr ? 0 : 1;
  for (int32_t axis = 0; axis < view.rank; ++axis) count *= static_cast<size_t>(view.shape[axis]);
  std::vector<uint16_t> entries(count);
  if (count > 0) std::memcpy(entries.data(), view.data, count * sizeof(uint16_t));
  return entries;
}

/// Activations from a file: packed self-attention only.
Status load_activations(const std::string& path, const Options& options, bool gradients,
                        AuditInputs* activations) {
  InputArguments arguments;
  arguments.input = path;
  InputSource source;
  if (Status status = source.open(arguments, options); !status.ok()) return status;
  const Problem& problem = source.problem();
  if (problem.batch != 0 || problem.key_tokens != problem.query_tokens ||
      source.cu_seqlens_k().data != nullptr) {
    return bad_input(
        "{}: activations must be packed with as many keys as queries; got a batch or "
        "separate key lengths",
        printable(path));
  }
  if (Status status = source.load(gradients); !status.ok()) return status;
  const AttentionInputs& inputs = source.inputs();
  activations->tokens = problem.query_tokens;
  activations->heads = problem.heads;
  activations->kv_heads = problem.kv_heads;
  activations->head_dim = problem.head_dim;
  activations->softmax_scale =
      options.softmax_scale.value_or(1.0f / std::sqrt(static_cast<float>(problem.head_dim)));
  activations->q = bf16_entries(inputs.q);
  activations->k = bf16_entries(inputs.k);
  activations->v = bf16_entries(inputs.v);
  activations->d_o = bf16_entries(inputs.d_o);
  const TensorView lengths = source.cu_seqlens_q();
  for (int64_t n = 0; n < lengths.shape[0]; ++n) {
    activations->cu_seqlens.push_back(
        lengths.dtype == DType::kI64
            ? static_cast<int32_t>(static_cast<const int64_t*>(lengths.data)[n])
            : static_cast<const int32_t*>(lengths.data)[n]);
  }
  return {};
}

/// A table of the findings; causes and the line that reproduces it under what failed.
std::string findings_table(const AuditReport& report) {
  std::string table = fmt::format("{:<14} {:<5} {:<11} {}\n", "probe", "of", "verdict", "finding");
  for (const AuditFinding& finding : report.findings) {
    table += fmt::format("{:<14} {:<5} {:<11} {}\n", finding.probe, finding.tensor,
                         outcome_name(finding.outcome), finding.words);
    if (!finding.cause.empty()) table += fmt::format("{:32} likely: {}\n", "", finding.cause);
    if (finding.outcome == AuditOutcome::kFailed) {
      table += fmt::format("{:32} again: {}\n", "", finding.reproduce);
    }
  }
  return table;
}

int64_t count(const AuditReport& report, AuditOutcome outcome) {
  return std::count_if(report.findings.begin(), report.findings.end(),
                       [&](const AuditFinding& finding) { return finding.outcome == outcome; });
}

Status pick_function(const AuditArguments& arguments, AuditOptions* audit,
                     AttentionFunction* function) {
  const Options& options = arguments.attention.options;
  if (arguments.offender.empty()) {
    Problem problem = {audit->tokens,   audit->tokens,  0, 1, audit->heads,
                       audit->kv_heads, audit->head_dim};
    Conventions conventions;
    Status status = resolve_conventions(problem, options, &conventions);
    size_t bytes = 0;
    if (status.ok() && audit->gradients) {
      status = workspace_size(problem, options, Pass::kBackward, &bytes);
    }
    if (!status.ok()) return status;
    *function = audit::library_attention(options, forward_on_device);
    audit->promise = audit_promise(options);
    if (conventions.backend == BackendKind::kCpu) {
      audit->conventions = [options] { return audited_conventions(options); };
    }
    audit->name = fmt::format("flamia {} {}", name(conventions.backend), name(options.path));
    return {};
  }
  const audit::Offender* offender = nullptr;
  if (Status status = audit::find_offender(arguments.offender, &offender); !status.ok()) {
    return status;
  }
  *function = audit::offender_function(offender->scheme);
  audit->promise = audit::offender_promise(*offender);
  audit->name = offender->name;
  return {};
}

}  // namespace

Status audit(const AuditArguments& arguments, bool* passed) {
  if (!arguments.json.empty()) {
    if (Status status = check_output_path("--json", arguments.json); !status.ok()) return status;
  }
  AuditOptions options = arguments.audit;
  const Options& choices = arguments.attention.options;
  options.causal = choices.mask.kind == MaskKind::kCausal;
  options.gradients = !arguments.attention.forward_only;
  AttentionFunction function;
  if (Status status = pick_function(arguments, &options, &function); !status.ok()) return status;
  if (!arguments.input.empty()) {
    if (Status status =
            load_activations(arguments.input, choices, options.gradients, &options.activations);
        !status.ok()) {
      return status;
    }
  }
  fmt::print("audit of {}: {} tokens, {} heads on {} key heads, head_dim {}, {} mask, seed {}\n",
             options.name, options.tokens, options.heads, options.kv_heads, options.head_dim,
             options.causal ? "causal" : "full", options.seed);
  if (options.activations.tokens > 0) {
    fmt::print(
        "causal_leak: {}, at most {} tokens of its longest document, {} heads on {} key "
        "heads, head_dim {}\n",
        printable(arguments.input), options.tokens, options.activations.heads,
        options.activations.kv_heads, options.activations.head_dim);
  }
  fmt::print("promise: {}\n\n", audit::promise_words(options.promise));
  Progress progress("audit", ProgressMode::kIfTerminal);
  options.progress = [&](const std::string& probe) { progress.phase(probe); };
  const auto start = std::chrono::steady_clock::now();
  AuditReport report;
  if (Status status = audit_attention(function, options, &report); !status.ok()) return status;
  progress.finish();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("{}\nprotocol\n", findings_table(report));
  for (const std::string& line : report.protocol) fmt::print("  {}\n", line);
  fmt::print(
      "\n{}: {} passed, {} within the promise, {} failed, {} not tested; {} calls in {:.1f} "
      "s\n",
      report.passed ? "passed" : "FAILED", count(report, AuditOutcome::kPassed),
      count(report, AuditOutcome::kPromised), count(report, AuditOutcome::kFailed),
      count(report, AuditOutcome::kNotTested), report.calls, elapsed.count());
  *passed = report.passed;
  if (arguments.json.empty()) return {};
  return write_file(arguments.json, audit_json(report) + "\n");
}

}  // namespace flamia::tools
