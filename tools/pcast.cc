// flamia pcast: its subcommands and options.

#include <functional>
#include <memory>

#include "pcast/known_kernels.h"
#include "tools/commands.h"
#include "tools/errors.h"
#include "tools/option_parsing.h"
#include "tools/pcast_commands.h"

namespace flamia::tools {

namespace {

constexpr int32_t kMostSeeds = 100'000;
constexpr int32_t kMostThreads = 1024;
constexpr int64_t kMostKeys = int64_t{1} << 24;
constexpr int64_t kMostSinks = 1024;
constexpr double kLargestScale = 65536;

void add_json(CLI::App& command, PcastArguments* arguments) {
  add_text(command, "--json", "JSON file for all figures", "FILE", &arguments->json);
}

void add_threads(CLI::App& command, PcastArguments* arguments) {
  add_number<int32_t>(command, "--threads", "Worker threads (default: one per core)", 0,
                      kMostThreads, &arguments->threads);
}

void add_seeds(CLI::App& command, const std::string& description, int32_t fewest,
               PcastArguments* arguments) {
  add_number<int32_t>(command, "--seeds", description, fewest, kMostSeeds, &arguments->seeds);
  add_number<uint64_t>(command, "--first-seed", "Seed of the first instance (default 0)", 0,
                       UINT64_MAX, &arguments->first_seed);
}

using Table = Status (*)(const PcastArguments&, bool*);

CLI::App* add_table(CLI::App& parent, const std::string& name, const std::string& description,
                    Table table, const std::shared_ptr<PcastArguments>& arguments, int* exit_code) {
  CLI::App* command = parent.add_subcommand(name, description);
  add_json(*command, arguments.get());
  command->callback([=] {
    bool passed = true;
    const Status status = table(*arguments, &passed);
    *exit_code = status.ok() ? (passed ? kExitDone : kExitCheckFailed)
                             : report_failure("pcast " + name, status);
  });
  return command;
}

void add_tables(CLI::App& parent, int* exit_code) {
  struct Row {
    const char* name;
    const char* description;
    Table table;
    const char* seeds;  ///< null: nothing random
    int32_t fewest_seeds;
  };
  const Row rows[] = {
      {"table1", "Zeroed fractions against sink strength (Table 1)", pcast_table1,
       "Random instances (default 12)", 1},
      {"table2", "Output errors of five configurations (Table 2)", pcast_table2,
       "Random instances (default 20)", 2},
      {"dp", "The E4M3 line: dp(S), propositions and theorems", pcast_dp, nullptr, 0},
      {"sweep", "Output errors against sink strength and length (figures 2 and 3)", pcast_sweep,
       "Random instances (default 20)", 1},
      {"appendixb", "Paired t-tests of both orders with S = 256 (appendix B)", pcast_appendix_b,
       "Random pairs (default 100)", 2}};
  for (const Row& row : rows) {
    const auto arguments = std::make_shared<PcastArguments>();
    CLI::App* command =
        add_table(parent, row.name, row.description, row.table, arguments, exit_code);
    if (row.seeds == nullptr) continue;
    add_seeds(*command, row.seeds, row.fewest_seeds, arguments.get());
    add_threads(*command, arguments.get());
  }
}

void add_codes(CLI::App& parent, int* exit_code) {
  CLI::App* command =
      parent.add_subcommand("codes", "Codes of a 4-bit P by Mitchell-P and by Direct-P");
  const auto arguments = std::make_shared<CodesArguments>();
  add_text(*command, "--input", "Measure the q, k, v of this safetensors file as well", "FILE",
           &arguments->input);
  add_seeds(*command, "Random heads (default 4)", 1, &arguments->common);
  add_threads(*command, &arguments->common);
  add_json(*command, &arguments->common);
  command->callback([arguments, exit_code] {
    bool passed = true;
    const Status status = pcast_codes(*arguments, &passed);
    *exit_code = status.ok() ? (passed ? kExitDone : kExitCheckFailed)
                             : report_failure("pcast codes", status);
  });
}

void add_predict(CLI::App& parent, int* exit_code) {
  CLI::App* command =
      parent.add_subcommand("predict", "What one kernel does to P at one sink strength");
  const auto arguments = std::make_shared<PredictArguments>();
  pcast::CastProblem* problem = &arguments->problem;
  add_number<double>(*command, "--sink", "Logits of the sinks above the mean, nats (default 7)",
                     -100, 100, &problem->sink);
  add_number<double>(*command, "--scale", "S, the factor of P before the cast (default 1)", 1e-3,
                     kLargestScale, &problem->scale);
  add_number<int64_t>(*command, "--sinks", "Sink tokens (default 4)", 1, kMostSinks,
                      &problem->sinks);
  add_number<int64_t>(*command, "--keys", "Keys (default 4096)", 2, kMostKeys, &problem->keys);
  add_number<int64_t>(*command, "--block", "Keys of one step (default 64)", 1, 4096,
                      &problem->block);
  const auto set_order = [problem](const std::string& text) {
    if (text != "forward" && text != "reverse") {
      refuse_option("--order must be forward or reverse; got " + printable(text));
    }
    problem->order = text == "forward" ? pcast::KeyOrder::kForward : pcast::KeyOrder::kReverse;
  };
  command
      ->add_option_function<std::string>("--order", set_order,
                                         "Order of the key blocks (default forward)")
      ->type_name("forward or reverse");
  add_seeds(*command, "Random instances, 0: closed forms only (default 12)", 0, &arguments->common);
  add_threads(*command, &arguments->common);
  add_json(*command, &arguments->common);
  command->callback([arguments, exit_code] {
    const pcast::CastProblem& given = arguments->problem;
    if (given.sinks >= given.keys) {
      refuse_option(
          fmt::format("--sinks must be less than --keys; got {} and {}", given.sinks, given.keys));
    }
    const Status status = pcast_predict(*arguments);
    *exit_code = status.ok() ? kExitDone : report_failure("pcast predict", status);
  });
}

void add_recommend(CLI::App& parent, int* exit_code) {
  CLI::App* command = parent.add_subcommand(
      "recommend", "What known kernels lose on the scores of a file, and what to change");
  const auto arguments = std::make_shared<RecommendArguments>();
  add_text(*command, "file", "Safetensors file with q, k, v (BF16)", "FILE", &arguments->file)
      ->required();
  const auto set_mask = [arguments](const std::string& text) {
    MaskKind kind = MaskKind::kCausal;
    if (!parse(text, &kind) || kind == MaskKind::kWindow) {
      refuse_option("--mask must be causal or full; got " + printable(text));
    }
    arguments->mask = kind;
  };
  command->add_option_function<std::string>("--mask", set_mask, "Mask (default causal)")
      ->type_name("causal or full");
  add_number<int32_t>(*command, "--sinks", "First keys of a document taken as sinks (default 4)", 1,
                      static_cast<int32_t>(kMostSinks), &arguments->sinks);
  add_number<int32_t>(*command, "--rows",
                      "Rows of each document and head, 0: all (default 512, evenly spread)", 0,
                      INT32_MAX, &arguments->rows);
  add_number<float>(*command, "--softmax-scale", "Scale of the scores (default 1/sqrt(head_dim))",
                    1e-6f, 1e6f, &arguments->softmax_scale);
  add_threads(*command, &arguments->common);
  add_json(*command, &arguments->common);
  command->callback([arguments, exit_code] {
    const Status status = pcast_recommend(*arguments);
    *exit_code = status.ok() ? kExitDone : report_failure("pcast recommend", status);
  });
}

}  // namespace

void add_pcast_command(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "pcast", "The cast of P to 8 bits under attention sinks: tables, predictions, advice");
  command->require_subcommand(1);
  command->footer(
      "Pictures: python -m flamia pcast COMMAND --plot DIR.\n"
      "Exit codes: 0 done, 1 a figure misses the published one, 2 bad usage or input, 3 a failure "
      "while running.");
  add_tables(*command, exit_code);
  add_codes(*command, exit_code);
  add_predict(*command, exit_code);
  add_recommend(*command, exit_code);
}

}  // namespace flamia::tools
