// The distribution grammar of generated inputs.

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "tools/errors.h"
#include "tools/numbers.h"
#include "tools/workload.h"

namespace flamia::tools {

namespace {

using Kind = DistributionPart::Kind;

struct KindRow {
  const char* name;
  Kind kind;
  const char* form;
};
constexpr KindRow kKinds[] = {
    {"sinks", Kind::kSinks, "sinks:DELTA"},
    {"outliers", Kind::kOutliers, "outliers:CHANNELS,GAIN"},
    {"vmean", Kind::kValueMean, "vmean:MU"},
    {"heavy", Kind::kHeavy, "heavy:DECADES"},
};

// Where the next part begins: at a + before a letter, so that 1e+3 stays one number.
size_t end_of_part(std::string_view text, size_t begin) {
  for (size_t i = begin; i + 1 < text.size(); ++i) {
    const char next = text[i + 1];
    if (text[i] == '+' && ((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z'))) return i;
  }
  return text.size();
}

// Checks the amount of a part. Largest values: far beyond every use, far from overflow.
std::optional<std::string> rule_broken(const DistributionPart& part) {
  constexpr double kMostNats = 1e4;
  constexpr double kMostGain = 1e30;
  constexpr double kMostDecades = 60;
  const double amount = part.amount;
  if (part.kind == Kind::kSinks && !(std::fabs(amount) <= kMostNats)) {
    return "DELTA must be in [-10000, 10000]";
  }
  if (part.kind == Kind::kOutliers && !(std::fabs(amount) <= kMostGain && part.channels >= 1)) {
    return "CHANNELS must be at least 1 and GAIN a finite number";
  }
  if (part.kind == Kind::kValueMean && !(std::fabs(amount) <= kMostGain)) {
    return "MU must be a finite number";
  }
  if (part.kind == Kind::kHeavy && !(amount >= 0 && amount <= kMostDecades)) {
    return "DECADES must be in [0, 60]";
  }
  return std::nullopt;
}

std::optional<DistributionPart> parse_part(const KindRow& row, std::string_view arguments) {
  DistributionPart part;
  part.kind = row.kind;
  if (row.kind == Kind::kOutliers) {
    const size_t comma = arguments.find(',');
    if (comma == std::string_view::npos) return std::nullopt;
    const std::optional<int64_t> channels = parse_number<int64_t>(arguments.substr(0, comma));
    if (!channels) return std::nullopt;
    part.channels = *channels;
    arguments.remove_prefix(comma + 1);
  }
  const std::optional<double> amount = parse_number<double>(arguments);
  if (!amount) return std::nullopt;
  part.amount = *amount;
  return part;
}

const KindRow* find_kind(std::string_view name) {
  for (const KindRow& row : kKinds) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace

Status parse_distribution(std::string_view option, std::string_view text, Distribution* result) {
  result->clear();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = end_of_part(text, begin);
    const std::string_view part = text.substr(begin, end - begin);
    const std::string at = fmt::format("'{}' at position {}", printable(part), begin + 1);
    begin = end + 1;
    if (part == "normal") continue;
    const size_t colon = part.find(':');
    const KindRow* row = find_kind(part.substr(0, colon));
    if (row == nullptr) {
      return bad_input(
          "{} must be normal, sinks:DELTA, outliers:CHANNELS,GAIN, vmean:MU or "
          "heavy:DECADES, joined by +; got {}",
          option, at);
    }
    const std::optional<DistributionPart> parsed =
        colon == std::string_view::npos ? std::nullopt : parse_part(*row, part.substr(colon + 1));
    if (!parsed) return bad_input("{} must have the form {}; got {}", option, row->form, at);
    if (const auto rule = rule_broken(*parsed)) {
      return bad_input("{}: {}; got {}", option, *rule, at);
    }
    for (const DistributionPart& earlier : *result) {
      if (earlier.kind == parsed->kind) {
        return bad_input("{} must have {} once at most; got {}", option, row->name, at);
      }
    }
    result->push_back(*parsed);
  }
  return Status();
}

}  // namespace flamia::tools
