// Folded powers of two: clamps, exact factors, and the rule of the row sum.
// Depends on: GoogleTest only.
#include "numerics/key_fold.h"

#include <gtest/gtest.h>

#include <cmath>

namespace flamia::test {
namespace {

TEST(KeyFold, IsTheDifferenceOfExponentsWithinTheRange) {
  EXPECT_EQ(fold_exponent(-10, -4), -6);
  EXPECT_EQ(fold_exponent(5, 5), 0);
  EXPECT_EQ(fold_exponent(7, 5), 2);
}

TEST(KeyFold, AllZeroKeyNeverGivesAFactorOfZero) {
  for (int reference = -127; reference <= 127; ++reference) {
    const int fold = fold_exponent(-127, reference);
    EXPECT_GE(fold, kMinFold);
    EXPECT_GT(fold_factor(fold), 0.0f);
    EXPECT_TRUE(std::isfinite(1.0f / fold_factor(fold)));
  }
}

TEST(KeyFold, FactorIsExactForEveryFold) {
  for (int fold = kMinFold; fold <= kMaxFold; ++fold) {
    EXPECT_EQ(fold_factor(fold), std::ldexp(1.0f, fold));
  }
}

TEST(KeyFold, RowSumKeepsDecodedProbabilitiesDownToFourBits) {
  EXPECT_TRUE(fold_keeps_row_sum(3));
  EXPECT_TRUE(fold_keeps_row_sum(-4));
  EXPECT_FALSE(fold_keeps_row_sum(-5));
  EXPECT_FALSE(fold_keeps_row_sum(kMinFold));
}

}  // namespace
}  // namespace flamia::test
