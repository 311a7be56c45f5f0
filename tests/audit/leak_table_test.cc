// The leak table's protocol and its verdicts.
#include "audit/leak_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace flamia::audit {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

LeakRow row_with(LeakColumn column, double change) {
  LeakRow row;
  const int index = static_cast<int>(column);
  row.cells[index][figure_factor(column)] = {change, Operand::kV, 5};
  row.most[index] = change;
  return row;
}

TEST(LeakTable, ZeroMeansExactlyZero) {
  const LeakFigures zero = {0, 0, 0, 0, 0, 0};
  EXPECT_EQ(agreement(LeakRow(), zero, LeakColumn::kOTile), Agreement::kAgrees);
  LeakRow row;
  row.most[static_cast<int>(LeakColumn::kOTile)] = 1e-40;  // under a factor without a figure
  EXPECT_EQ(agreement(row, zero, LeakColumn::kOTile), Agreement::kLeaks);
}

TEST(LeakTable, OtherFiguresAgreeWithinAFactorOfTen) {
  const LeakFigures reference = {1e-3, kNone, 0, 0, 0, 0};
  const auto of = [&](double change) {
    return agreement(row_with(LeakColumn::kOBlock, change), reference, LeakColumn::kOBlock);
  };
  EXPECT_EQ(of(9e-3), Agreement::kAgrees);
  EXPECT_EQ(of(1.1e-2), Agreement::kLarger);
  EXPECT_EQ(of(9e-5), Agreement::kSmaller);
  EXPECT_EQ(agreement(LeakRow(), reference, LeakColumn::kOTile), Agreement::kNoReference);
}

TEST(LeakTable, TakesTheMedianOfFiguresAndTheLargestOfAll) {
  std::vector<LeakRow> rows;
  for (const double change : {3.0, 1.0, 2.0}) {
    rows.push_back(row_with(LeakColumn::kDqBlock, change));
  }
  const LeakRow combined = combine(rows);
  EXPECT_EQ(combined.measured(LeakColumn::kDqBlock), 2.0);
  EXPECT_EQ(combined.largest(LeakColumn::kDqBlock), 3.0);
  EXPECT_EQ(combine({}).largest(LeakColumn::kDqBlock), 0.0);
}

TEST(LeakTable, PerturbsEveryOffsetOfOneBlock) {
  std::vector<int> seen(32, 0);
  for (const int64_t token : leak_tokens(Operand::kV, 1)) {
    if (token >= 192 && token < 224) ++seen[static_cast<size_t>(token - 192)];
  }
  for (const int count : seen) EXPECT_EQ(count, 1);
}

TEST(LeakTable, InputsAreAFunctionOfTheSeed) {
  EXPECT_EQ(heavy_tailed_inputs(7).v, heavy_tailed_inputs(7).v);
  EXPECT_NE(heavy_tailed_inputs(7).v, heavy_tailed_inputs(8).v);
}

TEST(LeakTable, RefusesOtherInputs) {
  AuditInputs inputs = heavy_tailed_inputs(0);
  inputs.causal = false;
  LeakRow row;
  EXPECT_EQ(measure_leak({}, inputs, &row).message(),
            "measure_leak: inputs must be one causal document of 256 tokens with d_o; got 256 "
            "tokens");
}

TEST(LeakTable, UnquantizedAttentionLeaksNothing) {
  LeakRow row;
  ASSERT_TRUE(measure_leak(exact_scheme(), heavy_tailed_inputs(0), &row).ok());
  for (const LeakColumn column : kLeakColumns) EXPECT_EQ(row.largest(column), 0.0);
}

TEST(LeakTable, OneExponentOfDsPerTileReachesTheTile) {
  const Offender* offender = nullptr;
  ASSERT_TRUE(find_offender("ds-tile", &offender).ok());
  LeakRow row;
  ASSERT_TRUE(measure_leak(offender->scheme, heavy_tailed_inputs(0), &row).ok());
  EXPECT_GT(row.largest(LeakColumn::kDqTile), 0.0);
  EXPECT_EQ(row.largest(LeakColumn::kDqEarlier), 0.0);
  EXPECT_EQ(row.largest(LeakColumn::kOBlock), 0.0);
}

}  // namespace
}  // namespace flamia::audit
