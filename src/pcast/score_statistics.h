// How real scores are distributed: the gap of the sinks, the spread of the others.
// Paper: P-Cast 2.3, 3.1 (Delta), 7.4 (multi-sink patterns). Used by: recommend.
#pragma once

#include <cstdint>
#include <vector>

#include "pcast/cast_kernel.h"

namespace flamia::pcast {

/// One row of scores, natural units.
struct RowStatistics {
  double sink_gap = 0;       ///< largest sink less the mean of the others: Delta + delta_k
  double other_top_gap = 0;  ///< largest of the others less their mean
  double deviation = 0;      ///< of the others
};

/// The row must see more than `sinks` keys.
RowStatistics describe_row(const ScoreRows& scores, int64_t row);

/// Forward order, the sinks largest: Phi((gap - 10 ln 2 - ln S) / deviation). The gap is measured,
/// so delta_k is in it.
double zeroed_fraction_of_row(double gap, double deviation, double scale);

/// Counts of scores less the mean of their row's others.
class ScoreHistogram {
 public:
  static constexpr int kBinsPerUnit = 8;
  static constexpr int kReach = 64;  ///< values beyond are counted in the last bin

  ScoreHistogram();
  void add(const ScoreRows& scores, int64_t row);
  void merge(const ScoreHistogram& other);

  int64_t count() const { return count_; }
  /// Middle of the bin that holds this quantile; fraction in [0, 1].
  double quantile(double fraction) const;
  /// Counts in whole units [-kReach, kReach).
  std::vector<int64_t> units() const;

 private:
  std::vector<int64_t> bins_;
  int64_t count_ = 0;
};

/// Value at a fraction of the sorted values, interpolated; they may not be empty.
double quantile(std::vector<double> values, double fraction);

}  // namespace flamia::pcast
