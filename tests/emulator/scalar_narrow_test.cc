// The narrow conversions: every code, nearest neighbours, and the probabilities of .rs.
#include "emulator/isa/scalar_narrow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace flamia::emulator::isa {
namespace {

constexpr Narrow kFormats[] = {Narrow::kE4m3, Narrow::kE5m2, Narrow::kE2m1, Narrow::kE2m3,
                               Narrow::kE3m2};

TEST(ScalarNarrow, EveryFiniteCodeIsItsOwnEncoding) {
  for (const Narrow format : kFormats) {
    const int codes = 1 << detail::narrow_bits(format);
    for (int code = 0; code < codes; ++code) {
      const float value = decode_narrow(format, static_cast<uint8_t>(code));
      if (!std::isfinite(value)) continue;
      EXPECT_EQ(encode_narrow(format, value, false), code) << static_cast<int>(format);
    }
  }
}

TEST(ScalarNarrow, NearestCodeHasTheSmallestError) {
  for (const Narrow format : kFormats) {
    const int half = 1 << (detail::narrow_bits(format) - 1);
    for (uint64_t i = 0; i < 2000; ++i) {
      const Philox4 random = philox(5, static_cast<uint64_t>(format), i);
      const float x =
          uniform_float(random.word[0]) * pow2(static_cast<int>(random.word[1] % 6u) - 2);
      const float error = std::fabs(decode_narrow(format, encode_narrow(format, x, false)) - x);
      for (int code = 0; code < half; ++code) {
        const float other = decode_narrow(format, static_cast<uint8_t>(code));
        if (!std::isfinite(other)) continue;
        EXPECT_LE(error, std::fabs(other - x)) << x;
      }
    }
  }
}

TEST(ScalarNarrow, NanBecomesTheLargestValueWhereThereIsNoNan) {
  const float nan = bits_float(kCanonicalNanBits);
  EXPECT_EQ(encode_narrow(Narrow::kE4m3, nan, false), 0x7f);
  EXPECT_EQ(encode_narrow(Narrow::kE2m1, -nan, false), 0x7);
  EXPECT_EQ(encode_narrow(Narrow::kE2m3, nan, true), 0x1f);
  EXPECT_EQ(encode_narrow(Narrow::kE4m3, -1.0f, true), 0x00);
}

TEST(ScalarNarrow, FirstOperandStandsAbove) {
  EXPECT_EQ(encode_narrow_pair(Narrow::kE4m3, 1.0f, 2.0f, false), 0x3840);
  EXPECT_EQ(encode_narrow_pair(Narrow::kE2m1, 1.0f, 6.0f, false), 0x27);
  EXPECT_EQ(decode_narrow_pair(Narrow::kE2m1, 0x27, false), 0x3c004600u);
  EXPECT_EQ(decode_narrow_pair(Narrow::kE5m2, 0xbc3c, true), 0x00003c00u);
}

TEST(ScalarNarrow, Ue8m0RoundsDownOrUpToPowersOfTwo) {
  EXPECT_EQ(encode_ue8m0_pair(3.0f, 4.0f, true, true), 0x8181);
  EXPECT_EQ(encode_ue8m0_pair(3.0f, -4.0f, false, true), 0x8081);
  EXPECT_EQ(encode_ue8m0_rounded(bits_float(0x7f7fffffu), true, true), 0xfe);
  EXPECT_EQ(encode_ue8m0_rounded(bits_float(0x7f7fffffu), true, false), 0xff);
  EXPECT_EQ(encode_ue8m0_rounded(pow2(-127), true, true), 0x00);
  EXPECT_EQ(encode_ue8m0_rounded(bits_float(0x00400001u), true, true), 0x01);
  EXPECT_EQ(decode_ue8m0_pair(0x7f00), 0x3f800040u);
}

TEST(ScalarNarrow, StochasticBf16IsOneAddition) {
  for (uint64_t i = 0; i < 100000; ++i) {
    const Philox4 random = philox(6, 0, i);
    const uint32_t bits = random.word[0];
    if ((bits & ~kFloatSignBit) >= kFloatInfinityBits) continue;
    const uint32_t share = random.word[1] & 0xffffu;
    const uint32_t expected = (bits + share) >> 16;
    EXPECT_EQ(stochastic_half(kBf16Format, bits_float(bits), share, {}), expected)
        << std::hex << bits;
  }
}

TEST(ScalarNarrow, StochasticShareRoundsUpWithTheLostFraction) {
  // 1.0 + 5/64 of a step of E4M3: of 65536 shares the upper 5 * 1024 round up.
  const float x = 1.0f + 5.0f / 512.0f;
  int up = 0;
  for (uint32_t share = 0; share < 65536; ++share) {
    const float source[4] = {0.0f, x, 0.0f, 0.0f};
    const uint32_t result = stochastic_quad(Narrow::kE4m3, source, share << 16, false);
    up += (result >> 16 & 0xffu) == 0x39u ? 1 : 0;
  }
  EXPECT_EQ(up, 5 * 1024);
}

TEST(ScalarNarrow, StochasticPairsShareSixteenBitsInBothOrders) {
  const float x = 1.0f + 0.5f / 8.0f;  // half a step: the highest bit of a share decides
  const float source[4] = {x, x, x, x};
  EXPECT_EQ(stochastic_quad(Narrow::kE4m3, source, 0x80000000u, false), 0x38393838u);
  EXPECT_EQ(stochastic_quad(Narrow::kE4m3, source, 0x00010000u, false), 0x39383838u);
  EXPECT_EQ(stochastic_quad(Narrow::kE4m3, source, 0x00008001u, false), 0x38383939u);
}

}  // namespace
}  // namespace flamia::emulator::isa
