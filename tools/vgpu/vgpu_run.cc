// The program vgpu-run: runs an unmodified CUDA program on the virtual GPU.
// It sets LD_LIBRARY_PATH and the variables of the virtual GPU and executes the program, so that a
// debugger or a shell sees the program itself. Exit code: that of the program; 2 for bad usage.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/vgpu/elf_needs.h"

namespace flamia::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kBadUsage = 2;
constexpr const char* kRuntime = "libcudart.so.13";

struct RunOptions {
  std::optional<std::string> chip;
  std::optional<std::string> adversary;
  std::optional<std::string> numerics;
  std::optional<std::string> rules;
  std::optional<uint64_t> seed;
  std::optional<uint32_t> sms;
  std::string stats;
  std::optional<uint32_t> scale;
  std::string libraries;
  std::vector<std::string> program;
};

int refuse(const std::string& message) {
  std::fprintf(stderr, "vgpu-run: %s\n", message.c_str());
  return kBadUsage;
}

/// The folder of libcudart.so.13: next to this program, or where it is installed.
std::string find_libraries() {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& folder : {own / "vgpu", own, own / ".." / "lib" / "flamia" / "vgpu"}) {
    if (fs::exists(folder / kRuntime, error)) return fs::canonical(folder, error).string();
  }
  return "";
}

/// The file that execvp will run; empty if there is none.
std::string find_program(const std::string& name) {
  std::error_code error;
  if (name.find('/') != std::string::npos) return fs::exists(name, error) ? name : "";
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path file = fs::path(rest.substr(0, end)) / name;
    if (fs::exists(file, error)) return file.string();
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  return "";
}

void set_variable(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

void set_environment(const RunOptions& options, const std::string& libraries) {
  const char* old = std::getenv("LD_LIBRARY_PATH");
  const bool has_old = old != nullptr && *old != '\0';
  set_variable("LD_LIBRARY_PATH", has_old ? libraries + ":" + old : libraries);
  if (options.chip) set_variable("FLAMIA_VGPU_CHIP", *options.chip);
  if (options.adversary) set_variable("FLAMIA_VGPU_ADVERSARY", *options.adversary);
  if (options.numerics) set_variable("FLAMIA_VGPU_NUMERICS", *options.numerics);
  if (options.rules) set_variable("FLAMIA_VGPU_RULES", *options.rules);
  if (options.seed) set_variable("FLAMIA_VGPU_SEED", std::to_string(*options.seed));
  if (options.sms) set_variable("FLAMIA_VGPU_SMS", std::to_string(*options.sms));
  if (!options.stats.empty()) {
    // The program may change its folder.
    set_variable("FLAMIA_VGPU_STATS",
                 options.stats == "-" ? "-" : fs::absolute(options.stats).string());
  }
  if (options.scale) set_variable("FLAMIA_VGPU_SCALE", std::to_string(*options.scale));
}

int execute(RunOptions options) {
  const std::string libraries =
      options.libraries.empty() ? find_libraries() : fs::absolute(options.libraries).string();
  std::error_code error;
  if (libraries.empty() || !fs::exists(fs::path(libraries) / kRuntime, error)) {
    return refuse("--libraries must name the folder of libcudart.so.13; got " +
                  (libraries.empty() ? "none" : libraries));
  }
  const std::string file = find_program(options.program[0]);
  if (file.empty()) {
    return refuse("PROGRAM must be a file or be found in PATH; got " + options.program[0]);
  }
  for (const std::string& warning : warnings_for(read_elf_needs(file), options.program[0])) {
    std::fprintf(stderr, "vgpu-run: warning: %s\n", warning.c_str());
  }
  set_environment(options, libraries);
  std::vector<char*> arguments;
  for (std::string& argument : options.program) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  execv(file.c_str(), arguments.data());
  return refuse("PROGRAM must be executable; got " + file + " (" + std::strerror(errno) + ")");
}

int run(int argc, char** argv) {
  RunOptions options;
  CLI::App app("Runs a CUDA program, built with nvcc -cudart shared and PTX, on the virtual GPU.",
               "vgpu-run");
  app.add_option("--chip", options.chip, "Chip: h200, b200 or b300 (default h200)")
      ->check(CLI::IsMember({"h200", "b200", "b300"}));
  app.add_option("--seed", options.seed, "Seed of all orders (default 0)");
  app.add_option("--adversary", options.adversary,
                 "When asynchronous work completes: late, early or random (default random)")
      ->check(CLI::IsMember({"late", "early", "random"}));
  app.add_option("--numerics", options.numerics, "Tensor core arithmetic: hw or exact (default hw)")
      ->check(CLI::IsMember({"hw", "exact"}));
  app.add_option("--rules", options.rules,
                 "Hazards: public, or strict for all that PTX asks (default public)")
      ->check(CLI::IsMember({"public", "strict"}));
  app.add_option("--sms", options.sms, "SMs of the machine, at most the chip's (default 8)");
  app.add_option("--stats", options.stats,
                 "JSON file for counters and predictions of every launch; - for a table");
  app.add_option("--scale", options.scale,
                 "Predict launches with so many times as many CTAs (default 1)");
  app.add_option("--libraries", options.libraries, "Folder of libcudart.so.13");
  app.add_option("PROGRAM", options.program, "Program and its arguments")->required();
  app.prefix_command();
  app.positionals_at_end();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  }
  for (const std::string& argument : app.remaining()) options.program.push_back(argument);
  return execute(std::move(options));
}

}  // namespace
}  // namespace flamia::tools

int main(int argc, char** argv) { return flamia::tools::run(argc, argv); }
