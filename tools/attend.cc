// The main job: one attention call on a file or a generated workload, checked and reported.

#include "tools/attend.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <sstream>
#include <utility>
#include <vector>

#include "audit/leak.h"
#include "flamia/attention.h"
#include "oracle/oracle.h"
#include "problem/names.h"
#include "tools/accuracy.h"
#include "tools/atomic_file.h"
#include "tools/attention_run.h"
#include "tools/attention_work.h"
#include "tools/errors.h"
#include "tools/explanation.h"
#include "tools/input_source.h"
#include "tools/machine.h"
#include "tools/quantized_tensors.h"
#include "tools/report.h"

namespace flamia::tools {

namespace {

/// All rows are checked up to this work of the call; above, a sample.
constexpr double kMostCheckedMultiplyAdds = 3e12;
constexpr int64_t kSampledRows = 256;

// Refuses outputs that could not be written, or that would destroy the input or each other.
Status check_outputs(const AttendArguments& arguments) {
  const std::pair<const char*, const std::string*> outputs[] = {
      {"--output", &arguments.output},
      {"--dump-quantized", &arguments.dump_quantized},
      {"--report", &arguments.report},
  };
  const std::string& input = arguments.attention.input.input;
  for (const auto& [option, path] : outputs) {
    if (path->empty()) continue;
    if (Status status = check_output_path(option, *path); !status.ok()) return status;
    if (!input.empty() && same_file(*path, input)) {
      return bad_input("{} must not be the input file; got {}", option, printable(*path));
    }
    for (const auto& [other, other_path] : outputs) {
      if (option == other || other_path->empty()) continue;
      if (*path == *other_path || same_file(*path, *other_path)) {
        return bad_input("{} and {} must be different files; got {} twice", option, other,
                         printable(*path));
      }
    }
  }
  if (!arguments.dump_quantized.empty() && arguments.attention.options.path == Path::kBf16) {
    return bad_input("--dump-quantized must have a quantized path; got bf16");
  }
  return Status();
}

// Refuses early what the machine cannot hold; an allocation that succeeds may still be killed.
Status check_memory(const AttendArguments& arguments, const Problem& problem) {
  const bool backward = !arguments.attention.forward_only;
  double bytes = 0;
  Status status = run_bytes(problem, arguments.attention.options, backward, &bytes);
  if (!status.ok()) return status;
  const double dim = problem.head_dim;
  const double queries = static_cast<double>(problem.query_tokens) * problem.heads * dim;
  const double keys = static_cast<double>(problem.key_tokens) * problem.kv_heads * dim;
  bytes += 2 * (queries * (backward ? 2 : 1) + 2 * keys);
  if (arguments.check) {
    bytes += static_cast<double>(sizeof(double)) *
             (queries * (backward ? 2 : 1) + (backward ? 2 * keys : 0));
  }
  const double memory = physical_memory_bytes();
  if (memory <= 0 || bytes <= memory) return Status();
  constexpr double kGiga = 1e9;
  return Status(
      StatusCode::kOutOfMemory,
      fmt::format("the call must fit into memory; it needs about {:.1f} GB of {:.1f} GB "
                  "(fewer tokens or heads{})",
                  bytes / kGiga, memory / kGiga, arguments.check ? ", or --check none" : ""));
}

Status run_oracle(const AttendArguments& arguments, const InputSource& source,
                  const AttentionRun& run, AttendReport* report) {
  const Options& options = arguments.attention.options;
  const bool backward = !arguments.attention.forward_only;
  oracle::Settings settings;
  settings.backward = backward;
  settings.seed = arguments.attention.input.seed;
  settings.threads = options.threads;
  const double flops = report->work.forward_flops + (backward ? report->work.backward_flops : 0);
  const bool small = flops / 2 <= kMostCheckedMultiplyAdds;
  settings.rows_per_document = arguments.check_rows.value_or(small ? 0 : kSampledRows);
  oracle::Result reference;
  Status status = oracle::attention(
      source.problem(), options.mask, static_cast<double>(run.conventions.softmax_scale),
      forward_inputs(source.inputs()), source.inputs().d_o.view(), settings, &reference);
  if (!status.ok()) return status;
  report->accuracy = compare_outputs(source.problem(), run.outputs, reference, options.threads);
  return status;
}

Status run_leak(const AttendArguments& arguments, const InputSource& source, AttendReport* report) {
  const Options& options = arguments.attention.options;
  if (!arguments.leak.value_or(options.mask.kind != MaskKind::kFull)) return Status();
  audit::LeakVerdict verdict;
  Status status = audit::causal_leak(source.problem(), options, forward_inputs(source.inputs()),
                                     source.inputs().d_o.view(), &verdict, forward_on_device);
  if (status.ok()) report->leak = verdict;
  return status;
}

// What the report says about the call itself.
void describe_call(const AttendArguments& arguments, const InputSource& source,
                   AttendReport* report) {
  const Options& options = arguments.attention.options;
  const std::string explanation = explain(source.problem(), options);
  const std::string device = explained(explanation, "device");
  report->input = source.text();
  report->problem = source.problem();
  report->mask = options.mask;
  report->backend = explained(explanation, "backend");
  report->device = device.empty() ? cpu_model() : device;
  report->kernels = kernel_names(explanation);
  report->seed = arguments.attention.input.seed;
  report->repeat = arguments.repeat;
  report->work =
      count_work(source.problem(), options.mask, source.cu_seqlens_q(), source.cu_seqlens_k());
}

Status write_outputs(const std::string& path, const InputSource& source,
                     const AttentionOutputs& outputs) {
  std::vector<NamedTensor> tensors = {{"o", &outputs.o}, {"lse", &outputs.lse}};
  if (!outputs.dq.empty()) {
    tensors.insert(tensors.end(), {{"dq", &outputs.dq}, {"dk", &outputs.dk}, {"dv", &outputs.dv}});
  }
  return write_tensor_file(path, tensors, source.metadata());
}

Status write_quantized(const std::string& path, const InputSource& source, const Options& options) {
  const AttentionInputs& inputs = source.inputs();
  const TensorView queries = source.cu_seqlens_q();
  const TensorView keys =
      inputs.cu_seqlens_k.empty() ? source.cu_seqlens_q() : source.cu_seqlens_k();
  QuantizedDump dump;
  Status status = dump.add("q", inputs.q, queries, Role::kQ, options);
  if (!status.ok()) return status;
  status = dump.add("k", inputs.k, keys, Role::kK, options);
  if (!status.ok()) return status;
  status = dump.add("v", inputs.v, keys, Role::kV, options);
  if (!status.ok()) return status;
  if (!inputs.d_o.empty()) {
    status = dump.add("do", inputs.d_o, queries, Role::kDo, options);
    if (!status.ok()) return status;
  }
  return write_tensor_file(path, dump.entries(), source.metadata());
}

Status write_files(const AttendArguments& arguments, const InputSource& source,
                   const AttentionRun& run, const AttendReport& report) {
  if (!arguments.report.empty()) {
    Status status = write_file(arguments.report, report_json(report));
    if (!status.ok()) return status;
  }
  if (!arguments.output.empty()) {
    Status status = write_outputs(arguments.output, source, run.outputs);
    if (!status.ok()) return status;
  }
  if (arguments.dump_quantized.empty()) return Status();
  return write_quantized(arguments.dump_quantized, source, arguments.attention.options);
}

}  // namespace

Status attend(const AttendArguments& arguments, bool* checks_passed) {
  *checks_passed = true;
  const Options& options = arguments.attention.options;
  const bool backward = !arguments.attention.forward_only;
  if (Status status = check_outputs(arguments); !status.ok()) return status;
  Progress progress("attend", arguments.progress);

  progress.phase("preparing the input");
  InputSource source;
  AttendReport report;
  if (Status status = source.open(arguments.attention.input, options); !status.ok()) return status;
  if (Status status = is_supported(source.problem(), options); !status.ok()) return status;
  if (Status status = check_memory(arguments, source.problem()); !status.ok()) return status;
  describe_call(arguments, source, &report);
  if (!arguments.dump_quantized.empty() && report.backend != name(BackendKind::kCpu)) {
    return bad_input("--dump-quantized must have --backend cpu; got {}", report.backend);
  }
  if (Status status = source.load(backward); !status.ok()) return status;
  report.output_gradient_generated = source.output_gradient_generated();

  AttentionRun run;
  const RunSettings settings = {backward, arguments.repeat};
  Status status =
      run_attention(source.problem(), options, source.inputs(), settings, &progress, &run);
  if (!status.ok()) return status;
  report.conventions = run.conventions;
  report.forward_time = run.forward_time;
  if (backward) {
    report.backward_time = run.backward_time;
    report.backward_statistics = run.backward_statistics;
  }
  if (arguments.check) {
    progress.phase("oracle check");
    if (status = run_oracle(arguments, source, run, &report); !status.ok()) return status;
  }
  progress.phase("leak check");
  if (status = run_leak(arguments, source, &report); !status.ok()) return status;

  progress.finish();
  fmt::print("{}", report_table(report));
  if (std::fflush(stdout) != 0) return failure("standard output: writing failed");
  for (const std::string& words : failed_checks(report)) {
    *checks_passed = false;
    fmt::print(stderr, "flamia attend: check failed: {}\n", words);
  }
  return write_files(arguments, source, run, report);
}

}  // namespace flamia::tools
