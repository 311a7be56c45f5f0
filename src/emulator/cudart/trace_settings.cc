// Parts of the window, each NAME=VALUE.
#include "emulator/cudart/trace_settings.h"

#include <charconv>
#include <string>
#include <vector>

#include "base/message.h"

namespace flamia::emulator::cudart {
namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// "1:2:3" as numbers; false if they are not numbers or not so many.
bool read_numbers(std::string_view text, uint64_t most, size_t least_count, size_t most_count,
                  std::vector<uint64_t>* numbers) {
  for (const std::string_view part : split(text, ':')) {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value > most) return false;
    numbers->push_back(value);
  }
  return numbers->size() >= least_count && numbers->size() <= most_count;
}

struct Part {
  std::string_view name;
  const char* rule;
  uint64_t most;
  size_t least_count, most_count;
  void (*set)(const std::vector<uint64_t>& numbers, TraceOptions* trace);
};

using Numbers = std::vector<uint64_t>;

const Part kParts[] = {
    {"launch", "be a number of a launch, from 0", UINT64_MAX, 1, 1,
     [](const Numbers& n, TraceOptions* t) {
       t->has_launch = true;
       t->launch = n[0];
     }},
    {"cta", "be X, X:Y or X:Y:Z", UINT32_MAX, 1, 3,
     [](const Numbers& n, TraceOptions* t) {
       t->has_cta = true;
       t->cta = {static_cast<uint32_t>(n[0]), n.size() > 1 ? static_cast<uint32_t>(n[1]) : 0,
                 n.size() > 2 ? static_cast<uint32_t>(n[2]) : 0};
     }},
    {"warp", "be a warp of a CTA, from 0 to 31", 31, 1, 1,
     [](const Numbers& n, TraceOptions* t) {
       t->has_warp = true;
       t->warp = static_cast<uint32_t>(n[0]);
     }},
    {"lane", "be from 0 to 31", 31, 1, 1,
     [](const Numbers& n, TraceOptions* t) { t->lane = static_cast<uint32_t>(n[0]); }},
    {"lines", "be FIRST:LAST, lines of the PTX", UINT32_MAX, 2, 2,
     [](const Numbers& n, TraceOptions* t) {
       t->first_line = static_cast<uint32_t>(n[0]);
       t->last_line = static_cast<uint32_t>(n[1]);
     }},
    {"skip", "be a number of instructions", UINT64_MAX, 1, 1,
     [](const Numbers& n, TraceOptions* t) { t->skip = n[0]; }},
    {"count", "be a number of instructions", UINT64_MAX, 1, 1,
     [](const Numbers& n, TraceOptions* t) { t->count = n[0]; }},
};

Status refused(std::string_view name, std::string_view rule, std::string_view value) {
  return {StatusCode::kInvalidArgument, concat("trace: ", refusal(name, rule, value))};
}

}  // namespace

Status read_trace_window(std::string_view text, TraceOptions* trace) {
  if (text.empty()) return {};
  for (const std::string_view part : split(text, ',')) {
    const size_t at = part.find('=');
    const std::string_view name = part.substr(0, at);
    const std::string_view value = at == std::string_view::npos ? "" : part.substr(at + 1);
    if (name == "kernel") {
      trace->kernel = value;
      continue;
    }
    const Part* found = nullptr;
    for (const Part& known : kParts) {
      if (known.name == name) found = &known;
    }
    if (found == nullptr) {
      return refused("the window",
                     "name kernel, launch, cta, warp, lane, lines, skip or count, each with "
                     "=VALUE, and commas between",
                     part);
    }
    Numbers numbers;
    if (!read_numbers(value, found->most, found->least_count, found->most_count, &numbers)) {
      return refused(name, found->rule, value);
    }
    found->set(numbers, trace);
  }
  if (trace->first_line > trace->last_line) {
    return refused("lines", "be FIRST:LAST with FIRST at most LAST",
                   concat(trace->first_line, ":", trace->last_line));
  }
  return {};
}

}  // namespace flamia::emulator::cudart
