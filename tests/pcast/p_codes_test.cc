// Codes of a 4-bit P by exact rounding, Mitchell-P and affine classifiers.
#include "pcast/p_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "numerics/e2m1.h"

namespace flamia::pcast {
namespace {

TEST(PCodes, LargestOfAGroupNeitherSaturatesNorSinksBelowHalf) {
  for (float x = -40; x <= 0; x += 0.01f) {
    const int32_t e = code_group_exponent(x);
    const float value = std::exp2(x - static_cast<float>(e));
    ASSERT_LE(value, kE2m1Max) << x;
    ASSERT_GT(value, kE2m1Max / 2) << x;
  }
}

TEST(PCodes, MitchellDiffersFromRoundingOnlyNearTies) {
  int different = 0, all = 0;
  for (float t = -6; t < 2.58f; t += 0.001f) {
    const int exact = p_code(CodeRule::kExact, t, 0);
    const int mitchell = p_code(CodeRule::kMitchell, t, 0);
    ASSERT_LE(std::abs(exact - mitchell), 1) << t;
    different += exact == mitchell ? 0 : 1;
    ++all;
  }
  EXPECT_LT(different, all / 25);
  EXPECT_GT(different, 0);
}

TEST(PCodes, ClassifiersRiseFromZero) {
  for (const CodeRule rule :
       {CodeRule::kDirectEnds, CodeRule::kDirectLeast, CodeRule::kDirectMostEqual}) {
    EXPECT_GT(affine_classifier(rule).slope, 0) << code_rule_name(rule);
    EXPECT_EQ(p_code(rule, -20, 0), 0) << code_rule_name(rule);
    // The least-squares line, flat because of the zeros, stops at 5.
    EXPECT_GE(p_code(rule, 2.58f, 0), 5) << code_rule_name(rule);
  }
  EXPECT_EQ(affine_classifier(CodeRule::kExact).slope, 0);
}

TEST(PCodes, MaskedKeysHaveCodeZero) {
  for (const CodeRule rule : kCodeRules) EXPECT_EQ(p_code(rule, -INFINITY, -3), 0);
  const std::vector<float> x(40, -INFINITY);
  std::vector<uint8_t> codes(40, 9);
  std::vector<int32_t> exponents(2);
  p_codes(CodeRule::kExact, x, codes, exponents);
  for (const uint8_t code : codes) EXPECT_EQ(code, 0);
}

TEST(PCodes, GroupsHaveExponentsOfTheirOwn) {
  std::vector<float> x(64, 0.0f);
  for (size_t j = 32; j < 64; ++j) x[j] = -10;
  std::vector<uint8_t> codes(64);
  std::vector<int32_t> exponents(2);
  p_codes(CodeRule::kExact, x, codes, exponents);
  EXPECT_EQ(exponents[0] - exponents[1], 10);
  EXPECT_EQ(codes[0], codes[63]);
}

TEST(CodeAgreement, CountsKeysWithAndWithoutZeros) {
  const std::vector<uint8_t> exact = {0, 0, 1, 2};
  const std::vector<uint8_t> other = {0, 1, 1, 3};
  CodeAgreement agreement;
  EXPECT_EQ(agreement.all_fraction(), 0);
  agreement.add(exact, other);
  EXPECT_EQ(agreement.all_fraction(), 0.5);
  EXPECT_EQ(agreement.nonzero_fraction(), 1.0 / 3);
}

}  // namespace
}  // namespace flamia::pcast
