// The vector rotation has the bits of the definition.
#include "cpu/hadamard_vector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace flamia::cpu {
namespace {

template <int kDim>
void expect_same_bits() {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    alignas(32) float expected[kDim];
    alignas(32) float actual[kDim];
    for (int c = 0; c < kDim; ++c) {
      // Finite values of every magnitude and sign.
      expected[c] = std::ldexp(static_cast<float>(static_cast<int32_t>(random())),
                               static_cast<int>(random() % 160) - 120);
      actual[c] = expected[c];
    }
    hadamard<kDim>(expected);
    const int32_t largest = hadamard_vector<kDim>(actual);
    uint32_t expected_largest = 0;
    for (int c = 0; c < kDim; ++c) {
      ASSERT_EQ(float_bits(actual[c]), float_bits(expected[c]));
      expected_largest = larger(expected_largest, float_bits(magnitude(expected[c])));
    }
    ASSERT_EQ(static_cast<uint32_t>(largest), expected_largest);
  }
}

TEST(HadamardVector, EqualsTheDefinitionFor64Channels) { expect_same_bits<64>(); }
TEST(HadamardVector, EqualsTheDefinitionFor128Channels) { expect_same_bits<128>(); }

}  // namespace
}  // namespace flamia::cpu
