// The closed forms against the paper's own numbers.
#include "pcast/closed_form.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pcast/normal.h"

namespace flamia::pcast {
namespace {

TEST(UnderflowDepth, IsTenLnTwoPlusLnS) {
  EXPECT_NEAR(underflow_depth(1), 6.9315, 1e-4);
  EXPECT_NEAR(underflow_depth(256), 12.4766, 1e-4);
}

TEST(ZeroedFraction, IsOneHalfAtTheCriticalSink) {
  for (const double scale : {1.0, 256.0, 448.0}) {
    EXPECT_NEAR(zeroed_fraction(critical_sink(scale, 4), scale, 4), 0.5, 1e-12);
  }
}

TEST(ZeroedFraction, WithSpreadMatchesSumOfTwoNormalTails) {
  // One sink among few others: M - s is N(sink, 2), so the fraction is Phi((sink - depth)/sqrt 2).
  CastProblem problem;
  problem.sinks = 1;
  problem.sink = 7;
  problem.keys = 64;
  problem.block = 64;
  const double expected = normal_cdf((7 - underflow_depth(1)) / std::sqrt(2.0));
  EXPECT_NEAR(zeroed_fraction_exact(problem), expected, 2e-3);
}

TEST(ZeroedFraction, IsHigherWithSpreadInTheLowerTail) {
  CastProblem problem;
  problem.sink = 9;
  problem.scale = 256;
  EXPECT_GT(zeroed_fraction_exact(problem), zeroed_fraction(9, 256, 4));
}

TEST(ZeroedFraction, VanishesInReverseOrderWithTheScale) {
  CastProblem problem;
  problem.order = KeyOrder::kReverse;
  problem.scale = 256;
  EXPECT_LT(zeroed_fraction_exact(problem), 1e-5);
  // The sinks' own block comes last and sees their maximum: 60 of 4092 keys.
  problem.sink = 30;
  EXPECT_NEAR(zeroed_fraction_exact(problem), 60.0 / 4092.0, 1e-6);
}

TEST(ZeroedFraction, StaysAFractionAtEveryLength) {
  for (const KeyOrder order : {KeyOrder::kForward, KeyOrder::kReverse}) {
    for (const int64_t keys : {5, 64, 65, 1000, 100000}) {
      CastProblem problem;
      problem.order = order;
      problem.keys = keys;
      problem.sink = 40;
      const double fraction = zeroed_fraction_exact(problem);
      EXPECT_GE(fraction, 0) << keys;
      EXPECT_LE(fraction, 1 + 1e-9) << keys;
      if (order == KeyOrder::kForward) {
        EXPECT_NEAR(fraction, 1, 1e-9) << keys;
      }
    }
  }
}

TEST(MassAtRisk, IsNearTable1) {
  CastProblem problem;
  problem.sink = 7;
  EXPECT_NEAR(mass_at_risk(problem), 0.517, 0.05);
  EXPECT_LT(lost_mass(problem), mass_at_risk(problem) * zeroed_fraction(7, 1, 4));
}

TEST(ReverseUnderflowBound, StaysBelowTheBoundOfTheorem4) {
  EXPECT_LT(reverse_underflow_bound(256, 1e6), 1e-12);
  EXPECT_NEAR(underflow_probability(5.3, 256) / 3.5e-13, 1, 0.05);  // the paper's arithmetic
}

}  // namespace
}  // namespace flamia::pcast
