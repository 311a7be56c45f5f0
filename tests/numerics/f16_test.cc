// binary16 rounding on every float, and the way back.
// Depends on: sweep.h.
#include "numerics/f16.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/numerics/sweep.h"

namespace flamia::test {
namespace {

TEST(F16, DecodesByDefinition) {
  const std::vector<double> values = format_values(10, -14, 0x7c00);
  for (uint32_t h = 0; h < 0x7c00; ++h) {
    EXPECT_EQ(f16_to_float(static_cast<uint16_t>(h)), values[h]);
    const float negative = f16_to_float(static_cast<uint16_t>(h | 0x8000));
    EXPECT_EQ(negative, -values[h]);
    EXPECT_TRUE(std::signbit(negative));
  }
  EXPECT_EQ(f16_to_float(0x7c00), bits_float(kInfinityBits));
  EXPECT_EQ(f16_to_float(0xfc00), -bits_float(kInfinityBits));
  for (uint32_t h = 0x7c01; h < 0x8000; ++h) {
    EXPECT_TRUE(std::isnan(f16_to_float(static_cast<uint16_t>(h))));
    EXPECT_TRUE(std::isnan(f16_to_float(static_cast<uint16_t>(h | 0x8000))));
  }
}

TEST(ExhaustiveF16, RoundsEveryFloatToNearestEven) {
  // Codes 0..0x7bff are finite; the next one up, 2^16, stands for infinity.
  std::vector<CodeRange> ranges = nearest_even_ranges(format_values(10, -14, 0x7c01));
  ranges.back().value = bits_float(kInfinityBits);
  const auto count = [](uint32_t first, uint32_t last, const CodeRange& range) {
    const uint32_t value = float_bits(range.value);
    uint32_t difference = 0;
    for (uint32_t u = first; u < last; ++u) {
      const float x = bits_float(u);
      const float y = bits_float(u | kSignBit);
      difference |= (float_to_f16(x) ^ range.code) | (float_to_f16(y) ^ (range.code | 0x8000)) |
                    (float_bits(round_f16(x)) ^ value) |
                    (float_bits(round_f16(y)) ^ (value | kSignBit));
    }
    return difference != 0 ? 1u : 0u;
  };
  EXPECT_EQ(sweep_ranges(ranges, count), 0u);
}

TEST(ExhaustiveF16, KeepsEveryNan) {
  const auto count = [](uint32_t u) {
    return float_to_f16(bits_float(u)) == 0x7fff && std::isnan(round_f16(bits_float(u))) ? 0 : 1;
  };
  EXPECT_EQ(sweep_nans(count), 0u);
}

}  // namespace
}  // namespace flamia::test
