// The pinned order of sums over channels.
// Depends on: GoogleTest only.
#include "numerics/tree_sum.h"

#include <gtest/gtest.h>

namespace flamia::test {
namespace {

TEST(TreeSum, AddsHalvesFirst) {
  float terms[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(tree_sum(terms, 8), 36.0f);
  EXPECT_EQ(terms[1], 20.0f);  // (2 + 6) + (4 + 8)
  float one[1] = {5};
  EXPECT_EQ(tree_sum(one, 1), 5.0f);
  // ((t0 + t4) + (t2 + t6)) + ...: a large pair cancels before small terms are lost.
  float cancelling[8] = {0x1p30f, 1, 1, 1, -0x1p30f, 1, 1, 1};
  EXPECT_EQ(tree_sum(cancelling, 8), 6.0f);
}

}  // namespace
}  // namespace flamia::test
