// The program vgpu-run: runs an unmodified CUDA program on the virtual GPU, with counters if asked.
// Exit code: that of the program, or 86 if it ended with 0 although a kernel was stopped by a trap
// (--trap-exit); 2 for bad usage.
#include <optional>
#include <string>

#include "tools/vgpu/launch.h"

int main(int argc, char** argv) {
  flamia::tools::LaunchOptions options;
  std::string stats;
  std::optional<uint32_t> scale;
  CLI::App app("Runs a CUDA program, built with nvcc -cudart shared and PTX, on the virtual GPU.",
               "vgpu-run");
  app.add_option("--stats", stats,
                 "JSON file for counters and predictions of every launch; - for a table");
  app.add_option("--scale", scale, "Predict launches with so many times as many CTAs (default 1)")
      ->check(CLI::Range(uint32_t{1}, UINT32_MAX));
  flamia::tools::add_launch_options(&app, &options);
  const int code = flamia::tools::read_command_line(&app, argc, argv, &options);
  if (code >= 0) return code;
  if (!stats.empty()) {
    options.variables.emplace_back("FLAMIA_VGPU_STATS", flamia::tools::lasting_path(stats));
  }
  if (scale) options.variables.emplace_back("FLAMIA_VGPU_SCALE", std::to_string(*scale));
  return flamia::tools::become_program("vgpu-run", options);
}
