// How Hopper kernels see the quantized operands of packed documents: blocks of 32 tokens.
// Paper: 3.1, 3.2 (token-block scales), 3.6.1 (packed layout). Used by: the device's quantizers,
// the work list, the attention kernels, the host side that sizes buffers; host-testable.
//
// Every document owns whole blocks: block b of a document holds its tokens [32b, 32b + 32), padded
// with zero codes. Blocks of one head are contiguous, documents follow one another, so that any run
// of blocks of a document is one bulk copy. A payload is stored as shared memory wants it,
// swizzled:
//   row-major   [32 tokens][head_dim] bytes, contracted over head channels (Q, K, dO in S and dP);
//   transposed  [head_dim][32 tokens] bytes, contracted over tokens (V in P V), the tokens of each
//               group of 16 permuted so that an accumulator fragment, converted in place, is the
//               other operand;
//   BF16        [head_dim / 64][32 tokens][64] elements, for the paths that multiply in BF16.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"
#include "numerics/token_block_scale.h"

namespace flamia {

/// Blocks past the last document's, so that a copy of a whole tile of 128 tokens stays inside.
inline constexpr int kSlackBlocks = 3;

/// Tokens of one block: [token, token + tokens) of the packed tensor; {0, 0} in slack blocks.
struct TokenBlockRange {
  int32_t token;
  int32_t tokens;
};

/// Blocks of one head that any lengths of `documents` documents in `tokens` tokens can fill,
/// slack included.
FLAMIA_HD constexpr int64_t token_block_capacity(int64_t tokens, int64_t documents) {
  const int64_t padding = (kTokenBlock - 1) * smaller(tokens, documents);
  return (tokens + padding) / kTokenBlock + kSlackBlocks;
}

/// Bytes of one block's payload.
FLAMIA_HD constexpr int token_block_bytes(int head_dim) { return kTokenBlock * head_dim; }

/// 16-byte chunk `chunk` of row `row` in a matrix of rows of `row_bytes` (32, 64 or 128), swizzled
/// as tensor cores read it: the chunk index is xored with the row, counted in units of 128 bytes.
FLAMIA_HD constexpr int swizzled_chunk(int row, int chunk, int row_bytes) {
  const int rows_per_line = 128 / row_bytes;
  const int chunks = row_bytes / 16;
  return row * row_bytes + (chunk ^ ((row / rows_per_line) & (chunks - 1))) * 16;
}

/// Byte of [token][channel] in a row-major block of head_dim 64 or 128; token in [0, 32).
FLAMIA_HD constexpr int row_payload_byte(int token, int channel, int head_dim) {
  return swizzled_chunk(token, channel / 16, head_dim) + channel % 16;
}

/// Byte of [channel][position] in a transposed block.
FLAMIA_HD constexpr int transposed_payload_byte(int channel, int position) {
  return swizzled_chunk(channel, position / 16, kTokenBlock) + position % 16;
}

/// Bytes of one block in BF16, and the byte of [token][channel] in it: [head_dim / 64][32][64], one
/// matrix of 128-byte rows for every 64 channels.
FLAMIA_HD constexpr int bf16_block_bytes(int head_dim) { return 2 * kTokenBlock * head_dim; }
FLAMIA_HD constexpr int bf16_payload_byte(int token, int channel) {
  return channel / 64 * bf16_block_bytes(64) + swizzled_chunk(token, channel % 64 / 8, 128) +
         channel % 8 * 2;
}

/// Order of tokens in a transposed payload.
enum class TokenOrder : uint8_t {
  kAccumulator,  ///< P or dS converted where the accumulator leaves them (V in P V)
  kStoredPairs,  ///< dS stored in pairs of rows r, r + 8 (K in dQ)
};

/// Position in the block of a token of the block, both in [0, 32).
FLAMIA_HD constexpr int transposed_position(int token, TokenOrder order) {
  const int group = token / 16 * 16;
  const int t = token % 16;
  if (order == TokenOrder::kAccumulator) {
    // Thread c of a quad holds columns 2c, 2c+1, 2c+8, 2c+9 and they become four adjacent bytes.
    return group + (t % 8) / 2 * 4 + t / 8 * 2 + t % 2;
  }
  return group + t % 8 * 2 + t / 8;
}

static_assert(token_block_capacity(64, 1) == 2 + kSlackBlocks);
static_assert(token_block_capacity(3, 7) == 3 + kSlackBlocks, "three documents of one token");
static_assert(row_payload_byte(1, 0, 128) == 128 + 16 &&
              row_payload_byte(9, 17, 128) == 9 * 128 + 1);
static_assert(row_payload_byte(2, 0, 64) == 128 + 16 && row_payload_byte(1, 0, 64) == 64);
static_assert(transposed_payload_byte(4, 0) == 4 * 32 + 16 &&
              transposed_payload_byte(3, 16) == 112);
static_assert(bf16_payload_byte(0, 9) == 16 + 2 && bf16_payload_byte(9, 64) == 4096 + 9 * 128 + 16);
static_assert(transposed_position(8, TokenOrder::kAccumulator) == 2);
static_assert(transposed_position(2, TokenOrder::kAccumulator) == 4);
static_assert(transposed_position(26, TokenOrder::kAccumulator) == 16 + 6);
static_assert(transposed_position(8, TokenOrder::kStoredPairs) == 1);
static_assert(transposed_position(17, TokenOrder::kStoredPairs) == 18);

}  // namespace flamia
