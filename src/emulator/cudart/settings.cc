// Environment variables as options; every value that is not understood is an error.
#include "emulator/cudart/settings.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "base/message.h"
#include "emulator/cudart/chip.h"
#include "emulator/cudart/trace_settings.h"

namespace flamia::emulator::cudart {
namespace {

template <typename Value>
struct Choice {
  std::string_view name;
  Value value;
};

constexpr Choice<Chip> kChips[] = {
    {"h200", Chip::kH200}, {"b200", Chip::kB200}, {"b300", Chip::kB300}};
constexpr Choice<Adversary> kAdversaries[] = {
    {"late", Adversary::kLate}, {"early", Adversary::kEarly}, {"random", Adversary::kRandom}};
constexpr Choice<Numerics> kNumerics[] = {{"hw", Numerics::kHardware}, {"exact", Numerics::kExact}};
constexpr Choice<Rules> kRules[] = {
    {"lenient", Rules::kLenient}, {"public", Rules::kPublic}, {"strict", Rules::kStrict}};

template <typename Value, size_t Count>
Status choose(const ReadVariable& read, const char* name, const Choice<Value> (&choices)[Count],
              Value* value) {
  const char* text = read(name);
  if (text == nullptr) return {};
  std::string rule = "be ";
  for (size_t i = 0; i < Count; ++i) {
    if (choices[i].name == text) {
      *value = choices[i].value;
      return {};
    }
    rule += concat(i == 0 ? "" : (i + 1 == Count ? " or " : ", "), choices[i].name);
  }
  return Status(StatusCode::kInvalidArgument, concat("settings: ", refusal(name, rule, text)));
}

template <typename Number>
Status read_number(const ReadVariable& read, const char* name, Number least, Number most,
                   Number* number) {
  const char* text = read(name);
  if (text == nullptr) return {};
  const char* end = text + std::strlen(text);
  Number value = 0;
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < least || value > most) {
    return Status(StatusCode::kInvalidArgument,
                  concat("settings: ",
                         refusal(name, concat("be an integer from ", least, " to ", most), text)));
  }
  *number = value;
  return {};
}

}  // namespace

Status read_settings(const ReadVariable& read, Settings* settings) {
  MachineOptions& machine = settings->machine;
  Status status = choose(read, "FLAMIA_VGPU_CHIP", kChips, &machine.chip);
  if (!status.ok()) return status;
  status = choose(read, "FLAMIA_VGPU_ADVERSARY", kAdversaries, &machine.adversary);
  if (!status.ok()) return status;
  status = choose(read, "FLAMIA_VGPU_NUMERICS", kNumerics, &machine.numerics);
  if (!status.ok()) return status;
  status = choose(read, "FLAMIA_VGPU_RULES", kRules, &machine.rules);
  if (!status.ok()) return status;
  status = read_number<uint64_t>(read, "FLAMIA_VGPU_SEED", 0, UINT64_MAX, &machine.seed);
  if (!status.ok()) return status;
  status =
      read_number<uint32_t>(read, "FLAMIA_VGPU_SMS", 1, chip_facts(machine.chip).sms, &machine.sms);
  if (!status.ok()) return status;
  const char* const checks = read("FLAMIA_VGPU_CHECKS");
  const std::string_view wanted = checks != nullptr ? checks : "all";
  if (wanted != "all" && wanted != "hazards" && wanted != "none") {
    return Status(
        StatusCode::kInvalidArgument,
        concat("settings: ", refusal("FLAMIA_VGPU_CHECKS", "be all, hazards or none", wanted)));
  }
  machine.check_uninitialized = wanted == "all";
  machine.check_hazards = wanted != "none";
  status =
      read_number<uint64_t>(read, "FLAMIA_VGPU_WATCHDOG", 0, UINT64_MAX, &machine.watchdog_steps);
  if (!status.ok()) return status;
  const char* path = read("FLAMIA_VGPU_STATS");
  if (path != nullptr) settings->stats_path = path;
  machine.count = !settings->stats_path.empty();
  status = read_number<uint32_t>(read, "FLAMIA_VGPU_SCALE", 1, 1000000, &settings->stats_scale);
  if (!status.ok()) return status;
  status = read_number<uint32_t>(read, "FLAMIA_VGPU_TRAP_EXIT", 0, 255, &settings->trap_exit);
  if (!status.ok()) return status;
  const char* ptx = read("FLAMIA_VGPU_PTX");
  if (ptx != nullptr) machine.ptx_folder = ptx;
  const char* trace = read("FLAMIA_VGPU_TRACE");
  if (trace != nullptr) machine.trace.path = trace;
  const char* window = read("FLAMIA_VGPU_TRACE_WINDOW");
  return window != nullptr ? read_trace_window(window, &machine.trace) : Status();
}

}  // namespace flamia::emulator::cudart
