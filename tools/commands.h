// The subcommands of the program: each one adds itself to the command line.
// Used by: main. A command runs inside the parse, as a callback, and leaves its exit code.
#pragma once

#include <CLI/CLI.hpp>

namespace flamia::tools {

void add_attend_command(CLI::App& app, int* exit_code);
void add_quantize_command(CLI::App& app, int* exit_code);
void add_explain_command(CLI::App& app, int* exit_code);
void add_info_command(CLI::App& app, int* exit_code);
void add_audit_command(CLI::App& app, int* exit_code);
void add_pcast_command(CLI::App& app, int* exit_code);
/// Defined in bench/bench_command.cc.
void add_bench_command(CLI::App& app, int* exit_code);

}  // namespace flamia::tools
