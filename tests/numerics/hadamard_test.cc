// The rotation: equal to the textbook butterflies bit by bit, symmetric, orthonormal.
// Depends on: base/philox.h for inputs.
#include "numerics/hadamard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/philox.h"

namespace flamia::test {
namespace {

template <int kDim>
std::vector<float> normal_row(uint64_t seed) {
  std::vector<float> x;
  for (int c = 0; c < kDim; c += 4) {
    const Philox4 bits = philox(seed, 0, static_cast<uint64_t>(c));
    const NormalPair a = normal_pair(bits.word[0], bits.word[1]);
    const NormalPair b = normal_pair(bits.word[2], bits.word[3]);
    for (const double v : {a.first, a.second, b.first, b.second}) {
      x.push_back(static_cast<float>(v));
    }
  }
  return x;
}

/// The contract as it is written: distances 1, 2, 4, ... in place, then one multiply.
template <int kDim>
void textbook(float* x) {
  for (int h = 1; h < kDim; h *= 2) {
    for (int i = 0; i < kDim; i += 2 * h) {
      for (int c = i; c < i + h; ++c) {
        const float a = x[c], b = x[c + h];
        x[c] = a + b;
        x[c + h] = a - b;
      }
    }
  }
  for (int c = 0; c < kDim; ++c) x[c] *= static_cast<float>(1.0 / std::sqrt(double{kDim}));
}

template <int kDim>
void expect_textbook_bits() {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<float> expected = normal_row<kDim>(seed);
    std::vector<float> x = expected;
    textbook<kDim>(expected.data());
    hadamard<kDim>(x.data());
    for (int c = 0; c < kDim; ++c) ASSERT_EQ(float_bits(x[c]), float_bits(expected[c])) << c;
  }
}

TEST(Hadamard, HasTheBitsOfTheTextbookOrder) {
  expect_textbook_bits<16>();
  expect_textbook_bits<32>();
  expect_textbook_bits<64>();
  expect_textbook_bits<128>();
  expect_textbook_bits<256>();
}

TEST(Hadamard, IsTheNaturalOrderMatrix) {
  // Row r, column c: (-1)^popcount(r & c).
  for (int c = 0; c < 64; ++c) {
    float x[64] = {};
    x[c] = 8.0f;
    hadamard<64>(x);
    for (int r = 0; r < 64; ++r) {
      EXPECT_EQ(x[r], __builtin_popcount(static_cast<unsigned>(r & c)) % 2 == 0 ? 1.0f : -1.0f);
    }
  }
}

template <int kDim>
void expect_involution() {
  // Two passes of log2(dim) adds and one multiply: relative error of the vector below
  // 2 (log2(dim) + 1) 2^-24 in the worst case.
  const double bound = 2.0 * (std::log2(kDim) + 1) * 0x1p-24;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> original = normal_row<kDim>(seed);
    std::vector<float> x = original;
    hadamard<kDim>(x.data());
    hadamard<kDim>(x.data());
    double error = 0.0, norm = 0.0;
    for (int c = 0; c < kDim; ++c) {
      error += std::pow(double{x[c]} - original[c], 2);
      norm += std::pow(double{original[c]}, 2);
    }
    EXPECT_LE(std::sqrt(error / norm), bound);
  }
}

TEST(Hadamard, IsItsOwnInverse) {
  expect_involution<64>();
  expect_involution<128>();
}

TEST(Hadamard, KeepsDotProducts) {
  std::vector<float> a = normal_row<128>(1), b = normal_row<128>(2);
  double before = 0.0, after = 0.0;
  for (int c = 0; c < 128; ++c) before += double{a[c]} * b[c];
  hadamard<128>(a.data());
  hadamard<128>(b.data());
  for (int c = 0; c < 128; ++c) after += double{a[c]} * b[c];
  EXPECT_NEAR(before, after, 1e-4);
}

TEST(Hadamard, SpreadsOneOutlierEvenly) {
  float x[128] = {};
  x[5] = 128.0f;
  hadamard<128>(x);
  for (const float v : x) EXPECT_EQ(std::fabs(v), 128.0f * bits_float(0x3db504f3u));
}

TEST(Hadamard, ScaleIsTheNearestFloat) {
  EXPECT_EQ(hadamard_scale<32>(), static_cast<float>(1.0 / std::sqrt(32.0)));
  EXPECT_EQ(hadamard_scale<64>(), 0.125f);
  EXPECT_EQ(hadamard_scale<128>(), static_cast<float>(1.0 / std::sqrt(128.0)));
}

}  // namespace
}  // namespace flamia::test
