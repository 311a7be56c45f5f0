// The vector encoder has the codes of the definition, for every float.
#include "cpu/encode_vector.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "numerics/bf16.h"
#include "numerics/token_block_scale.h"

namespace flamia::cpu {
namespace {

/// First bit pattern in [begin, end) whose code differs; end if none does.
uint64_t first_difference(uint64_t begin, uint64_t end, float factor) {
  float x[32];
  uint8_t codes[32];
  for (uint64_t bits = begin; bits < end; bits += 32) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      x[lane] = bits_float(static_cast<uint32_t>(bits) + lane);
    }
    encode_e4m3_row(x, factor, 32, codes);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      if (codes[lane] != encode_e4m3(x[lane] * factor)) return bits + lane;
    }
  }
  return end;
}

TEST(ExhaustiveEncodeVector, EqualsTheDefinitionForAllFloats) {
  constexpr uint64_t kHalf = uint64_t{1} << 31;
  uint64_t found[2] = {0, 0};
  std::thread negative([&] { found[1] = first_difference(kHalf, 2 * kHalf, 1.0f); });
  found[0] = first_difference(0, kHalf, 1.0f);
  negative.join();
  EXPECT_EQ(found[0], kHalf);
  EXPECT_EQ(found[1], 2 * kHalf);
}

TEST(EncodeVector, FiniteFormAgreesUpToTheLargestCode) {
  float x[32];
  uint8_t codes[32];
  for (uint32_t bits = 0; bits <= float_bits(448.0f); bits += 31 * 32) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      const uint32_t magnitude_bits = smaller(bits + 31 * lane, float_bits(448.0f));
      x[lane] = bits_float(magnitude_bits | (lane % 2 == 0 ? 0u : kFloatSignBit));
    }
    encode_finite_e4m3_row(x, 1.0f, 32, codes);
    for (uint32_t lane = 0; lane < 32; ++lane) ASSERT_EQ(codes[lane], encode_e4m3(x[lane]));
  }
}

TEST(EncodeVector, AppliesTheFactorInEveryLane) {
  EXPECT_EQ(first_difference(0x3f800000u, 0x3f900000u, pow2(5)), 0x3f900000u);
  EXPECT_EQ(first_difference(0xbf800000u, 0xbf900000u, pow2(-9)), 0xbf900000u);
}

TEST(EncodeVector, EqualsTheDefinitionForEveryBf16ValueAndExponent) {
  uint16_t bf16[32];
  uint8_t codes[32];
  for (int e = kSmallestDirectExponent; e <= 120; ++e) {
    for (uint32_t first = 0; first < 0x10000u; first += 32) {
      for (uint32_t lane = 0; lane < 32; ++lane) {
        bf16[lane] = static_cast<uint16_t>(first + lane);
        const float magnitude_of = magnitude(bf16_to_float(bf16[lane]));
        const bool legal =
            magnitude_of <= scale_pow2(448.0f, e) && magnitude_of < bits_float(kFloatInfinityBits);
        if (!legal) bf16[lane] = 0;
      }
      encode_bf16_e4m3_row(bf16, e, 32, codes);
      for (uint32_t lane = 0; lane < 32; ++lane) {
        ASSERT_EQ(codes[lane], encode_e4m3(bf16_to_float(bf16[lane]) * inverse_scale(e)))
            << "bits " << bf16[lane] << " exponent " << e;
      }
    }
  }
}

TEST(EncodeVector, FindsTheLargestBf16Magnitude) {
  uint16_t bf16[64] = {};
  EXPECT_EQ(bf16_magnitude(bf16, 64), 0);
  bf16[37] = 0xc000;  // -2
  bf16[5] = 0x3f80;
  EXPECT_EQ(bf16_magnitude(bf16, 64), 0x4000);
  bf16[63] = 0xffc0;  // NaN
  EXPECT_EQ(bf16_magnitude(bf16, 64), 0x7fc0);
}

}  // namespace
}  // namespace flamia::cpu
