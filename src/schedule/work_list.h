// The packed layout and the forward work list, built plainly on the CPU.
// Paper: 3.6.1, 3.6.2, B.6. Used by: the CPU backend, and tests as the oracle of the list that
// kernels build (src/kernels/shared/schedule.cu), which is the same to the bit.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/packed_layout.h"
#include "problem/token_blocks.h"
#include "schedule/work_item.h"

namespace flamia {

/// Where the rows of an item stand in the caller's terms; kernels need it not.
struct ItemOrigin {
  int32_t document;
  int64_t first_row;  ///< document-relative
};

struct WorkList {
  ScheduleCounts counts{};
  /// token_block_capacity(tokens, documents) entries; {0, 0} past the last document's block.
  std::vector<TokenBlockRange> query_blocks;
  std::vector<TokenBlockRange> key_blocks;
  /// By decreasing cost, then by document, then by row.
  std::vector<ForwardItem> items;
  std::vector<ItemOrigin> origins;  ///< of items
};

/// Window as in Conventions, resolved. Bad lengths may describe more tokens than there are (then
/// documents overlap): the first document whose blocks exceed the capacity and all after it are
/// empty, on that side.
WorkList build_work_list(const PackedLayout& layout, int64_t window_left, int64_t window_right);

}  // namespace flamia
