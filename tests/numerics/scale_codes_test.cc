// UE8M0 and UE4M3 scale bytes against their definitions and the golden codes.
// Depends on: sweep.h, golden vectors.
#include "numerics/scale_codes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "numerics/bf16.h"
#include "tests/numerics/sweep.h"
#include "tests/support/golden.h"

namespace flamia::test {
namespace {

TEST(ScaleCodes, Ue8m0HoldsEveryExponent) {
  for (int e = -127; e <= 127; ++e) {
    EXPECT_EQ(encode_ue8m0(e), e + 127);
    EXPECT_EQ(ue8m0_exponent(encode_ue8m0(e)), e);
    EXPECT_EQ(decode_ue8m0(encode_ue8m0(e)), std::ldexp(1.0f, e));
  }
}

TEST(ScaleCodes, Ue8m0ClampsAndNeverMakesNan) {
  EXPECT_EQ(encode_ue8m0(-1000), 0);
  EXPECT_EQ(encode_ue8m0(1000), 254);
  EXPECT_TRUE(std::isnan(decode_ue8m0(0xff)));
}

TEST(ScaleCodes, Ue4m3EncodesEveryBf16PatternLikeGolden) {
  const Golden<uint8_t> golden = load_golden<uint8_t>("cvt_absbf16_to_ue4m3");
  for (uint32_t b = 0; b < 32768; ++b) {
    EXPECT_EQ(encode_ue4m3(bf16_to_float(static_cast<uint16_t>(b))), golden[b]) << b;
    EXPECT_EQ(encode_ue4m3(bf16_to_float(static_cast<uint16_t>(b | 0x8000))), golden[b]) << b;
  }
}

TEST(ScaleCodes, Ue4m3DecodesWithoutSign) {
  const std::vector<double> values = format_values(3, -6, 127);
  for (int code = 0; code < 127; ++code) {
    EXPECT_EQ(decode_ue4m3(static_cast<uint8_t>(code)), values[code]);
    EXPECT_EQ(decode_ue4m3(static_cast<uint8_t>(code | 0x80)), values[code]);
    EXPECT_FALSE(std::signbit(decode_ue4m3(static_cast<uint8_t>(code | 0x80))));
  }
  EXPECT_TRUE(std::isnan(decode_ue4m3(0x7f)));
}

TEST(ExhaustiveScaleCodes, Ue4m3RoundsEveryFloatToNearestEven) {
  const auto count = [](uint32_t first, uint32_t last, const CodeRange& range) {
    uint32_t difference = 0;
    for (uint32_t u = first; u < last; ++u) {
      difference |= (encode_ue4m3(bits_float(u)) ^ range.code) |
                    (encode_ue4m3(bits_float(u | kSignBit)) ^ range.code);
    }
    return difference != 0 ? 1u : 0u;
  };
  EXPECT_EQ(sweep_ranges(nearest_even_ranges(format_values(3, -6, 127)), count), 0u);
  EXPECT_EQ(sweep_nans([](uint32_t u) { return encode_ue4m3(bits_float(u)) == 0x7f ? 0 : 1; }), 0u);
}

}  // namespace
}  // namespace flamia::test
