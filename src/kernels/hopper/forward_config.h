// Sizes of the forward kernels of sm_90a and their map of shared memory.
// Paper: 3.1, 3.6. Used by: the roles in forward_load.cuh and forward_math.cuh, the table of
// kernels.
//
// One CTA: a producer warpgroup (its first warp copies) and two consumer warpgroups of 64 query
// rows. Where P and V are FP8, a value tile carries eight rows more than head channels: constant
// rows, whose product with P is the row sum.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "base/macros.h"
#include "numerics/e4m3.h"
#include "numerics/token_block_scale.h"
#include "plan/kernel_info.h"
#include "problem/mask.h"
#include "problem/token_blocks.h"
#include "schedule/work_item.h"

namespace flamia::hopper {

/// How 2^x of the scores is computed (numerics/exp2.h, exp2_bitlevel.h).
enum class ForwardExponential { kExact, kPolynomial, kSchraudolph };

struct ForwardConfig {
  int head_dim = 128;
  int stages = 4;  ///< key tiles, and value tiles, in flight
  ForwardForm form = ForwardForm::kMxfp8;
  bool per_token = false;  ///< every token has its own exponents: exact causal safety
  ForwardExponential exponential = ForwardExponential::kExact;
  bool half_scores = false;  ///< scores have binary16 accumulators

  FLAMIA_HD constexpr bool bf16_scores() const { return form != ForwardForm::kMxfp8; }
  FLAMIA_HD constexpr bool bf16_values() const { return form == ForwardForm::kBf16; }
  /// Whether scores have a factor for each query and key, not for each pair of blocks.
  FLAMIA_HD constexpr bool token_factors() const { return per_token && !bf16_scores(); }
  /// Bytes of a token block of Q or K, and of V.
  FLAMIA_HD constexpr int score_block_bytes() const {
    return bf16_scores() ? bf16_block_bytes(head_dim) : token_block_bytes(head_dim);
  }
  FLAMIA_HD constexpr int value_block_bytes() const {
    return bf16_values() ? bf16_block_bytes(head_dim) : token_block_bytes(head_dim);
  }
  /// Matrices with rows of one swizzle span that a tile of Q or K consists of.
  FLAMIA_HD constexpr int score_parts() const { return bf16_scores() ? head_dim / 64 : 1; }
};

inline constexpr int kConsumerGroups = 2;
inline constexpr int kGroupRows = 64;
/// Threads: the producer warpgroup, then the consumers.
inline constexpr int kFirstConsumer = 128;
inline constexpr int kForwardThreads = kFirstConsumer + 128 * kConsumerGroups;
inline constexpr int kBlocksPerTile = kKeyTile / kTokenBlock;
inline constexpr int kSumRows = 8;
/// V exponents below this count as this: the row sum is kept in units of 2^E.
inline constexpr int kMinReference = -90;

/// Element of the constant rows: the E4M3 code of 2^lag, as far as that is a normal code.
FLAMIA_HD constexpr uint32_t sum_code(int lag) {
  const int power = larger(smaller(lag, kE4m3MaxExponent), kE4m3MinExponent);
  return static_cast<uint32_t>(power - kE4m3MinExponent + 1) << 3;
}
static_assert(sum_code(0) == 0x38 && sum_code(-6) == 0x08 && sum_code(9) == 0x78);

/// What the softmax of one key tile needs besides the scores; written by the producer.
struct TileScales {
  float multiplier[kBlocksPerTile][kBlocksPerTile];  ///< [row block][key block], of E4M3 scores
  float fold[kBlocksPerTile];              ///< exponent of V less `reference`, per key block
  int32_t value_exponent[kBlocksPerTile];  ///< of V; kNoScaleExponent past the document's end
  int32_t reference;                       ///< largest of them, at least kMinReference
  float whole_sum_unit;    ///< sum_unit where the constant rows give every row's sum, else 0
  float sum_unit;          ///< what the product of the constant rows is worth
  int32_t first_exponent;  ///< of V in the first key block: unit of the constant rows
  int32_t first_key;       ///< of the tile, in the document
  int32_t masked;          ///< bit g: the mask or the document's end cuts the tile for group g
  int32_t padding[2];
};
static_assert(sizeof(TileScales) == 128);

/// In place of a reference: the tile is masked, or has exponents out of the usual ranges.
inline constexpr int kUnusualTile = 1 << 21;

/// Scales of a tile in binary16, per key block.
struct alignas(16) HalfScales {
  uint16_t multiplier[kBlocksPerTile];  ///< of raw scores
  uint16_t fold[kBlocksPerTile];
};

/// The same where scores have binary16 accumulators.
struct HalfTileScales : TileScales {
  int32_t usual_reference[kConsumerGroups];  ///< per group: `reference`, or kUnusualTile
  int32_t narrow;                            ///< bit 4 r + g: the multiplier is exact in binary16
  int32_t unused;
  HalfScales half[kBlocksPerTile];  ///< per row block
};
static_assert(sizeof(HalfTileScales) == 208);

/// The same where every token has its own exponents.
struct TokenTileScales {
  float value_exponent[kKeyTile];  ///< of V, in the order of factors; kNoScaleExponent past the end
  int32_t reference;               ///< as above
  int32_t lowest;                  ///< smallest exponent of V
  float whole_sum_unit;
  float sum_unit;  ///< the unit is the exponent of V of the first key
  int32_t first_key;
  int32_t masked;
  int32_t padding[2];
};
static_assert(sizeof(TokenTileScales) == 544);

template <bool kPerToken, bool kHalf>
struct ForwardScales {
  using Type = TileScales;
};
template <>
struct ForwardScales<true, false> {
  using Type = TokenTileScales;
};
template <>
struct ForwardScales<false, true> {
  using Type = HalfTileScales;
};

/// One unit of work as the consumers read it.
struct alignas(16) WorkDescription {
  ForwardItem item;
  int32_t head;
  int32_t valid;  ///< 0: no more work
  int32_t padding[2];
};

/// Where the factor or exponent of a key of a tile lies among the others: a thread of a quad reads
/// those of its columns in whole vectors, columns 8 j and 8 (j + 1) together.
FLAMIA_HD constexpr int factor_position(int key) {
  return key / 16 * 16 + key % 8 / 2 * 4 + key % 16 / 8 * 2 + key % 2;
}
static_assert(factor_position(9) == 3 && factor_position(14) == 14 && factor_position(16) == 16);

template <ForwardConfig kConfig>
struct ForwardSharedMap {
  using Scales = typename ForwardScales<kConfig.per_token, kConfig.half_scores>::Type;
  static constexpr int kQueryBytes = kQueryTile / kTokenBlock * kConfig.score_block_bytes();
  static constexpr int kKeyBytes = kBlocksPerTile * kConfig.score_block_bytes();
  /// 32 keys of V; of V^T, head channels and then the constant rows.
  static constexpr int kValueBlockBytes =
      kConfig.value_block_bytes() + (kConfig.bf16_values() ? 0 : kSumRows * kTokenBlock);
  static constexpr int kValueBytes = kBlocksPerTile * kValueBlockBytes;
  /// More scales than stages: they are read after the keys of their tile were released.
  static constexpr int kScaleSlots = 2 * kConfig.stages;

  static constexpr int kQuery = 0;  // two tiles
  static constexpr int kKey = kQuery + 2 * kQueryBytes;
  static constexpr int kValue = kKey + kConfig.stages * kKeyBytes;
  /// Rows of O of each consumer warp on their way out; padded, so that stores hit all banks.
  static constexpr int kOutputRowBytes = 2 * kConfig.head_dim + 16;
  /// Binary16 scores of a warp wait there too.
  static constexpr int kOutputBytes =
      larger(16 * kOutputRowBytes, kConfig.half_scores ? 16 * kKeyTile * 2 : 0);
  static constexpr int kOutput = kValue + kConfig.stages * kValueBytes;
  /// V exponents that the two rows of each consumer thread are folded against, and how far they may
  /// fall.
  static constexpr int kReferences = kOutput + 4 * kConsumerGroups * kOutputBytes;
  /// Notes on two tiles for the two rows of each consumer thread, with binary16 scores.
  static constexpr int kNotes =
      kReferences + (kConfig.bf16_values() ? 0 : 128 * kConsumerGroups * 16);
  static constexpr int kScales =
      kNotes + (kConfig.half_scores ? 2 * 128 * kConsumerGroups * 16 : 0);
  /// Factors of the keys of a tile, as factor_position() orders them.
  static constexpr int kKeyFactors = kScales + kScaleSlots * static_cast<int>(sizeof(Scales));
  static constexpr int kKeyFactorBytes = kConfig.token_factors() ? 4 * kKeyTile : 0;
  /// Two units of work: a description, and behind it the exponents of queries.
  static constexpr int kWork = round_up(kKeyFactors + kScaleSlots * kKeyFactorBytes, 16);
  static constexpr int kWorkBytes =
      static_cast<int>(sizeof(WorkDescription)) + (kConfig.token_factors() ? kQueryTile : 0);
  static constexpr int kBarriers = kWork + 2 * kWorkBytes;
  static constexpr int kKeyFull = kBarriers;
  static constexpr int kKeyEmpty = kKeyFull + 8 * kConfig.stages;
  static constexpr int kValueFull = kKeyEmpty + 8 * kConfig.stages;
  static constexpr int kValueEmpty = kValueFull + 8 * kConfig.stages;
  static constexpr int kQueryFull = kValueEmpty + 8 * kConfig.stages;
  static constexpr int kQueryEmpty = kQueryFull + 8 * 2;
  static constexpr int kEnd = kQueryEmpty + 8 * 2;
  static constexpr int kBytes = kEnd;

  static_assert(kKeyBytes % 1024 == 0 && kValueBytes % 1024 == 0 && kValueBlockBytes % 256 == 0);
  static_assert(kBytes <= 227 * 1024);
};

}  // namespace flamia::hopper
