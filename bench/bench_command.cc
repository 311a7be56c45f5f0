// flamia bench: accuracy figures with their targets, and speed beside what the machine can do.
// Exit codes: 0 done, 1 a figure missed its target (speed: only with --check), else as everywhere.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "bench/accuracy.h"
#include "bench/result_file.h"
#include "bench/speed.h"
#include "problem/names.h"
#include "tools/atomic_file.h"
#include "tools/commands.h"
#include "tools/errors.h"
#include "tools/option_parsing.h"

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
int conclude(const std::string& title, const std::string& command, const std::string& json_path,
             const Outcome& outcome, bool failures_count) {
  if (outcome.verdicts > 0) {
    fmt::print("\n{} of {} figures reach their target\n", outcome.verdicts - outcome.failures,
               outcome.verdicts);
  }
  if (!json_path.empty()) {
    const Status status = bench::write_results(json_path, command, outcome.rows);
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

bool contains_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
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
  return conclude("bench accuracy", command, arguments.json_path, outcome, true);
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
  const auto set_groups = [arguments](const std::string& text) {
    size_t begin = 0;
    while (begin <= text.size()) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const std::string word = text.substr(begin, end - begin);
      if (word.empty() || !contains_word(AccuracyArguments().groups, word)) {
        refuse_option("--groups must list " + AccuracyArguments().groups + "; got " +
                      printable(text));
      }
      begin = end + 1;
    }
    arguments->groups = text;
  };
  command
      ->add_option_function<std::string>("--groups", set_groups,
                                         "Groups of figures to measure (default all)")
      ->type_name("LIST");
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
  bool check = false;
};

int run_speed(const std::string& word, const SpeedArguments& arguments) {
  const std::string title = "bench " + word;
  if (!arguments.json_path.empty()) {
    const Status status = check_output_path("--json", arguments.json_path);
    if (!status.ok()) return report_failure(title, status);
  }
  FigureTable table;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  Progress progress(title, ProgressMode::kIfTerminal);
  Status status;
  if (word == "quantize") {
    status = bench::measure_quantizers(arguments.settings, &progress, &table, &rows);
  } else {
    const bench::TimedPass pass = word == "train"     ? bench::TimedPass::kTrain
                                  : word == "forward" ? bench::TimedPass::kForward
                                                      : bench::TimedPass::kBackward;
    status = bench::measure_passes(pass, arguments.settings, &progress, &table, &rows);
  }
  progress.finish();
  if (!status.ok()) return report_failure(title, status);
  const InputArguments& input = arguments.settings.arguments.input;
  const std::string command = fmt::format(
      "flamia bench {} --docs {} --heads {} --head-dim {} --path {} --mask {} --repeat {}", word,
      input.documents, input.heads, input.head_dim, name(arguments.settings.arguments.options.path),
      mask_text(arguments.settings.arguments.options.mask), arguments.settings.repeat);
  std::fputs(table.text().c_str(), stdout);
  return conclude(title, command, arguments.json_path,
                  {table.verdicts(), table.failures(), std::move(rows)}, arguments.check);
}

void add_speed(CLI::App* bench, const std::string& word, const std::string& description,
               int* exit_code) {
  CLI::App* command = bench->add_subcommand(word, description);
  const auto arguments = std::make_shared<SpeedArguments>();
  add_attention_options(*command, &arguments->settings.arguments);
  arguments->settings.arguments.input.documents = word == "quantize" ? "1x16384" : "1x4096";
  arguments->settings.arguments.input.heads = word == "quantize" ? 8 : 4;
  add_number<int32_t>(*command, "--repeat", "Repetitions, of which the median counts (default 5)",
                      1, 1000, &arguments->settings.repeat);
  add_text(*command, "--json", "Write the figures to a file", "FILE", &arguments->json_path);
  command->add_flag("--check", arguments->check, "Exit code 1 if a target is missed");
  command->callback([word, arguments, exit_code] { *exit_code = run_speed(word, *arguments); });
}

}  // namespace

void add_bench_command(CLI::App& app, int* exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure accuracy and speed against targets");
  bench->require_subcommand(1);
  add_accuracy(bench, exit_code);
  add_speed(bench, "train", "Time of forward and backward against GEMM (default 1x4096, 4 heads)",
            exit_code);
  add_speed(bench, "forward", "Time of the forward pass against GEMM", exit_code);
  add_speed(bench, "backward", "Time of the backward pass against GEMM", exit_code);
  add_speed(bench, "quantize", "Rate of the quantizers against memcpy (default 1x16384, 8 heads)",
            exit_code);
}

}  // namespace flamia::tools
