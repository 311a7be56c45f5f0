// Instances: functions of their seed, nested in length; the paper's effects on a few of them.
#include "pcast/sink_instance.h"

#include <gtest/gtest.h>

#include "pcast/published.h"

namespace flamia::pcast {
namespace {

TEST(SinkInstance, IsAPrefixOfTheLongerOneWithItsSeed) {
  const SinkInstance brief({100, 4, 32}, 11);
  const SinkInstance longer({300, 4, 32}, 11);
  const ScoreRows a = brief.scores(0, 0), b = longer.scores(0, 0);
  for (int64_t r = 0; r < 4; ++r) {
    for (int64_t j = 0; j < 100; ++j) {
      ASSERT_EQ(a.scores[r * a.stride + j], b.scores[r * b.stride + j]);
    }
  }
  for (int64_t i = 0; i < 100 * 32; ++i) ASSERT_EQ(brief.v()[i], longer.v()[i]);
}

TEST(SinkInstance, HasScoresOfUnitVariance) {
  const SinkInstance instance({4096, 32, 128}, 1);
  const ScoreRows rows = instance.scores(0, 0);
  double squares = 0;
  for (int64_t r = 0; r < 32; ++r) {
    for (int64_t j = 0; j < 4096; ++j) {
      const double natural =
          static_cast<double>(rows.scores[r * rows.stride + j]) * 0.6931471805599453;
      squares += natural * natural / (32 * 4096);
    }
  }
  // |q|^2 / 128 of 32 rows has a standard error of sqrt(2 / 128 / 32) = 0.022.
  EXPECT_NEAR(squares, 1.0, 0.1);
}

TEST(SinkCase, ShowsTheCollapseAndBothCures) {
  const SinkInstance instance({4096, 32, 128}, 0);
  const SinkCase sinks(instance, 4, 7);
  KernelFigures figures[kConfigurationCount];
  for (int k = 0; k < kConfigurationCount; ++k) figures[k] = sinks.run(kConfigurations[k].kernel);
  EXPECT_NEAR(sinks.other_mass(), 0.517, 0.1);
  EXPECT_NEAR(figures[0].zeroed_fraction, 0.82, 0.08);
  EXPECT_GT(figures[0].mse, 2 * figures[4].mse);
  EXPECT_LT(figures[1].mse, 1.3 * figures[4].mse);
  EXPECT_NEAR(figures[3].mse / figures[4].mse, 1, 0.05);
  EXPECT_LT(figures[4].zeroed_fraction, 1e-3);
  EXPECT_LT(figures[0].lost_mass, sinks.other_mass() * figures[0].zeroed_fraction);
}

}  // namespace
}  // namespace flamia::pcast
