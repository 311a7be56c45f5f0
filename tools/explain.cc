// flamia explain: what a call would do, from its shapes and options alone.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "flamia/attention.h"
#include "tools/atomic_file.h"
#include "tools/attention_options.h"
#include "tools/attention_work.h"
#include "tools/commands.h"
#include "tools/errors.h"
#include "tools/explanation.h"
#include "tools/input_source.h"
#include "tools/option_parsing.h"

namespace flamia::tools {

namespace {

struct ExplainArguments {
  AttentionArguments attention;
  std::string report;
};

Status write_explanation(const ExplainArguments& arguments,
                         const std::vector<std::pair<std::string, std::string>>& lines) {
  if (arguments.report.empty()) return Status();
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  json["flamia"] = version();
  for (const auto& [key, value] : lines) json[key] = value;
  using Handler = nlohmann::ordered_json::error_handler_t;
  return write_file(arguments.report, json.dump(2, ' ', false, Handler::replace) + "\n");
}

// Reasons against the call: of the forward pass, and of the backward pass unless it is not wanted.
Status supported(const Problem& problem, const AttentionArguments& arguments) {
  if (Status status = is_supported(problem, arguments.options); !status.ok()) return status;
  if (arguments.forward_only) return Status();
  size_t bytes = 0;
  return workspace_size(problem, arguments.options, Pass::kBackward, &bytes);
}

Status explain_call(const ExplainArguments& arguments) {
  const Options& options = arguments.attention.options;
  if (!arguments.report.empty()) {
    Status status = check_output_path("--report", arguments.report);
    if (!status.ok()) return status;
    if (same_file(arguments.report, arguments.attention.input.input)) {
      return bad_input("--report must not be the input file; got {}", printable(arguments.report));
    }
  }
  InputSource source;
  if (Status status = source.open(arguments.attention.input, options); !status.ok()) return status;
  const Problem& problem = source.problem();
  Status refusal = supported(problem, arguments.attention);

  std::vector<std::pair<std::string, std::string>> lines = {{"input", source.text()}};
  if (refusal.ok()) {
    const AttentionWork work =
        count_work(problem, options.mask, source.cu_seqlens_q(), source.cu_seqlens_k());
    lines.emplace_back("visible_pairs_per_head", fmt::format("{:.0f}", work.pairs));
    lines.emplace_back("forward_gflop", fmt::format("{:.3f}", work.forward_flops * 1e-9));
    lines.emplace_back("backward_gflop", fmt::format("{:.3f}", work.backward_flops * 1e-9));
  }
  const auto explained = explanation_lines(explain(problem, options));
  lines.insert(lines.end(), explained.begin(), explained.end());
  size_t width = 0;
  for (const auto& [key, value] : lines) width = std::max(width, key.size());
  for (const auto& [key, value] : lines) fmt::print("{:<{}}  {}\n", key + ":", width + 1, value);
  if (std::fflush(stdout) != 0) return failure("standard output: writing failed");
  if (Status status = write_explanation(arguments, lines); !status.ok()) return status;
  return refusal;
}

}  // namespace

void add_explain_command(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "explain", "What attend would do with the same options: choices, kernels, memory, refusals");
  command->footer("No tensors are needed or read. Exit code 2 if the call would be refused.");
  const auto arguments = std::make_shared<ExplainArguments>();
  add_attention_options(*command, &arguments->attention);
  add_text(*command, "--report", "JSON file for the same lines", "FILE", &arguments->report);
  command->callback([arguments, exit_code] {
    Status status = explain_call(*arguments);
    *exit_code = status.ok() ? kExitDone : report_failure("explain", status);
  });
}

}  // namespace flamia::tools
