// Where changes of one output tensor lie, and what that pattern is the mark of.
#include "audit/leak_trace.h"

#include <algorithm>
#include <cstdlib>

#include "audit/audit.h"
#include "base/message.h"

namespace flamia::audit {
namespace {

/// Above it codes were clamped or flushed; below they were rounded to another step.
constexpr float kLargeChange = 0.03f;
/// FP16 sums with another prescale move dQ by less than this part of its largest entry.
constexpr float kRoundingChange = 0x1p-7f;
/// Perturbed tokens that must agree before a constant reach is called a mask.
constexpr size_t kFewTokens = 4;
/// Tokens by which masks are off, rather than scales shared.
constexpr int64_t kShortReach = 8;

}  // namespace

void LeakTrace::add(const Perturbation& perturbation, int64_t row, float change) {
  if (change == 0) return;
  const int64_t distance = std::abs(perturbation.token - row);
  reach_ = std::max(reach_, distance);
  int64_t& reach_here = reach_of_token_[perturbation.token];
  reach_here = std::max(reach_here, distance);
  float& of_operand = by_operand_[perturbation.operand];
  of_operand = std::max(of_operand, change);
  for (size_t g = 0; g < std::size(kGroups); ++g) {
    if (row / kGroups[g] != perturbation.token / kGroups[g]) in_group_[g] = false;
  }
  const bool promised =
      shared_tokens_ > 0 && row / shared_tokens_ == perturbation.token / shared_tokens_;
  if (!promised) {
    if (change > largest_outside_) worst_ = perturbation;
    reach_outside_ = std::max(reach_outside_, distance);
    largest_outside_ = std::max(largest_outside_, change);
  } else if (change > largest_ && reach_outside_ == 0) {
    worst_ = perturbation;
  }
  largest_ = std::max(largest_, change);
}

void LeakTrace::note_span(int64_t token, int64_t farthest_row) {
  const auto found = reach_of_token_.find(token);
  if (found == reach_of_token_.end()) return;
  const int64_t span = std::abs(token - farthest_row);
  if (span >= kGroups[3] && found->second == span) spans_everything_ = true;
}

int64_t LeakTrace::group() const {
  for (size_t g = 0; g < std::size(kGroups); ++g) {
    if (in_group_[g]) return kGroups[g];
  }
  return 0;
}

int64_t LeakTrace::constant_reach() const {
  if (reach_of_token_.size() < kFewTokens) return 0;
  const bool constant = std::all_of(reach_of_token_.begin(), reach_of_token_.end(),
                                    [&](const auto& entry) { return entry.second == reach_; });
  return constant ? reach_ : 0;
}

std::string LeakTrace::words(const OutputView& view, bool earlier) const {
  const char* const of = view.norm == RowNorm::kRow ? "of a row" : "of its largest entry";
  std::string operands;
  for (const auto& [operand, change] : by_operand_) {
    operands += concat(operands.empty() ? "" : ", ", operand_name(operand), " ",
                       amount(static_cast<double>(change)));
  }
  std::string words = concat("changes of ", view.name, " reach ", counted(reach_, "position"),
                             earlier ? " back" : " on", " (", amount(static_cast<double>(largest_)),
                             " ", of, "; by operand: ", operands, ")");
  if (shared_tokens_ > 0 && reach_outside_ > 0) {
    words += concat("; beyond the block of ", shared_tokens_, " tokens at most ",
                    amount(static_cast<double>(largest_outside_)));
  }
  return words;
}

std::string LeakTrace::cause() const {
  if (!found()) return "";
  const char* const size = largest_ >= kLargeChange ? "codes are clamped or flushed"
                                                    : "codes are rounded to another step";
  if (const int64_t distance = constant_reach(); distance > 0 && distance <= kShortReach) {
    return concat("a mask that is off by ", counted(distance, "token"));
  }
  if (reach_ <= kShortReach && group() == 0) {
    return concat("a mask that is off by ", counted(reach_, "token"), " at the edge of a tile");
  }
  if (const int64_t tokens = group(); tokens > 0 && tokens < rows_) {
    return concat("a scale shared by ", tokens, " tokens: ", size);
  }
  if (reach_outside_ > 0 && largest_outside_ <= kRoundingChange && spans_everything_) {
    return "a scale taken from the whole document that only moves rounding: the prescale of a "
           "narrow accumulator, or power-of-two scales";
  }
  if (spans_everything_ || group() > 0) return concat("a scale shared by the whole tensor: ", size);
  return concat("a scale shared by more than 128 tokens, or a mask that is too wide: ", size);
}

}  // namespace flamia::audit
