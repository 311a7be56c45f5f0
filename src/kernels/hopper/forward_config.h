// Sizes of the MXFP8 forward kernel of sm_90a and its map of shared memory.
// Paper: 3.1, 3.6. Used by: the roles in forward_load.cuh and forward_math.cuh, the table of
// kernels.
//
// One CTA: a producer warpgroup (its first warp copies) and two consumer warpgroups of 64 query
// rows. A value tile carries eight rows more than head channels: constant rows, whose product with
// P is the row sum.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "numerics/e4m3.h"
#include "numerics/token_block_scale.h"
#include "problem/mask.h"
#include "schedule/work_item.h"

namespace flamia::hopper {

/// How 2^x of the scores is computed (numerics/exp2.h, exp2_bitlevel.h).
enum class ForwardExponential { kExact, kPolynomial, kSchraudolph };

struct ForwardConfig {
  int head_dim = 128;
  int stages = 4;          ///< key tiles, and value tiles, in flight
  bool per_token = false;  ///< every token has its own exponents: exact causal safety
  ForwardExponential exponential = ForwardExponential::kExact;
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
  float multiplier[kBlocksPerTile][kBlocksPerTile];  ///< [row block][key block], of raw scores
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

/// The same where every token has its own exponents.
struct TokenTileScales {
  float key_factor[kKeyTile];      ///< of raw scores (forward_token_scales.cuh)
  float value_exponent[kKeyTile];  ///< of V; kNoScaleExponent past the document's end
  int32_t reference;               ///< as above
  int32_t lowest;                  ///< smallest exponent of V
  float whole_sum_unit;
  float sum_unit;  ///< the unit is the exponent of V of the first key
  int32_t first_key;
  int32_t masked;
  int32_t padding[2];
};
static_assert(sizeof(TokenTileScales) == 1056);

/// One unit of work as the consumers read it.
struct alignas(16) WorkDescription {
  ForwardItem item;
  int32_t head;
  int32_t valid;  ///< 0: no more work
  int32_t padding[2];
};
struct TokenWorkDescription : WorkDescription {
  int8_t row_exponents[kQueryTile];  ///< of Q
};

template <bool kPerToken>
struct ForwardShared {
  using Scales = TileScales;
  using Work = WorkDescription;
};
template <>
struct ForwardShared<true> {
  using Scales = TokenTileScales;
  using Work = TokenWorkDescription;
};

template <ForwardConfig kConfig>
struct ForwardSharedMap {
  using Scales = typename ForwardShared<kConfig.per_token>::Scales;
  using Work = typename ForwardShared<kConfig.per_token>::Work;
  static constexpr int kQueryBytes = kQueryTile * kConfig.head_dim;
  static constexpr int kKeyBytes = kKeyTile * kConfig.head_dim;
  /// 32 keys of V^T: head channels, then the constant rows.
  static constexpr int kValueRows = kConfig.head_dim + kSumRows;
  static constexpr int kValueBlockBytes = kValueRows * kTokenBlock;
  static constexpr int kValueBytes = kBlocksPerTile * kValueBlockBytes;
  /// More scales than stages: they are read after the keys of their tile were released.
  static constexpr int kScaleSlots = 2 * kConfig.stages;

  static constexpr int kQuery = 0;  // two tiles
  static constexpr int kKey = kQuery + 2 * kQueryBytes;
  static constexpr int kValue = kKey + kConfig.stages * kKeyBytes;
  /// Rows of O of each consumer warp on their way out; padded, so that stores hit all banks.
  static constexpr int kOutputRowBytes = 2 * kConfig.head_dim + 16;
  static constexpr int kOutputBytes = 16 * kOutputRowBytes;
  static constexpr int kOutput = kValue + kConfig.stages * kValueBytes;
  /// V exponents that the two rows of each consumer thread are folded against, and how far they may
  /// fall.
  static constexpr int kReferences = kOutput + 4 * kConsumerGroups * kOutputBytes;
  static constexpr int kScales = kReferences + 128 * kConsumerGroups * 16;
  static constexpr int kWork =
      round_up(kScales + kScaleSlots * static_cast<int>(sizeof(Scales)), 16);
  static constexpr int kBarriers = kWork + 2 * static_cast<int>(sizeof(Work));
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
