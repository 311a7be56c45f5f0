// The E4M3 line: published steps, the endpoint, coverage, exactness of scaling.
#include "pcast/quantization_step.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pcast/published.h"

namespace flamia::pcast {
namespace {

TEST(QuantizationStep, MatchesAppendixA) {
  EXPECT_EQ(positive_values(), 126);
  for (const PublishedStep& paper : kSteps) {
    const double tolerance = paper.unit / 2;
    EXPECT_NEAR(quantization_step(paper.scale), paper.step, tolerance) << paper.scale;
  }
}

TEST(QuantizationStep, DoublesAtPowersOfTwoIfTheEndpointCounts) {
  for (double scale = 1; scale <= 256; scale *= 2) {
    EXPECT_EQ(quantization_step(scale), 0.0625);
    EXPECT_EQ(quantization_step(scale, Endpoint::kIncluded), 0.125);
  }
  EXPECT_EQ(quantization_step(448, Endpoint::kIncluded), quantization_step(448));
}

TEST(QuantizationStep, IsTwiceTheLargestErrorOfTheCast) {
  for (const float scale : {1.0f, 3.0f, 64.0f, 256.0f, 300.0f, 448.0f, 512.0f}) {
    EXPECT_NEAR(2 * largest_cast_error(scale), quantization_step(static_cast<double>(scale)), 1e-5)
        << scale;
  }
}

TEST(QuantizationStep, ReachesTheEnvelopeAtPowersOfTwoOnly) {
  EXPECT_EQ(scales_at_or_below_envelope(), 0);
}

TEST(UnderflowRule, HoldsForEveryValueButTheTie) {
  const UnderflowCheck check = check_underflow_rule();
  EXPECT_EQ(check.values, 1 << 25);
  EXPECT_EQ(check.contradictions, 0);
  EXPECT_TRUE(check.tie_is_zeroed);
}

TEST(Scaling, IsExactForPowersOfTwoOnly) {
  const ExactnessCheck exact = check_scaling(256.0f);
  EXPECT_EQ(exact.rounded, 0);
  EXPECT_EQ(exact.not_undone, 0);
  EXPECT_GT(check_scaling(448.0f).rounded, 0);
}

TEST(Coverage, MatchesSection53) {
  EXPECT_EQ(coverage(256).normal, std::ldexp(1.0, -14));
  EXPECT_EQ(coverage(1).zeroed, std::ldexp(1.0, -10));
  EXPECT_LT(coverage(448).normal, coverage(256).normal);
}

}  // namespace
}  // namespace flamia::pcast
