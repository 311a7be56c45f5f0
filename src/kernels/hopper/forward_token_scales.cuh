// The forward kernel where every token has its own exponents (exact causal safety): those of Q and
// K as factors of scores, those of V as folds of P-hat. Paper: 3.2, A.3. Used by: the roles in
// forward_load.cuh and forward_math.cuh.
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

/// Key factors are 2^(exponent - kKeyShift) and row factors make up for it: a raw score of MXFP8,
/// at most 2^25, times the factor of the largest exponent, 120, stays finite.
inline constexpr int kKeyShift = 18;
/// Scores of rows with a larger exponent are first multiplied by what exceeds it, so that small
/// keys keep their bits and the factor of the row is finite.
inline constexpr int kMaxRowExponent = 40;

/// Exponents of four tokens.
struct TokenExponents {
  uint32_t bytes;
  FLAMIA_DEVICE int at(int i) const { return static_cast<int8_t>(bytes >> 8 * i & 0xffu); }
};
/// Those of this lane's tokens, 4 lane .. 4 lane + 3, of a tile with `valid` blocks that begins at
/// `block` (counted over all heads).
FLAMIA_DEVICE TokenExponents token_exponents(const QuantizedOperand& operand, int64_t block,
                                             int valid, int lane) {
  constexpr uint32_t kNone = static_cast<uint8_t>(kNoScaleExponent) * 0x01010101u;
  const auto* words = reinterpret_cast<const uint32_t*>(operand.exponents + block * kTokenBlock);
  return {lane * 4 < valid * kTokenBlock ? words[lane] : kNone};
}

/// The values of this lane's four tokens, in their places (factor_position()).
FLAMIA_DEVICE void store_by_key(const float4& values, int lane, float* of_keys) {
  *reinterpret_cast<float2*>(of_keys + factor_position(4 * lane)) = {values.x, values.y};
  *reinterpret_cast<float2*>(of_keys + factor_position(4 * lane + 2)) = {values.z, values.w};
}
/// Those of a thread's columns 8 j + 2 quad and the next (x, y), and of j + 1 (z, w), for even j.
FLAMIA_DEVICE float4 column_quad(const float* of_keys, int j, int quad) {
  return reinterpret_cast<const float4*>(of_keys)[2 * j + quad];
}

/// Factors of a thread's two rows, of scores that scale_token_scores() has multiplied. exponents:
/// those of Q, of the first row and those after it.
FLAMIA_DEVICE void row_factors(const int8_t* exponents, float score_multiplier,
                               float (&factor)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int exponent = smaller<int>(exponents[8 * half], kMaxRowExponent);
    // Never zero: masked scores are -inf.
    factor[half] =
        larger(score_multiplier * fold_factor(exponent + kKeyShift), fold_factor(kMinFold));
  }
}

/// Raw scores of two rows times the factors of their keys.
template <int kScores>
FLAMIA_DEVICE void scale_token_scores(const int8_t* exponents, const float* key_factors, int quad,
                                      float (&s)[kScores]) {
  const int excess[2] = {exponents[0] - kMaxRowExponent, exponents[8] - kMaxRowExponent};
  if (__builtin_expect(__any_sync(0xffffffffu, excess[0] > 0 || excess[1] > 0), 0)) {
    const float more[2] = {fold_factor(larger(excess[0], 0)), fold_factor(larger(excess[1], 0))};
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] *= more[i / 2 % 2];
  }
#pragma unroll
  for (int i = 0; i < kScores; i += 8) {
    const float4 factor = column_quad(key_factors, i / 4, quad);
#pragma unroll
    for (int half = 0; half < 4; half += 2) {
      s[i + half] *= factor.x;
      s[i + half + 1] *= factor.y;
      s[i + half + 4] *= factor.z;
      s[i + half + 5] *= factor.w;
    }
  }
}

/// The producer's part of a tile with exponents of V for each token.
FLAMIA_DEVICE void write_token_folds(TokenExponents values, bool sum_of_p, int lane,
                                     TokenTileScales* scales) {
  const int exponent[4] = {values.at(0), values.at(1), values.at(2), values.at(3)};
  int largest = kMinReference;
  int lowest = exponent[0];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    largest = larger(largest, exponent[i]);
    lowest = smaller(lowest, exponent[i]);
  }
  store_by_key({static_cast<float>(exponent[0]), static_cast<float>(exponent[1]),
                static_cast<float>(exponent[2]), static_cast<float>(exponent[3])},
               lane, scales->value_exponent);
  largest = __reduce_max_sync(0xffffffffu, largest);
  lowest = __reduce_min_sync(0xffffffffu, lowest);
  if (lane == 0) {
    const float unit = pow2(-exponent[0]);
    const bool keeps = fold_keeps_row_sum(fold_exponent(lowest, largest));
    scales->reference = largest;
    scales->lowest = lowest;
    scales->whole_sum_unit = keeps && !sum_of_p ? unit : 0.0f;
    scales->sum_unit = unit;
  }
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

/// Largest and smallest V exponent of the keys [begin, end) of a tile. All lanes of a quad have the
/// same range, all lanes of the warp are here.
struct ExponentRange {
  int largest, lowest;
};
FLAMIA_DEVICE ExponentRange exponents_between(const TokenTileScales* scales, int begin, int end,
                                              int quad) {
  float largest = kMinReference;
  float lowest = kMaxScaleExponent;
#pragma unroll 2
  for (int j = 0; j < kKeyTile / 8; j += 2) {
    const float4 exponents = column_quad(scales->value_exponent, j, quad);
    const float e[4] = {exponents.x, exponents.y, exponents.z, exponents.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = 8 * (j + i / 2) + 2 * quad + i % 2;
      const bool visible = column >= begin && column < end;
      largest = visible ? larger(largest, e[i]) : largest;
      lowest = visible ? smaller(lowest, e[i]) : lowest;
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
    const float4 exponents = column_quad(scales->value_exponent, j / 2 * 2, quad);
    const float pair[2] = {j % 2 == 0 ? exponents.x : exponents.z,
                           j % 2 == 0 ? exponents.y : exponents.w};
    float p[2], undo[2];
    bool decoded[2];
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int fold = fold_exponent(static_cast<int>(pair[b]), reference);
      decoded[b] = fold_keeps_row_sum(fold) && !sum_of_p;
      undo[b] = decoded[b] ? fold_factor(-fold) : 1.0f;
      const float x = decoded[b] ? (bias - static_cast<float>(reference)) + pair[b] : bias;
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
