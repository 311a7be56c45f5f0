// One query tile of the forward pass, as kernels read it, and its cost.
// Paper: 3.6.2, B.6. Used by: the list on the CPU (oracle), its construction on the GPU, the
// forward kernels. Heads are not part of an item: every item stands for all heads of a call.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"
#include "problem/mask.h"

namespace flamia {

/// 32 bytes, read as two vectors. Key tiles and positions count from the document's first key.
struct alignas(16) ForwardItem {
  int32_t query_block;  ///< token block of the tile's first row (problem/token_blocks.h)
  int32_t query_token;  ///< token of that row in q, o and lse
  int32_t rows;         ///< 1 to kQueryTile
  int32_t key_block;    ///< token block of the document's first key; 0 without keys
  int32_t keys;         ///< of the document
  int32_t position;     ///< key position of the first row: row + keys - queries, may be negative
  int32_t tile_begin;   ///< key tiles that any row sees: [tile_begin, tile_end), may be empty
  int32_t tile_end;
};
static_assert(sizeof(ForwardItem) == 32);

/// What the lengths come to.
struct ScheduleCounts {
  int32_t query_blocks;  ///< without slack
  int32_t key_blocks;
  int32_t items;        ///< forward items
  int32_t query_begin;  ///< query rows outside [query_begin, query_end) belong to no document
  int32_t query_end;
  int32_t key_begin;
  int32_t key_end;
  int32_t longest;  ///< cost of the most expensive item, key tiles
};

/// Key tiles that rows [first, first + rows) of a document see. Empty ranges are {0, 0}.
FLAMIA_HD constexpr KeyRange visible_key_tiles(const DocumentMask& mask, int64_t first,
                                               int64_t rows) {
  const KeyRange keys = mask.visible_keys(first, first + rows);
  if (keys.begin >= keys.end) return {0, 0};
  return {keys.begin / kKeyTile, ceil_div<int64_t>(keys.end, kKeyTile)};
}

/// Order of a list: the cost of an item is the number of key tiles it attends.
FLAMIA_HD constexpr int64_t work_cost(const KeyRange& key_tiles) {
  return key_tiles.end - key_tiles.begin;
}

/// Query tiles that any lengths of `documents` documents in `tokens` tokens can make.
FLAMIA_HD constexpr int64_t forward_item_capacity(int64_t tokens, int64_t documents) {
  return (tokens + (kQueryTile - 1) * smaller(tokens, documents)) / kQueryTile;
}

static_assert(forward_item_capacity(128, 1) == 1 && forward_item_capacity(129, 1) == 2);
static_assert(forward_item_capacity(3, 9) == 3);
static_assert(visible_key_tiles({256, 256, -1, 0}, 128, 128).end == 2);
static_assert(visible_key_tiles({4, 0, -1, 0}, 0, 4).end == 0);

}  // namespace flamia
