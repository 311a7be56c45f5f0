// The form of refusals, alone and joined.
#include "base/refusals.h"

#include <gtest/gtest.h>

namespace flamia {
namespace {

TEST(Refusal, NamesArgumentRuleAndValue) {
  EXPECT_EQ(refusal("head_dim", "be 64 or 128", "96"), "head_dim must be 64 or 128; got 96");
}

TEST(Refusal, PutsTheHintInParentheses) {
  EXPECT_EQ(refusal("head_dim", "be 64 or 128", "96", "pad q, k, v to 128"),
            "head_dim must be 64 or 128; got 96 (pad q, k, v to 128)");
}

TEST(Refusals, AreASuccessWithoutReasons) { EXPECT_TRUE(Refusals().status("f").ok()); }

TEST(Refusals, JoinReasonsBehindTheFunction) {
  Refusals refusals;
  refusals.unsupported("a", "be b", "c");
  refusals.unsupported("d", "be e", "f", "g");
  EXPECT_EQ(refusals.count(), 2);
  EXPECT_EQ(refusals.status("h").message(), "h: a must be b; got c; d must be e; got f (g)");
  EXPECT_EQ(refusals.status("h").code(), StatusCode::kUnsupported);
}

TEST(Refusals, AreInvalidIfOneReasonIs) {
  Refusals refusals;
  refusals.unsupported("a", "be b", "c");
  refusals.invalid("a", "be b", "c");
  refusals.unsupported("a", "be b", "c");
  EXPECT_EQ(refusals.status("f").code(), StatusCode::kInvalidArgument);
}

TEST(Concat, PrintsValuesInTheirShortestExactForm) {
  EXPECT_EQ(concat("a", 1, " ", -2, " ", 0.1f, " ", 256.0f, " ", std::string("s")),
            "a1 -2 0.1 256 s");
}

}  // namespace
}  // namespace flamia
