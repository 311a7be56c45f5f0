// Statistics of real scores.

#include "pcast/score_statistics.h"

#include <algorithm>
#include <cmath>

#include "base/bits.h"
#include "numerics/online_softmax.h"
#include "pcast/normal.h"

namespace flamia::pcast {

namespace {

int64_t visible_keys(const ScoreRows& scores, int64_t row) {
  return scores.visible == nullptr ? scores.keys : scores.visible[row];
}

double natural(const ScoreRows& scores, int64_t row, int64_t key) {
  const float raise = key < scores.sinks ? scores.sink_raise : 0.0f;
  return static_cast<double>(scores.scores[row * scores.stride + key] + raise) * kLn2Double;
}

double mean_of_others(const ScoreRows& scores, int64_t row) {
  const int64_t keys = visible_keys(scores, row);
  double sum = 0;
  for (int64_t key = scores.sinks; key < keys; ++key) sum += natural(scores, row, key);
  return sum / static_cast<double>(keys - scores.sinks);
}

}  // namespace

RowStatistics describe_row(const ScoreRows& scores, int64_t row) {
  const int64_t keys = visible_keys(scores, row);
  const double mean = mean_of_others(scores, row);
  RowStatistics result;
  result.sink_gap = -INFINITY;
  result.other_top_gap = -INFINITY;
  double squares = 0;
  for (int64_t key = 0; key < keys; ++key) {
    const double off = natural(scores, row, key) - mean;
    double& top = key < scores.sinks ? result.sink_gap : result.other_top_gap;
    top = larger(top, off);
    if (key >= scores.sinks) squares += off * off;
  }
  result.deviation = std::sqrt(squares / static_cast<double>(keys - scores.sinks));
  return result;
}

double zeroed_fraction_of_row(double gap, double deviation, double scale) {
  const double above = gap - underflow_depth(scale);
  if (deviation > 0) return normal_cdf(above / deviation);
  return above > 0 ? 1.0 : 0.0;
}

ScoreHistogram::ScoreHistogram() : bins_(static_cast<size_t>(2 * kReach * kBinsPerUnit)) {}

void ScoreHistogram::add(const ScoreRows& scores, int64_t row) {
  const double mean = mean_of_others(scores, row);
  const double last = static_cast<double>(bins_.size() - 1);
  for (int64_t key = 0; key < visible_keys(scores, row); ++key) {
    const double bin = std::floor((natural(scores, row, key) - mean + kReach) * kBinsPerUnit);
    ++bins_[static_cast<size_t>(std::clamp(bin, 0.0, last))];
    ++count_;
  }
}

void ScoreHistogram::merge(const ScoreHistogram& other) {
  for (size_t i = 0; i < bins_.size(); ++i) bins_[i] += other.bins_[i];
  count_ += other.count_;
}

double ScoreHistogram::quantile(double fraction) const {
  const double wanted = fraction * static_cast<double>(count_);
  int64_t below = 0;
  size_t bin = 0;
  for (; bin + 1 < bins_.size(); ++bin) {
    below += bins_[bin];
    if (static_cast<double>(below) >= wanted) break;
  }
  return (static_cast<double>(bin) + 0.5) / kBinsPerUnit - kReach;
}

std::vector<int64_t> ScoreHistogram::units() const {
  std::vector<int64_t> result(static_cast<size_t>(2 * kReach));
  for (size_t i = 0; i < bins_.size(); ++i) result[i / kBinsPerUnit] += bins_[i];
  return result;
}

double quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  const double at = fraction * static_cast<double>(values.size() - 1);
  const size_t low = static_cast<size_t>(at);
  const size_t high = smaller(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

}  // namespace flamia::pcast
