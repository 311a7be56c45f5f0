// Philox: known answers, independence of streams, and the shape of its normal values.
// Depends on: GoogleTest only.
#include "base/philox.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

namespace flamia::test {
namespace {

TEST(Philox, GivesTheKnownAnswers) {
  const Philox4 zero = philox(0, 0, 0);
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
  const Philox4 ones = philox(~0ull, ~0ull, ~0ull);
  EXPECT_EQ(ones.word[0], 0x408f276du);
  EXPECT_EQ(ones.word[3], 0x6d5451fdu);
}

TEST(Philox, EveryArgumentChangesTheWords) {
  std::set<uint32_t> first_words;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (uint64_t stream = 0; stream < 8; ++stream) {
      for (uint64_t counter = 0; counter < 8; ++counter) {
        first_words.insert(philox(seed, stream << 30, counter << 30).word[0]);
      }
    }
  }
  EXPECT_EQ(first_words.size(), 512u);
}

TEST(Philox, BitsAreBalanced) {
  int64_t set_bits = 0;
  for (uint64_t counter = 0; counter < 25000; ++counter) {
    for (const uint32_t word : philox(1, 2, counter).word) set_bits += std::popcount(word);
  }
  // 3.2 million bits: standard deviation 894.
  EXPECT_NEAR(static_cast<double>(set_bits), 1.6e6, 4500);
}

TEST(Philox, UniformFloatsStayBelowOne) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_EQ(uniform_float(0xffffffffu), 1.0f - 0x1p-24f);
  EXPECT_GT(uniform_double(0), 0.0);
  EXPECT_LT(uniform_double(0xffffffffu), 1.0);
}

TEST(Philox, NormalValuesHaveTheRightMoments) {
  double sum = 0.0, squares = 0.0, fourth = 0.0;
  constexpr int kPairs = 100000;
  for (uint64_t counter = 0; counter < kPairs; ++counter) {
    const Philox4 bits = philox(7, 0, counter);
    const NormalPair pair = normal_pair(bits.word[0], bits.word[1]);
    for (const double v : {pair.first, pair.second}) {
      sum += v;
      squares += v * v;
      fourth += v * v * v * v;
    }
  }
  const double n = 2.0 * kPairs;
  // Five standard deviations of the sample moments: sqrt(1, 2, 96) / sqrt(n).
  EXPECT_NEAR(sum / n, 0.0, 5 * 1.0 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1.0, 5 * std::sqrt(2.0) / std::sqrt(n));
  EXPECT_NEAR(fourth / n, 3.0, 5 * std::sqrt(96.0) / std::sqrt(n));
}

}  // namespace
}  // namespace flamia::test
