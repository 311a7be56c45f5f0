// Numbers as text; JSON by hand, because its few forms need no library in libcudart.
#include "emulator/model/print.h"

#include <algorithm>
#include <cstdio>

#include "base/message.h"

namespace flamia::emulator::model {
namespace {

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// 1234567 as 1.23M.
std::string short_number(double value) {
  constexpr std::string_view kUnits[] = {"", "k", "M", "G", "T", "P"};
  size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fixed(value, digits) + std::string(kUnits[unit]);
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string warps_text(const Role& role) {
  return role.first_warp == role.last_warp ? concat("warp ", role.first_warp)
                                           : concat("warps ", role.first_warp, "-", role.last_warp);
}

std::string bound_text(const Prediction& prediction) {
  if (prediction.bounds.empty()) return "nothing";
  const Bound& bound = prediction.bounds.front();
  const bool sure = bound.trust == Trust::kMeasured;
  return concat(bound.pipe, sure ? "" : concat(" (rate ", trust_name(bound.trust), ")"));
}

/// Instruction classes by how often, the most frequent first.
std::string mix_text(const Counters& c) {
  std::vector<size_t> order(kClassCount);
  for (size_t i = 0; i < kClassCount; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return c.values[a] > c.values[b]; });
  constexpr size_t kShown = 5, kPrefix = std::string_view("instructions_").size();
  std::string text;
  for (size_t i = 0; i < kShown && c.values[order[i]] != 0; ++i) {
    const auto counter = static_cast<Counter>(order[i]);
    text += concat(i == 0 ? "" : ", ", counter_name(counter).substr(kPrefix), " ",
                   fixed(100 * share(c[counter], c[Counter::kWarpInstructions]), 0), "%");
  }
  return text;
}

std::string bytes_text(std::string_view name, uint64_t bytes) {
  return bytes == 0 ? "" : concat(", ", name, " ", short_number(static_cast<double>(bytes)), "B");
}

/// What moved, where it is not zero.
std::string traffic_text(const Counters& c) {
  std::string text;
  text += bytes_text("shared", c[Counter::kSharedReadBytes] + c[Counter::kSharedWriteBytes]);
  if (c[Counter::kSharedWavefronts] > c[Counter::kSharedIdealWavefronts]) {
    text += concat(
        " (", fixed(share(c[Counter::kSharedWavefronts], c[Counter::kSharedIdealWavefronts]), 1),
        " wavefronts for 1)");
  }
  text += bytes_text("global", c[Counter::kGlobalReadBytes] + c[Counter::kGlobalWriteBytes] +
                                   c[Counter::kGlobalAtomicBytes]);
  if (c[Counter::kGlobalSectors] > c[Counter::kGlobalIdealSectors]) {
    text +=
        concat(" (", fixed(share(c[Counter::kGlobalSectors], c[Counter::kGlobalIdealSectors]), 1),
               " sectors for 1)");
  }
  text += bytes_text("tma in", c[Counter::kTmaReadBytes]);
  text += bytes_text("tma out", c[Counter::kTmaWriteBytes] + c[Counter::kTmaReduceBytes]);
  text += bytes_text("multicast", c[Counter::kMulticastBytes]);
  text += bytes_text("operands", c[Counter::kOperandBytes]);
  text += bytes_text("tmem in", c[Counter::kTmemWriteBytes] + c[Counter::kTmemCopyBytes]);
  text += bytes_text("tmem out", c[Counter::kTmemReadBytes]);
  text += bytes_text("local", c[Counter::kLocalBytes]);
  return text;
}

std::string tensor_text(const ChipRates& chip, const Counters& c) {
  std::string text;
  for (const auto& [name, count] : c.tensor) {
    text += concat("    ", padded(name, 40), " x ",
                   short_number(static_cast<double>(count.instructions())), "  ",
                   short_number(static_cast<double>(count.flops)), "FLOP  ",
                   short_number(tensor_clocks(chip, count)), " tensor clocks\n");
  }
  return text;
}

// ---- JSON

std::string quoted(std::string_view text) { return concat("\"", text, "\""); }

std::string counters_json(const Counters& c, std::string_view indent) {
  std::string out = "{";
  const char* separator = "";
  for (size_t i = 0; i < kCounterCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    if (c[counter] == 0) continue;
    out += concat(separator, "\n", indent, "  ", quoted(counter_name(counter)), ": ", c[counter]);
    separator = ",";
  }
  return out + concat("\n", indent, "}");
}

std::string tensor_json(const ChipRates& chip, const Counters& c) {
  std::string out = "[";
  const char* separator = "";
  for (const auto& [name, count] : c.tensor) {
    out += concat(separator, "{\"instruction\": ", quoted(name),
                  ", \"count\": ", count.instructions(), ", \"flops\": ", count.flops,
                  ", \"tensor_clocks\": ", fixed(tensor_clocks(chip, count), 1), "}");
    separator = ", ";
  }
  return out + "]";
}

std::string prediction_json(const Prediction& p, std::string_view indent) {
  std::string out =
      concat("{\"ctas\": ", p.ctas, ", \"ctas_of_sm\": ", p.ctas_of_sm,
             ", \"clocks\": ", fixed(p.clocks, 1), ", \"clock_ghz\": ", fixed(p.clock_ghz, 3),
             ", \"microseconds\": ", fixed(p.microseconds, 3), ", \"bounds\": [");
  const char* separator = "";
  for (const Bound& bound : p.bounds) {
    out += concat(separator, "\n", indent, "  {\"pipe\": ", quoted(bound.pipe),
                  ", \"clocks\": ", fixed(bound.clocks, 1),
                  ", \"rate\": ", quoted(trust_name(bound.trust)), "}");
    separator = ",";
  }
  return out + "]}";
}

}  // namespace

std::string launch_table(const LaunchShapeText& shape, const ChipRates& chip,
                         const LaunchCounters& launch, double scale) {
  const Prediction whole = predict(chip, launch, scale);
  std::string out = concat(shape.kernel, " <<<", shape.grid, ", ", shape.block, ">>>");
  if (launch.cluster_size > 1) out += concat(" cluster ", shape.cluster);
  out += concat(" on ", chip.name, ": at least ", fixed(whole.microseconds, 1), " us, ",
                short_number(whole.clocks), " clocks of ", fixed(whole.clock_ghz, 2),
                " GHz, bound by ", bound_text(whole));
  if (scale != 1) out += concat(", for ", whole.ctas, " CTAs");
  out += "\n  pipes:";
  constexpr size_t kShown = 6;
  for (size_t i = 0; i < std::min(kShown, whole.bounds.size()); ++i) {
    out += concat(i == 0 ? " " : ", ", whole.bounds[i].pipe, " ",
                  fixed(100 * whole.bounds[i].clocks / whole.clocks, 0), "%");
  }
  const Counters total = launch.total();
  out += concat("\n  memory: L2 ", short_number(static_cast<double>(total[Counter::kL2ReadBytes])),
                "B read, ", short_number(static_cast<double>(total[Counter::kL2WriteBytes])),
                "B written; HBM ", short_number(static_cast<double>(total[Counter::kHbmReadBytes])),
                "B read, ", short_number(static_cast<double>(total[Counter::kHbmWriteBytes])),
                "B written\n");
  for (const Role& role : find_roles(launch)) {
    const Prediction alone = predict_role(chip, launch, role, scale);
    out += concat("  ", padded(warps_text(role), 12), " ", padded(role.name, 18), " ",
                  short_number(static_cast<double>(role.counters[Counter::kWarpInstructions])),
                  " instructions (", mix_text(role.counters), ")", traffic_text(role.counters),
                  "; alone ", short_number(alone.clocks), " clocks, ", bound_text(alone), "\n",
                  tensor_text(chip, role.counters));
  }
  return out;
}

std::string launch_json(const ChipRates& chip, const LaunchCounters& launch, double scale,
                        std::string_view indent) {
  const Counters total = launch.total();
  const std::string inner = std::string(indent) + "    ";
  std::string out =
      concat(indent, "\"ctas\": ", launch.ctas, ",\n", indent,
             "\"counters\": ", counters_json(total, indent), ",\n", indent,
             "\"tensor\": ", tensor_json(chip, total), ",\n", indent,
             "\"prediction\": ", prediction_json(predict(chip, launch, scale), indent), ",\n",
             indent, "\"roles\": [");
  const char* separator = "";
  for (const Role& role : find_roles(launch)) {
    out += concat(
        separator, "\n", indent, "  {\"name\": ", quoted(role.name),
        ", \"first_warp\": ", role.first_warp, ", \"last_warp\": ", role.last_warp, ",\n", inner,
        "\"counters\": ", counters_json(role.counters, inner), ",\n", inner,
        "\"tensor\": ", tensor_json(chip, role.counters), ",\n", inner,
        "\"prediction\": ", prediction_json(predict_role(chip, launch, role, scale), inner), "}");
    separator = ",";
  }
  return out + "]";
}

}  // namespace flamia::emulator::model
