// Bit casts, powers of two and logarithms against the standard library.
// Depends on: GoogleTest only.
#include "base/bits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace flamia::test {
namespace {

constexpr float kNan = bits_float(0x7fc00000u);

TEST(Bits, Pow2IsExactOverItsRange) {
  for (int e = -160; e <= 140; ++e) EXPECT_EQ(pow2(e), std::ldexp(1.0f, e)) << e;
}

TEST(Bits, ScalePow2RoundsOnce) {
  for (int e = -300; e <= 300; e += 7) {
    for (float x = 1.0f; x < 2.0f; x += 0.0917f) {
      EXPECT_EQ(scale_pow2(x, e), std::ldexp(x, e)) << x << ' ' << e;
    }
  }
  EXPECT_EQ(scale_pow2(bits_float(1), 149 + 100), std::ldexp(1.0f, 100));
}

TEST(Bits, FloorLog2MatchesTheStandardLibrary) {
  for (uint32_t u = 1; u < 0x7f800000u; u += 65519) {
    EXPECT_EQ(floor_log2(bits_float(u)), std::ilogb(bits_float(u))) << u;
  }
}

TEST(Bits, MaxNumberIgnoresNan) {
  EXPECT_EQ(max_number(kNan, 1.0f), 1.0f);
  EXPECT_EQ(max_number(1.0f, kNan), 1.0f);
  EXPECT_TRUE(std::isnan(max_number(kNan, kNan)));
  EXPECT_EQ(max_number(-2.0f, -1.0f), -1.0f);
}

TEST(Bits, MagnitudeClearsTheSignOfEverything) {
  EXPECT_EQ(magnitude(-3.0f), 3.0f);
  EXPECT_EQ(float_bits(magnitude(-0.0f)), 0u);
  EXPECT_EQ(float_bits(magnitude(bits_float(0xffc00001u))), 0x7fc00001u);
}

TEST(Bits, IntegerHelpersRoundUp) {
  EXPECT_EQ(ceil_div(0, 32), 0);
  EXPECT_EQ(ceil_div(33, 32), 2);
  EXPECT_EQ(round_up(33, 32), 64);
  EXPECT_EQ(round_up(64, 32), 64);
}

}  // namespace
}  // namespace flamia::test
