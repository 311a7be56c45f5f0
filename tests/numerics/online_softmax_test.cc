// Row statistics over tiles, against the sums they stand for.
// Depends on: std::exp, std::log as reference.
#include "numerics/online_softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace flamia::test {
namespace {

constexpr float kNan = bits_float(kCanonicalNanBits);

TEST(OnlineSoftmax, ConstantsAreRoundedOnce) {
  EXPECT_EQ(kLog2EDouble, std::log2(std::exp(1.0)));
  EXPECT_EQ(kLn2Double, std::log(2.0));
  EXPECT_EQ(kLog2E, static_cast<float>(kLog2EDouble));
  EXPECT_EQ(kLn2, static_cast<float>(kLn2Double));
}

TEST(OnlineSoftmax, MaximumIsRenewedOnlyBeyondTau) {
  EXPECT_EQ(next_row_max(1.0f, 5.0f, 4.0f), 1.0f);  // exceeds by tau exactly: kept
  EXPECT_EQ(next_row_max(1.0f, 5.000001f, 4.0f), 5.000001f);
  EXPECT_EQ(next_row_max(1.0f, 1.000001f, 0.0f), 1.000001f);
  EXPECT_EQ(next_row_max(1.0f, 0.0f, 0.0f), 1.0f);
}

TEST(OnlineSoftmax, FirstKeySetsTheMaximum) {
  EXPECT_EQ(next_row_max(-kFloatInfinity, -300.0f, 8.0f), -300.0f);
  EXPECT_EQ(next_row_max(-kFloatInfinity, -kFloatInfinity, 8.0f), -kFloatInfinity);
  EXPECT_EQ(next_row_max(-300.0f, -kFloatInfinity, 8.0f), -300.0f);
}

TEST(OnlineSoftmax, NanTileMaximumIsIgnored) { EXPECT_EQ(next_row_max(1.0f, kNan, 0.0f), 1.0f); }

TEST(OnlineSoftmax, RescaleFactorIsOneUnlessTheMaximumMoves) {
  EXPECT_EQ(rescale_factor(3.0f, 3.0f), 1.0f);
  EXPECT_EQ(rescale_factor(-kFloatInfinity, -kFloatInfinity), 1.0f);
  EXPECT_EQ(rescale_factor(-kFloatInfinity, 2.0f), 0.0f);
  EXPECT_EQ(rescale_factor(1.0f, 4.0f), 0.125f);
  EXPECT_EQ(rescale_factor(-1000.0f, 1000.0f), 0.0f);
}

TEST(OnlineSoftmax, LogSumExpOfNoKeysIsMinusInfinity) {
  EXPECT_EQ(log_sum_exp(-kFloatInfinity, 0.0f), kEmptyLse);
  EXPECT_EQ(log_sum_exp(0.0f, 0.0f), kEmptyLse);
}

TEST(OnlineSoftmax, SentinelMakesEveryProbabilityZero) {
  const float lse = lse_to_log2(kEmptyLse);
  EXPECT_EQ(lse, kInvalidRowLse);
  EXPECT_EQ(exp2_exact(100.0f - lse), 0.0f);
  EXPECT_EQ(exp2_exact(-kFloatInfinity - lse), 0.0f);
}

TEST(OnlineSoftmax, LseReturnsToBaseTwo) {
  for (float lse = -200.0f; lse < 200.0f; lse += 1.37f) {
    EXPECT_NEAR(lse_to_log2(lse), lse * kLog2EDouble, 1e-7 * std::fabs(lse * kLog2EDouble));
  }
  EXPECT_TRUE(std::isnan(lse_to_log2(kNan)));
}

TEST(OnlineSoftmax, ScoreMultiplierIsRoundedOnce) {
  for (const int dim : {64, 128}) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
    EXPECT_EQ(score_multiplier(scale), static_cast<float>(double{scale} * kLog2EDouble));
  }
}

/// LSE of natural scores through tiles of 16 with threshold tau.
float tiled_lse(const std::vector<float>& scores, float tau) {
  float m = -kFloatInfinity, l = 0.0f;
  for (size_t first = 0; first < scores.size(); first += 16) {
    float tile_max = -kFloatInfinity;
    for (size_t j = first; j < first + 16; ++j) tile_max = max_number(tile_max, scores[j] * kLog2E);
    const float next = next_row_max(m, tile_max, tau);
    l *= rescale_factor(m, next);
    m = next;
    for (size_t j = first; j < first + 16; ++j) {
      if (m != -kFloatInfinity) l += exp2_exact(scores[j] * kLog2E - m);
    }
  }
  return log_sum_exp(m, l);
}

TEST(OnlineSoftmax, TilesGiveTheLogSumExpForEveryTau) {
  std::mt19937 generator(5);
  std::normal_distribution<float> normal(0.0f, 6.0f);
  for (int round = 0; round < 50; ++round) {
    std::vector<float> scores(256);
    for (float& score : scores) score = normal(generator);
    for (int j = 0; j < 16; ++j) scores[static_cast<size_t>(j)] = -kFloatInfinity;  // masked tile
    double sum = 0.0;
    for (const float score : scores) sum += std::exp(double{score});
    for (const float tau : {0.0f, 4.0f, 8.0f}) {
      // 256 terms of 1 ulp each and rounded sums, then the rounding of the result (|lse| < 32).
      EXPECT_NEAR(tiled_lse(scores, tau), std::log(sum), 3e-6 + 2e-6) << tau;
    }
  }
}

}  // namespace
}  // namespace flamia::test
