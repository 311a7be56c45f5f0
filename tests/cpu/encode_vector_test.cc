// The vector encoder has the codes of the definition, for every float.
#include "cpu/encode_vector.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

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

TEST(EncodeVector, AppliesTheFactorInEveryLane) {
  EXPECT_EQ(first_difference(0x3f800000u, 0x3f900000u, pow2(5)), 0x3f900000u);
  EXPECT_EQ(first_difference(0xbf800000u, 0xbf900000u, pow2(-9)), 0xbf900000u);
}

}  // namespace
}  // namespace flamia::cpu
