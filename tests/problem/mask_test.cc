// Visibility of keys and the decision about cut tiles.
#include "problem/mask.h"

#include <gtest/gtest.h>

#include <array>

namespace flamia {
namespace {

TEST(ForwardTile, IsWholeExactlyWhereEveryRowSeesEveryKey) {
  for (const auto& [queries, keys, left, right] : {std::array<int64_t, 4>{300, 300, -1, 0},
                                                   {300, 364, -1, 0},
                                                   {200, 456, 150, 3},
                                                   {77, 500, -1, -1},
                                                   {260, 130, -1, 0}}) {
    const DocumentMask mask{queries, keys, left, right};
    for (int64_t row = 0; row < queries; ++row) {
      const int64_t first = row / kQueryTile * kQueryTile;
      for (int64_t key = 0; key < keys; key += kKeyTile) {
        const int64_t count = smaller<int64_t>(kKeyTile, keys - key);
        bool all = true;
        for (int64_t i = first; i < smaller<int64_t>(first + kQueryTile, queries); ++i) {
          for (int64_t j = key; j < key + count; ++j) all = all && mask.visible(i, j);
        }
        ASSERT_EQ(mask.forward_tile_is_whole(row, key, count), all) << row << " " << key;
      }
    }
  }
}

TEST(ForwardTile, IsTheSameForBothHalvesThatAHopperBackwardSees) {
  // Rows 64..127 alone see all of the first key tile, rows 0..63 do not.
  const DocumentMask mask{128, 192, -1, 0};
  EXPECT_FALSE(mask.forward_tile_is_whole(0, 0, 128));
  EXPECT_FALSE(mask.forward_tile_is_whole(64, 0, 128));
}

}  // namespace
}  // namespace flamia
