// Which figures give which verdict, and what each kernel is told.
#include "pcast/verdict.h"

#include <gtest/gtest.h>

#include "pcast/known_kernels.h"

namespace flamia::pcast {
namespace {

TEST(Verdict, FollowsProbabilityNotKeys) {
  EXPECT_EQ(judge({0.5, 1e-4, 0, 1}), Verdict::kHarmlessZeros);
  EXPECT_EQ(judge({0.5, 0.05, 0, 1}), Verdict::kCollapse);
  EXPECT_EQ(judge({0, 0, 0, 2}), Verdict::kCollapse);
  EXPECT_EQ(judge({0, 0, 0, 1.07}), Verdict::kLessPrecise);
  EXPECT_EQ(judge({0, 0, 0, 1}), Verdict::kSafe);
  EXPECT_EQ(judge({0, 0, 0.1, 1}), Verdict::kSaturates);
}

TEST(Advice, NamesTheChangeThatHelps) {
  EXPECT_EQ(advice(Verdict::kCollapse, {KeyOrder::kForward, 1.0f}),
            "use S = 256, or visit key blocks in reverse order");
  EXPECT_EQ(advice(Verdict::kCollapse, {KeyOrder::kReverse, 1.0f}), "use S = 256");
  EXPECT_EQ(advice(Verdict::kCollapse, {KeyOrder::kForward, 256.0f}),
            "visit key blocks in reverse order");
  EXPECT_EQ(advice(Verdict::kLessPrecise, {KeyOrder::kReverse, 448.0f}), "use S = 256");
  EXPECT_EQ(advice(Verdict::kLessPrecise, {KeyOrder::kReverse, 16.0f, 128, 4.0f}),
            "use S = 256 with tau = 0");
  EXPECT_EQ(advice(Verdict::kSafe, {}), "no change");
}

TEST(KnownKernels, BeginWithReverseOrderAnd256) {
  // Reports compare the others with this row.
  const CastKernel& first = known_kernels()[0].kernel;
  EXPECT_EQ(first.order, KeyOrder::kReverse);
  EXPECT_EQ(first.scale, 256.0f);
}

}  // namespace
}  // namespace flamia::pcast
