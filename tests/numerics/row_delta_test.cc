// D: its value, its order of sums, and the effect of the residual of O.
// Depends on: base/philox.h, bf16.h.
#include "numerics/row_delta.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/philox.h"
#include "numerics/bf16.h"

namespace flamia::test {
namespace {

std::vector<float> normal_row(uint64_t seed, int dim) {
  std::vector<float> row;
  for (int c = 0; c < dim; ++c) {
    const Philox4 bits = philox(seed, 2, static_cast<uint64_t>(c));
    row.push_back(static_cast<float>(normal_pair(bits.word[0], bits.word[1]).first));
  }
  return row;
}

TEST(RowDelta, IsTheDotProductInTreeOrder) {
  for (const int dim : {64, 128}) {
    const std::vector<float> a = normal_row(1, dim), b = normal_row(2, dim);
    std::vector<float> terms;
    for (int c = 0; c < dim; ++c) terms.push_back(a[c] * b[c]);
    EXPECT_EQ(row_delta(a.data(), b.data(), dim), tree_sum(terms.data(), dim));
  }
}

TEST(RowDelta, IsWithinTheErrorOfItsSum) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<float> a = normal_row(seed, 128), b = normal_row(seed + 1000, 128);
    double exact = 0.0, size = 0.0;
    for (int c = 0; c < 128; ++c) {
      exact += double{a[c]} * b[c];
      size += std::fabs(double{a[c]} * b[c]);
    }
    EXPECT_NEAR(row_delta(a.data(), b.data(), 128), exact, 8 * 0x1p-24 * size);
  }
}

TEST(RowDelta, ResidualRestoresSixteenBitsOfO) {
  const std::vector<float> gradient = normal_row(3, 128), o = normal_row(4, 128);
  std::vector<float> rounded, residual;
  double exact = 0.0;
  for (int c = 0; c < 128; ++c) {
    rounded.push_back(round_bf16(o[c]));
    residual.push_back(round_bf16(o[c] - rounded[c]));
    exact += double{gradient[c]} * o[c];
  }
  const double plain = std::fabs(row_delta(gradient.data(), rounded.data(), 128) - exact);
  const double restored = std::fabs(
      row_delta_with_residual(gradient.data(), rounded.data(), residual.data(), 128) - exact);
  EXPECT_LT(restored, plain / 20);
}

}  // namespace
}  // namespace flamia::test
