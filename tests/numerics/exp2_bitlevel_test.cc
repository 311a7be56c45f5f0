// Mitchell-P and Schraudolph: their windows, clamps and published error bands.
// Depends on: std::exp2 as reference.
#include "numerics/exp2_bitlevel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "numerics/e2m1.h"

namespace flamia::test {
namespace {

constexpr float kInfinity = bits_float(0x7f800000u);

struct ErrorBand {
  double lowest = 1e9, highest = -1e9, mean = 0.0;
};

/// Relative errors over [from, to) at steps of 2^-14.
template <typename Approximation>
ErrorBand error_band(double from, double to, Approximation approximation) {
  ErrorBand band;
  double sum = 0.0;
  int count = 0;
  for (double x = from; x < to; x += 0x1p-14, ++count) {
    const double error = approximation(static_cast<float>(x)) / std::exp2(x) - 1.0;
    band.lowest = std::min(band.lowest, error);
    band.highest = std::max(band.highest, error);
    sum += error;
  }
  band.mean = sum / count;
  return band;
}

TEST(Mitchell, ErrorBandIsThatOfThePiecewiseLinearFormShiftedByDelta) {
  // (1 + f) / 2^f reaches 1.0615; the factor 2^-delta = 0.9514 maps [1, 1.0615] to this band.
  const ErrorBand band = error_band(-100.0, 3.9, mitchell_exp2);
  EXPECT_NEAR(band.lowest, -0.0486, 1e-4);
  EXPECT_NEAR(band.highest, 0.0099, 1e-4);
}

TEST(Mitchell, IsPiecewiseLinearWithSixteenFractionBits) {
  // Against the definition 2^floor(y) (1 + {y}), y on the grid that the fused add rounds to.
  for (double x = -120.0; x < 3.9; x += 0.0137) {
    const float argument = static_cast<float>(x);
    const double y = std::nearbyint((argument - kMitchellDelta) * 65536.0) / 65536.0;
    const double expected = std::ldexp(1.0 + (y - std::floor(y)), static_cast<int>(std::floor(y)));
    EXPECT_NEAR(mitchell_exp2(argument) / expected, 1.0, 0x1p-15) << x;
  }
}

TEST(Mitchell, ClampsBelowItsWindow) {
  for (const float x : {-124.0f, -125.0f, -200.0f, -1e6f, -3e38f, -kInfinity}) {
    EXPECT_EQ(mitchell_exp2(x), 0x1p-124f) << x;
    EXPECT_EQ(encode_e2m1(mitchell_exp2(x)), 0) << x;
  }
  EXPECT_NEAR(kMitchellWindow * 0.6931471805599453, 85.95, 0.01);  // in nats
}

TEST(Mitchell, NeverDecreases) {
  float previous = 0.0f;
  for (double x = -130.0; x < 3.99; x += 0.001) {
    const float value = mitchell_exp2(static_cast<float>(x));
    EXPECT_GE(value, previous) << x;
    previous = value;
  }
}

TEST(Mitchell, DecidesMostTiesOfE2m1Exactly) {
  // delta makes the approximation exact where 2^x is 1.25, 2.5 or 5: ties of E2M1.
  for (const double tie : {1.25, 2.5, 5.0}) {
    EXPECT_NEAR(mitchell_exp2(static_cast<float>(std::log2(tie))) / tie, 1.0, 0x1p-15);
  }
}

TEST(Mitchell, GivesAlmostAlwaysTheCodeOfTheExactExponential) {
  int equal = 0, count = 0;
  for (double x = -2.0; x < 2.58; x += 1e-4, ++count) {
    const float argument = static_cast<float>(x);
    equal += encode_e2m1(mitchell_exp2(argument)) ==
             encode_e2m1(static_cast<float>(std::exp2(static_cast<double>(argument))));
  }
  EXPECT_GE(equal, count * 95 / 100);
}

TEST(Schraudolph, ErrorBandIsThatOfTheRoundedConstant) {
  const ErrorBand band = error_band(-100.0, 0.0, schraudolph_exp2);
  EXPECT_NEAR(band.lowest, -0.0398, 2e-4);
  EXPECT_NEAR(band.highest, 0.0248, 2e-4);
  EXPECT_NEAR(band.mean, 0.002, 5e-4);
}

TEST(Schraudolph, ValuesHaveSevenFractionBits) {
  for (float x = -126.0f; x < 8.0f; x += 0.0131f) {
    EXPECT_EQ(float_bits(schraudolph_exp2(x)) & 0xffffu, 0u);
  }
}

TEST(Schraudolph, IsZeroBelowItsRangeAndNeverWraps) {
  for (const float x : {-127.0f, -128.0f, -300.0f, -383.0f, -384.0f, -500.0f, -1e6f, -kInfinity}) {
    EXPECT_EQ(float_bits(schraudolph_exp2(x)), 0u) << x;
  }
}

TEST(Schraudolph, ClampChangesNothingInsideTheWindowOfThePaper) {
  const float addend = 12599161.0f;
  for (float x = -382.9f; x < 100.0f; x += 0.0173f) {
    const uint32_t t = float_bits(std::fma(x, 128.0f, addend)) << 16;
    EXPECT_EQ(float_bits(schraudolph_exp2(x)), (t & 0x80000000u) != 0 ? 0u : t) << x;
  }
}

TEST(Schraudolph, NeverDecreases) {
  float previous = 0.0f;
  for (float x = -140.0f; x < 10.0f; x += 0.001f) {
    EXPECT_GE(schraudolph_exp2(x), previous) << x;
    previous = schraudolph_exp2(x);
  }
}

TEST(Schraudolph, TakesFiveOfEightColumnPairs) {
  for (int start = 0; start < 128; start += 16) {
    int used = 0;
    for (int column = start; column < start + 16; ++column) {
      used += uses_schraudolph(column);
      EXPECT_EQ(uses_schraudolph(column), uses_schraudolph(column ^ 1));
    }
    EXPECT_EQ(used, 10);
  }
}

}  // namespace
}  // namespace flamia::test
