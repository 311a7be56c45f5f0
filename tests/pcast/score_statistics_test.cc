// Gaps and quantiles of rows that can be worked out by hand.
#include "pcast/score_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace flamia::pcast {
namespace {

// Scores in base 2 of one row, given in natural units.
struct Row {
  explicit Row(const std::vector<double>& natural, int64_t sinks) {
    for (const double value : natural) values.push_back(static_cast<float>(value / std::log(2.0)));
    rows.scores = values.data();
    rows.stride = static_cast<int64_t>(values.size());
    rows.rows = 1;
    rows.keys = rows.stride;
    rows.sinks = sinks;
  }
  std::vector<float> values;
  ScoreRows rows;
};

TEST(DescribeRow, MeasuresGapsFromTheMeanOfTheOthers) {
  const Row row({9, 3, 1, 2, 3}, 2);
  const RowStatistics result = describe_row(row.rows, 0);
  EXPECT_NEAR(result.sink_gap, 7, 1e-5);
  EXPECT_NEAR(result.other_top_gap, 1, 1e-5);
  EXPECT_NEAR(result.deviation, std::sqrt(2.0 / 3.0), 1e-5);
}

TEST(ZeroedFractionOfRow, IsAStepWithoutSpread) {
  EXPECT_EQ(zeroed_fraction_of_row(7, 0, 1), 1);
  EXPECT_EQ(zeroed_fraction_of_row(6, 0, 1), 0);
  EXPECT_NEAR(zeroed_fraction_of_row(10 * std::log(2.0), 2, 1), 0.5, 1e-12);
}

TEST(ScoreHistogram, FindsQuantilesAndKeepsOutliers) {
  const Row row({0, -1, 1, -1000, 1000}, 0);
  ScoreHistogram histogram;
  histogram.add(row.rows, 0);
  EXPECT_EQ(histogram.count(), 5);
  EXPECT_NEAR(histogram.quantile(0.5), 0.0, 0.13);
  const std::vector<int64_t> units = histogram.units();
  EXPECT_EQ(units.front(), 1);
  EXPECT_EQ(units.back(), 1);
  ScoreHistogram twice = histogram;
  twice.merge(histogram);
  EXPECT_EQ(twice.count(), 10);
}

TEST(Quantile, Interpolates) {
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({1, 2}, 0.25), 1.25);
  EXPECT_EQ(quantile({5}, 0.95), 5);
}

}  // namespace
}  // namespace flamia::pcast
