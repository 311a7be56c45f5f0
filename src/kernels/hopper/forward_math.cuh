// A consumer warpgroup of the forward kernel: 64 query rows against the key tiles of their
// document. Paper: 3.1, 3.2, 3.4, B.1; row sums from P-hat. Used by: forward.cuh.
//
// While the tensor cores compute the scores of tile t and the product of P and V of tile t - 1, the
// other warpgroup does the softmax. The product of a tile goes to fresh accumulators and is added
// to O in FP32 with the factor that renewed maxima and V exponents ask for: no FP8 accumulator
// outlives a tile.
//
// A thread holds two rows, r and r + 8, and of every eight columns two. Per row: m, the maximum of
// the scores in base 2; E, the V exponent that P-hat is folded against; O and the row sum l
// both divided by 2^E, so that O / l needs no exponent.
// Over 500 lines: one role whose parts share a thread's registers.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/hopper/forward_config.h"
#include "kernels/hopper/forward_exponential.cuh"
#include "kernels/hopper/forward_load.cuh"
#include "kernels/hopper/forward_token_scales.cuh"
#include "numerics/key_fold.h"
#include "numerics/online_softmax.h"
#include "plan/kernel_info.h"
#include "ptx/barrier.cuh"
#include "ptx/bulk_copy.cuh"
#include "ptx/convert.cuh"
#include "ptx/descriptors.h"
#include "ptx/shared_matrix.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"

namespace flamia::hopper {

template <ForwardConfig kConfig>
class ForwardConsumer {
  using Map = ForwardSharedMap<kConfig>;
  using Scales = typename Map::Scales;
  using Work = typename Map::Work;
  static constexpr bool kPerToken = kConfig.per_token;
  /// Factors of scores that a thread holds: one for each key block, or with exponents per token one
  /// for each of its two rows, after those of the keys.
  static constexpr int kMultipliers = kPerToken ? 2 : kBlocksPerTile;
  static constexpr int kHeadDim = kConfig.head_dim;
  static constexpr int kScores = kKeyTile / 2;               // accumulators of S per thread
  static constexpr int kOutputs = kHeadDim / 2;              // of O
  static constexpr int kProducts = kOutputs + kSumRows / 2;  // of P V with the row sum
  static constexpr uint32_t kWholeWarp = 0xffffffffu;
  static constexpr int kNoCommonReference = 1 << 20;

 public:
  FLAMIA_DEVICE ForwardConsumer(const ForwardArgs& args, unsigned char* shared)
      : args_(args),
        shared_(shared),
        base_(ptx::shared_address(shared)),
        group_(ptx::uniform((threadIdx.x - kFirstConsumer) / 128)) {}

  FLAMIA_DEVICE void run() {
    for (uint32_t unit = 0;; ++unit) {
      const uint32_t buffer = unit % 2;
      ptx::mbarrier_wait(base_ + Map::kQueryFull + 8 * buffer, unit / 2 % 2);
      const auto* description = reinterpret_cast<const Work*>(shared_ + Map::kWork) + buffer;
      if (!ptx::uniform(static_cast<uint32_t>(description->valid))) break;
      attend(description, buffer);
    }
  }

 private:
  struct Row {
    float m;
    float l;       ///< negative while it already counts a tile whose product is not yet added
    float factor;  ///< of O before the product of the last tile is added
  };
  /// Whether the row sum takes nothing from the product: its sign bit is set.
  FLAMIA_DEVICE static bool is_complete(float l) { return (float_bits(l) & kFloatSignBit) != 0; }
  /// Thread among the consumers. Asked for where it is needed: what is derived from it would
  /// otherwise live in registers throughout.
  FLAMIA_DEVICE static int consumer_thread() {
    int thread = static_cast<int>(threadIdx.x) - kFirstConsumer;
    asm volatile("" : "+r"(thread));
    return thread;
  }
  /// The first of the two rows of a thread, in the query tile.
  FLAMIA_DEVICE static int first_row(int thread) { return thread / 32 * 16 + thread % 32 / 4; }

  FLAMIA_DEVICE void arrive(uint32_t barrier) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(barrier);
  }

  FLAMIA_DEVICE void issue_scores(float (&s)[kScores], uint32_t buffer, uint32_t stage) const {
    const uint32_t query = ptx::wgmma_descriptor_low(base_ + Map::kQuery) +
                           (buffer * Map::kQueryBytes + group_ * (Map::kQueryBytes / 2)) / 16;
    const uint32_t keys = ptx::wgmma_descriptor_low(base_ + Map::kKey + stage * Map::kKeyBytes);
#pragma unroll
    for (int step = 0; step < kHeadDim / 32; ++step) {
      ptx::wgmma_m64n128k32<kHeadDim>(s, query + 2 * step, keys + 2 * step, step != 0);
    }
  }

  FLAMIA_DEVICE void issue_product(float (&t)[kProducts], const uint32_t (&p)[4][4],
                                   uint32_t stage) const {
    const uint32_t values =
        ptx::wgmma_descriptor_low(base_ + Map::kValue + stage * Map::kValueBytes);
#pragma unroll
    for (int step = 0; step < kBlocksPerTile; ++step) {
      const uint32_t block = values + step * (Map::kValueBlockBytes / 16);
      if constexpr (kHeadDim == 128) {
        ptx::wgmma_m64n136k32<kTokenBlock>(t, p[step], block, step != 0);
      } else {
        ptx::wgmma_m64n72k32<kTokenBlock>(t, p[step], block, step != 0);
      }
    }
  }

  FLAMIA_DEVICE const Scales* scales_of(uint32_t tile) const {
    return reinterpret_cast<const Scales*>(shared_ + Map::kScales) + tile % Map::kScaleSlots;
  }

  /// The row maximum and the factor of what was accumulated.
  FLAMIA_DEVICE void renew(Row* row, float tile_max) const {
    tile_max = max_number(tile_max, __shfl_xor_sync(kWholeWarp, tile_max, 1));
    tile_max = max_number(tile_max, __shfl_xor_sync(kWholeWarp, tile_max, 2));
    if (tile_max - row->m > args_.tau) {
      row->factor = ptx::exp2_approximate(row->m - tile_max);
      row->m = tile_max;
    }
  }

  /// Largest V exponent of the key blocks that a row sees in the tile.
  FLAMIA_DEVICE static int largest_visible(const TileScales* scales, int begin, int end) {
    int largest = kMinReference;
#pragma unroll
    for (int g = 0; g < kBlocksPerTile; ++g) {
      const bool sees = begin < (g + 1) * kTokenBlock && end > g * kTokenBlock;
      if (sees) largest = larger(largest, scales->value_exponent[g]);
    }
    return largest;
  }

  /// c - m, the argument's share of a row; any number where the row has no maximum.
  FLAMIA_DEVICE float c_less_m(const Row& row) const {
    return args_.p_log2 - (row.m == -kFloatInfinity ? 0.0f : row.m);
  }

  /// Row sum of a tile whose constant rows do not give it: decoded P-hat where the fold keeps it,
  /// else the exponential itself, as the exact definition says (numerics/key_fold.h).
  FLAMIA_DEVICE float sum_in_registers(const float (&s)[kScores], int half, const Scales* scales,
                                       const float (&multiplier)[kMultipliers], const Row& row,
                                       int reference, int quad) const {
    float sum = 0.0f;
    if constexpr (kPerToken) {
      sum = token_sum_in_registers<kConfig.exponential>(
          s, half, multiplier[half], scales, c_less_m(row), reference, args_.sum_of_p != 0, quad);
    } else {
      sum = block_sum_in_registers(s, half, scales, multiplier, c_less_m(row), reference, quad);
    }
    sum += __shfl_xor_sync(kWholeWarp, sum, 1);
    sum += __shfl_xor_sync(kWholeWarp, sum, 2);
    return sum * pow2(-reference);
  }
  FLAMIA_DEVICE static bool missing_any(const bool (&in_product)[2]) {
    return __builtin_expect(__any_sync(kWholeWarp, !in_product[0] || !in_product[1]), 0);
  }
  /// The sums of rows that take nothing from the product.
  FLAMIA_DEVICE void sum_rows(const float (&s)[kScores], const float (&multiplier)[kMultipliers],
                              Row (&rows)[2], const Scales* scales, const int (&reference)[2],
                              const bool (&in_product)[2], int quad) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum =
          sum_in_registers(s, half, scales, multiplier, rows[half], reference[half], quad);
      if (!in_product[half]) rows[half].l = -(rows[half].l + sum);
    }
  }
  /// This thread's part of a sum.
  FLAMIA_DEVICE float block_sum_in_registers(const float (&s)[kScores], int half,
                                             const TileScales* scales,
                                             const float (&multiplier)[kBlocksPerTile],
                                             float c_less_maximum, int reference, int quad) const {
    float sum = 0.0f;
#pragma unroll
    for (int g = 0; g < kBlocksPerTile; ++g) {
      const int fold = fold_exponent(scales->value_exponent[g], reference);
      const bool decoded = fold_keeps_row_sum(fold) && !args_.sum_of_p;
      const float bias = c_less_maximum + (decoded ? static_cast<float>(fold) : 0.0f);
      float part = 0.0f;
#pragma unroll
      for (int j = 0; j < 16; j += 4) {
        const int i = 16 * g + j + 2 * half;
        float a = exponential<kConfig.exponential>(fma_f32(s[i], multiplier[g], bias), i / 4, quad);
        float b =
            exponential<kConfig.exponential>(fma_f32(s[i + 1], multiplier[g], bias), i / 4, quad);
        if (decoded) {
          uint32_t low, high;
          ptx::unpack_e4m3x4(ptx::pack_e4m3x4(a, b, 0.0f, 0.0f), &low, &high);
          a = __half2float(__ushort_as_half(static_cast<unsigned short>(low & 0xffffu)));
          b = __half2float(__ushort_as_half(static_cast<unsigned short>(low >> 16)));
        }
        part += a + b;
      }
      sum += decoded ? part * fold_factor(-fold) : part;
    }
    return sum;
  }

  /// How many of a thread's 32 columns (8 j + b for j < 16, b < 2) are below `column`.
  FLAMIA_DEVICE static int columns_below(int column) {
    const int inside = larger(smaller(column, kKeyTile), 0);
    return inside / 8 * 2 + smaller(inside % 8, 2);
  }
  FLAMIA_DEVICE static uint32_t low_bits(int count) {
    return count >= 32 ? ~0u : (1u << count) - 1;
  }

  /// Scores outside what the rows see become -inf.
  FLAMIA_DEVICE static void mask(float (&s)[kScores], const VisibleKeys (&seen)[2], int quad) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t visible = low_bits(columns_below(seen[half].end - quad * 2)) &
                               ~low_bits(columns_below(seen[half].begin - quad * 2));
#pragma unroll
      for (int i = 0; i < kKeyTile / 4; ++i) {
        float& score = s[i / 2 * 4 + 2 * half + i % 2];
        if ((visible & 1u << i) == 0) score = -kFloatInfinity;
      }
    }
  }

  /// Largest of eight accumulators of a row half and key block. kPositive: by their bits, three at
  /// a time, which is right if any is positive (below that it gives some negative value).
  template <bool kPositive>
  FLAMIA_DEVICE static float largest_of_block(const float* s) {
    if constexpr (kPositive) {
      int bits[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) bits[i] = __float_as_int(s[i / 2 * 4 + i % 2]);
      const int first = __vimax3_s32(bits[0], bits[1], bits[2]);
      const int second = __vimax3_s32(bits[3], bits[4], bits[5]);
      return __int_as_float(__vimax3_s32(max(first, second), bits[6], bits[7]));
    } else {
      float block = s[0];
#pragma unroll
      for (int i = 1; i < 8; ++i) block = max_number(block, s[i / 2 * 4 + i % 2]);
      return block;
    }
  }

  /// Largest scores of the two rows among this thread's columns, in base 2.
  template <bool kPositive>
  FLAMIA_DEVICE static void largest_scores(const float (&s)[kScores],
                                           const float (&multiplier)[kMultipliers],
                                           float (&largest)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int g = 0; g < kBlocksPerTile; ++g) {
        float block = largest_of_block<kPositive>(s + 16 * g + 2 * half);
        if constexpr (!kPerToken) block *= multiplier[g];
        largest[half] = g == 0 ? block : max_number(largest[half], block);
      }
      if constexpr (kPerToken) largest[half] *= multiplier[half];
    }
  }

  /// What a row needs for its exponentials: c - m, and the fold of a key block's values. With
  /// exponents per token one number, c - m - E, to which a key's exponent is added.
  struct RowBias {
    float block[kPerToken ? 1 : kBlocksPerTile];
  };

  /// E of the two rows of a thread, then how far each may fall. They seldom change and wait in
  /// shared memory.
  FLAMIA_DEVICE int4* references(int thread) const {
    return reinterpret_cast<int4*>(shared_ + Map::kReferences) + thread;
  }

  /// The V exponent that a row's P-hat is folded against in this tile, in the general case, which
  /// few tiles need. Returns whether the constant rows give the row's sum.
  FLAMIA_DEVICE bool refer_row(const Scales* scales, const VisibleKeys& seen, bool first, Row* row,
                               int* reference, int* lowest, int quad) const {
    const bool sees = seen.begin < seen.end;
    bool in_product;
    int wanted;
    if constexpr (kPerToken) {
      ExponentRange range{scales->reference, scales->lowest};
      if (is_cut(scales)) range = exponents_between(scales, seen.begin, seen.end, quad);
      wanted = sees ? range.largest : *reference;
      in_product = !args_.sum_of_p &&
                   (!sees || (seen.begin == 0 && fold_keeps_row_sum(range.lowest - wanted)));
    } else {
      // The constant rows count in units of the first block: a row that does not see it must not
      // depend on it.
      in_product = !args_.sum_of_p && (!sees || seen.begin < kTokenBlock);
      wanted = sees ? largest_visible(scales, seen.begin, seen.end) : *reference;
#pragma unroll
      for (int g = 0; g < kBlocksPerTile; ++g) {
        const bool visible = seen.begin < (g + 1) * kTokenBlock && seen.end > g * kTokenBlock;
        const int exponent = scales->value_exponent[g];
        const int lag = scales->first_exponent - exponent;
        const bool keeps = fold_keeps_row_sum(exponent - wanted) && lag >= kE4m3MinExponent &&
                           lag <= kE4m3MaxExponent;
        in_product = in_product && (!visible || keeps);
      }
    }
    if (sees && (first || wanted != *reference)) {
      const int next = first ? wanted : larger(wanted, *lowest);
      if (!first) {
        const int change = *reference - next;
        row->factor *= pow2(change);  // O of V that is too small to count may vanish, its mass not
        row->l *= pow2(change / 2);
        row->l *= pow2(change - change / 2);
      }
      *reference = next;
      *lowest = first ? next - kMaxReferenceDrop : larger(next - kMaxReferenceDrop, *lowest);
    }
    return in_product && *reference == wanted;
  }

  /// Biases of the exponentials' arguments: c - m and the fold of the values' exponents.
  FLAMIA_DEVICE RowBias general_bias(const Scales* scales, const Row& row, int reference) const {
    const float base = c_less_m(row);
    RowBias bias;
    if constexpr (kPerToken) {
      bias.block[0] = base - static_cast<float>(reference);
    } else {
#pragma unroll
      for (int g = 0; g < kBlocksPerTile; ++g) {
        const int fold = fold_exponent(scales->value_exponent[g], reference);
        bias.block[g] = base + static_cast<float>(fold);
      }
    }
    return bias;
  }
  /// The same where the row's reference is the tile's.
  FLAMIA_DEVICE RowBias usual_bias(const Scales* scales, const Row& row) const {
    const float base = args_.p_log2 - row.m;
    if constexpr (kPerToken) {
      return {{base - static_cast<float>(scales->reference)}};
    } else {
      const float4 fold = *reinterpret_cast<const float4*>(scales->fold);
      return {{base + fold.x, base + fold.y, base + fold.z, base + fold.w}};
    }
  }
  /// Whether the mask or the document's end cuts the tile for this group.
  FLAMIA_DEVICE bool is_cut(const Scales* scales) const {
    return (scales->masked >> group_ & 1) != 0;
  }

  /// The rows' new state for a tile: maxima, references, sums; and the biases of its exponentials.
  template <bool kGeneral>
  FLAMIA_DEVICE void renew_rows(float (&s)[kScores], const float (&multiplier)[kMultipliers],
                                Row (&rows)[2], RowBias (&bias)[2], const Scales* scales,
                                int thread, const Work* description, bool (&in_product)[2]) {
    VisibleKeys seen[2] = {{0, kKeyTile}, {0, kKeyTile}};  // of the tile
    if (kGeneral && is_cut(scales)) {
      const int position = description->item.position + first_row(thread);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        seen[half] = visible_keys(args_, description->item.keys, position + 8 * half);
        seen[half].begin = larger(seen[half].begin - scales->first_key, 0);
        seen[half].end = smaller(seen[half].end - scales->first_key, kKeyTile);
      }
      mask(s, seen, thread % 4);
    }
    float tile_max[2];
    largest_scores<!kGeneral>(s, multiplier, tile_max);
    const bool first[2] = {rows[0].m == -kFloatInfinity, rows[1].m == -kFloatInfinity};
    const bool grows = tile_max[0] - rows[0].m > args_.tau || tile_max[1] - rows[1].m > args_.tau;
    if (__any_sync(kWholeWarp, grows)) {
      renew(&rows[0], tile_max[0]);
      renew(&rows[1], tile_max[1]);
    }
    rows[0].l *= rows[0].factor;
    rows[1].l *= rows[1].factor;
    if constexpr (!kGeneral) {
      bias[0] = usual_bias(scales, rows[0]);
      bias[1] = usual_bias(scales, rows[1]);
    } else {
      int4* stored = references(thread);
      int reference[2] = {stored->x, stored->y};
      int lowest[2] = {stored->z, stored->w};
      in_product[0] =
          refer_row(scales, seen[0], first[0], &rows[0], &reference[0], &lowest[0], thread % 4);
      in_product[1] =
          refer_row(scales, seen[1], first[1], &rows[1], &reference[1], &lowest[1], thread % 4);
      *stored = {reference[0], reference[1], lowest[0], lowest[1]};
      const int least = __reduce_min_sync(kWholeWarp, smaller(reference[0], reference[1]));
      const int most = __reduce_max_sync(kWholeWarp, larger(reference[0], reference[1]));
      common_reference_ = least == most ? least : kNoCommonReference;
      if (!kPerToken && missing_any(in_product)) {
        sum_rows(s, multiplier, rows, scales, reference, in_product, thread % 4);
      }
      bias[0] = general_bias(scales, rows[0], reference[0]);
      bias[1] = general_bias(scales, rows[1], reference[1]);
    }
  }

  /// P-hat of a tile from its scores. With kAdd the product of the tile before is added to O on the
  /// way.
  template <bool kAdd>
  FLAMIA_DEVICE void softmax(float (&s)[kScores], uint32_t (&p)[4][4], float (&o)[kOutputs],
                             const float (&t)[kProducts], Row (&rows)[2], const Work* description) {
    const Scales* scales = scales_of(tiles_);
    const int thread = consumer_thread();
    float multiplier[kMultipliers];
    if constexpr (kPerToken) {
      row_factors(description, first_row(thread), args_.score_multiplier, multiplier);
      scale_token_scores(description, first_row(thread), scales, thread % 4, s);
    } else {
      *reinterpret_cast<float4*>(multiplier) =
          *reinterpret_cast<const float4*>(scales->multiplier[thread / 64]);
    }
    const float factor[2] = {rows[0].factor, rows[1].factor};
    rows[0].factor = rows[1].factor = 1.0f;
    RowBias bias[2];
    bool in_product[2] = {true, true};  // the rows' sums of this tile
    // Only scores above m matter; where no m is negative they are positive. The general form gives
    // the same bits, whatever the neighbours in the warp are.
    const bool special = is_cut(scales) || scales->whole_sum_unit == 0.0f ||
                         scales->reference != common_reference_ ||
                         !(rows[0].m >= 0.0f && rows[1].m >= 0.0f);
    if (__any_sync(kWholeWarp, special)) {
      renew_rows<true>(s, multiplier, rows, bias, scales, thread, description, in_product);
    } else {
      renew_rows<false>(s, multiplier, rows, bias, scales, thread, description, in_product);
    }
    if constexpr (kAdd) add_product(o, t, factor);
    if (kPerToken && missing_any(in_product)) {  // not earlier: registers of the product are free
      const int4 stored = *references(thread);
      sum_rows(s, multiplier, rows, scales, {stored.x, stored.y}, in_product, thread % 4);
    }
    exponentials(s, p, multiplier, bias, scales, thread % 4);
  }

  FLAMIA_DEVICE static void exponentials(float (&s)[kScores], uint32_t (&p)[4][4],
                                         const float (&multiplier)[kMultipliers],
                                         const RowBias (&bias)[2], const Scales* scales, int quad) {
    constexpr int kWords = kScores / 4;
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const int half = word % 2;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int i = first_of_word(word) + k / 2 * 4 + k % 2;
        float factor, addend;
        if constexpr (kPerToken) {
          const float2 exponent = column_pair(scales->value_exponent, i / 4, quad);
          factor = multiplier[half];
          addend = bias[half].block[0] + (k % 2 == 0 ? exponent.x : exponent.y);
        } else {
          factor = multiplier[word / 4];
          addend = bias[half].block[word / 4];
        }
        s[i] = exponential<kConfig.exponential>(fma_f32(s[i], factor, addend), i / 4, quad);
      }
    }
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const float* e = s + first_of_word(word);
      p[word / 4][word % 4] = ptx::pack_e4m3x4(e[0], e[1], e[4], e[5]);
    }
  }

  /// The FP32 sum of O: rescale, change of reference and promotion in one.
  FLAMIA_DEVICE static void add_product(float (&o)[kOutputs], const float (&t)[kProducts],
                                        const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] = fma_f32(o[i], factor[i / 2 % 2], t[i]);
  }

  /// First of the accumulators {0, 1, 4, 5} + first that make one word of P-hat.
  FLAMIA_DEVICE static constexpr int first_of_word(int word) {
    return word / 4 * 16 + word % 4 / 2 * 8 + word % 2 * 2;
  }

  /// Adds the row sums that came with the product of a tile: every column of the constant rows is
  /// one.
  FLAMIA_DEVICE void add_sums(const float (&t)[kProducts], Row (&rows)[2],
                              uint32_t tile_index) const {
    const float unit = scales_of(tile_index)->sum_unit;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& l = rows[half].l;
      l = is_complete(l) ? magnitude(l) : fma_f32(t[kOutputs + 2 * half], unit, l);
    }
  }

  FLAMIA_DEVICE void attend(const Work* description, uint32_t buffer) {
    float o[kOutputs];
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] = 0.0f;
    Row rows[2];
    rows[0] = rows[1] = Row{-kFloatInfinity, 0.0f, 1.0f};
    *references(consumer_thread()) = {0, 0, 0, 0};
    common_reference_ = 0;
    const uint32_t count = ptx::uniform(
        static_cast<uint32_t>(description->item.tile_end - description->item.tile_begin));
    if (count > 0) attend_tiles(description, buffer, count, o, rows);
    store(description, o, rows);
    asm volatile("" : "+r"(buffer));  // its address need not live in a register until here
    arrive(base_ + Map::kQueryEmpty + 8 * buffer);
  }

  FLAMIA_DEVICE void attend_tiles(const Work* description, uint32_t buffer, uint32_t left,
                                  float (&o)[kOutputs], Row (&rows)[2]) {
    float s[kScores];
    float t[kProducts];
    uint32_t p[4][4];

    uint32_t stage = tiles_ % kConfig.stages;
    uint32_t parity = tiles_ / kConfig.stages % 2;
    ptx::mbarrier_wait(base_ + Map::kKeyFull + 8 * stage, parity);
    ptx::wgmma_fence();
    issue_scores(s, buffer, stage);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::pin(s);
    arrive(base_ + Map::kKeyEmpty + 8 * stage);
    softmax<false>(s, p, o, t, rows, description);

    while (--left > 0) {
      const uint32_t value_stage = stage;
      ptx::mbarrier_wait(base_ + Map::kValueFull + 8 * value_stage, parity);
      ++tiles_;
      stage = tiles_ % kConfig.stages;
      parity = tiles_ / kConfig.stages % 2;
      ptx::mbarrier_wait(base_ + Map::kKeyFull + 8 * stage, parity);
      ptx::wgmma_fence();
      issue_product(t, p, value_stage);
      ptx::wgmma_commit();
      issue_scores(s, buffer, stage);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>();
      ptx::pin(t);
      ptx::pin(s);
      arrive(base_ + Map::kValueEmpty + 8 * value_stage);
      arrive(base_ + Map::kKeyEmpty + 8 * stage);
      add_sums(t, rows, tiles_ - 1);
      softmax<true>(s, p, o, t, rows, description);
    }

    ptx::mbarrier_wait(base_ + Map::kValueFull + 8 * stage, parity);
    ptx::wgmma_fence();
    issue_product(t, p, stage);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::pin(t);
    arrive(base_ + Map::kValueEmpty + 8 * stage);
    add_sums(t, rows, tiles_);
    add_product(o, t, {rows[0].factor, rows[1].factor});
    ++tiles_;
  }

  /// Writes O, its residual and the log-sum-exp of the rows that exist.
  FLAMIA_DEVICE void store(const WorkDescription* description, float (&o)[kOutputs],
                           const Row (&rows)[2]) const {
    const int thread = consumer_thread();
    const int first = first_row(thread);
    const RowPlace place(args_, description->item.query_token);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const Row& row = rows[half];
      const bool empty = row.m == -kFloatInfinity;
      const float inverse = ptx::reciprocal_approximate(row.l);
#pragma unroll
      for (int i = 0; i < kOutputs; i += 4) {
        o[i + 2 * half] *= inverse;
        o[i + 2 * half + 1] *= inverse;
      }
      if (__any_sync(kWholeWarp, empty)) {  // nothing was added, unless zeros times NaN
#pragma unroll
        for (int i = 0; i < kOutputs; i += 4) {
          o[i + 2 * half] = empty ? 0.0f : o[i + 2 * half];
          o[i + 2 * half + 1] = empty ? 0.0f : o[i + 2 * half + 1];
        }
      }
      if (thread % 4 == 0 && first + 8 * half < description->item.rows) {
        const int4 reference = *references(thread);
        const float lse =
            kLn2 * (row.m + static_cast<float>(half == 0 ? reference.x : reference.y) +
                    ptx::log2_approximate(row.l) - args_.p_log2);
        args_.lse
            .data[place.batch * args_.lse.batch_stride + description->head * args_.lse.head_stride +
                  (place.position + first + 8 * half) * args_.lse.token_stride] =
            empty ? kEmptyLse : lse;
      }
    }
    uint32_t main[kOutputs / 2];
#pragma unroll
    for (int i = 0; i < kOutputs / 2; ++i) main[i] = ptx::pack_bf16x2(o[2 * i], o[2 * i + 1]);
    store_rows(description, args_.o, main, thread);
    if (args_.o_residual.data == nullptr) return;
#pragma unroll
    for (int i = 0; i < kOutputs / 2; ++i) {
      main[i] = ptx::pack_bf16x2(o[2 * i] - bits_float(main[i] << 16),
                                 o[2 * i + 1] - bits_float(main[i] & 0xffff0000u));
    }
    store_rows(description, args_.o_residual, main, thread);
  }

  /// Where a token's rows are.
  struct RowPlace {
    int64_t batch, position;
    FLAMIA_DEVICE RowPlace(const ForwardArgs& args, int token) : batch(0), position(token) {
      if (args.batch_length > 0) {
        batch = token / args.batch_length;
        position = token % args.batch_length;
      }
    }
  };

  /// Sixteen rows of this warp, as accumulator fragments, through shared memory, so that they leave
  /// in whole lines.
  FLAMIA_DEVICE void store_rows(const WorkDescription* description, const Bf16Output& output,
                                const uint32_t (&pairs)[kOutputs / 2], int thread) const {
    const int lane = thread % 32;
    const int warp = thread / 32;
    const uint32_t rows = base_ + Map::kOutput + warp * Map::kOutputBytes;
    // Matrices of a store: rows 0-7 and 8-15 of eight columns, then of the next eight.
    const uint32_t address =
        rows + (lane % 16) * Map::kOutputRowBytes + static_cast<uint32_t>(lane / 16) * 16;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
      ptx::store_matrices(address + 32 * k,
                          {pairs[4 * k], pairs[4 * k + 1], pairs[4 * k + 2], pairs[4 * k + 3]});
    }
    __syncwarp();
    constexpr int kVectors = kHeadDim / 8;  // of a row
    constexpr int kRowsAtOnce = 32 / kVectors;
    const int column = lane % kVectors;
    const unsigned char* source = shared_ + Map::kOutput + warp * Map::kOutputBytes + column * 16;
    // The rows of a tile are neighbours: a sequence of a batch is a document.
    const RowPlace place(args_, description->item.query_token);
    uint16_t* destination = output.data + place.batch * output.batch_stride +
                            place.position * output.token_stride +
                            description->head * output.head_stride + column * 8;
#pragma unroll
    for (int r = 0; r < 16; r += kRowsAtOnce) {
      const int row = r + lane / kVectors;
      if (warp * 16 + row < description->item.rows) {
        *reinterpret_cast<uint4*>(destination + (warp * 16 + row) * output.token_stride) =
            *reinterpret_cast<const uint4*>(source + row * Map::kOutputRowBytes);
      }
    }
  }

  const ForwardArgs& args_;
  unsigned char* shared_;
  uint32_t base_;
  uint32_t group_;
  uint32_t tiles_ = 0;
  int common_reference_ = 0;  ///< E of all rows of the warp, if they have one
};

}  // namespace flamia::hopper
