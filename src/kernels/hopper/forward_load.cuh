// The producer warps of the forward kernel: one takes work and copies queries and keys, one copies
// values.
// Paper: 3.6.2 (dynamic acquisition, alternating assignment). Used by: forward.cuh.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/hopper/forward_config.h"
#include "kernels/hopper/forward_token_scales.cuh"
#include "numerics/e4m3.h"
#include "numerics/key_fold.h"
#include "plan/kernel_info.h"
#include "ptx/barrier.cuh"
#include "ptx/bulk_copy.cuh"

namespace flamia::hopper {

/// A warp writes zeros: blocks past the document's end are masked, but must not be stale.
FLAMIA_DEVICE void clear_shared(unsigned char* destination, int bytes, int lane) {
  for (int i = lane * 16; i < bytes; i += 32 * 16) {
    *reinterpret_cast<uint4*>(destination + i) = uint4{0, 0, 0, 0};
  }
}

/// Keys of the document that the query at key position `position` sees; 32 bits are enough inside.
struct VisibleKeys {
  int begin, end;
};
FLAMIA_DEVICE VisibleKeys visible_keys(const ForwardArgs& args, int keys, int position) {
  VisibleKeys visible{0, keys};
  if (args.window_left >= 0) {
    visible.begin = static_cast<int>(larger<int64_t>(0, position - args.window_left));
  }
  if (args.window_right >= 0) {
    visible.end = static_cast<int>(smaller<int64_t>(keys, position + args.window_right + 1));
  }
  return visible;
}

/// Blocks of Q or K from memory into a tile of kTile blocks, whose parts lie one after the other.
template <ForwardConfig kConfig, int kTile>
FLAMIA_DEVICE void copy_score_blocks(uint32_t tile, const uint8_t* source, int blocks,
                                     uint32_t barrier) {
  constexpr int kParts = kConfig.score_parts();
  constexpr int kBytes = kConfig.score_block_bytes() / kParts;
  if constexpr (kParts == 1) {
    ptx::bulk_copy(tile, source, static_cast<uint32_t>(blocks * kBytes), barrier);
  } else {
#pragma unroll 1
    for (int i = 0; i < blocks; ++i) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        ptx::bulk_copy(tile + part * kTile * kBytes, source + part * kBytes, kBytes, barrier);
      }
      tile += kBytes;
      source += kParts * kBytes;
    }
  }
}

/// Queries, keys and scales; takes the work.
template <ForwardConfig kConfig>
class ForwardKeyLoader {
  using Map = ForwardSharedMap<kConfig>;
  static constexpr int kBlockBytes = kConfig.score_block_bytes();

 public:
  FLAMIA_DEVICE ForwardKeyLoader(const ForwardArgs& args, unsigned char* shared)
      : args_(args), shared_(shared), base_(ptx::shared_address(shared)), lane_(threadIdx.x % 32) {}

  /// Runs until the list is used up.
  FLAMIA_DEVICE void run() {
    const uint32_t total =
        static_cast<uint32_t>(args_.schedule.counts->items) * static_cast<uint32_t>(args_.heads);
    uint32_t work = acquire();
    for (uint32_t unit = 0;; ++unit) {
      const uint32_t next = work < total ? acquire() : work;  // its latency hides behind this one
      const uint32_t buffer = unit % 2;
      ptx::mbarrier_wait(base_ + Map::kQueryEmpty + 8 * buffer, (unit / 2 + 1) % 2);
      auto* description =
          reinterpret_cast<WorkDescription*>(shared_ + Map::kWork + buffer * Map::kWorkBytes);
      const uint32_t full = base_ + Map::kQueryFull + 8 * buffer;
      if (work >= total) {
        if (lane_ == 0) {
          description->valid = 0;
          ptx::mbarrier_arrive(full);
        }
        return;
      }
      const int head = static_cast<int>(work % static_cast<uint32_t>(args_.heads));
      const ForwardItem item = args_.schedule.items[work / static_cast<uint32_t>(args_.heads)];
      if constexpr (kConfig.token_factors()) {
        const TokenExponents rows = token_exponents(
            args_.q, head * args_.q.blocks + item.query_block, kBlocksPerTile, lane_);
        reinterpret_cast<uint32_t*>(description + 1)[lane_] = rows.bytes;
        __syncwarp();
      }
      if (lane_ == 0) {
        description->item = item;
        description->head = head;
        description->valid = 1;
        ptx::mbarrier_arrive_expect(full, Map::kQueryBytes);
        copy_score_blocks<kConfig, kQueryTile / kTokenBlock>(
            base_ + Map::kQuery + buffer * Map::kQueryBytes,
            args_.q.row_codes + (head * args_.q.blocks + item.query_block) * kBlockBytes,
            kQueryTile / kTokenBlock, full);
      }
      load_tiles(item, head);
      work = next;
    }
  }

 private:
  FLAMIA_DEVICE uint32_t acquire() {
    if (args_.alternating != 0) {
      const uint32_t round = taken_++;
      const uint32_t place = round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
      return round * gridDim.x + place;
    }
    uint32_t work = 0;
    if (lane_ == 0) work = atomicAdd(args_.next_work, 1u);
    return __shfl_sync(0xffffffffu, work, 0);
  }

  /// Factors of this lane's four keys, in their places.
  FLAMIA_DEVICE void write_key_factors(TokenExponents e) const {
    const auto factor = [](int exponent) {
      return fold_factor(larger(exponent - kKeyShift, kMinFold));
    };
    store_by_key({factor(e.at(0)), factor(e.at(1)), factor(e.at(2)), factor(e.at(3))}, lane_,
                 reinterpret_cast<float*>(shared_ + Map::kKeyFactors +
                                          tiles_ % Map::kScaleSlots * Map::kKeyFactorBytes));
  }

  FLAMIA_DEVICE void load_tiles(const ForwardItem& item, int head) {
    const int kv_head = head / args_.heads_per_kv_head;
    // Lane 4 r + g: row block r, key block g.
    const int key_block = lane_ % 4;
    int row_exponent = 0;
    if constexpr (!kConfig.bf16_scores() && !kConfig.per_token) {
      row_exponent = args_.q.exponents[head * args_.q.blocks + item.query_block + lane_ / 4 % 4];
    }
    const int document_blocks = ceil_div(item.keys, kTokenBlock);
    // Key tiles [whole_begin, whole_end) are visible to every row of group lane % 2.
    const int group_position = item.position + lane_ % kConsumerGroups * kGroupRows;
    const int whole_begin =
        ceil_div(visible_keys(args_, item.keys, group_position + kGroupRows - 1).begin, kKeyTile);
    const int whole_end = larger(visible_keys(args_, item.keys, group_position).end, 0) / kKeyTile;
    int first = (args_.reverse ? item.tile_end - 1 : item.tile_begin) * kBlocksPerTile;
    const int stride = args_.reverse ? -kBlocksPerTile : kBlocksPerTile;
    for (int left = item.tile_end - item.tile_begin; left > 0; --left) {
      const int valid = smaller(kBlocksPerTile, document_blocks - first);
      const int tile_index = first / kBlocksPerTile;
      const uint32_t masked =
          __ballot_sync(0xffffffffu, tile_index < whole_begin || tile_index >= whole_end);
      int key_exponent = kNoScaleExponent;
      int value_exponent = kNoScaleExponent;
      if (!kConfig.per_token && key_block < valid) {
        const int block = item.key_block + first + key_block;
        if constexpr (!kConfig.bf16_scores()) {
          key_exponent = args_.k.exponents[kv_head * args_.k.blocks + block];
        }
        if constexpr (!kConfig.bf16_values()) {
          value_exponent = args_.v.exponents[kv_head * args_.v.blocks + block];
        }
      }
      TokenExponents keys{}, values{};
      if constexpr (kConfig.token_factors()) {
        keys = token_exponents(args_.k, kv_head * args_.k.blocks + item.key_block + first, valid,
                               lane_);
      }
      if constexpr (kConfig.per_token) {
        values = token_exponents(args_.v, kv_head * args_.v.blocks + item.key_block + first, valid,
                                 lane_);
      }
      const uint32_t stage = tiles_ % kConfig.stages;
      const uint32_t full = base_ + Map::kKeyFull + 8 * stage;
      ptx::mbarrier_wait(base_ + Map::kKeyEmpty + 8 * stage, (tiles_ / kConfig.stages + 1) % 2);
      const uint32_t tile = Map::kKey + stage * Map::kKeyBytes;
      if (lane_ == 0) {
        const uint32_t bytes = static_cast<uint32_t>(valid * kBlockBytes);
        ptx::mbarrier_expect(full, bytes);
        copy_score_blocks<kConfig, kBlocksPerTile>(
            base_ + tile,
            args_.k.row_codes + (kv_head * args_.k.blocks + item.key_block + first) * kBlockBytes,
            valid, full);
      }
      if (valid < kBlocksPerTile) {
        constexpr int kPartBytes = kBlockBytes / kConfig.score_parts();
#pragma unroll 1
        for (int part = 0; part < kConfig.score_parts(); ++part) {
          clear_shared(shared_ + tile + (part * kBlocksPerTile + valid) * kPartBytes,
                       (kBlocksPerTile - valid) * kPartBytes, lane_);
        }
        ptx::fence_async_shared();
      }
      if constexpr (kConfig.token_factors()) write_key_factors(keys);
      auto* scales = reinterpret_cast<typename Map::Scales*>(shared_ + Map::kScales) +
                     tiles_ % Map::kScaleSlots;
      if constexpr (kConfig.per_token) {
        write_token_folds(values, args_.sum_of_p != 0, lane_, scales);
      } else {
        write_scales(row_exponent, key_exponent, value_exponent, valid, scales);
      }
      if constexpr (kConfig.half_scores) {
        write_half_scales(row_exponent + key_exponent, value_exponent, masked, scales);
      }
      if (lane_ == 0) {
        scales->first_key = tile_index * kKeyTile;
        scales->masked = static_cast<int>(masked & ((1u << kConsumerGroups) - 1));
      }
      __syncwarp();
      if (lane_ == 0) ptx::mbarrier_arrive(full);
      ++tiles_;
      first += stride;
    }
  }

  /// Never zero: masked scores are -inf.
  FLAMIA_DEVICE float multiplier_of(int exponent) const {
    return larger(args_.score_multiplier * fold_factor(larger(smaller(exponent, 127), -126)),
                  fold_factor(kMinFold));
  }

  /// After write_folds: lane 0 knows what it wrote.
  FLAMIA_DEVICE void write_half_scales(int exponent, int value_exponent, uint32_t masked,
                                       HalfTileScales* scales) const {
    const auto half_bits = [](float x) { return __half_as_ushort(__float2half_rn(x)); };
    __syncwarp();
    const int reference = scales->reference;
    const float multiplier = multiplier_of(exponent);
    const bool narrow = __half2float(__float2half_rn(multiplier)) == multiplier;
    const uint32_t all = __ballot_sync(0xffffffffu, narrow) & 0xffffu;
    if (lane_ < 16) {
      HalfScales* half = scales->half + lane_ / 4;
      half->multiplier[lane_ % 4] = half_bits(multiplier);
      half->fold[lane_ % 4] =
          half_bits(static_cast<float>(larger(value_exponent - reference, -1024)));
    }
    if (lane_ < kConsumerGroups) {
      const bool usual =
          scales->whole_sum_unit != 0.0f && all == 0xffffu && (masked >> lane_ & 1) == 0;
      scales->usual_reference[lane_] = usual ? reference : kUnusualTile;
    }
    if (lane_ == 0) scales->narrow = static_cast<int32_t>(all);
  }

  FLAMIA_DEVICE void write_scales(int row_exponent, int key_exponent, int value_exponent, int valid,
                                  TileScales* scales) const {
    if constexpr (!kConfig.bf16_scores()) {
      if (lane_ < 16) {
        scales->multiplier[lane_ / 4][lane_ % 4] = multiplier_of(row_exponent + key_exponent);
      }
    }
    if constexpr (!kConfig.bf16_values()) write_folds(scales, value_exponent, valid);
  }

  FLAMIA_DEVICE void write_folds(TileScales* scales, int value_exponent, int valid) const {
    int reference = larger(value_exponent, kMinReference);
    reference = larger(reference, __shfl_xor_sync(0xffffffffu, reference, 1));
    reference = larger(reference, __shfl_xor_sync(0xffffffffu, reference, 2));
    const bool keeps =
        lane_ % 4 >= valid || fold_keeps_row_sum(fold_exponent(value_exponent, reference));
    const bool all_keep = __all_sync(0xffffffffu, keeps);
    if (lane_ < 4) {
      scales->fold[lane_] = static_cast<float>(value_exponent - reference);
      scales->value_exponent[lane_] = value_exponent;
    }
    if (lane_ == 0) {
      scales->reference = reference;
      scales->sum_unit = pow2(-value_exponent);
      scales->whole_sum_unit = all_keep && !args_.sum_of_p ? pow2(-value_exponent) : 0.0f;
      scales->first_exponent = value_exponent;
    }
  }

  const ForwardArgs& args_;
  unsigned char* shared_;
  uint32_t base_;
  int lane_;
  uint32_t taken_ = 0;  ///< units of work, of an alternating assignment
  uint32_t tiles_ = 0;
};

/// Values and the constant rows beside them; follows the work that the other warp takes.
template <ForwardConfig kConfig>
class ForwardValueLoader {
  using Map = ForwardSharedMap<kConfig>;
  static constexpr int kBlockBytes = kConfig.value_block_bytes();

 public:
  FLAMIA_DEVICE ForwardValueLoader(const ForwardArgs& args, unsigned char* shared)
      : args_(args), shared_(shared), base_(ptx::shared_address(shared)), lane_(threadIdx.x % 32) {}

  FLAMIA_DEVICE void run() {
    for (uint32_t unit = 0;; ++unit) {
      const uint32_t buffer = unit % 2;
      ptx::mbarrier_wait(base_ + Map::kQueryFull + 8 * buffer, unit / 2 % 2);
      const auto* description =
          reinterpret_cast<const WorkDescription*>(shared_ + Map::kWork + buffer * Map::kWorkBytes);
      if (!description->valid) return;
      const int kv_head = description->head / args_.heads_per_kv_head;
      const int key_block = description->item.key_block;
      const int blocks = ceil_div(description->item.keys, kTokenBlock);
      const int begin = description->item.tile_begin;
      const int end = description->item.tile_end;
      __syncwarp();
      if (lane_ == 0) ptx::mbarrier_arrive(base_ + Map::kQueryEmpty + 8 * buffer);
      load_tiles(kv_head * args_.v.blocks + key_block, blocks, begin, end);
    }
  }

 private:
  FLAMIA_DEVICE void load_tiles(int64_t base_block, int document_blocks, int begin, int end) {
    int first = (args_.reverse ? end - 1 : begin) * kBlocksPerTile;
    const int stride = args_.reverse ? -kBlocksPerTile : kBlocksPerTile;
    for (int left = end - begin; left > 0; --left) {
      const int valid = smaller(kBlocksPerTile, document_blocks - first);
      int exponent = kNoScaleExponent;
      TokenExponents exponents{};
      if constexpr (kConfig.per_token) {
        exponents = token_exponents(args_.v, base_block + first, valid, lane_);
      } else if constexpr (!kConfig.bf16_values()) {
        if (lane_ % 4 < valid) exponent = args_.v.exponents[base_block + first + lane_ % 4];
      }
      const uint32_t stage = tiles_ % kConfig.stages;
      const uint32_t full = base_ + Map::kValueFull + 8 * stage;
      ptx::mbarrier_wait(base_ + Map::kValueEmpty + 8 * stage, (tiles_ / kConfig.stages + 1) % 2);
      const uint32_t tile = Map::kValue + stage * Map::kValueBytes;
      if (lane_ == 0) {
        ptx::mbarrier_expect(full, static_cast<uint32_t>(valid * kBlockBytes));
        copy_values(tile, base_block + first, valid, full);
      }
      if constexpr (kConfig.bf16_values()) {
        clear_shared(shared_ + tile + valid * kBlockBytes, (kBlocksPerTile - valid) * kBlockBytes,
                     lane_);
      } else {
        write_constant_rows(tile, exponent, exponents, valid);
      }
      ptx::fence_async_shared();
      __syncwarp();
      if (lane_ == 0) ptx::mbarrier_arrive(full);
      ++tiles_;
      first += stride;
    }
  }

  FLAMIA_DEVICE void copy_values(uint32_t tile, int64_t block, int valid, uint32_t full) const {
    if constexpr (kConfig.bf16_values()) {
      ptx::bulk_copy(base_ + tile, args_.v.row_codes + block * kBlockBytes,
                     static_cast<uint32_t>(valid * kBlockBytes), full);
    } else {
      const uint8_t* codes = args_.v.transposed_codes + block * kBlockBytes;
      for (int i = 0; i < valid; ++i) {
        ptx::bulk_copy(base_ + tile + static_cast<uint32_t>(i * Map::kValueBlockBytes),
                       codes + i * kBlockBytes, kBlockBytes, full);
      }
    }
  }

  /// 2^(exponent of the first block or token - own exponent), so that the sum of P-hat times them
  /// counts all keys in one unit. Where that leaves the normal codes no row uses it. Also clears
  /// the blocks past the document's end.
  FLAMIA_DEVICE void write_constant_rows(uint32_t tile, int exponent, TokenExponents exponents,
                                         int valid) const {
    uint32_t own_word;
    if constexpr (kConfig.per_token) {
      own_word = token_sum_codes(exponents);
    } else {
      const int lag = __shfl_sync(0xffffffffu, exponent, 0) - exponent;
      own_word = lane_ % 4 < valid ? sum_code(lag) * 0x01010101u : 0u;
    }
#pragma unroll
    for (int block = 0; block < kBlocksPerTile; ++block) {
      uint2 words;
      if constexpr (kConfig.per_token) {
        words = token_sum_row_piece(own_word, block, lane_);
      } else {
        words.x = words.y = __shfl_sync(0xffffffffu, own_word, block);
      }
      unsigned char* rows = shared_ + tile + block * Map::kValueBlockBytes + kBlockBytes;
      reinterpret_cast<uint2*>(rows)[lane_] = words;
      if (block >= valid) clear_shared(rows - kBlockBytes, kBlockBytes, lane_);
    }
  }

  const ForwardArgs& args_;
  unsigned char* shared_;
  uint32_t base_;
  int lane_;
  uint32_t tiles_ = 0;
};

}  // namespace flamia::hopper
