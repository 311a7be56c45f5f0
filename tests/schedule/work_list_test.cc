// The layout and the work list against what they mean: every row once, in whole blocks of its
// document, with all keys that it sees and the most expensive tiles first.
#include "schedule/work_list.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/lengths.h"

namespace flamia {
namespace {

using test::Lengths;
using test::lengths_of;
using test::OwnedLayout;

int cost_of(const ForwardItem& item) { return item.tile_end - item.tile_begin; }

/// Everything that must hold for lengths that do not overlap.
void check_list(const Lengths& queries, const Lengths& keys, int64_t left, int64_t right) {
  const OwnedLayout owned(queries, keys);
  const PackedLayout& layout = owned.get();
  const WorkList list = build_work_list(layout, left, right);
  const int64_t documents = layout.documents();
  ASSERT_EQ(static_cast<int64_t>(list.query_blocks.size()),
            token_block_capacity(queries.tokens, documents));
  ASSERT_EQ(static_cast<int64_t>(list.key_blocks.size()),
            token_block_capacity(keys.tokens, documents));
  ASSERT_LE(static_cast<int64_t>(list.items.size()),
            forward_item_capacity(queries.tokens, documents));
  ASSERT_EQ(list.items.size(), list.origins.size());
  ASSERT_EQ(list.counts.items, static_cast<int32_t>(list.items.size()));
  ASSERT_LE(list.counts.query_blocks + kSlackBlocks, static_cast<int>(list.query_blocks.size()));
  for (size_t b = static_cast<size_t>(list.counts.query_blocks); b < list.query_blocks.size();
       ++b) {
    ASSERT_EQ(list.query_blocks[b].token, 0);
    ASSERT_EQ(list.query_blocks[b].tokens, 0);
  }

  // Blocks hold every token of every document once, in order.
  size_t query_block = 0;
  size_t key_block = 0;
  std::vector<size_t> first_query_block;
  std::vector<size_t> first_key_block;
  for (int32_t document = 0; document < documents; ++document) {
    const DocumentSpan span = layout.span(document);
    first_query_block.push_back(query_block);
    first_key_block.push_back(key_block);
    for (int64_t token = span.query_begin; token < span.query_end; ++query_block) {
      ASSERT_EQ(list.query_blocks[query_block].token, token);
      const int64_t left_over = span.query_end - token;
      ASSERT_EQ(list.query_blocks[query_block].tokens, smaller<int64_t>(32, left_over));
      token += list.query_blocks[query_block].tokens;
    }
    for (int64_t token = span.key_begin; token < span.key_end; ++key_block) {
      ASSERT_EQ(list.key_blocks[key_block].token, token);
      token += list.key_blocks[key_block].tokens;
    }
  }
  ASSERT_EQ(list.counts.query_blocks, static_cast<int32_t>(query_block));
  ASSERT_EQ(list.counts.key_blocks, static_cast<int32_t>(key_block));

  // Items.
  std::vector<int> owners(static_cast<size_t>(queries.tokens), 0);
  for (size_t i = 0; i < list.items.size(); ++i) {
    const ForwardItem& item = list.items[i];
    const ItemOrigin& origin = list.origins[i];
    const DocumentSpan span = layout.span(origin.document);
    ASSERT_EQ(item.query_token, span.query_begin + origin.first_row);
    ASSERT_EQ(item.rows, smaller<int64_t>(kQueryTile, span.queries() - origin.first_row));
    ASSERT_EQ(list.query_blocks[static_cast<size_t>(item.query_block)].token, item.query_token);
    ASSERT_EQ(item.keys, span.keys());
    ASSERT_EQ(item.position, origin.first_row + span.keys() - span.queries());
    const auto document = static_cast<size_t>(origin.document);
    ASSERT_EQ(item.query_block,
              static_cast<int64_t>(first_query_block[document]) + origin.first_row / 32);
    ASSERT_EQ(item.key_block, item.keys > 0 ? static_cast<int64_t>(first_key_block[document]) : 0);
    for (int row = 0; row < item.rows; ++row) {
      ++owners[static_cast<size_t>(item.query_token + row)];
    }
    // The range of tiles holds every key that a row sees, and its ends are seen.
    const DocumentMask mask{span.queries(), span.keys(), left, right};
    int64_t begin = INT64_MAX;
    int64_t end = 0;
    for (int64_t row = 0; row < item.rows; ++row) {
      const KeyRange visible = mask.visible_keys(origin.first_row + row);
      if (visible.begin >= visible.end) continue;
      begin = smaller(begin, visible.begin);
      end = larger(end, visible.end);
    }
    if (end == 0) {
      ASSERT_EQ(cost_of(item), 0);
    } else {
      ASSERT_LE(item.tile_begin, begin / kKeyTile);
      ASSERT_EQ(item.tile_end, ceil_div<int64_t>(end, kKeyTile));
    }
    if (i == 0) {
      ASSERT_EQ(list.counts.longest, cost_of(item));
      continue;
    }
    const ForwardItem& previous = list.items[i - 1];
    ASSERT_GE(cost_of(previous), cost_of(item));
    if (cost_of(previous) == cost_of(item)) {
      const ItemOrigin& before = list.origins[i - 1];
      ASSERT_TRUE(before.document < origin.document ||
                  (before.document == origin.document && before.first_row < origin.first_row));
    }
  }
  for (int64_t token = 0; token < queries.tokens; ++token) {
    const bool inside = token >= list.counts.query_begin && token < list.counts.query_end;
    ASSERT_EQ(owners[static_cast<size_t>(token)], inside ? 1 : 0) << token;
  }
}

TEST(WorkList, HoldsEveryRowOnceMostExpensiveTilesFirst) {
  const std::vector<std::vector<int64_t>> cases = {
      {},     {0},       {0, 0, 0},         {1},       {31, 32, 33}, {127, 128, 129},
      {0, 5}, {5, 0, 0}, {0, 700, 0, 1, 0}, {4096, 1}, {1, 4096},    std::vector<int64_t>(300, 1)};
  for (const auto& documents : cases) {
    for (const auto& [left, right] :
         {std::pair<int64_t, int64_t>{-1, 0}, {-1, -1}, {200, 0}, {0, 0}, {130, 17}}) {
      for (const int64_t unowned : {0, 40}) {
        const Lengths lengths = lengths_of(documents, unowned);
        check_list(lengths, lengths, left, right);
      }
    }
  }
}

TEST(WorkList, TakesKeysOfTheirOwn) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    std::vector<int64_t> queries;
    std::vector<int64_t> keys;
    for (int document = 0; document < 12; ++document) {
      queries.push_back(random() % 3 == 0 ? 0 : random() % 500);
      keys.push_back(random() % 4 == 0 ? 0 : random() % 900);
    }
    check_list(lengths_of(queries, random() % 50), lengths_of(keys, random() % 50), -1, 0);
    check_list(lengths_of(queries), lengths_of(keys), random() % 300, random() % 50);
  }
}

TEST(WorkList, OrdersACausalDocumentFromItsEnd) {
  const Lengths lengths = lengths_of({300, 200});
  const OwnedLayout owned(lengths, lengths);
  const WorkList list = build_work_list(owned.get(), -1, 0);
  ASSERT_EQ(list.items.size(), 5u);
  EXPECT_EQ(list.items[0].query_token, 256);
  EXPECT_EQ(list.items[0].rows, 44);
  EXPECT_EQ(list.items[1].query_token, 128);
  EXPECT_EQ(list.items[2].query_token, 428);
  EXPECT_EQ(list.items[2].query_block, 14);
  EXPECT_EQ(list.items[2].key_block, 10);
  EXPECT_EQ(list.items[3].query_token, 0);
  EXPECT_EQ(list.items[4].query_token, 300);
  EXPECT_EQ(list.counts.longest, 3);
}

TEST(WorkList, GivesRowsWithoutKeysAnItem) {
  // Causal with more queries than keys: the first rows stand before the first key.
  const OwnedLayout owned(lengths_of({300}), lengths_of({20}));
  const WorkList list = build_work_list(owned.get(), -1, 0);
  ASSERT_EQ(list.items.size(), 3u);
  EXPECT_EQ(list.items[0].query_token, 256);
  EXPECT_EQ(list.items[0].position, 256 + 20 - 300);
  EXPECT_EQ(cost_of(list.items[1]), 0);
  EXPECT_EQ(list.items[1].query_token, 0);
  EXPECT_EQ(list.items[2].query_token, 128);
}

TEST(WorkList, ReadsABatch) {
  const WorkList list = build_work_list(test::batch_layout(3, 130, 70), -1, -1);
  EXPECT_EQ(list.counts.query_blocks, 15);
  EXPECT_EQ(list.counts.key_blocks, 9);
  EXPECT_EQ(list.counts.items, 6);
  EXPECT_EQ(list.counts.query_end, 390);
  EXPECT_EQ(list.counts.key_end, 210);
  EXPECT_EQ(list.items[5].query_token, 388);
  EXPECT_EQ(list.items[5].key_block, 6);
}

TEST(WorkList, StaysInsideItsCapacitiesWhateverTheLengths) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    Lengths lengths;
    lengths.tokens = random() % 600;
    for (uint32_t entry = 0; entry <= random() % 30 + 1; ++entry) {
      lengths.cumulative.push_back(static_cast<int64_t>(random() % 1000) - 200);
    }
    const OwnedLayout owned(lengths, lengths);
    const WorkList list = build_work_list(owned.get(), -1, 0);
    const int64_t capacity = token_block_capacity(lengths.tokens, lengths.documents());
    ASSERT_EQ(static_cast<int64_t>(list.query_blocks.size()), capacity);
    ASSERT_LE(static_cast<int64_t>(list.items.size()),
              forward_item_capacity(lengths.tokens, lengths.documents()));
    for (const TokenBlockRange& block : list.query_blocks) {
      ASSERT_GE(block.token, 0);
      ASSERT_LE(block.token + block.tokens, lengths.tokens);
    }
    for (const ForwardItem& item : list.items) {
      ASSERT_GE(item.query_token, 0);
      ASSERT_LE(item.query_token + item.rows, lengths.tokens);
      ASSERT_LE(item.query_block + ceil_div(item.rows, 32), list.counts.query_blocks);
      ASSERT_LE(item.key_block + ceil_div(item.keys, 32), list.counts.key_blocks);
      ASSERT_LE(item.tile_end * kKeyTile, item.keys + kKeyTile - 1);
    }
  }
}

TEST(WorkList, EndsWhereOverlappingDocumentsNoLongerFit) {
  Lengths lengths;
  lengths.tokens = 128;
  lengths.cumulative = {0, 128, 0, 128, 0, 1};  // 128, 0, 128, 0 and 1 token
  const OwnedLayout owned(lengths, lengths);
  const WorkList list = build_work_list(owned.get(), -1, 0);
  // Capacity: (128 + 5 * 31) / 32 = 8 blocks, so both long documents fit and the last does not.
  EXPECT_EQ(list.counts.query_blocks, 8);
  EXPECT_EQ(list.counts.items, 2);
  EXPECT_EQ(list.items[1].query_block, 4);
  EXPECT_EQ(list.items[1].query_token, 0);
}

}  // namespace
}  // namespace flamia
