// The program flamia: subcommands, help, exit codes.
// Exit codes: 0 done, 1 a check failed, 2 bad usage, input or an unsupported request, 3 a failure
// while running. Nothing is computed here.

#include <cstdio>
#include <exception>
#include <new>
#include <string>

#include "flamia/attention.h"
#include "tools/atomic_file.h"
#include "tools/commands.h"
#include "tools/errors.h"

namespace flamia::tools {

namespace {

// The subcommand that messages name: the first argument, if it is one.
std::string command_name(const CLI::App& app, int argc, char** argv) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (argc > 1 && command->get_name() == argv[1]) return command->get_name();
  }
  return "";
}

int parse_and_run(int argc, char** argv) {
  int exit_code = kExitDone;
  CLI::App app("Low-precision attention: one call, quantizers, explanations, audits, benchmarks.",
               "flamia");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("flamia ") + version());
  constexpr int kColumn = 34;
  app.get_formatter()->column_width(kColumn);
  add_attend_command(app, &exit_code);
  add_quantize_command(app, &exit_code);
  add_explain_command(app, &exit_code);
  add_info_command(app, &exit_code);
  add_audit_command(app, &exit_code);
  add_pcast_command(app, &exit_code);
  add_bench_command(app, &exit_code);
  const std::string command = command_name(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    if (argc == 1) fmt::print(stderr, "{}", app.help());
    return report_failure(command, bad_input("{}", error.what()));
  } catch (const std::bad_alloc&) {
    return report_failure(command, Status(StatusCode::kOutOfMemory, "out of memory"));
  } catch (const std::exception& error) {
    return report_failure(command, failure("unexpected error: {}", error.what()));
  }
  return exit_code;
}

int run(int argc, char** argv) {
  install_signal_handlers();
  const int exit_code = parse_and_run(argc, argv);
  if (std::fflush(stdout) != 0 && exit_code == kExitDone) {
    return report_failure("", failure("standard output: writing failed"));
  }
  return exit_code;
}

}  // namespace

}  // namespace flamia::tools

int main(int argc, char** argv) {
  try {
    return flamia::tools::run(argc, argv);
  } catch (...) {
    (void)std::fputs("flamia: out of memory or an unexpected error\n", stderr);
    return flamia::tools::kExitFailure;
  }
}
