// The environment and the exec of vgpu-run and vgpu-trace.
#include "tools/vgpu/launch.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/vgpu/elf_needs.h"

namespace flamia::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kBadUsage = 2;
/// Of a program that ends with 0 although a kernel was stopped.
constexpr const char* kTrapExit = "86";
constexpr const char* kRuntime = "libcudart.so.13";

/// Digits only: a minus sign or a number too large would become another number.
const CLI::Validator kWholeNumber(
    [](std::string& text) {
      uint64_t value = 0;
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, value);
      return error == std::errc() && stop == end ? std::string()
                                                 : "must be 0 to 2^64 - 1; got " + text;
    },
    "");

int refuse(const std::string& name, const std::string& message) {
  std::fprintf(stderr, "%s: %s\n", name.c_str(), message.c_str());
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
  if (name.find('/') != std::string::npos) return fs::is_regular_file(name, error) ? name : "";
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path file = fs::path(rest.substr(0, end)) / name;
    if (fs::is_regular_file(file, error)) return file.string();
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  return "";
}

void set_variable(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

void set_environment(const LaunchOptions& options, const std::string& libraries) {
  const char* old = std::getenv("LD_LIBRARY_PATH");
  const bool has_old = old != nullptr && *old != '\0';
  set_variable("LD_LIBRARY_PATH", has_old ? libraries + ":" + old : libraries);
  if (options.chip) set_variable("FLAMIA_VGPU_CHIP", *options.chip);
  if (options.adversary) set_variable("FLAMIA_VGPU_ADVERSARY", *options.adversary);
  if (options.numerics) set_variable("FLAMIA_VGPU_NUMERICS", *options.numerics);
  if (options.checks) set_variable("FLAMIA_VGPU_CHECKS", *options.checks);
  if (options.rules) set_variable("FLAMIA_VGPU_RULES", *options.rules);
  if (options.seed) set_variable("FLAMIA_VGPU_SEED", std::to_string(*options.seed));
  if (options.sms) set_variable("FLAMIA_VGPU_SMS", std::to_string(*options.sms));
  if (options.watchdog) set_variable("FLAMIA_VGPU_WATCHDOG", std::to_string(*options.watchdog));
  if (options.trap_exit) {
    set_variable("FLAMIA_VGPU_TRAP_EXIT", std::to_string(*options.trap_exit));
  } else {
    setenv("FLAMIA_VGPU_TRAP_EXIT", kTrapExit, 0);
  }
  if (!options.ptx_folder.empty()) {
    set_variable("FLAMIA_VGPU_PTX", lasting_path(options.ptx_folder));
  }
  for (const auto& [name, value] : options.variables) set_variable(name.c_str(), value);
}

}  // namespace

std::string lasting_path(const std::string& path) {
  return path == "-" ? path : fs::absolute(path).string();
}

void add_launch_options(CLI::App* app, LaunchOptions* options) {
  app->add_option("--chip", options->chip, "Chip: h200, b200 or b300 (default h200)")
      ->check(CLI::IsMember({"h200", "b200", "b300"}));
  app->add_option("--seed", options->seed, "Seed of all orders (default 0)")->check(kWholeNumber);
  app->add_option("--adversary", options->adversary,
                  "When asynchronous work completes: late, early or random (default random)")
      ->check(CLI::IsMember({"late", "early", "random"}));
  app->add_option("--numerics", options->numerics,
                  "Tensor core arithmetic: hw or exact (default hw)")
      ->check(CLI::IsMember({"hw", "exact"}));
  app->add_option("--rules", options->rules,
                  "Hazards: lenient, public, or strict for all that PTX asks (default public)")
      ->check(CLI::IsMember({"lenient", "public", "strict"}));
  app->add_option("--checks", options->checks,
                  "What is looked for: all, hazards (not unwritten bytes) or none (default all)")
      ->check(CLI::IsMember({"all", "hazards", "none"}));
  app->add_option("--sms", options->sms, "SMs of the machine, at most the chip's (default 8)")
      ->check(CLI::Range(uint32_t{1}, UINT32_MAX));
  app->add_option("--watchdog", options->watchdog,
                  "Warp instructions after which a grid is stopped (default 0: no limit)")
      ->check(kWholeNumber);
  app->add_option("--trap-exit", options->trap_exit,
                  "Exit code of a program that ends with 0 after a trap; 0: its own (default 86)")
      ->check(CLI::Range(uint32_t{0}, uint32_t{255}));
  app->add_option("--ptx", options->ptx_folder, "Folder that gets the text of every PTX module")
      ->check(CLI::ExistingDirectory);
  app->add_option("--libraries", options->libraries, "Folder of libcudart.so.13");
  app->add_option("PROGRAM", options->program, "Program and its arguments")->required();
}

int read_command_line(CLI::App* app, int argc, char** argv, LaunchOptions* options) {
  // Options end where the program starts: what follows is the program's.
  std::vector<std::string> own;
  int next = 1;
  for (; next < argc && argv[next][0] == '-'; ++next) {
    const std::string argument = argv[next];
    if (argument == "--") {
      ++next;
      break;
    }
    own.push_back(argument);
    const bool has_value = argument.find('=') != std::string::npos;
    const CLI::Option* const option = has_value ? nullptr : app->get_option_no_throw(argument);
    if (option != nullptr && option->get_items_expected_min() > 0 && next + 1 < argc) {
      own.push_back(argv[++next]);
    }
  }
  if (next < argc) own.push_back(argv[next]);
  std::reverse(own.begin(), own.end());
  try {
    app->parse(own);
  } catch (const CLI::Success& help) {
    return app->exit(help);
  } catch (const CLI::ParseError& error) {
    return refuse(app->get_name(), error.what());
  }
  options->program.assign(argv + next, argv + argc);
  return -1;
}

int become_program(const std::string& name, LaunchOptions options) {
  const std::string libraries =
      options.libraries.empty() ? find_libraries() : fs::absolute(options.libraries).string();
  std::error_code error;
  if (libraries.empty() || !fs::exists(fs::path(libraries) / kRuntime, error)) {
    return refuse(name, "--libraries must name the folder of libcudart.so.13; got " +
                            (libraries.empty() ? "none" : libraries));
  }
  const std::string file = find_program(options.program[0]);
  if (file.empty()) {
    return refuse(name, "PROGRAM must be a file or be found in PATH; got " + options.program[0]);
  }
  for (const std::string& warning : warnings_for(read_elf_needs(file), options.program[0])) {
    std::fprintf(stderr, "%s: warning: %s\n", name.c_str(), warning.c_str());
  }
  set_environment(options, libraries);
  std::vector<char*> arguments;
  for (std::string& argument : options.program) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  execv(file.c_str(), arguments.data());
  return refuse(name,
                "PROGRAM must be executable; got " + file + " (" + std::strerror(errno) + ")");
}

}  // namespace flamia::tools
