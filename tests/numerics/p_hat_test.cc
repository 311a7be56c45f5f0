// The bound on c + tau and the log-domain group exponent.
// Depends on: exp2.h, to show what the exponent is for.
#include "numerics/p_hat.h"

#include <gtest/gtest.h>

#include <cmath>

#include "numerics/exp2.h"

namespace flamia::test {
namespace {

constexpr float kInfinity = bits_float(kFloatInfinityBits);

TEST(PHat, BoundIsTheLogarithmOfTheLargestE4m3Value) {
  EXPECT_EQ(kMaxPHatLog2Double, std::log2(448.0));
  EXPECT_EQ(kMaxPHatLog2, std::log2(448.0f));
}

TEST(PHat, ViolatedBoundSaturates) {
  EXPECT_FALSE(p_hat_fits(8, 2));
  EXPECT_EQ(round_e4m3(exp2_exact(8.0f + 2.0f)), kE4m3Max);  // 1024 is meant
  EXPECT_EQ(round_e4m3(exp2_exact(kHopperPHat.log2 + kHopperPHat.tau)), 256.0f);
  EXPECT_EQ(round_e4m3(exp2_exact(kBlackwellPHat.log2 + kBlackwellPHat.tau)), 256.0f);
}

TEST(PHat, MultipliersArePowersOfTheirLogarithms) {
  EXPECT_EQ(kHopperPHat.multiplier, std::exp2(kHopperPHat.log2));
  EXPECT_EQ(kBlackwellPHat.multiplier, std::exp2(kBlackwellPHat.log2));
}

TEST(PHat, GroupExponentIsTheCeiling) {
  for (float d = -110.0f; d < 130.0f; d += 0.0137f) {
    EXPECT_EQ(p_hat_group_exponent(d), std::ceil(d - kMaxPHatLog2)) << d;
  }
}

TEST(PHat, LargestEntryOfAGroupIsInTheTopBinade) {
  for (float d = -100.0f; d <= 8.0f; d += 0.0173f) {
    const float largest = exp2_exact(d - static_cast<float>(p_hat_group_exponent(d)));
    EXPECT_GT(largest, 223.99f) << d;
    EXPECT_LT(largest, 448.01f) << d;
  }
}

TEST(PHat, GroupExponentClampsAndMaskedGroupsVanish) {
  EXPECT_EQ(p_hat_group_exponent(-118.1f), -126);
  EXPECT_EQ(p_hat_group_exponent(-118.2f), -127);
  EXPECT_EQ(p_hat_group_exponent(-500.0f), -127);
  EXPECT_EQ(p_hat_group_exponent(-kInfinity), -127);
  EXPECT_EQ(p_hat_group_exponent(500.0f), 127);
  EXPECT_EQ(p_hat_group_exponent(kInfinity), 127);
  // A row without any key: m = -inf too, the difference is NaN.
  EXPECT_EQ(p_hat_group_exponent(bits_float(0x7fc00000u)), -127);
  EXPECT_EQ(encode_e4m3(exp2_exact(-kInfinity - -127.0f)), 0);
}

}  // namespace
}  // namespace flamia::test
