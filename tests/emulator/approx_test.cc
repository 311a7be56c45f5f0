// The approximate functions against correctly rounded ones, at landmarks, and at special values.
// Depends on: libm in binary64 as the reference. Bit equality with silicon is tested in
// silicon_scalar_test.cc.
#include "emulator/isa/approx.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>

#include "base/philox.h"

namespace flamia::emulator::isa {
namespace {

constexpr uint32_t kOne = mufu::kOneBits;
constexpr uint32_t kInfinity = kFloatInfinityBits;

uint32_t ex2(float x) { return approx::ex2_f32(kMufuTables, float_bits(x), false); }

/// Largest error in units of 2^-23 of the result's binade, over random x in [low, high).
double largest_error(float low, float high, const std::function<uint32_t(uint32_t)>& function,
                     const std::function<double(double)>& exact) {
  double worst = 0.0;
  for (uint64_t i = 0; i < 200000; ++i) {
    const float x = low + (high - low) * uniform_float(philox(3, 0, i).word[0]);
    const double value = static_cast<double>(bits_float(function(float_bits(x))));
    const double reference = exact(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::ilogb(reference) - 23);
    worst = std::max(worst, std::fabs(value - reference) / unit);
  }
  return worst;
}

TEST(Approx, Ex2IsExactAtWholeNumbers) {
  for (int e = -149; e <= 127; ++e) {
    if (e < -126 && e % 2 != 0) continue;  // the square of an inexact root
    EXPECT_EQ(bits_float(ex2(static_cast<float>(e))), pow2(e)) << e;
  }
  EXPECT_EQ(ex2(128.0f), kInfinity);
  EXPECT_EQ(approx::ex2_f32(kMufuTables, float_bits(-127.0f), true), 0u);
}

TEST(Approx, ErrorsStayBelowTheMeasuredBounds) {
  // In units of the last place; the bounds are the largest errors seen, rounded up.
  const MufuTables& t = kMufuTables;
  EXPECT_LT(largest_error(
                -20.0f, 20.0f, [&](uint32_t x) { return approx::ex2_f32(t, x, true); },
                [](double x) { return std::exp2(x); }),
            2.5);
  EXPECT_LT(largest_error(
                1.0f, 4.0f, [&](uint32_t x) { return approx::rcp_f32(t, x, true); },
                [](double x) { return 1.0 / x; }),
            1.0);
  EXPECT_LT(largest_error(
                1.0f, 4.0f, [&](uint32_t x) { return approx::rsqrt_f32(t, x, true); },
                [](double x) { return 1.0 / std::sqrt(x); }),
            2.0);
  EXPECT_LT(largest_error(
                1.0f, 4.0f, [&](uint32_t x) { return approx::sqrt_f32(t, x, true); },
                [](double x) { return std::sqrt(x); }),
            1.5);
  EXPECT_LT(largest_error(
                4.0f, 1000.0f, [&](uint32_t x) { return approx::lg2_f32(t, x, true); },
                [](double x) { return std::log2(x); }),
            1.5);
}

TEST(Approx, SquarerDropsThePartsOfEachPartialProduct) {
  for (uint32_t x = 0; x < (1u << 17); ++x) {
    uint32_t sum = 0;
    for (int bit = 0; bit < 17; ++bit) {
      if (((x >> bit) & 1u) != 0) sum += x >> (18 - bit);
    }
    ASSERT_EQ(mufu::square(x), sum >> 1) << x;
  }
}

TEST(Approx, SubnormalOperandsCountWithoutFtz) {
  EXPECT_EQ(approx::rcp_f32(kMufuTables, 0x00400000u, true), kInfinity);
  EXPECT_EQ(bits_float(approx::rcp_f32(kMufuTables, 0x00400000u, false)), pow2(127));
  EXPECT_EQ(bits_float(approx::rsqrt_f32(kMufuTables, float_bits(pow2(-148)), false)), pow2(74));
  EXPECT_EQ(bits_float(approx::lg2_f32(kMufuTables, float_bits(pow2(-149)), false)), -149.0f);
  EXPECT_EQ(bits_float(approx::sqrt_f32(kMufuTables, float_bits(pow2(-148)), false)), pow2(-74));
}

TEST(Approx, SpecialValuesFollowTheInstructionSet) {
  const uint32_t nan = 0x7fc12345u, minus = kFloatSignBit;
  EXPECT_EQ(approx::ex2_f32(kMufuTables, nan, false), kCanonicalNanBits);
  EXPECT_EQ(approx::ex2_f32(kMufuTables, minus | kInfinity, false), 0u);
  EXPECT_EQ(approx::rcp_f32(kMufuTables, minus, false), minus | kInfinity);
  EXPECT_EQ(approx::rcp_f32(kMufuTables, minus | kInfinity, false), minus);
  EXPECT_EQ(approx::lg2_f32(kMufuTables, minus | kOne, false), kCanonicalNanBits);
  EXPECT_EQ(approx::lg2_f32(kMufuTables, 0, false), minus | kInfinity);
  EXPECT_EQ(approx::rsqrt_f32(kMufuTables, minus | kOne, false), kCanonicalNanBits);
  EXPECT_EQ(approx::sin_f32(kMufuTables, kInfinity), kCanonicalNanBits);
  EXPECT_EQ(approx::cos_f32(kMufuTables, 0), kOne);
  EXPECT_EQ(approx::tanh_f32(kMufuTables, kInfinity), kOne);
  EXPECT_EQ(approx::tanh_f32(kMufuTables, 1u), 1u);
}

TEST(Approx, HalfResultsAreCutNotRounded) {
  // 2^(1/2) = 1.01101010000010...b: f16 keeps ten fraction bits, bf16 seven.
  EXPECT_EQ(approx::ex2_f16(kMufuTables, 0x3800), 0x3da8);
  EXPECT_EQ(approx::ex2_bf16(kMufuTables, 0x3f00), 0x3fb5);
  EXPECT_EQ(approx::ex2_f16(kMufuTables, 0x4c00), 0x7c00) << "2^16 overflows";
}

}  // namespace
}  // namespace flamia::emulator::isa
