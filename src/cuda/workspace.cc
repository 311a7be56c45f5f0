// Sizes from capacities.
#include "cuda/workspace.h"

#include "base/bits.h"
#include "cuda/schedule.h"
#include "problem/token_blocks.h"
#include "schedule/work_item.h"

namespace flamia::cuda {

namespace {

class Layout {
 public:
  Extent take(int64_t count, int64_t element_bytes) {
    const Extent extent{bytes_, static_cast<size_t>(count * element_bytes)};
    bytes_ = round_up<size_t>(bytes_ + extent.bytes, kExtentAlignment);
    return extent;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace

ForwardWorkspace forward_workspace(const Problem& problem, const Conventions& conventions) {
  const int64_t query_blocks = token_block_capacity(problem.query_tokens, problem.documents);
  const int64_t key_blocks = token_block_capacity(problem.key_tokens, problem.documents);
  const bool bf16_scores = conventions.path != Path::kMxfp8;
  const bool bf16_values = conventions.path == Path::kBf16;
  const int64_t fp8_bytes = token_block_bytes(problem.head_dim);  // of a block, as all these
  const int64_t bf16_bytes = bf16_block_bytes(problem.head_dim);
  const int64_t score_bytes = bf16_scores ? bf16_bytes : fp8_bytes;
  const int64_t value_bytes = bf16_values ? bf16_bytes : fp8_bytes;
  const int64_t exponents = conventions.safety == Safety::kExact ? kTokenBlock : 1;
  const int64_t score_exponents = bf16_scores ? 0 : exponents;
  const int64_t value_exponents = bf16_values ? 0 : exponents;
  Layout layout;
  ForwardWorkspace result;
  result.counts = layout.take(1, sizeof(ScheduleCounts));
  result.next_work = layout.take(1, sizeof(uint32_t));
  result.query_blocks = layout.take(query_blocks, sizeof(TokenBlockRange));
  result.key_blocks = layout.take(key_blocks, sizeof(TokenBlockRange));
  result.items = layout.take(forward_item_capacity(problem.query_tokens, problem.documents),
                             sizeof(ForwardItem));
  result.schedule_scratch =
      layout.take(static_cast<int64_t>(schedule_scratch_bytes(
                      problem.query_tokens, problem.key_tokens, problem.documents)),
                  1);
  result.q_codes = layout.take(problem.heads * query_blocks, score_bytes);
  result.q_exponents = layout.take(problem.heads * query_blocks, score_exponents);
  result.k_codes = layout.take(problem.kv_heads * key_blocks, score_bytes);
  result.k_exponents = layout.take(problem.kv_heads * key_blocks, score_exponents);
  result.v_codes = layout.take(problem.kv_heads * key_blocks, value_bytes);
  result.v_exponents = layout.take(problem.kv_heads * key_blocks, value_exponents);
  result.bytes = layout.bytes();
  return result;
}

QuantizeWorkspace quantize_workspace(const Problem& problem) {
  const int64_t tokens = problem.query_tokens;
  const int64_t blocks = token_block_capacity(tokens, problem.documents);
  Layout layout;
  QuantizeWorkspace result;
  result.counts = layout.take(1, sizeof(ScheduleCounts));
  result.blocks = layout.take(blocks, sizeof(TokenBlockRange));
  result.items = layout.take(forward_item_capacity(tokens, problem.documents), sizeof(ForwardItem));
  result.schedule_scratch = layout.take(
      static_cast<int64_t>(schedule_scratch_bytes(tokens, tokens, problem.documents)), 1);
  result.codes = layout.take(problem.heads * blocks, token_block_bytes(problem.head_dim));
  result.exponents = layout.take(problem.heads * blocks, kTokenBlock);
  result.bytes = layout.bytes();
  return result;
}

}  // namespace flamia::cuda
