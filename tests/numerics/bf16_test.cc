// bfloat16 rounding on every float, and the way back.
// Depends on: sweep.h.
#include "numerics/bf16.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/numerics/sweep.h"

namespace flamia::test {
namespace {

TEST(Bf16, EveryPatternSurvivesTheRoundTrip) {
  for (uint32_t b = 0; b < 65536; ++b) {
    const float x = bf16_to_float(static_cast<uint16_t>(b));
    EXPECT_EQ(float_bits(x), b << 16);
    if (std::isnan(x)) {
      EXPECT_EQ(float_to_bf16(x), 0x7fff) << b;
    } else {
      EXPECT_EQ(float_to_bf16(x), b);
    }
  }
}

TEST(ExhaustiveBf16, RoundsEveryFloatToNearestEven) {
  // Codes 0..0x7f7f are finite; the next one up, 2^128, stands for infinity.
  const std::vector<double> values = format_values(7, -126, 0x7f81);
  std::vector<CodeRange> ranges = nearest_even_ranges(values);
  ranges.back().value = bits_float(kInfinityBits);
  const auto count = [](uint32_t first, uint32_t last, const CodeRange& range) {
    const uint32_t value = float_bits(range.value);
    uint32_t difference = 0;
    for (uint32_t u = first; u < last; ++u) {
      const float x = bits_float(u);
      const float y = bits_float(u | kSignBit);
      difference |= (float_to_bf16(x) ^ range.code) | (float_to_bf16(y) ^ (range.code | 0x8000)) |
                    (float_bits(round_bf16(x)) ^ value) |
                    (float_bits(round_bf16(y)) ^ (value | kSignBit));
    }
    return difference != 0 ? 1u : 0u;
  };
  EXPECT_EQ(sweep_ranges(ranges, count), 0u);
}

TEST(ExhaustiveBf16, KeepsEveryNan) {
  const auto count = [](uint32_t u) {
    return float_to_bf16(bits_float(u)) == 0x7fff && std::isnan(round_bf16(bits_float(u))) ? 0 : 1;
  };
  EXPECT_EQ(sweep_nans(count), 0u);
}

}  // namespace
}  // namespace flamia::test
