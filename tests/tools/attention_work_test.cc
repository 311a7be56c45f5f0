// Work is counted pair by pair, whatever the mask and the lengths.
#include "tools/attention_work.h"

#include <gtest/gtest.h>

#include <vector>

#include "problem/mask.h"

namespace flamia::tools {
namespace {

struct Call {
  Problem problem;
  std::vector<int32_t> cu_q, cu_k;

  static TensorView view(std::vector<int32_t>& cu) {
    TensorView result;
    if (cu.empty()) return result;
    result.data = cu.data();
    result.dtype = DType::kI32;
    result.rank = 1;
    result.shape[0] = static_cast<int64_t>(cu.size());
    result.stride[0] = 1;
    return result;
  }
  AttentionWork work(const Mask& mask) { return count_work(problem, mask, view(cu_q), view(cu_k)); }
};

Call packed(std::vector<int32_t> cu_q, std::vector<int32_t> cu_k) {
  Call call;
  call.problem.query_tokens = cu_q.back() + 5;  // rows of nobody
  call.problem.key_tokens = cu_k.empty() ? call.problem.query_tokens : cu_k.back() + 5;
  call.problem.documents = static_cast<int32_t>(cu_q.size()) - 1;
  call.problem.heads = 3;
  call.problem.kv_heads = 1;
  call.problem.head_dim = 64;
  call.cu_q = std::move(cu_q);
  call.cu_k = std::move(cu_k);
  return call;
}

TEST(AttentionWork, CountsEveryMask) {
  Call call = packed({0, 4, 4, 10}, {});
  EXPECT_EQ(call.work({}).pairs, 16 + 36);
  EXPECT_EQ(call.work({MaskKind::kCausal, -1, -1}).pairs, 10 + 21);
  EXPECT_EQ(call.work({MaskKind::kWindow, -1, 0}).pairs, 10 + 21);
  EXPECT_EQ(call.work({MaskKind::kWindow, 1, 0}).pairs, 7 + 11);
  EXPECT_EQ(call.work({MaskKind::kWindow, 0, 0}).pairs, 10);
  EXPECT_EQ(call.work({MaskKind::kWindow, 1, 1}).pairs, 10 + 16);
}

TEST(AttentionWork, EqualsTheCountOfEveryPair) {
  for (int32_t queries = 0; queries <= 7; ++queries) {
    for (int32_t keys = 0; keys <= 7; ++keys) {
      Call call = packed({0, queries}, {0, keys});
      for (int64_t left = -1; left <= 8; ++left) {
        for (int64_t right = -1; right <= 8; ++right) {
          const DocumentMask mask{queries, keys, left, right};
          int64_t pairs = 0;
          for (int64_t i = 0; i < queries; ++i) {
            for (int64_t j = 0; j < keys; ++j) pairs += mask.visible(i, j) ? 1 : 0;
          }
          ASSERT_EQ(call.work({MaskKind::kWindow, left, right}).pairs, pairs)
              << queries << " " << keys << " " << left << " " << right;
        }
      }
    }
  }
}

TEST(AttentionWork, TakesNoTimeForLongDocuments) {
  Call call = packed({0, 2'000'000'000}, {});
  EXPECT_EQ(call.work({MaskKind::kCausal, -1, -1}).pairs, 2'000'000'000.0 * 2'000'000'001.0 / 2);
}

TEST(AttentionWork, AlignsMasksAtTheBottomRight) {
  Call call = packed({0, 2, 6}, {0, 5, 7});
  EXPECT_EQ(call.work({}).pairs, 10 + 8);
  // Rows of 2 queries over 5 keys see 4 and 5; rows of 4 queries over 2 keys see 0, 0, 1, 2.
  EXPECT_EQ(call.work({MaskKind::kCausal, -1, -1}).pairs, 9 + 3);
}

TEST(AttentionWork, CountsBatches) {
  Call call;
  call.problem.query_tokens = 8;
  call.problem.key_tokens = 8;
  call.problem.batch = 2;
  call.problem.documents = 2;
  call.problem.heads = 2;
  call.problem.kv_heads = 2;
  call.problem.head_dim = 128;
  const AttentionWork work = call.work({MaskKind::kCausal, -1, -1});
  EXPECT_EQ(work.pairs, 20);
  EXPECT_EQ(work.forward_flops, 4.0 * 128 * 20 * 2);
  EXPECT_EQ(work.backward_flops, 10.0 * 128 * 20 * 2);
}

}  // namespace
}  // namespace flamia::tools
