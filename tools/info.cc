// flamia info: version, backends, processor.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "flamia/attention.h"
#include "problem/names.h"
#include "tools/atomic_file.h"
#include "tools/commands.h"
#include "tools/errors.h"
#include "tools/explanation.h"
#include "tools/machine.h"
#include "tools/option_parsing.h"

namespace flamia::tools {

namespace {

Problem small_problem() {
  Problem problem;
  problem.query_tokens = 128;
  problem.key_tokens = 128;
  problem.documents = 1;
  problem.heads = 1;
  problem.kv_heads = 1;
  problem.head_dim = 128;
  return problem;
}

Options options_of(BackendKind backend) {
  Options options;
  options.backend = backend;
  options.mask.kind = MaskKind::kCausal;
  return options;
}

// "available" and on which GPU, or why not: the answer of the library to a small call.
std::string availability(BackendKind backend) {
  Status status = is_supported(small_problem(), options_of(backend));
  if (status.ok()) {
    const std::string device = explained(explain(small_problem(), options_of(backend)), "device");
    return device.empty() ? "available" : "available: " + device;
  }
  const size_t colon = status.message().find(": ");
  return "not available: " +
         (colon == std::string::npos ? status.message() : status.message().substr(colon + 2));
}

Status print_info(const std::string& report) {
  if (!report.empty()) {
    if (Status status = check_output_path("--report", report); !status.ok()) return status;
  }
  nlohmann::ordered_json json;
  json["flamia"] = version();
  json["compiler"] = __VERSION__;
  json["processor"] = cpu_model();
  json["features"] = cpu_features();
  json["cores"] = usable_cores();
  json["memory_gb"] = physical_memory_bytes() * 1e-9;
  fmt::print("{:<12}{}\n", "flamia", version());
  fmt::print("{:<12}{}\n", "compiler", __VERSION__);
  fmt::print("{:<12}{}\n", "processor", cpu_model());
  fmt::print("{:<12}{}\n", "features", fmt::join(cpu_features(), " "));
  fmt::print("{:<12}{}\n", "cores", usable_cores());
  fmt::print("{:<12}{:.1f} GB\n", "memory", physical_memory_bytes() * 1e-9);
  for (const BackendKind backend :
       {BackendKind::kCpu, BackendKind::kHopper, BackendKind::kBlackwell}) {
    const std::string words = availability(backend);
    json["backends"][name(backend)] = words;
    fmt::print("{:<12}{}\n", name(backend), words);
  }
  // What auto means here; a GPU without a backend yet is refused, not passed over.
  const std::string text = explain(small_problem(), options_of(BackendKind::kAuto));
  const std::string automatic = explained(text, "backend");
  json["backends"]["auto"] = automatic.empty() ? explained(text, "refused") : automatic;
  fmt::print("{:<12}{}\n", "auto", json["backends"]["auto"].get<std::string>());
  if (std::fflush(stdout) != 0) return failure("standard output: writing failed");
  if (report.empty()) return Status();
  return write_file(report, json.dump(2) + "\n");
}

}  // namespace

void add_info_command(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("info", "Version, backends, processor");
  const auto report = std::make_shared<std::string>();
  add_text(*command, "--report", "JSON file for the same facts", "FILE", report.get());
  command->callback([report, exit_code] {
    Status status = print_info(*report);
    *exit_code = status.ok() ? kExitDone : report_failure("info", status);
  });
}

}  // namespace flamia::tools
