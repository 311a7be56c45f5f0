// Exponentials and the logarithm against binary64, with error bounds that are measured here.
// Depends on: sweep.h; std::exp2 and std::log2 as the independent reference.
#include "numerics/exp2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>

#include "tests/numerics/sweep.h"

namespace flamia::test {
namespace {

constexpr float kInfinity = bits_float(kInfinityBits);

/// Error of y against the exact value, in units of the binary32 grid at that value.
double error_in_ulps(float y, double exact) {
  const double grid =
      exact == 0.0 ? 0x1p-149 : std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
  return std::fabs(static_cast<double>(y) - exact) / grid;
}

/// Largest of error(x) over all floats with magnitude bits in [begin, end), both signs.
template <typename Error>
double largest_error(uint32_t begin, uint32_t end, Error error) {
  std::atomic<double> largest{0.0};
  sweep(begin, end, [&](uint64_t first, uint64_t last) {
    double chunk = 0.0;
    for (uint64_t u = first; u < last; ++u) {
      chunk = std::max(chunk, error(bits_float(static_cast<uint32_t>(u))));
      chunk = std::max(chunk, error(bits_float(static_cast<uint32_t>(u) | kSignBit)));
    }
    for (double seen = largest; chunk > seen && !largest.compare_exchange_weak(seen, chunk);) {
    }
    return 0;
  });
  return largest;
}

double exact_exp2_error(float x) {
  if (x >= 128.0f) return exp2_exact(x) == kInfinity ? 0.0 : 1e9;
  return error_in_ulps(exp2_exact(x), std::exp2(static_cast<double>(x)));
}

TEST(Exp2Exact, IsExactAtIntegers) {
  for (int n = -160; n <= 140; ++n) {
    EXPECT_EQ(exp2_exact(static_cast<float>(n)), std::ldexp(1.0f, n)) << n;
  }
}

TEST(Exp2Exact, HandlesSpecialValues) {
  EXPECT_EQ(float_bits(exp2_exact(-kInfinity)), 0u);
  EXPECT_EQ(float_bits(exp2_exact(-1e30f)), 0u);
  EXPECT_EQ(float_bits(exp2_exact(-150.0f)), 0u);
  EXPECT_EQ(exp2_exact(kInfinity), kInfinity);
  EXPECT_EQ(exp2_exact(128.0f), kInfinity);
  EXPECT_EQ(exp2_exact(3e38f), kInfinity);
  EXPECT_TRUE(std::isfinite(exp2_exact(std::nextafter(128.0f, 0.0f))));
  EXPECT_TRUE(std::isnan(exp2_exact(bits_float(0x7fc00000u))));
  EXPECT_TRUE(std::isnan(exp2_exact(bits_float(0xffffffffu))));
  EXPECT_EQ(exp2_exact(0.0f), 1.0f);
  EXPECT_EQ(exp2_exact(-0.0f), 1.0f);
}

TEST(Exp2Exact, IsOneForTinyArguments) {
  for (uint32_t u = 0; u < float_bits(0x1p-26f); u += 997) {
    ASSERT_EQ(exp2_exact(bits_float(u)), 1.0f) << u;
    ASSERT_EQ(exp2_exact(bits_float(u | kSignBit)), 1.0f) << u;
  }
}

TEST(Exp2Exact, NeverDecreasesAcrossIntegerAndHalfBoundaries) {
  for (int n = -300; n < 256; ++n) {
    const float boundary = static_cast<float>(n) / 2;
    const float below = exp2_exact(std::nextafter(boundary, -1e9f));
    const float above = exp2_exact(std::nextafter(boundary, 1e9f));
    EXPECT_LE(below, exp2_exact(boundary)) << boundary;
    EXPECT_GE(above, exp2_exact(boundary)) << boundary;
  }
}

TEST(ExhaustiveExp2Exact, IsWithinOneUlpForEveryFloat) {
  // Below 2^-26 the result is 1 (tested above); above 152 it is 0 or infinity.
  const double normal = largest_error(float_bits(0x1p-26f), float_bits(126.0f), exact_exp2_error);
  const double ends = largest_error(float_bits(126.0f), float_bits(152.0f), exact_exp2_error);
  RecordProperty("max_ulp_millionths", static_cast<int>(normal * 1e6));
  EXPECT_LE(normal, 0.81);
  EXPECT_LE(ends, 0.89);  // subnormal results round once more
}

TEST(Exp2Polynomial, RelativeErrorIsBelowItsBound) {
  // The fraction decides: one binade of each sign covers it 2^-23 apart.
  const double error = largest_error(float_bits(1.0f), float_bits(2.0f), [](float x) {
    return std::fabs(exp2_polynomial(x) / std::exp2(static_cast<double>(x)) - 1.0);
  });
  EXPECT_LE(error, 8.8e-5);
  EXPECT_GE(error, 8.0e-5);  // the bound is tight: a better polynomial would be news
}

TEST(Exp2Polynomial, RelativeErrorHoldsOverTheWholeRange) {
  std::mt19937 generator(11);
  std::uniform_real_distribution<float> uniform(-126.0f, 127.99f);
  for (int i = 0; i < 1000000; ++i) {
    const float x = uniform(generator);
    const double exact = std::exp2(static_cast<double>(x));
    ASSERT_LE(std::fabs(exp2_polynomial(x) / exact - 1.0), 8.8e-5) << x;
  }
}

TEST(Exp2Polynomial, IsExactAtIntegersAndClampsAtTheBottom) {
  for (int n = -126; n <= 127; ++n) {
    EXPECT_EQ(exp2_polynomial(static_cast<float>(n)), std::ldexp(1.0f, n)) << n;
  }
  for (const float x : {-127.0f, -127.5f, -1000.0f, -3e38f, -kInfinity}) {
    EXPECT_EQ(float_bits(exp2_polynomial(x)), 0u) << x;
  }
  for (float x = -127.0f; x < -126.0f; x += 1.0f / 1024) {
    EXPECT_GE(exp2_polynomial(x), 0.0f);
    EXPECT_LE(exp2_polynomial(x), 0x1p-126f);
  }
}

TEST(Exp2Polynomial, FloorEqualsAddWithRoundingDown) {
  // The hardware form rounds x + magic towards minus infinity; both see the same fraction.
  for (float x = -20.0f; x < 20.0f; x += 0.37f) {
    const float floor = std::floor(x);
    const float scaled = exp2_polynomial(x - floor);
    EXPECT_EQ(exp2_polynomial(x), std::ldexp(scaled, static_cast<int>(floor))) << x;
  }
}

TEST(PolynomialChoice, HasTheAskedFractionInEveryGroup) {
  for (int n = 0; n <= 8; ++n) {
    for (int start = 0; start < 64; start += 8) {
      int used = 0;
      for (int pair = start; pair < start + 8; ++pair) used += uses_polynomial(pair, n);
      EXPECT_EQ(used, n);
    }
  }
}

TEST(PolynomialChoice, SpreadsPairsEvenly) {
  for (int n = 0; n <= 8; ++n) {
    for (int start = 0; start < 32; ++start) {
      int used = 0;
      for (int pair = start; pair < start + 4; ++pair) used += uses_polynomial(pair, n);
      EXPECT_LE(std::abs(2 * used - n), 2) << n << ' ' << start;
    }
  }
}

TEST(PolynomialChoice, CheckerboardAlternatesBetweenRowGroups) {
  for (int group = 0; group < 8; ++group) {
    for (int pair = 0; pair < 64; ++pair) {
      EXPECT_NE(uses_polynomial_checkerboard(group, pair, 4),
                uses_polynomial_checkerboard(group + 1, pair, 4));
      EXPECT_EQ(uses_polynomial_checkerboard(0, pair, group), uses_polynomial(pair, group));
    }
  }
}

TEST(Log2F32, IsExactAtPowersOfTwo) {
  for (int n = -149; n <= 127; ++n) EXPECT_EQ(log2_f32(std::ldexp(1.0f, n)), n) << n;
}

TEST(Log2F32, HandlesSpecialValues) {
  EXPECT_EQ(log2_f32(0.0f), -kInfinity);
  EXPECT_EQ(log2_f32(-0.0f), -kInfinity);
  EXPECT_EQ(log2_f32(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log2_f32(-1.0f)));
  EXPECT_TRUE(std::isnan(log2_f32(-kInfinity)));
  EXPECT_TRUE(std::isnan(log2_f32(bits_float(0x7fc00000u))));
}

double log2_error(float x) { return error_in_ulps(log2_f32(x), std::log2(static_cast<double>(x))); }

TEST(Log2F32, IsCorrectlyRoundedUpToTheReference) {
  double error = 0.0;
  for (uint32_t u = 1; u < kInfinityBits; u += 1021) {
    error = std::max(error, log2_error(bits_float(u)));
  }
  for (uint32_t u = float_bits(0.99f); u < float_bits(1.01f); ++u) {
    error = std::max(error, log2_error(bits_float(u)));
  }
  EXPECT_LE(error, 0.5001);
}

TEST(Log2F32, InvertsExp2) {
  for (float x = -120.0f; x < 120.0f; x += 0.173f) {
    EXPECT_NEAR(log2_f32(exp2_exact(x)), x, 1e-7f + 1e-7f * std::fabs(x));
  }
}

}  // namespace
}  // namespace flamia::test
