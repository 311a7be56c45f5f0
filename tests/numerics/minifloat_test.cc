// The rounding template on a format that the library does not use, and the NaN test.
// Depends on: narrow_format_test.h. The formats in use have tests of their own.
#include "numerics/minifloat.h"

#include <gtest/gtest.h>

#include "tests/numerics/narrow_format_test.h"

namespace flamia::test {
namespace {

/// E3M2: bias 3, largest value 28, no infinity, no NaN.
struct E3m2 {
  using Rounding = Minifloat<2, -2, 0x41e00000u>;
  static constexpr int kMantissaBits = 2, kMinExponent = -2, kCodes = 32, kSign = 0x20;
  static uint8_t encode(float x) {
    const uint32_t sign = (float_bits(x) >> 26) & 0x20u;
    return static_cast<uint8_t>(Rounding::encode_magnitude(x) | sign);
  }
  static float round(float x) { return Rounding::round(x); }
  static uint8_t stochastic(float x, uint32_t word) {
    const uint32_t sign = (float_bits(x) >> 26) & 0x20u;
    return static_cast<uint8_t>(Rounding::encode_magnitude_stochastic(x, word) | sign);
  }
};

TEST(Minifloat, RoundsTiesAndTheirNeighboursToNearestEven) {
  for (const CodeRange& range : nearest_even_ranges(values_of<E3m2>())) {
    for (const uint32_t u : {range.first, range.first + 1, range.last - 1, range.last}) {
      EXPECT_EQ(E3m2::encode(bits_float(u)), range.code) << u;
      EXPECT_EQ(E3m2::encode(bits_float(u | kSignBit)), range.code | 0x20) << u;
      EXPECT_EQ(E3m2::round(bits_float(u)), range.value) << u;
      EXPECT_EQ(E3m2::round(bits_float(u | kSignBit)), -range.value) << u;
    }
  }
}

TEST(Minifloat, StochasticRoundingIsUnbiased) { expect_stochastic_is_unbiased<E3m2>(); }
TEST(Minifloat, StochasticRoundingKeepsValuesAndSaturates) { expect_stochastic_edges<E3m2>(); }

TEST(Minifloat, KnowsNanFromInfinity) {
  EXPECT_FALSE(is_nan(bits_float(kInfinityBits)));
  EXPECT_FALSE(is_nan(bits_float(kInfinityBits | kSignBit)));
  EXPECT_TRUE(is_nan(bits_float(kInfinityBits + 1)));
  EXPECT_TRUE(is_nan(bits_float(0xffffffffu)));
}

}  // namespace
}  // namespace flamia::test
