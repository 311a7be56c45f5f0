// Where changes of one output tensor lie, seen from the token that caused them, and what that
// pattern is the mark of.
// Used by: the causal leak probe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "audit/perturbation.h"

namespace flamia::audit {

/// Changes of rows that must not depend on the perturbed token: earlier rows for O, LSE and dQ,
/// later ones for dK and dV.
class LeakTrace {
 public:
  /// shared_tokens: size of the aligned blocks inside which changes are promised; 0: none. rows: of
  /// the document.
  LeakTrace(int64_t shared_tokens, int64_t rows) : shared_tokens_(shared_tokens), rows_(rows) {}

  void add(const Perturbation& perturbation, int64_t row, float change);

  bool found() const { return reach_ > 0; }
  int64_t reach() const { return reach_; }
  float largest() const { return largest_; }
  /// Of changes that the block does not promise.
  int64_t reach_outside() const { return reach_outside_; }
  float largest_outside() const { return largest_outside_; }
  /// The largest change, outside the promised block if there is one.
  const Perturbation& worst() const { return worst_; }
  /// Largest change by operand.
  const std::map<Operand, float>& by_operand() const { return by_operand_; }

  /// Whether some perturbed token changed the farthest row that its direction has.
  bool spans_everything() const { return spans_everything_; }
  /// Tokens of the smallest aligned group that holds every cause and effect; 0: none.
  int64_t group() const;
  /// d, if every perturbed token reaches exactly d rows, whatever its place in a group; else 0.
  int64_t constant_reach() const;

  /// "changes of dq reach 31 positions back (3.1e-04 of its largest entry, seen in k)"
  std::string words(const OutputView& view, bool earlier) const;
  /// What such a pattern is the mark of.
  std::string cause() const;
  void note_span(int64_t token, int64_t farthest_row);

 private:
  static constexpr int64_t kGroups[] = {16, 32, 64, 128};

  int64_t shared_tokens_;
  int64_t rows_;
  int64_t reach_ = 0;
  float largest_ = 0;
  int64_t reach_outside_ = 0;
  float largest_outside_ = 0;
  Perturbation worst_;
  std::map<Operand, float> by_operand_;
  std::map<int64_t, int64_t> reach_of_token_;
  bool in_group_[4] = {true, true, true, true};
  bool spans_everything_ = false;
};

}  // namespace flamia::audit
