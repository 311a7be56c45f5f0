// Statistics as text and file.
#include "emulator/cudart/statistics.h"

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "base/message.h"
#include "emulator/cudart/chip.h"
#include "emulator/cudart/runtime.h"

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
  return out + "\n  ]\n}\n";
}

Status write_statistics(const Runtime& runtime) {
  const std::string& path = runtime.settings().stats_path;
  if (path.empty()) return {};
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
