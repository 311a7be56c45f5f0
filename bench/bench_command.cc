// flamia bench: accuracy figures with their targets, and speed beside what the machine can do.
// Exit codes: 0 done, 1 a figure missed its target (speed: only with --check), else as everywhere.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/accuracy.h"
#include "bench/gpu_timing.h"
#include "bench/named_workloads.h"
#include "bench/result_file.h"
#include "bench/speed.h"
#include "flamia/attention.h"
#include "problem/names.h"
#include "tools/atomic_file.h"
#include "tools/commands.h"
#include "tools/device_memory.h"
#include "tools/errors.h"
#include "tools/machine.h"
#include "tools/option_parsing.h"

#ifdef FLAMIA_HAS_CUDA
#include "bench/gpu/kernel_speed.h"
#endif

namespace flamia::tools {
namespace {

using bench::FigureTable;

constexpr const char* kCapture = "examples/data/trained_attention.safetensors";

/// Figures of a command that is done.
struct Outcome {
  int verdicts = 0;
  int failures = 0;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
};

/// Prints the sum of the verdicts, writes the file, and decides the exit code.
int conclude(const std::string& title, const bench::ResultOrigin& origin,
             const std::string& json_path, const Outcome& outcome, bool failures_count) {
  if (outcome.verdicts > 0) {
    fmt::print("\n{} of {} figures reach their target\n", outcome.verdicts - outcome.failures,
               outcome.verdicts);
  }
  if (!json_path.empty()) {
    const Status status = bench::write_results(json_path, origin, outcome.rows);
    if (!status.ok()) return report_failure(title, status);
  }
  return failures_count && outcome.failures > 0 ? kExitCheckFailed : kExitDone;
}

struct AccuracyArguments {
  bench::AccuracySettings settings;
  std::string families = "hopper";
  std::string groups = "cosine,scaled,leak,promotion,ds,capture";
  std::string json_path;
};

using bench::contains_word;

bench::ResultOrigin cpu_origin(const std::string& command) {
  bench::ResultOrigin origin;
  origin.chip = cpu_model();
  origin.command = command;
  return origin;
}

/// Adds an option whose value is a list of some of the words.
void add_words(CLI::App& app, const std::string& option, const std::string& description,
               const std::string& words, std::string* value) {
  const auto set = [option, words, value](const std::string& text) {
    size_t begin = 0;
    while (begin <= text.size()) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const std::string word = text.substr(begin, end - begin);
      if (word.empty() || !contains_word(words, word)) {
        refuse_option(fmt::format("{} must list {}; got {}", option, words, printable(text)));
      }
      begin = end + 1;
    }
    *value = text;
  };
  app.add_option_function<std::string>(option, set, description)->type_name("LIST");
}

int run_accuracy(const AccuracyArguments& arguments) {
  if (!arguments.json_path.empty()) {
    const Status status = check_output_path("--json", arguments.json_path);
    if (!status.ok()) return report_failure("bench accuracy", status);
  }
  struct Group {
    const char* word;
    Status (*add)(const bench::AccuracySettings&, Progress*, FigureTable*);
  };
  constexpr Group kGroups[] = {
      {"cosine", bench::add_gaussian_figures}, {"scaled", bench::add_scaled_document_figures},
      {"leak", bench::add_leak_figures},       {"promotion", bench::add_promotion_figures},
      {"ds", bench::add_ds_figures},           {"capture", bench::add_capture_figures},
  };
  Outcome outcome;
  for (const Group& group : kGroups) {
    if (!contains_word(arguments.groups, group.word)) continue;
    FigureTable table;
    Status status;
    {
      Progress progress("bench accuracy", ProgressMode::kIfTerminal);
      status = group.add(arguments.settings, &progress, &table);
    }
    // Each group appears when it is done: the whole takes many minutes.
    fmt::print("{}{}", outcome.rows.empty() ? "" : "\n", table.text());
    std::fflush(stdout);
    if (!status.ok()) return report_failure("bench accuracy", status);
    outcome.verdicts += table.verdicts();
    outcome.failures += table.failures();
    for (const nlohmann::ordered_json& row : table.rows()) outcome.rows.push_back(row);
  }
  std::string command = "flamia bench accuracy --families " + arguments.families;
  if (arguments.settings.quick) command += " --quick";
  if (arguments.groups != AccuracyArguments().groups) command += " --groups " + arguments.groups;
  return conclude("bench accuracy", cpu_origin(command), arguments.json_path, outcome, true);
}

void add_accuracy(CLI::App* bench, int* exit_code) {
  CLI::App* command = bench->add_subcommand(
      "accuracy", "Every accuracy figure against its target; exit code 1 if one is missed");
  const auto arguments = std::make_shared<AccuracyArguments>();
  arguments->settings.capture = kCapture;
  add_text(*command, "--json", "Write the figures to a file", "FILE", &arguments->json_path);
  command->add_flag("--quick", arguments->settings.quick,
                    "Less data and wider tolerances: under a minute instead of many");
  const auto set_families = [arguments](const std::string& text) {
    arguments->settings.families.clear();
    for (const Family family : {Family::kHopper, Family::kBlackwell}) {
      if (contains_word(text, name(family))) arguments->settings.families.push_back(family);
    }
    if (text != "hopper" && text != "blackwell" && text != "hopper,blackwell") {
      refuse_option("--families must be hopper, blackwell or hopper,blackwell; got " +
                    printable(text));
    }
    arguments->families = text;
  };
  command
      ->add_option_function<std::string>("--families", set_families,
                                         "Conventions to measure (default hopper)")
      ->type_name("LIST");
  add_words(*command, "--groups", "Groups of figures to measure (default all)",
            AccuracyArguments().groups, &arguments->groups);
  add_text(*command, "--capture",
           std::string("Tensors of a trained model (default ") + kCapture + ")", "FILE",
           &arguments->settings.capture);
  add_number<int32_t>(*command, "--threads", "CPU threads, 0 for one per core (default 0)", 0, 4096,
                      &arguments->settings.threads);
  command->callback([arguments, exit_code] { *exit_code = run_accuracy(*arguments); });
}

struct SpeedArguments {
  bench::SpeedSettings settings;
  std::string json_path;
  std::string workloads;  ///< empty: the documents of the input options
  std::string commit;
  bool mask_given = false;
  bool documents_given = false;
  bool check = false;
};

/// The backend that these options choose on this machine, or the library's reasons against them.
Status chosen_backend(const Options& options, BackendKind* backend) {
  const Problem problem = {1, 1, 0, 1, 1, 1, 128};
  Conventions conventions;
  Status status = resolve_conventions(problem, options, &conventions);
  *backend = conventions.backend;
  return status;
}

Status measure_on_gpu(const std::string& word, const bench::SpeedSettings& settings,
                      const bench::SpeedOutput& output) {
  if (word == "forward") return bench::measure_gpu_forward(settings, output);
#ifdef FLAMIA_HAS_CUDA
  if (word == "quantize") return bench::measure_gpu_quantizer(settings, output);
  if (word == "worklist") return bench::measure_gpu_work_list(settings, output);
#endif
  return bad_input("--backend must be cpu for bench {}; got a GPU's", word);
}

Status measure_on_cpu(const std::string& word, const bench::SpeedSettings& settings,
                      const bench::SpeedOutput& output) {
  if (word == "worklist") {
    return bad_input("--backend must be a GPU's for bench worklist; got cpu");
  }
  if (word == "quantize") return bench::measure_quantizers(settings, output);
  const bench::TimedPass pass = word == "train"     ? bench::TimedPass::kTrain
                                : word == "forward" ? bench::TimedPass::kForward
                                                    : bench::TimedPass::kBackward;
  return bench::measure_passes(pass, settings, output);
}

/// What is measured one after the other: every workload under every mask.
Status speed_cases(const std::string& word, const SpeedArguments& arguments,
                   std::vector<bench::SpeedSettings>* cases) {
  std::vector<bench::WorkloadChoice> choices;
  if (arguments.workloads.empty()) {
    cases->push_back(arguments.settings);
    if (arguments.documents_given) {
      cases->back().workload = arguments.settings.workload_name();
    }
    return Status();
  }
  Status status = bench::parse_workloads(arguments.workloads, &choices);
  if (!status.ok()) return status;
  std::vector<MaskKind> masks = {arguments.settings.arguments.options.mask.kind};
  const bool masked = word != "quantize" && !arguments.mask_given;
  if (masked) masks = {MaskKind::kCausal, MaskKind::kFull};
  for (const MaskKind mask : masks) {
    for (const bench::WorkloadChoice& choice : choices) {
      if (masked && choice.causal_only && mask != MaskKind::kCausal) continue;
      bench::SpeedSettings one = arguments.settings;
      choice.apply(&one.arguments.input);
      one.arguments.options.mask.kind = mask;
      one.workload = choice.name;
      cases->push_back(std::move(one));
    }
  }
  return status;
}

std::string speed_command(const std::string& word, const SpeedArguments& arguments,
                          BackendKind backend) {
  const bench::SpeedSettings& settings = arguments.settings;
  const Options& options = settings.arguments.options;
  const InputArguments& input = settings.arguments.input;
  std::string command = fmt::format("flamia bench {}", word);
  if (!arguments.workloads.empty()) {
    command += fmt::format(" --workload {}", arguments.workloads);
  } else if (arguments.documents_given || backend == BackendKind::kCpu) {
    command += fmt::format(" --docs {} --heads {}", input.documents, input.heads);
  }
  command += fmt::format(" --head-dim {} --path {} --backend {}", input.head_dim,
                         name(options.path), name(options.backend));
  if (arguments.workloads.empty() || arguments.mask_given) {
    command += " --mask " + mask_text(options.mask);
  }
  if (options.safety != Safety::kDefault) {
    command += fmt::format(" --safety {}", name(options.safety));
  }
  if (options.exponential != Exponential::kExact) {
    command += fmt::format(" --exp {}", name(options.exponential));
  }
  if (options.tau) command += fmt::format(" --tau {}", *options.tau);
  if (options.assignment != Assignment::kDynamic) {
    command += fmt::format(" --assignment {}", name(options.assignment));
  }
  if (settings.repeat > 0) command += fmt::format(" --repeat {}", settings.repeat);
  return command;
}

Status origin_of(BackendKind backend, const std::string& command, const std::string& commit,
                 bench::ResultOrigin* origin) {
  *origin = cpu_origin(command);
  origin->commit = commit;
  if (backend == BackendKind::kCpu) return Status();
  DeviceIdentity device;
  Status status = identify_device(&device);
  origin->chip = device.chip;
  origin->driver = device.driver;
  origin->cuda = device.cuda;
  return status;
}

int run_speed(const std::string& word, const SpeedArguments& arguments) {
  const std::string title = "bench " + word;
  if (!arguments.json_path.empty()) {
    const Status status = check_output_path("--json", arguments.json_path);
    if (!status.ok()) return report_failure(title, status);
  }
  std::vector<bench::SpeedSettings> cases;
  BackendKind backend = BackendKind::kCpu;
  bench::ResultOrigin origin;
  Status status = speed_cases(word, arguments, &cases);
  if (status.ok()) status = chosen_backend(arguments.settings.arguments.options, &backend);
  if (status.ok()) {
    status = origin_of(backend, speed_command(word, arguments, backend), arguments.commit, &origin);
  }
  Outcome outcome;
  for (const bench::SpeedSettings& one : cases) {
    if (!status.ok()) break;
    FigureTable table;
    {
      Progress progress(title, ProgressMode::kIfTerminal);
      const auto measure = backend == BackendKind::kCpu ? measure_on_cpu : measure_on_gpu;
      status = measure(word, one, {&progress, &table, &outcome.rows});
    }
    // Each appears when it is done: all of them take minutes.
    std::fputs(table.text().c_str(), stdout);
    std::fflush(stdout);
    outcome.verdicts += table.verdicts();
    outcome.failures += table.failures();
  }
  if (!status.ok()) return report_failure(title, status);
  return conclude(title, origin, arguments.json_path, outcome, arguments.check);
}

void add_speed(CLI::App* bench, const std::string& word, const std::string& description,
               int* exit_code) {
  CLI::App* command = bench->add_subcommand(word, description);
  const auto arguments = std::make_shared<SpeedArguments>();
  bench::SpeedSettings* settings = &arguments->settings;
  add_attention_options(*command, &settings->arguments);
  settings->arguments.input.documents = word == "quantize" ? "1x16384" : "1x4096";
  settings->arguments.input.heads = word == "quantize" ? 8 : 4;
  add_number<int32_t>(*command, "--repeat",
                      "Repetitions, of which the median counts (default: of the benchmark)", 1,
                      1000, &settings->repeat);
  add_text(*command, "--workload",
           "W1 to W9, D1 to D3, all, or documents without commas; 16 heads. Without --mask causal "
           "and full",
           "NAME,...", &arguments->workloads)
      ->excludes(command->get_option("--docs"));
  add_text(*command, "--json", "Write the figures to a file", "FILE", &arguments->json_path);
  add_text(*command, "--commit", "Commit to name in the file (default: of the checkout)", "ID",
           &arguments->commit);
  if (word == "forward") {
    add_words(*command, "--regime", "GPU: burst, sustained or both (default both)",
              "burst,sustained", &settings->regimes);
    add_words(*command, "--passes", "GPU: only these parts (default all)",
              "forward,forward_residual,quantize,worklist,quantize+forward,call",
              &settings->passes);
  }
  command->add_flag("--check", arguments->check, "Exit code 1 if a target is missed");
  command->callback([=] {
    arguments->mask_given = command->get_option("--mask")->count() > 0;
    arguments->documents_given = command->get_option("--docs")->count() > 0;
    *exit_code = run_speed(word, *arguments);
  });
}

}  // namespace

void add_bench_command(CLI::App& app, int* exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure accuracy and speed against targets");
  bench->require_subcommand(1);
  add_accuracy(bench, exit_code);
  add_speed(bench, "train", "Time of forward and backward against GEMM (default 1x4096, 4 heads)",
            exit_code);
  add_speed(bench, "forward", "Time of the forward pass: CPU against GEMM, GPU part by part",
            exit_code);
  add_speed(bench, "backward", "Time of the backward pass against GEMM", exit_code);
  add_speed(bench, "quantize", "Rate of the quantizers against a copy (default 1x16384, 8 heads)",
            exit_code);
  add_speed(bench, "worklist", "Time of the work list on a GPU", exit_code);
}

}  // namespace flamia::tools
