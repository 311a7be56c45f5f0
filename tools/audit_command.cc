// flamia audit: its options.

#include <algorithm>
#include <memory>
#include <sstream>

#include "tools/atomic_file.h"
#include "tools/audit.h"
#include "tools/audit_table.h"
#include "tools/commands.h"
#include "tools/errors.h"
#include "tools/option_parsing.h"

namespace flamia::tools {

namespace {

constexpr int32_t kMostHeads = 128;
constexpr float kLargestFactor = 0x1p40f;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

void add_probe_options(CLI::App& app, AuditArguments* arguments) {
  const std::string group = "Audit";
  AuditOptions* audit = &arguments->audit;
  const auto set_probes = [audit](const std::string& text) {
    audit->probes = split(text);
    if (audit->probes.empty()) refuse_option("--probe must name a probe; got nothing");
  };
  std::string names;
  for (const char* name : audit_probes()) names += (names.empty() ? "" : ", ") + std::string(name);
  app.add_option_function<std::string>("--probe", set_probes, "Only these: " + names)
      ->type_name("NAME,...")
      ->group(group);
  const auto number = [&](const char* name, const char* description, int64_t lowest,
                          int64_t highest, int64_t* value) {
    add_number<int64_t>(app, name, description, lowest, highest, value)->group(group);
  };
  number("--tokens", "Tokens of the packed calls (default 512)", 96, 65536, &audit->tokens);
  number("--context", "Keys of the longest context (default 4096)", 512, 1 << 20, &audit->context);
  number("--at", "Causal probes: perturb this token only", 0, 65535, &audit->at);
  const auto heads = [&](const char* name, const char* description, int32_t highest,
                         int32_t* value) {
    add_number<int32_t>(app, name, description, 1, highest, value)->group(group);
  };
  heads("--heads", "Query heads (default 2)", kMostHeads, &audit->heads);
  heads("--kv-heads", "Key and value heads (default 1)", kMostHeads, &audit->kv_heads);
  heads("--head-dim", "Head channels (default 128)", 512, &audit->head_dim);
  add_text(app, "--operand", "Causal probes: perturb q, k, v, d_o or all only", "NAME",
           &audit->operand)
      ->group(group);
  add_number<float>(app, "--factor", "Causal probes: by this factor only", -kLargestFactor,
                    kLargestFactor, &audit->factor)
      ->group(group);
  add_number<uint64_t>(app, "--seed", "Seed of the random inputs (default 0)", 0, UINT64_MAX,
                       &audit->seed)
      ->group(group);
  add_text(app, "--input", "Safetensors file: q, k, v, do of the causal probes", "FILE",
           &arguments->input)
      ->group(group);
  add_text(app, "--offender", "Audit this reference offender instead of a backend", "NAME",
           &arguments->offender)
      ->group(group);
  add_text(app, "--json", "JSON file for all findings", "FILE", &arguments->json)->group(group);
}

/// The options given, but for those that every finding adds itself.
std::string command_line(const CLI::App& command) {
  static constexpr const char* kOwn[] = {
      "--probe",   "--tokens", "--heads",   "--kv-heads", "--head-dim", "--seed",   "--at",
      "--operand", "--factor", "--context", "--json",     "--help",     "--threads"};
  std::string line = "flamia audit";
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    const bool own = std::find(std::begin(kOwn), std::end(kOwn), name) != std::end(kOwn);
    if (option->count() == 0 || own || name.rfind("-h", 0) == 0) continue;
    line += " " + name;
    if (option->get_items_expected_max() > 0) line += " " + printable(option->results().back());
  }
  return line;
}

/// Options that say how the library computes mean nothing to an offender.
void refuse_options_of_offender(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    const std::string group = option->get_group();
    const std::string name = option->get_name();
    if (option->count() == 0 || (group != "Call" && group != "Numbers")) continue;
    if (name == "--mask" || name == "--forward-only" || name == "--threads") continue;
    refuse_option(name + " must not go with --offender (its scheme is fixed)");
  }
}

void refuse_conflicts(const AuditArguments& arguments) {
  const Options& options = arguments.attention.options;
  if (options.mask.kind == MaskKind::kWindow) {
    refuse_option("--mask must be causal or full; got a window (probes know whole documents)");
  }
  if (options.softmax_scale) {
    refuse_option("--scale must not be given (probes set their scores by 1/sqrt(head_dim))");
  }
  const std::vector<std::string>& probes = arguments.audit.probes;
  const bool causal =
      probes.empty() || std::find(probes.begin(), probes.end(), "causal_leak") != probes.end();
  const bool of_causal = !arguments.input.empty() || arguments.audit.at >= 0 ||
                         !arguments.audit.operand.empty() || arguments.audit.factor.has_value();
  if (of_causal && !causal) {
    refuse_option(
        "--input, --at, --operand and --factor must go with --probe causal_leak (no other "
        "probe reads them)");
  }
  if (!arguments.json.empty() && !arguments.input.empty() &&
      same_file(arguments.json, arguments.input)) {
    refuse_option("--json must not be the input file; got " + printable(arguments.json));
  }
  if (arguments.audit.heads % arguments.audit.kv_heads != 0) {
    refuse_option(fmt::format("--heads must be a multiple of --kv-heads; got {} and {}",
                              arguments.audit.heads, arguments.audit.kv_heads));
  }
}

}  // namespace

void add_audit_command(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "audit", "Probes for leaks, saturation, underflow, drift and inconsistent passes");
  command->require_subcommand(0, 1);
  command->footer(
      "Functions of Python, pictures: python -m flamia audit MODULE:FUNCTION --plot DIR.\n"
      "Exit codes: 0 nothing beyond the promise of --safety, 1 a probe failed, 2 bad usage or "
      "input, 3 a\nfailure while running.");
  const auto arguments = std::make_shared<AuditArguments>();
  add_choice_options(*command, &arguments->attention);
  add_probe_options(*command, arguments.get());
  add_audit_table_command(*command, exit_code);
  command->callback([=] {
    if (!command->get_subcommands().empty()) return;
    refuse_conflicts(*arguments);
    if (!arguments->offender.empty()) refuse_options_of_offender(*command);
    arguments->audit.reproduce = command_line(*command);
    bool passed = true;
    const Status status = audit(*arguments, &passed);
    *exit_code =
        status.ok() ? (passed ? kExitDone : kExitCheckFailed) : report_failure("audit", status);
  });
}

}  // namespace flamia::tools
