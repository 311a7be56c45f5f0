// Which keys a query row sees, tile by tile; and the tile sizes that numbers depend on.
// Paper: 3.2 (diagonal tiles). Used by: both passes of every backend.
// Positions are document-relative: query row i of a document with Lq queries and Lk keys sits at
// key position i + Lk - Lq (bottom-right alignment).
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"

namespace flamia {

/// Rows of one query tile of the forward pass and keys of one key tile of both passes.
constexpr int kQueryTile = 128;
constexpr int kKeyTile = 128;
/// Query rows of one tile of the backward pass: granularity of the dK and dV operand exponents.
constexpr int kHopperBackwardQueryTile = 64;
constexpr int kBlackwellBackwardQueryTile = 128;

/// Half-open range of document-relative keys.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Window of one document; window_left and window_right as in Mask, -1 unlimited.
struct DocumentMask {
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t window_left = -1;
  int64_t window_right = -1;

  /// Keys that query row i sees; empty (begin >= end) if none.
  FLAMIA_HD constexpr KeyRange visible_keys(int64_t i) const {
    const int64_t position = i + keys - queries;
    KeyRange range;
    range.begin = window_left < 0 ? 0 : larger<int64_t>(0, position - window_left);
    range.end = window_right < 0 ? keys : smaller<int64_t>(keys, position + window_right + 1);
    return range;
  }
  /// Keys that any of the rows [first, last) sees: the ranges of neighbours overlap or touch.
  FLAMIA_HD constexpr KeyRange visible_keys(int64_t first, int64_t last) const {
    KeyRange range = visible_keys(first);
    range.end = visible_keys(last - 1).end;
    return range;
  }
  /// Query rows that see key j.
  FLAMIA_HD constexpr KeyRange visible_queries(int64_t j) const {
    const int64_t row = j - keys + queries;  // the row whose position is j
    KeyRange range;
    range.begin = window_right < 0 ? 0 : larger<int64_t>(0, row - window_right);
    range.end = window_left < 0 ? queries : smaller<int64_t>(queries, row + window_left + 1);
    return range;
  }
  /// Whether all rows of the forward's query tile that holds row i see all `keys_in_tile` keys from
  /// first_key on. Both passes ask this, whatever their own tiles: where it is false, 4-bit V has
  /// other scales, and the backward must rebuild what the forward computed (paper 3.2, 3.3).
  FLAMIA_HD constexpr bool forward_tile_is_whole(int64_t i, int64_t first_key,
                                                 int64_t keys_in_tile) const {
    const int64_t first = i / kQueryTile * kQueryTile;
    const int64_t last = smaller<int64_t>(first + kQueryTile, queries) - 1;
    return visible_keys(last).begin <= first_key &&
           visible_keys(first).end >= first_key + keys_in_tile;
  }
  FLAMIA_HD constexpr bool visible(int64_t i, int64_t j) const {
    const KeyRange range = visible_keys(i);
    return j >= range.begin && j < range.end;
  }
};

static_assert(DocumentMask{4, 4, -1, 0}.visible(2, 2) && !DocumentMask{4, 4, -1, 0}.visible(2, 3));
static_assert(DocumentMask{1, 4, -1, 0}.visible(0, 3));
static_assert(!DocumentMask{4, 1, -1, 0}.visible(2, 0) && DocumentMask{4, 1, -1, 0}.visible(3, 0));
static_assert(DocumentMask{4, 4, 1, 0}.visible_queries(1).end == 3);
static_assert(DocumentMask{256, 256, -1, 0}.forward_tile_is_whole(200, 0, 128));
static_assert(!DocumentMask{256, 256, -1, 0}.forward_tile_is_whole(200, 128, 128));

}  // namespace flamia
