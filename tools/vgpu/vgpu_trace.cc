// The program vgpu-trace: runs a CUDA program on the virtual GPU and writes a window of the
// instructions that it executes, with the values of one lane.
// Exit code: that of the program; 2 for bad usage.
#include <string>
#include <utility>
#include <vector>

#include "tools/vgpu/launch.h"

int main(int argc, char** argv) {
  flamia::tools::LaunchOptions options;
  std::string out = "-";
  // Parts of the window; what they may be is checked where they are used.
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"kernel", "Part of the name of the kernel (default: all kernels)"},
      {"launch", "Number of the launch, from 0 (default: all)"},
      {"cta", "CTA: X, X:Y or X:Y:Z (default: all)"},
      {"warp", "Warp of the CTA (default: all)"},
      {"lane", "Lane whose values are shown (default 0)"},
      {"lines", "Lines of the PTX, FIRST:LAST (default: all; --ptx keeps the text)"},
      {"skip", "Instructions to leave out first (default 0)"},
      {"count", "Instructions to write (default 1000)"}};
  std::vector<std::string> values(parts.size());
  CLI::App app("Runs a CUDA program on the virtual GPU and writes the instructions of a window.",
               "vgpu-trace");
  app.add_option("-o,--out", out, "File for the trace (default -: standard error)");
  for (size_t i = 0; i < parts.size(); ++i) {
    app.add_option("--" + parts[i].first, values[i], parts[i].second);
  }
  flamia::tools::add_launch_options(&app, &options);
  const int code = flamia::tools::read_command_line(&app, argc, argv, &options);
  if (code >= 0) return code;
  std::string window;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (values[i].empty()) continue;
    window += (window.empty() ? "" : ",") + parts[i].first + "=" + values[i];
  }
  options.variables.emplace_back("FLAMIA_VGPU_TRACE", flamia::tools::lasting_path(out));
  options.variables.emplace_back("FLAMIA_VGPU_TRACE_WINDOW", window);
  return flamia::tools::become_program("vgpu-trace", options);
}
