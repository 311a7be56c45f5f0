// Maxima of normal samples against known values; the t-test against a worked example.
#include "pcast/normal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace flamia::pcast {
namespace {

TEST(ExpectedMaximum, MatchesExactValues) {
  // 0, 1/sqrt(pi), 3/(2 sqrt(pi)); 1.02938 for four (order statistics tables).
  EXPECT_NEAR(expected_maximum(1), 0.0, 1e-12);
  EXPECT_NEAR(expected_maximum(2), 1.0 / std::sqrt(M_PI), 1e-10);
  EXPECT_NEAR(expected_maximum(3), 1.5 / std::sqrt(M_PI), 1e-10);
  EXPECT_NEAR(expected_maximum(4), 1.029375, 1e-6);
}

TEST(ExpectedMaximum, StaysBelowTheAsymptoticFormula) {
  for (const double n : {4.0, 100.0, 1e4, 1e6}) {
    EXPECT_LT(expected_maximum(n), std::sqrt(2 * std::log(n))) << n;
  }
}

TEST(LogNormalCdf, IsContinuousWhereTheFormulaChanges) {
  EXPECT_NEAR(log_normal_cdf(-30.001), log_normal_cdf(-29.999), 0.07);
  EXPECT_NEAR(log_normal_cdf(0.0), std::log(0.5), 1e-15);
  EXPECT_NEAR(log_normal_cdf(9.0), -normal_cdf(-9.0), 1e-30);
}

TEST(PairedTest, MatchesAWorkedExample) {
  const std::vector<double> a = {1, 2, 3, 4, 6};
  const std::vector<double> b = {0, 0, 1, 3, 2};
  const PairedTest test = paired_test(a, b);
  // Differences 1 2 2 1 4: mean 2, variance 1.5, t = 2 / sqrt(1.5 / 5).
  EXPECT_NEAR(test.mean_difference, 2.0, 1e-12);
  EXPECT_NEAR(test.t, 3.651483716701107, 1e-10);
  EXPECT_NEAR(test.p_value, 0.02174, 1e-5);
}

TEST(PairedTest, GivesNoSignificanceWithoutDifference) {
  const std::vector<double> a = {1, 2};
  EXPECT_EQ(paired_test(a, a).t, 0);
  EXPECT_EQ(paired_test(a, a).p_value, 1);
}

}  // namespace
}  // namespace flamia::pcast
