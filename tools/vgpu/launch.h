// Runs an unmodified CUDA program with the virtual GPU's libraries in front and its variables set.
// Depends on: CLI11. Used by: vgpu-run and vgpu-trace.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace flamia::tools {

/// What both programs ask for; options that are not given leave the variables as they are.
struct LaunchOptions {
  std::optional<std::string> chip;
  std::optional<std::string> adversary;
  std::optional<std::string> numerics;
  std::optional<std::string> rules;
  std::optional<std::string> checks;
  std::optional<uint64_t> seed;
  std::optional<uint32_t> sms;
  std::optional<uint64_t> watchdog;
  std::optional<uint32_t> trap_exit;
  std::string ptx_folder;
  std::string libraries;
  std::vector<std::string> program;
  std::vector<std::pair<std::string, std::string>> variables;  ///< more of them
};

/// The options above, and PROGRAM with its arguments.
void add_launch_options(CLI::App* app, LaunchOptions* options);

/// Reads the command line: -1 to go on, otherwise the exit code (0 for help, 2 for bad usage).
int read_command_line(CLI::App* app, int argc, char** argv, LaunchOptions* options);

/// Becomes the program, so that a debugger or a shell sees the program itself. Returns only if that
/// fails: 2, after a line on standard error that starts with `name`.
int become_program(const std::string& name, LaunchOptions options);

/// A path that still holds when the program changes its folder; "-" stays.
std::string lasting_path(const std::string& path);

}  // namespace flamia::tools
