// mma.sync: fragments against plain sums, and the order of the 8-bit sums.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/bits.h"
#include "emulator/tensor/mma.h"
#include "numerics/f16.h"

namespace flamia::emulator::test {
namespace {

/// Small halves: every sum is exact.
std::vector<float> small_values(uint32_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = (static_cast<float>(random() % 9) - 4.0f) * 0.5f;
  return values;
}

float dot(const std::vector<float>& a, const std::vector<float>& b, uint32_t i, uint32_t j) {
  float sum = 0.0f;
  for (uint32_t x = 0; x < 16; ++x) sum += a[i * 16 + x] * b[j * 16 + x];
  return sum;
}

TEST(MmaSync, SixteenBitFragments) {
  const std::vector<float> a = small_values(16 * 16, 7), b = small_values(8 * 16, 8);
  uint32_t ra[4][32] = {}, rb[2][32] = {}, rc[4][32], rd[4][32];
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t g = t / 4, q = t % 4;
    const auto pack = [](float low, float high) {
      return static_cast<uint32_t>(float_to_f16(low)) | static_cast<uint32_t>(float_to_f16(high))
                                                            << 16;
    };
    ra[0][t] = pack(a[g * 16 + 2 * q], a[g * 16 + 2 * q + 1]);
    ra[1][t] = pack(a[(g + 8) * 16 + 2 * q], a[(g + 8) * 16 + 2 * q + 1]);
    ra[2][t] = pack(a[g * 16 + 2 * q + 8], a[g * 16 + 2 * q + 9]);
    ra[3][t] = pack(a[(g + 8) * 16 + 2 * q + 8], a[(g + 8) * 16 + 2 * q + 9]);
    rb[0][t] = pack(b[g * 16 + 2 * q], b[g * 16 + 2 * q + 1]);
    rb[1][t] = pack(b[g * 16 + 2 * q + 8], b[g * 16 + 2 * q + 9]);
    for (uint32_t r = 0; r < 4; ++r) rc[r][t] = float_bits(1.0f);
  }
  MmaSync spec{ElementFormat::kF16, ElementFormat::kF16, 16, false, NumericMode::kHardware};
  ASSERT_TRUE(mma_sync(spec, ra, rb, rc, rd).ok());
  for (uint32_t t = 0; t < 32; ++t) {
    for (uint32_t r = 0; r < 4; ++r) {
      const uint32_t i = t / 4 + 8 * (r / 2), j = 2 * (t % 4) + r % 2;
      ASSERT_EQ(bits_float(rd[r][t]), 1.0f + dot(a, b, i, j));
    }
  }
  spec.k = 12;
  EXPECT_EQ(mma_sync(spec, ra, rb, rc, rd).kind, FaultKind::kUnsupported);
}

TEST(MmaSync, EightBitSumsStartAtZeroAndAddTheAccumulatorLast) {
  // Products 2^-12 twice; a C of 1 + 2^-23 keeps its last bit, which alignment would cut.
  uint32_t a[4][32] = {}, b[2][32] = {}, c[4][32], d[4][32];
  for (uint32_t t = 0; t < 32; ++t) {
    a[0][t] = t % 4 == 0 ? 0x0808u : 0u;  // two codes of 2^-6 in K 0 and 1
    b[0][t] = t % 4 == 0 ? 0x0808u : 0u;
    for (uint32_t r = 0; r < 4; ++r) c[r][t] = 0x3f800001u;
  }
  const MmaSync spec{ElementFormat::kE4M3, ElementFormat::kE4M3, 32, false, NumericMode::kHardware};
  ASSERT_TRUE(mma_sync(spec, a, b, c, d).ok());
  EXPECT_EQ(bits_float(d[0][0]), bits_float(0x3f800001u) + 0x1p-11f);
  EXPECT_EQ(d[2][0], 0x3f800001u);
}

}  // namespace
}  // namespace flamia::emulator::test
