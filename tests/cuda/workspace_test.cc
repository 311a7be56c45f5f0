// The map of a call's workspace: sizes from capacities, no overlap, alignment.
#include "cuda/workspace.h"

#include <gtest/gtest.h>

#include <vector>

#include "cuda/schedule.h"
#include "plan/plan.h"
#include "problem/token_blocks.h"
#include "schedule/work_item.h"

namespace flamia::cuda {
namespace {

Problem problem_of(int64_t query_tokens, int64_t key_tokens, int32_t documents) {
  Problem problem;
  problem.query_tokens = query_tokens;
  problem.key_tokens = key_tokens;
  problem.documents = documents;
  problem.heads = 6;
  problem.kv_heads = 2;
  problem.head_dim = 128;
  return problem;
}

TEST(ForwardWorkspace, ExtentsFollowOneAnotherAligned) {
  for (const int64_t tokens : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{131072}}) {
    const ForwardWorkspace map = forward_workspace(problem_of(tokens, tokens + 7, 40), {});
    const std::vector<Extent> extents = {map.counts,      map.next_work,   map.query_blocks,
                                         map.key_blocks,  map.items,       map.schedule_scratch,
                                         map.q_codes,     map.q_exponents, map.k_codes,
                                         map.k_exponents, map.v_codes,     map.v_exponents};
    size_t end = 0;
    for (const Extent& extent : extents) {
      EXPECT_EQ(extent.offset % kExtentAlignment, 0u);
      EXPECT_GE(extent.offset, end);
      end = extent.offset + extent.bytes;
    }
    EXPECT_GE(map.bytes, end);
    EXPECT_LT(map.bytes, end + kExtentAlignment);
  }
}

TEST(ForwardWorkspace, HoldsTheBlocksOfAnyLengths) {
  const Problem problem = problem_of(1000, 500, 40);
  const ForwardWorkspace map = forward_workspace(problem, {});
  const auto queries = static_cast<size_t>(token_block_capacity(1000, 40));
  const auto keys = static_cast<size_t>(token_block_capacity(500, 40));
  EXPECT_EQ(map.query_blocks.bytes, queries * 8);
  EXPECT_EQ(map.key_blocks.bytes, keys * 8);
  EXPECT_EQ(map.q_codes.bytes, 6 * queries * 32 * 128);
  EXPECT_EQ(map.q_exponents.bytes, 6 * queries);
  EXPECT_EQ(map.k_codes.bytes, 2 * keys * 32 * 128);
  EXPECT_EQ(map.v_codes.bytes, map.k_codes.bytes);
  EXPECT_EQ(map.v_exponents.bytes, 2 * keys);
  EXPECT_EQ(map.items.bytes, static_cast<size_t>(forward_item_capacity(1000, 40)) * 32);
  EXPECT_EQ(map.schedule_scratch.bytes, schedule_scratch_bytes(1000, 500, 40));
}

TEST(ForwardWorkspace, HoldsBf16WithoutExponents) {
  Conventions conventions;
  conventions.path = Path::kBf16;
  const ForwardWorkspace map = forward_workspace(problem_of(1000, 500, 40), conventions);
  const auto queries = static_cast<size_t>(token_block_capacity(1000, 40));
  const auto keys = static_cast<size_t>(token_block_capacity(500, 40));
  EXPECT_EQ(map.q_codes.bytes, 6 * queries * 32 * 128 * 2);
  EXPECT_EQ(map.k_codes.bytes, 2 * keys * 32 * 128 * 2);
  EXPECT_EQ(map.v_codes.bytes, map.k_codes.bytes);
  EXPECT_EQ(map.q_exponents.bytes + map.k_exponents.bytes + map.v_exponents.bytes, 0u);
}

TEST(ForwardWorkspace, HoldsBf16ScoresAndFp8ValuesForNvfp4) {
  Conventions conventions;
  conventions.path = Path::kNvfp4;
  const ForwardWorkspace map = forward_workspace(problem_of(1000, 500, 40), conventions);
  const auto queries = static_cast<size_t>(token_block_capacity(1000, 40));
  const auto keys = static_cast<size_t>(token_block_capacity(500, 40));
  EXPECT_EQ(map.q_codes.bytes, 6 * queries * 32 * 128 * 2);
  EXPECT_EQ(map.k_codes.bytes, 2 * keys * 32 * 128 * 2);
  EXPECT_EQ(map.q_exponents.bytes + map.k_exponents.bytes, 0u);
  EXPECT_EQ(map.v_codes.bytes, 2 * keys * 32 * 128);
  EXPECT_EQ(map.v_exponents.bytes, 2 * keys);
}

TEST(ForwardWorkspace, HoldsAnExponentOfEveryTokenForExactSafety) {
  const Problem problem = problem_of(1000, 500, 40);
  const ForwardWorkspace usual = forward_workspace(problem, {});
  Conventions conventions;
  conventions.safety = Safety::kExact;
  const ForwardWorkspace exact = forward_workspace(problem, conventions);
  EXPECT_EQ(exact.q_exponents.bytes, 32 * usual.q_exponents.bytes);
  EXPECT_EQ(exact.k_exponents.bytes, 32 * usual.k_exponents.bytes);
  EXPECT_EQ(exact.v_exponents.bytes, 32 * usual.v_exponents.bytes);
  EXPECT_EQ(exact.v_codes.bytes, usual.v_codes.bytes);
}

TEST(ForwardWorkspace, CountsInMoreThan32Bits) {
  Problem problem = problem_of(INT32_MAX, INT32_MAX, 1);
  problem.heads = problem.kv_heads = 8;
  const ForwardWorkspace map = forward_workspace(problem, {});
  EXPECT_GT(map.bytes, size_t{3} * 8 * INT32_MAX * 128);
  EXPECT_LT(map.bytes, size_t{3} * 8 * INT32_MAX * 130);
}

/// What a training call of 131072 tokens takes beside q, k, v and O.
TEST(ForwardWorkspace, OfALongRowIsSmall) {
  Plan plan;
  plan.problem = problem_of(131072, 131072, 64);
  plan.problem.heads = plan.problem.kv_heads = 16;
  const SavedBytes saved = saved_for_backward(plan);
  const auto kept =
      static_cast<int64_t>(forward_workspace(plan.problem, plan.conventions).bytes) + saved.lse;
  EXPECT_LE(kept, 1'100'000'000);
  EXPECT_GE(kept, int64_t{3} * 131072 * 16 * 128);  // a code for every element of q, k and v
  EXPECT_LE(saved.o_residual, 550'000'000);
  EXPECT_EQ(saved.o_residual, int64_t{2} * 131072 * 16 * 128);
  plan.conventions.delta = Delta::kOBf16;
  EXPECT_EQ(saved_for_backward(plan).o_residual, 0);
}

/// Beside the codes of Q, K and V there is next to nothing.
TEST(ForwardWorkspace, OfALongRowHoldsTheCodesOfItsPath) {
  struct {
    Path path;
    int64_t bytes;  ///< of Q, K and V for an element of each
  } const kinds[] = {{Path::kMxfp8, 3}, {Path::kNvfp4, 5}, {Path::kBf16, 6}};
  Problem problem = problem_of(131072, 131072, 64);
  problem.heads = problem.kv_heads = 16;
  for (const auto& kind : kinds) {
    for (const Safety safety : {Safety::kDefault, Safety::kExact}) {
      Conventions conventions;
      conventions.path = kind.path;
      conventions.safety = safety;
      const auto bytes = static_cast<double>(forward_workspace(problem, conventions).bytes);
      const double codes = static_cast<double>(kind.bytes) * 131072 * 16 * 128;
      EXPECT_GE(bytes, codes) << int(kind.path);
      EXPECT_LE(bytes, codes * 1.03) << int(kind.path);
    }
  }
}

TEST(QuantizeWorkspace, HoldsOneTensor) {
  const QuantizeWorkspace map = quantize_workspace(problem_of(1000, 1000, 40));
  const auto blocks = static_cast<size_t>(token_block_capacity(1000, 40));
  EXPECT_EQ(map.codes.bytes, 6 * blocks * 32 * 128);
  EXPECT_EQ(map.exponents.bytes, 6 * blocks * 32);
  EXPECT_EQ(map.blocks.bytes, blocks * 8);
  EXPECT_GE(map.bytes, map.exponents.offset + map.exponents.bytes);
}

}  // namespace
}  // namespace flamia::cuda
