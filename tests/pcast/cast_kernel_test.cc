// Algorithm 1: against softmax written out, with masks, sinks, tau and saturation.
#include "pcast/cast_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "numerics/e4m3.h"
#include "pcast/sink_instance.h"

namespace flamia::pcast {
namespace {

// A few rows with scores of their own.
struct Case {
  explicit Case(std::vector<float> values) : scores(std::move(values)) {
    rows.scores = scores.data();
    rows.stride = static_cast<int64_t>(scores.size());
    rows.rows = 1;
    rows.keys = rows.stride;
  }
  std::vector<float> scores;
  ScoreRows rows;
};

TEST(CastKernel, ZeroesExactlyWhatLiesTenBinaryOrdersBelowTheMaximum) {
  Case one({0.0f, -9.9f, -10.0f, -10.1f, -17.9f, -18.1f});
  CastRow row;
  run_cast_kernel({KeyOrder::kForward, 1.0f}, one.rows, nullptr, 0, nullptr, &row);
  EXPECT_EQ(row.zeroed, 4);  // the tie at -10 goes to zero
  run_cast_kernel({KeyOrder::kForward, 256.0f}, one.rows, nullptr, 0, nullptr, &row);
  EXPECT_EQ(row.zeroed, 1);
  EXPECT_EQ(row.others, 6);
  EXPECT_EQ(row.saturated, 0);
}

TEST(CastKernel, KnowsOnlyTheMaximumOfTheBlocksBefore) {
  // Blocks of two: in reverse order the keys at -12 come before the maximum.
  Case one({0.0f, -1.0f, -12.0f, -12.5f});
  CastRow row;
  run_cast_kernel({KeyOrder::kForward, 1.0f, 2}, one.rows, nullptr, 0, nullptr, &row);
  EXPECT_EQ(row.zeroed, 2);
  run_cast_kernel({KeyOrder::kReverse, 1.0f, 2}, one.rows, nullptr, 0, nullptr, &row);
  EXPECT_EQ(row.zeroed, 0);
}

TEST(CastKernel, SumsProbabilitiesBeforeTheCast) {
  Case one({0.0f, -12.0f});
  CastRow row;
  run_cast_kernel({KeyOrder::kForward, 1.0f}, one.rows, nullptr, 0, nullptr, &row);
  EXPECT_EQ(row.row_sum, 1.0f + std::exp2(-12.0f));
  EXPECT_NEAR(row.lost_mass, std::exp2(-12.0) / (1 + std::exp2(-12.0)), 1e-12);
  CastKernel cast_sum = {KeyOrder::kForward, 1.0f};
  cast_sum.sum_cast_p = true;
  run_cast_kernel(cast_sum, one.rows, nullptr, 0, nullptr, &row);
  EXPECT_EQ(row.row_sum, 1.0f);
}

TEST(CastKernel, CountsClippedProbabilitiesAboveTheLargestCode) {
  Case one({0.0f, -0.1f, -3.0f});
  CastRow row;
  run_cast_kernel({KeyOrder::kForward, 512.0f}, one.rows, nullptr, 0, nullptr, &row);
  EXPECT_EQ(row.saturated, 2);
}

TEST(CastKernel, KeepsTheMaximumWithinTau) {
  // The second block exceeds the first maximum by 3 < tau: its P of 8 is cast, not rescaled.
  Case one({0.0f, -11.5f, 3.0f, 3.0f});
  CastRow row;
  CastKernel kernel = {KeyOrder::kForward, 1.0f, 2, 4.0f};
  run_cast_kernel(kernel, one.rows, nullptr, 0, nullptr, &row);
  EXPECT_EQ(row.row_sum, 1.0f + std::exp2(-11.5f) + 16.0f);
}

TEST(CastKernel, LeavesRowsWithoutKeysAtZero) {
  Case one({0.0f, 1.0f});
  const int64_t none = 0;
  one.rows.visible = &none;
  CastRow row;
  std::vector<float> o(16, 5.0f);
  const std::vector<float> v(32, 1.0f);
  run_cast_kernel({}, one.rows, v.data(), 16, o.data(), &row);
  EXPECT_EQ(row.others, 0);
  for (const float value : o) EXPECT_EQ(value, 0.0f);
}

TEST(CastKernel, ReproducesExactAttentionWherePIsRepresentable) {
  // Equal scores: P = 1 in every code, so the cast changes nothing.
  const InstanceShape shape = {100, 3, 16};
  const SinkInstance instance(shape, 7);
  const std::vector<float> flat(static_cast<size_t>(3 * 112), 0.5f);
  ScoreRows rows;
  rows.scores = flat.data();
  rows.stride = 112;
  rows.rows = 3;
  rows.keys = 100;
  const int64_t visible[] = {1, 64, 100};
  rows.visible = visible;
  for (const KeyOrder order : {KeyOrder::kForward, KeyOrder::kReverse}) {
    std::vector<float> o(48);
    std::vector<double> exact(48), mass(3);
    std::vector<CastRow> out(3);
    run_cast_kernel({order, 256.0f}, rows, instance.v(), 16, o.data(), out.data());
    run_exact(rows, instance.v(), 16, exact.data(), mass.data());
    // FP32 sums of at most 100 terms of size 5.
    for (size_t i = 0; i < o.size(); ++i) EXPECT_NEAR(o[i], exact[i], 100 * 5 * 6e-8);
    EXPECT_EQ(out[2].row_sum, 100.0f);
  }
}

TEST(RunExact, MatchesSoftmaxWrittenOut) {
  const SinkInstance instance({70, 2, 16}, 3);
  const ScoreRows rows = instance.scores(4, 5.0);
  std::vector<double> exact(32), mass(2);
  run_exact(rows, instance.v(), 16, exact.data(), mass.data());
  for (int64_t r = 0; r < 2; ++r) {
    double sum = 0, others = 0;
    std::vector<double> o(16);
    for (int64_t j = 0; j < 70; ++j) {
      const float raise = j < 4 ? rows.sink_raise : 0.0f;
      const double p = std::exp2(static_cast<double>(rows.scores[r * rows.stride + j] + raise));
      sum += p;
      if (j >= 4) others += p;
      for (int64_t c = 0; c < 16; ++c) o[static_cast<size_t>(c)] += p * instance.v()[j * 16 + c];
    }
    EXPECT_NEAR(mass[static_cast<size_t>(r)], others / sum, 1e-12);
    for (int64_t c = 0; c < 16; ++c) {
      EXPECT_NEAR(exact[static_cast<size_t>(r * 16 + c)], o[static_cast<size_t>(c)] / sum, 1e-6);
    }
  }
}

}  // namespace
}  // namespace flamia::pcast
