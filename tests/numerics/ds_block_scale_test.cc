// dS exponents over blocks, rows and tiles against the golden tile.
// Depends on: golden vectors.
#include "numerics/ds_block_scale.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/golden.h"

namespace flamia::test {
namespace {

constexpr int kRows = 64, kCols = 128;

/// One exponent per `rows` x `cols` entries of the 64 x 128 tile.
void expect_golden(const std::string& name, int rows, int cols) {
  const Golden<float> ds = load_golden<float>("ds_in_fp32");
  const Golden<int8_t> exponents = load_golden<int8_t>("ds_exp_" + name);
  const Golden<uint8_t> codes = load_golden<uint8_t>("ds_codes_" + name);
  for (int group = 0; group < kRows / rows * (kCols / cols); ++group) {
    const int row = group / (kCols / cols) * rows;
    const int col = group % (kCols / cols) * cols;
    float amax = 0.0f;
    for (int i = row; i < row + rows; ++i) {
      for (int j = col; j < col + cols; ++j) amax = max_number(amax, magnitude(ds.row(i)[j]));
    }
    const int e = ds_exponent_e4m3(amax);
    ASSERT_EQ(e, exponents[group]) << name << ' ' << group;
    for (int i = row; i < row + rows; ++i) {
      for (int j = col; j < col + cols; ++j) {
        ASSERT_EQ(encode_e4m3(ds.row(i)[j] * inverse_scale(e)), codes.row(i)[j]) << i << ' ' << j;
      }
    }
  }
}

TEST(DsBlockScale, Blocks32x32EqualGolden) { expect_golden("blk32", kDsBlock, kDsBlock); }
TEST(DsBlockScale, RowsEqualGolden) { expect_golden("row", 1, kCols); }
TEST(DsBlockScale, SixteenRowsEqualGolden) { expect_golden("rows16", 16, kCols); }
TEST(DsBlockScale, TileEqualsGolden) { expect_golden("tile", kRows, kCols); }

TEST(DsBlockScale, FollowsTheTokenBlockRule) {
  for (float amax = 1e-30f; amax < 1e30f; amax *= 3.3f) {
    EXPECT_EQ(ds_exponent_e4m3(amax), round_up_exponent_e4m3(amax));
    EXPECT_EQ(ds_exponent_e5m2(amax), round_up_exponent_e5m2(amax));
    EXPECT_EQ(ds_exponent(amax, Format::kE5M2), ds_exponent_e5m2(amax));
  }
}

}  // namespace
}  // namespace flamia::test
