// flamia attend: its options.

#include <memory>

#include "tools/attend.h"
#include "tools/commands.h"
#include "tools/errors.h"
#include "tools/option_parsing.h"

namespace flamia::tools {

namespace {

// An option with two values, the first of which sets the target to true.
template <typename Target>
CLI::Option* add_switch(CLI::App& app, const std::string& option, const std::string& description,
                        const std::string& on, const std::string& off, Target* value) {
  const auto set = [=](const std::string& text) {
    if (text != on && text != off) {
      refuse_option(fmt::format("{} must be {} or {}; got {}", option, on, off, printable(text)));
    }
    *value = text == on;
  };
  return app.add_option_function<std::string>(option, set, description)
      ->type_name(on + " or " + off);
}

}  // namespace

void add_attend_command(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "attend", "One attention call, forward and backward, checked against exact attention");
  command->footer(
      "Without --input a workload is generated. Exit codes: 0 done, 1 a check failed, 2 bad "
      "usage,\n"
      "input or an unsupported request, 3 a failure while running.");
  const auto arguments = std::make_shared<AttendArguments>();
  add_attention_options(*command, &arguments->attention);

  constexpr int64_t kMostRows = int64_t{1} << 40;
  constexpr int32_t kMostRepetitions = 1'000'000;
  const std::string group = "Checks and results";
  CLI::Option* check = add_switch(*command, "--check", "Compare with exact attention in FP64",
                                  "oracle", "none", &arguments->check);
  check->group(group);
  add_number<int64_t>(*command, "--check-rows",
                      "Rows of each document to compare, 0: all (default: all, 256 of large calls)",
                      0, kMostRows, &arguments->check_rows)
      ->group(group);
  add_switch(*command, "--leak",
             "Probe for changes by later tokens (default on unless the mask is full)", "on", "off",
             &arguments->leak)
      ->group(group);
  add_number<int32_t>(*command, "--repeat",
                      "Runs of each pass; the median time is shown (default 1)", 1,
                      kMostRepetitions, &arguments->repeat)
      ->group(group);
  add_text(*command, "--output", "Safetensors file for o, lse, dq, dk, dv", "FILE",
           &arguments->output)
      ->group(group);
  add_text(*command, "--dump-quantized", "Safetensors file for codes and scales", "FILE",
           &arguments->dump_quantized)
      ->group(group);
  add_text(*command, "--report", "JSON file for all figures", "FILE", &arguments->report)
      ->group(group);
  command
      ->add_flag_function(
          "--progress", [arguments](std::int64_t) { arguments->progress = ProgressMode::kAlways; },
          "Progress on standard error even if it is not a terminal")
      ->group(group);

  command->callback([arguments, exit_code] {
    if (!arguments->check && arguments->check_rows) {
      refuse_option("--check-rows must not be given with --check none");
    }
    bool checks_passed = true;
    Status status = attend(*arguments, &checks_passed);
    *exit_code = status.ok() ? (checks_passed ? kExitDone : kExitCheckFailed)
                             : report_failure("attend", status);
  });
}

}  // namespace flamia::tools
