// Statistics as text and file.
#include "emulator/cudart/statistics.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/message.h"
#include "emulator/cudart/chip.h"
#include "emulator/cudart/runtime.h"
#include "emulator/kernel_name.h"
#include "emulator/model/print.h"

namespace flamia::emulator::cudart {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return out + "\"";
}

std::string list_of(const ptx::Dim3& dim) {
  return concat("[", dim.x, ", ", dim.y, ", ", dim.z, "]");
}
std::string text_of(const ptx::Dim3& dim) { return concat(dim.x, "x", dim.y, "x", dim.z); }

}  // namespace

std::string statistics_json(const Runtime& runtime) {
  const MachineOptions& machine = runtime.settings().machine;
  std::string out =
      concat("{\n  \"target\": ", quoted(chip_facts(machine.chip).target),
             ",\n  \"seed\": ", machine.seed, ",\n  \"sms\": ", machine.sms, ",\n  \"kernels\": [");
  const char* separator = "\n";
  for (const auto& [name, totals] : runtime.totals) {
    out += concat(separator, "    {\"name\": ", quoted(name), ", \"launches\": ", totals.launches,
                  ", \"warp_instructions\": ", totals.warp_instructions,
                  ", \"lane_instructions\": ", totals.lane_instructions,
                  ", \"seconds\": ", totals.seconds, "}");
    separator = ",\n";
  }
  out += concat("\n  ],\n  \"scale\": ", runtime.settings().stats_scale,
                ",\n  \"launches_left_out\": ", runtime.launches_left_out, ",\n  \"launches\": [");
  separator = "\n";
  for (const LaunchRecord& launch : runtime.launches) {
    out +=
        concat(separator, "    {\"kernel\": ", quoted(launch.kernel),
               ", \"grid\": ", list_of(launch.grid), ", \"block\": ", list_of(launch.block),
               ", \"cluster\": ", list_of(launch.cluster), ", \"seconds\": ", launch.seconds, ",\n",
               model::launch_json(model::chip_rates(machine.chip), *launch.counters,
                                  runtime.settings().stats_scale, "      "),
               "}");
    separator = ",\n";
  }
  return out + "\n  ]\n}\n";
}

std::string statistics_table(const Runtime& runtime) {
  constexpr size_t kMostPrinted = 64;
  const model::ChipRates& chip = model::chip_rates(runtime.settings().machine.chip);
  std::string out;
  const size_t shown = std::min(kMostPrinted, runtime.launches.size());
  for (size_t i = 0; i < shown; ++i) {
    const LaunchRecord& launch = runtime.launches[i];
    const std::string grid = text_of(launch.grid), block = text_of(launch.block),
                      cluster = text_of(launch.cluster);
    const std::string name = readable_kernel_name(launch.kernel);
    out += model::launch_table({name, grid, block, cluster}, chip, *launch.counters,
                               runtime.settings().stats_scale);
  }
  const uint64_t rest = runtime.launches.size() - shown + runtime.launches_left_out;
  if (rest != 0)
    out +=
        concat("and ", rest, " more launches (--stats FILE has up to ", kMostLaunchRecords, ")\n");
  return out;
}

Status write_statistics(const Runtime& runtime) {
  const std::string& path = runtime.settings().stats_path;
  if (path.empty()) return {};
  if (path == "-") {
    std::fputs(statistics_table(runtime).c_str(), stderr);
    return {};
  }
  const std::string part = concat(path, ".", getpid(), ".part");
  const std::string text = statistics_json(runtime);
  std::FILE* file = std::fopen(part.c_str(), "w");
  bool written = file != nullptr;
  if (written) {
    written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = std::fclose(file) == 0 && written;
  }
  if (!written || std::rename(part.c_str(), path.c_str()) != 0) {
    std::remove(part.c_str());
    return Status(StatusCode::kInvalidArgument,
                  concat("statistics: ",
                         refusal("FLAMIA_VGPU_STATS", "name a file that can be written", path)));
  }
  return {};
}

}  // namespace flamia::emulator::cudart
