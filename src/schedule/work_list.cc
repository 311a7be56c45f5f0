// Token blocks document by document, then the items, sorted.
#include "schedule/work_list.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace flamia {
namespace {

/// The block table of one side as it grows.
class BlockTable {
 public:
  BlockTable(int64_t tokens, int64_t documents)
      : capacity_(token_block_capacity(tokens, documents) - kSlackBlocks) {}

  /// Appends the blocks of a document and returns its first; *length becomes 0 if they do not fit.
  int64_t append(int64_t begin, int64_t* length) {
    const int64_t first = static_cast<int64_t>(blocks_.size());
    full_ = full_ || first + ceil_div<int64_t>(*length, kTokenBlock) > capacity_;
    if (full_) *length = 0;
    for (int64_t token = 0; token < *length; token += kTokenBlock) {
      blocks_.push_back({static_cast<int32_t>(begin + token),
                         static_cast<int32_t>(smaller<int64_t>(kTokenBlock, *length - token))});
    }
    return first;
  }

  int32_t size() const { return static_cast<int32_t>(blocks_.size()); }

  std::vector<TokenBlockRange> with_slack() && {
    blocks_.resize(static_cast<size_t>(capacity_ + kSlackBlocks), TokenBlockRange{0, 0});
    return std::move(blocks_);
  }

 private:
  int64_t capacity_;
  bool full_ = false;
  std::vector<TokenBlockRange> blocks_;
};

int64_t cost_of(const ForwardItem& item) { return work_cost({item.tile_begin, item.tile_end}); }

/// Puts the most expensive items first and keeps the order of equals.
void sort_by_cost(WorkList* list) {
  std::vector<size_t> order(list->items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return cost_of(list->items[a]) > cost_of(list->items[b]);
  });
  std::vector<ForwardItem> items;
  std::vector<ItemOrigin> origins;
  items.reserve(order.size());
  origins.reserve(order.size());
  for (const size_t index : order) {
    items.push_back(list->items[index]);
    origins.push_back(list->origins[index]);
  }
  list->items = std::move(items);
  list->origins = std::move(origins);
}

}  // namespace

WorkList build_work_list(const PackedLayout& layout, int64_t window_left, int64_t window_right) {
  const int32_t documents = layout.documents();
  WorkList list;
  BlockTable query_table(layout.query_tokens(), documents);
  BlockTable key_table(layout.key_tokens(), documents);
  for (int32_t document = 0; document < documents; ++document) {
    const DocumentSpan span = layout.span(document);
    DocumentMask mask{span.queries(), span.keys(), window_left, window_right};
    const int64_t query_block = query_table.append(span.query_begin, &mask.queries);
    const int64_t key_block = key_table.append(span.key_begin, &mask.keys);
    for (int64_t first = 0; first < mask.queries; first += kQueryTile) {
      const int64_t rows = smaller<int64_t>(kQueryTile, mask.queries - first);
      const KeyRange tiles = visible_key_tiles(mask, first, rows);
      ForwardItem item;
      item.query_block = static_cast<int32_t>(query_block + first / kTokenBlock);
      item.query_token = static_cast<int32_t>(span.query_begin + first);
      item.rows = static_cast<int32_t>(rows);
      item.key_block = mask.keys > 0 ? static_cast<int32_t>(key_block) : 0;
      item.keys = static_cast<int32_t>(mask.keys);
      item.position = static_cast<int32_t>(first + mask.keys - mask.queries);
      item.tile_begin = static_cast<int32_t>(tiles.begin);
      item.tile_end = static_cast<int32_t>(tiles.end);
      list.items.push_back(item);
      list.origins.push_back({document, first});
    }
  }
  sort_by_cost(&list);

  list.counts.query_blocks = query_table.size();
  list.counts.key_blocks = key_table.size();
  list.counts.items = static_cast<int32_t>(list.items.size());
  if (documents > 0) {
    const DocumentSpan first = layout.span(0);
    const DocumentSpan last = layout.span(documents - 1);
    list.counts.query_begin = static_cast<int32_t>(first.query_begin);
    list.counts.query_end = static_cast<int32_t>(last.query_end);
    list.counts.key_begin = static_cast<int32_t>(first.key_begin);
    list.counts.key_end = static_cast<int32_t>(last.key_end);
  }
  list.counts.longest = list.items.empty() ? 0 : static_cast<int32_t>(cost_of(list.items.front()));
  list.query_blocks = std::move(query_table).with_slack();
  list.key_blocks = std::move(key_table).with_slack();
  return list;
}

}  // namespace flamia
