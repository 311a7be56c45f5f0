// Norms, the bound of dQ partials, and the prescale that follows from it.
// Depends on: sweep.h, base/philox.h.
#include "numerics/dq_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/philox.h"
#include "numerics/e4m3.h"

namespace flamia::test {
namespace {

constexpr float kInfinity = bits_float(kFloatInfinityBits);

TEST(DqScale, PrescaleIsFloorOfLog2OfTheQuotientLessOne) {
  for (uint32_t u = float_bits(0x1p-110f); u < kFloatInfinityBits; u += 9973) {
    const float bound = bits_float(u);
    const double quotient = 65504.0 / bound;
    const int expected = std::ilogb(quotient) - 1;
    ASSERT_EQ(dq_prescale_exponent(bound), std::max(std::min(expected, 126), -126)) << bound;
  }
}

TEST(DqScale, PrescaleChangesExactlyAtTheLargestMantissa) {
  EXPECT_EQ(dq_prescale_exponent(kF16Max), -1);
  EXPECT_EQ(dq_prescale_exponent(std::nextafter(kF16Max, 1e9f)), -2);
  EXPECT_EQ(dq_prescale_exponent(std::nextafter(kF16Max, 0.0f)), -1);
}

TEST(DqScale, ScaledBoundStaysBelowHalfOfTheLargestValue) {
  for (float bound = 1e-30f; bound < 1e30f; bound *= 1.13f) {
    const float scaled = scale_pow2(bound, dq_prescale_exponent(bound));
    EXPECT_LE(scaled, kF16Max / 2) << bound;
    EXPECT_GT(scaled, kF16Max / 4 * 0.999f) << bound;
  }
}

TEST(DqScale, HandlesZeroInfinityAndNan) {
  EXPECT_EQ(dq_prescale_exponent(0.0f), 0);
  EXPECT_EQ(dq_prescale_exponent(kInfinity), -126);
  EXPECT_EQ(dq_prescale_exponent(bits_float(0x7fc00000u)), -126);
  EXPECT_EQ(dq_prescale_exponent(bits_float(1)), 126);
}

TEST(DqScale, NormOfARowIsWithinItsRounding) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<float> row;
    double sum = 0.0;
    for (uint64_t c = 0; c < 128; ++c) {
      const Philox4 bits = philox(seed, 1, c);
      row.push_back(
          round_e4m3(static_cast<float>(100 * normal_pair(bits.word[0], bits.word[1]).first)));
      sum += double{row.back()} * row.back();
    }
    // Seven levels of sums, one square, one root: 8.5 half ulps at most.
    EXPECT_NEAR(row_norm(row.data(), 128, -3) / (std::sqrt(sum) / 8), 1.0, 8.5 * 0x1p-24);
  }
}

TEST(DqScale, NormAddsInTreeOrder) {
  // 2^24 + 1 + 1 + ...: small terms survive only if they meet each other first.
  std::vector<float> row(64, 1.0f);
  row[0] = 4096.0f;
  float squares[64];
  for (int c = 0; c < 64; ++c) squares[c] = row[c] * row[c];
  for (int h = 32; h > 0; h /= 2) {
    for (int c = 0; c < h; ++c) squares[c] = squares[c] + squares[c + h];
  }
  EXPECT_EQ(row_norm(row.data(), 64, 0), std::sqrt(squares[0]));
}

TEST(DqScale, NormScalesByThePowerOfTwo) {
  const std::vector<float> row(128, 2.0f);
  EXPECT_EQ(row_norm(row.data(), 128, 0), std::sqrt(512.0f));
  EXPECT_EQ(row_norm(row.data(), 128, -20), std::ldexp(std::sqrt(512.0f), -20));
  EXPECT_EQ(row_norm(row.data(), 128, -127), std::ldexp(std::sqrt(512.0f), -127));
}

TEST(DqScale, BoundIsTwiceTheProduct) {
  EXPECT_EQ(norm_bound(1.5f, 2.0f, 3.0f), 18.0f);
  EXPECT_EQ(norm_bound(1e30f, 1e30f, 1.0f), kInfinity);
  EXPECT_EQ(norm_bound(0.0f, 2.0f, 3.0f), 0.0f);
}

}  // namespace
}  // namespace flamia::test
