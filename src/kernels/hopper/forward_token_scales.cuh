// The forward kernel where every token has its own exponents (exact causal safety).
// Paper: 3.2, A.3. Used by: the roles in forward_load.cuh and forward_math.cuh.
//
// A score is multiplied by the factor of its key, then by that of its row. P-hat of a key is folded
// by the key's own V exponent less the reference of the row, which is the largest of the keys that
// the row sees. The constant rows hold 2^(e0 - e) of every key, e0 being that of the tile's first
// key: a row that sees this key, and no key whose fold is below the limit, finds its sum there. So
// the first key, too, is one that the row sees, and nothing of a row depends on any other.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/hopper/forward_config.h"
#include "kernels/hopper/forward_exponential.cuh"
#include "numerics/key_fold.h"
#include "plan/kernel_info.h"
#include "ptx/convert.cuh"

namespace flamia::hopper {

/// Key factors are 2^(exponent - kKeyShift) and row factors make up for it: a raw score, at most
/// 2^25, times the factor of the largest exponent, 120, stays finite.
inline constexpr int kKeyShift = 18;
/// Scores of rows with a larger exponent are first multiplied by what exceeds it, so that small
/// keys keep their bits and the factor of the row is finite.
inline constexpr int kMaxRowExponent = 40;

/// Exponents of the four tokens 4 lane .. 4 lane + 3 of a tile.
struct TokenExponents {
  uint32_t bytes;
  FLAMIA_DEVICE int at(int i) const { return static_cast<int8_t>(bytes >> 8 * i & 0xffu); }
};

/// Those of the tile that begins at `block` (counted over all heads) with `valid` blocks.
FLAMIA_DEVICE TokenExponents tile_exponents(const QuantizedOperand& operand, int64_t block,
                                            int valid, int lane) {
  constexpr uint32_t kNone = static_cast<uint8_t>(kNoScaleExponent) * 0x01010101u;
  const auto* words = reinterpret_cast<const uint32_t*>(operand.exponents + block * kTokenBlock);
  return {lane * 4 < valid * kTokenBlock ? words[lane] : kNone};
}

/// The producer's part of a unit of work: exponents of its query rows.
FLAMIA_DEVICE void store_row_exponents(const QuantizedOperand& queries, int64_t block, int lane,
                                       TokenWorkDescription* description) {
  reinterpret_cast<uint32_t*>(description->row_exponents)[lane] =
      tile_exponents(queries, block, kBlocksPerTile, lane).bytes;
}

/// The producer's part of a tile.
FLAMIA_DEVICE void write_token_scales(const ForwardArgs& args, TokenExponents keys,
                                      TokenExponents values, int first_key, int masked, int lane,
                                      TokenTileScales* scales) {
  float factor[4], exponent[4];
  int largest = kMinReference;
  int lowest = values.at(0);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    factor[i] = fold_factor(larger(keys.at(i) - kKeyShift, kMinFold));
    exponent[i] = static_cast<float>(values.at(i));
    largest = larger(largest, values.at(i));
    lowest = smaller(lowest, values.at(i));
  }
  reinterpret_cast<float4*>(scales->key_factor)[lane] = {factor[0], factor[1], factor[2],
                                                         factor[3]};
  reinterpret_cast<float4*>(scales->value_exponent)[lane] = {exponent[0], exponent[1], exponent[2],
                                                             exponent[3]};
  largest = __reduce_max_sync(0xffffffffu, largest);
  lowest = __reduce_min_sync(0xffffffffu, lowest);
  if (lane == 0) {
    const float unit = pow2(-values.at(0));
    const bool keeps = fold_keeps_row_sum(fold_exponent(lowest, largest));
    scales->reference = largest;
    scales->lowest = lowest;
    scales->whole_sum_unit = keeps && !args.sum_of_p ? unit : 0.0f;
    scales->sum_unit = unit;
    scales->first_key = first_key;
    scales->masked = masked;
  }
  __syncwarp();
}

/// Elements of the constant rows for the lane's four tokens.
FLAMIA_DEVICE uint32_t token_sum_codes(TokenExponents values) {
  const int first = __shfl_sync(0xffffffffu, values.at(0), 0);
  uint32_t codes = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) codes |= sum_code(first - values.at(i)) << 8 * i;
  return codes;
}

/// The eight bytes that a lane writes of a block's constant rows, [8 rows][32 tokens], in the order
/// and with the swizzle of transposed payloads (problem/token_blocks.h): of a half of a group of 16
/// tokens, tokens 4 h .. 4 h + 3 and those 8 after them, in pairs.
FLAMIA_DEVICE uint2 token_sum_row_piece(uint32_t codes, int block, int lane) {
  const int row = lane / 4;
  const int group = lane % 4 / 2 ^ row / 4;
  const int word = (block * kTokenBlock + group * 16) / 4 + lane % 2;
  const uint32_t low = __shfl_sync(0xffffffffu, codes, word);
  const uint32_t high = __shfl_sync(0xffffffffu, codes, word + 2);
  return {__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632)};
}

/// Columns 8 j + 2 quad and the next of an array over the keys of a tile.
FLAMIA_DEVICE float2 column_pair(const float* of_keys, int j, int quad) {
  return *reinterpret_cast<const float2*>(of_keys + 8 * j + 2 * quad);
}

/// Factors of a thread's two rows, of scores that scale_token_scores() has multiplied.
FLAMIA_DEVICE void row_factors(const TokenWorkDescription* description, int first_row,
                               float score_multiplier, float (&factor)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int exponent =
        smaller<int>(description->row_exponents[first_row + 8 * half], kMaxRowExponent);
    // Never zero: masked scores are -inf.
    factor[half] =
        larger(score_multiplier * fold_factor(exponent + kKeyShift), fold_factor(kMinFold));
  }
}

/// Raw scores of two rows times the factors of their keys.
template <int kScores>
FLAMIA_DEVICE void scale_token_scores(const TokenWorkDescription* description, int first_row,
                                      const TokenTileScales* scales, int quad,
                                      float (&s)[kScores]) {
  const int excess[2] = {description->row_exponents[first_row] - kMaxRowExponent,
                         description->row_exponents[first_row + 8] - kMaxRowExponent};
  if (__builtin_expect(__any_sync(0xffffffffu, excess[0] > 0 || excess[1] > 0), 0)) {
    const float more[2] = {fold_factor(larger(excess[0], 0)), fold_factor(larger(excess[1], 0))};
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] *= more[i / 2 % 2];
  }
#pragma unroll
  for (int j = 0; j < kScores / 4; ++j) {
    const float2 factor = column_pair(scales->key_factor, j, quad);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      s[4 * j + 2 * half] *= factor.x;
      s[4 * j + 2 * half + 1] *= factor.y;
    }
  }
}

/// Largest and smallest V exponent of the keys [begin, end) of a tile. All lanes of a quad have the
/// same range, all lanes of the warp are here.
struct ExponentRange {
  int largest, lowest;
};
FLAMIA_DEVICE ExponentRange exponents_between(const TokenTileScales* scales, int begin, int end,
                                              int quad) {
  float largest = kMinReference;
  float lowest = kMaxScaleExponent;
#pragma unroll 4
  for (int j = 0; j < kKeyTile / 8; ++j) {
    const float2 exponent = column_pair(scales->value_exponent, j, quad);
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int column = 8 * j + 2 * quad + b;
      const bool visible = column >= begin && column < end;
      const float e = b == 0 ? exponent.x : exponent.y;
      largest = visible ? larger(largest, e) : largest;
      lowest = visible ? smaller(lowest, e) : lowest;
    }
  }
#pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) {
    largest = larger(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    lowest = smaller(lowest, __shfl_xor_sync(0xffffffffu, lowest, distance));
  }
  return {static_cast<int>(largest), static_cast<int>(lowest)};
}

/// A thread's part of a row sum that the constant rows do not give, divided by 2^reference, of
/// scores that were multiplied by the factors of their keys. bias: c - m.
template <ForwardExponential kExponential, int kScores>
FLAMIA_DEVICE float token_sum_in_registers(const float (&s)[kScores], int half, float factor,
                                           const TokenTileScales* scales, float bias, int reference,
                                           bool sum_of_p, int quad) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kScores / 4; ++j) {
    const float2 exponent = column_pair(scales->value_exponent, j, quad);
    float p[2], undo[2];
    bool decoded[2];
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const float e = b == 0 ? exponent.x : exponent.y;
      const int fold = fold_exponent(static_cast<int>(e), reference);
      decoded[b] = fold_keeps_row_sum(fold) && !sum_of_p;
      undo[b] = decoded[b] ? fold_factor(-fold) : 1.0f;
      const float x = decoded[b] ? (bias - static_cast<float>(reference)) + e : bias;
      p[b] = exponential<kExponential>(fma_f32(s[4 * j + 2 * half + b], factor, x), j, quad);
    }
    uint32_t codes, none;
    ptx::unpack_e4m3x4(ptx::pack_e4m3x4(p[0], p[1], 0.0f, 0.0f), &codes, &none);
    const float low = __half2float(__ushort_as_half(static_cast<unsigned short>(codes & 0xffffu)));
    const float high = __half2float(__ushort_as_half(static_cast<unsigned short>(codes >> 16)));
    sum += (decoded[0] ? low : p[0]) * undo[0] + (decoded[1] ? high : p[1]) * undo[1];
  }
  return sum;
}

}  // namespace flamia::hopper
