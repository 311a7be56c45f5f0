// A consumer warpgroup of the MXFP8 and NVFP4 forward kernels: 64 query rows against the key tiles
// of their document. Paper: 3.1, 3.2, 3.4, B.1; row sums from P-hat. Used by: forward.cuh.
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

#include "kernels/hopper/forward_bf16_scores.cuh"
#include "kernels/hopper/forward_config.h"
#include "kernels/hopper/forward_exponential.cuh"
#include "kernels/hopper/forward_load.cuh"
#include "kernels/hopper/forward_rows.cuh"
#include "kernels/hopper/forward_token_scales.cuh"
#include "numerics/key_fold.h"
#include "numerics/online_softmax.h"
#include "plan/kernel_info.h"
#include "ptx/barrier.cuh"
#include "ptx/convert.cuh"
#include "ptx/descriptors.h"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"

namespace flamia::hopper {

template <ForwardConfig kConfig>
class ForwardConsumer {
  using Map = ForwardSharedMap<kConfig>;
  using Scales = typename Map::Scales;
  static constexpr bool kPerToken = kConfig.per_token;
  static constexpr int kHeadDim = kConfig.head_dim;
  static constexpr int kScores = kKeyTile / 2;               // accumulators of S per thread
  static constexpr int kOutputs = kHeadDim / 2;              // of O
  static constexpr int kProducts = kOutputs + kSumRows / 2;  // of P V with the row sum
  static constexpr int kNoCommonReference = 1 << 20;

 public:
  FLAMIA_DEVICE ForwardConsumer(const ForwardArgs& args, unsigned char* shared)
      : args_(args),
        shared_(shared),
        base_(ptx::shared_address(shared)),
        group_(ptx::uniform((threadIdx.x - kFirstConsumer) / 128)) {}

  FLAMIA_DEVICE void run() {
    take_work<kConfig>(shared_, [this](const WorkDescription* description, uint32_t buffer) {
      attend(description, buffer);
    });
  }

 private:
  struct Row {
    float m;
    float l;       ///< negative while it already counts a tile whose product is not yet added
    float factor;  ///< of O before the product of the last tile is added
  };
  /// Whether the row sum takes nothing from the product: its sign bit is set.
  FLAMIA_DEVICE static bool is_complete(float l) { return (float_bits(l) & kFloatSignBit) != 0; }
  FLAMIA_DEVICE void issue_scores(float (&s)[kScores], uint32_t buffer, uint32_t stage) const {
    if constexpr (kConfig.bf16_scores()) {
      issue_bf16_scores<kConfig>(s, base_ + Map::kQuery + buffer * Map::kQueryBytes,
                                 base_ + Map::kKey + stage * Map::kKeyBytes, group_);
      return;
    }
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

  /// What raw scores are multiplied by: one factor for each key block, the same for both rows, or
  /// one for each row where keys have factors of their own.
  struct Multipliers {
    float value[kConfig.token_factors() ? 2 : kBlocksPerTile];
    FLAMIA_DEVICE float of(int half, int block) const {
      return value[kConfig.token_factors() ? half : block];
    }
  };
  /// Also applies the factors of keys.
  FLAMIA_DEVICE Multipliers multipliers(float (&s)[kScores], const Scales* scales, int thread,
                                        const WorkDescription* description) const {
    Multipliers result;
    if constexpr (kConfig.token_factors()) {
      const auto* exponents = reinterpret_cast<const int8_t*>(description + 1) + first_row(thread);
      const auto* keys = reinterpret_cast<const float*>(
          shared_ + Map::kKeyFactors + tiles_ % Map::kScaleSlots * Map::kKeyFactorBytes);
      scale_token_scores(exponents, keys, thread % 4, s);
      row_factors(exponents, args_.score_multiplier, result.value);
    } else if constexpr (kConfig.bf16_scores()) {
      const float common = score_multiplier_of(args_);
#pragma unroll
      for (float& factor : result.value) factor = common;
    } else {
      *reinterpret_cast<float4*>(result.value) =
          *reinterpret_cast<const float4*>(scales->multiplier[thread / 64]);
    }
    return result;
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
                                       const Multipliers& multiplier, const Row& row, int reference,
                                       int quad) const {
    float sum = 0.0f;
    if constexpr (kPerToken) {
      sum = token_sum_in_registers<kConfig.exponential>(s, half, multiplier.of(half, 0), scales,
                                                        c_less_m(row), reference,
                                                        args_.sum_of_p != 0, quad);
    } else {
      sum = block_sum_in_registers(s, half, scales, multiplier, c_less_m(row), reference, quad);
    }
    sum += __shfl_xor_sync(kWholeWarp, sum, 1);
    sum += __shfl_xor_sync(kWholeWarp, sum, 2);
    return sum * pow2(-reference);
  }
  /// This thread's part of it.
  FLAMIA_DEVICE float block_sum_in_registers(const float (&s)[kScores], int half,
                                             const TileScales* scales,
                                             const Multipliers& multiplier, float c_less_maximum,
                                             int reference, int quad) const {
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
        float a = exponential<kConfig.exponential>(fma_f32(s[i], multiplier.of(half, g), bias),
                                                   i / 4, quad);
        float b = exponential<kConfig.exponential>(fma_f32(s[i + 1], multiplier.of(half, g), bias),
                                                   i / 4, quad);
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

  /// Largest scores of the two rows among this thread's columns, in base 2.
  template <bool kPositive>
  FLAMIA_DEVICE static void largest_scores(const float (&s)[kScores], const Multipliers& multiplier,
                                           float (&largest)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int g = 0; g < kBlocksPerTile; ++g) {
        const float block =
            largest_of_block<kPositive>(s + 16 * g + 2 * half) * multiplier.of(half, g);
        largest[half] = g == 0 ? block : max_number(largest[half], block);
      }
    }
  }

  /// What a row needs for its exponentials: c - m, and the fold of a key block's values. With
  /// exponents of V per token one number, c - m - E, to which a key's exponent is added.
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
  FLAMIA_DEVICE void renew_rows(float (&s)[kScores], const Multipliers& multiplier, Row (&rows)[2],
                                RowBias (&bias)[2], const Scales* scales, int thread,
                                const WorkDescription* description) {
    VisibleKeys seen[2] = {{0, kKeyTile}, {0, kKeyTile}};  // of the tile
    if (kGeneral && is_cut(scales)) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        seen[half] = visible_tile_keys(args_, description->item, scales->first_key,
                                       first_row(thread) + 8 * half);
      }
      mask_scores(s, seen, thread % 4);
    }
    float tile_max[2];
    largest_scores<!kGeneral>(s, multiplier, tile_max);
    const bool first[2] = {rows[0].m == -kFloatInfinity, rows[1].m == -kFloatInfinity};
    const bool grows = tile_max[0] - rows[0].m > args_.tau || tile_max[1] - rows[1].m > args_.tau;
    if (__any_sync(kWholeWarp, grows)) {
      renew_maximum(tile_max[0], args_.tau, &rows[0].m, &rows[0].factor);
      renew_maximum(tile_max[1], args_.tau, &rows[1].m, &rows[1].factor);
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
      const bool in_product[2] = {
          refer_row(scales, seen[0], first[0], &rows[0], &reference[0], &lowest[0], thread % 4),
          refer_row(scales, seen[1], first[1], &rows[1], &reference[1], &lowest[1], thread % 4)};
      *stored = {reference[0], reference[1], lowest[0], lowest[1]};
      const int least = __reduce_min_sync(kWholeWarp, smaller(reference[0], reference[1]));
      const int most = __reduce_max_sync(kWholeWarp, larger(reference[0], reference[1]));
      common_reference_ = least == most ? least : kNoCommonReference;
      if (__builtin_expect(__any_sync(kWholeWarp, !in_product[0] || !in_product[1]), 0)) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float sum = sum_in_registers(s, half, scales, multiplier, rows[half],
                                             reference[half], thread % 4);
          if (!in_product[half]) rows[half].l = -(rows[half].l + sum);
        }
      }
      bias[0] = general_bias(scales, rows[0], reference[0]);
      bias[1] = general_bias(scales, rows[1], reference[1]);
    }
  }

  /// P-hat of a tile from its scores. With kAdd the product of the tile before is added to O on the
  /// way.
  template <bool kAdd>
  FLAMIA_DEVICE void softmax(float (&s)[kScores], uint32_t (&p)[4][4], float (&o)[kOutputs],
                             const float (&t)[kProducts], Row (&rows)[2],
                             const WorkDescription* description) {
    // Beside the maxima there are issue slots left; where factors of keys are live, registers are
    // not.
    constexpr bool kAddFirst = kConfig.token_factors();
    const float factor[2] = {rows[0].factor, rows[1].factor};
    rows[0].factor = rows[1].factor = 1.0f;
    if constexpr (kAdd && kAddFirst) add_product(o, t, factor);
    const Scales* scales = scales_of(tiles_);
    const int thread = consumer_thread();
    const Multipliers multiplier = multipliers(s, scales, thread, description);
    RowBias bias[2];
    // Only scores above m matter; where no m is negative they are positive. The general form gives
    // the same bits, whatever the neighbours in the warp are.
    const bool special = is_cut(scales) || scales->whole_sum_unit == 0.0f ||
                         scales->reference != common_reference_ ||
                         !(rows[0].m >= 0.0f && rows[1].m >= 0.0f);
    if (__any_sync(kWholeWarp, special)) {
      renew_rows<true>(s, multiplier, rows, bias, scales, thread, description);
    } else {
      renew_rows<false>(s, multiplier, rows, bias, scales, thread, description);
    }
    if constexpr (kAdd && !kAddFirst) add_product(o, t, factor);
    exponentials(s, p, multiplier, bias, scales, thread % 4);
  }

  FLAMIA_DEVICE static void exponentials(float (&s)[kScores], uint32_t (&p)[4][4],
                                         const Multipliers& multiplier, const RowBias (&bias)[2],
                                         const Scales* scales, int quad) {
    constexpr int kWords = kScores / 4;
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const int half = word % 2;
      const int g = word / 4;
      float addend[4];  // of the word's columns
      if constexpr (kPerToken) {
        const float4 e = column_quad(scales->value_exponent, first_of_word(word) / 4, quad);
        const float base = bias[half].block[0];
        addend[0] = base + e.x;
        addend[1] = base + e.y;
        addend[2] = base + e.z;
        addend[3] = base + e.w;
      } else {
        addend[0] = addend[1] = addend[2] = addend[3] = bias[half].block[g];
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int i = first_of_word(word) + k / 2 * 4 + k % 2;
        s[i] = exponential<kConfig.exponential>(fma_f32(s[i], multiplier.of(half, g), addend[k]),
                                                i / 4, quad);
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

  FLAMIA_DEVICE void attend(const WorkDescription* description, uint32_t buffer) {
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
    warp_arrive(base_ + Map::kQueryEmpty + 8 * buffer);
  }

  FLAMIA_DEVICE void attend_tiles(const WorkDescription* description, uint32_t buffer,
                                  uint32_t left, float (&o)[kOutputs], Row (&rows)[2]) {
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
    warp_arrive(base_ + Map::kKeyEmpty + 8 * stage);
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
      warp_arrive(base_ + Map::kValueEmpty + 8 * value_stage);
      warp_arrive(base_ + Map::kKeyEmpty + 8 * stage);
      add_sums(t, rows, tiles_ - 1);
      softmax<true>(s, p, o, t, rows, description);
    }

    ptx::mbarrier_wait(base_ + Map::kValueFull + 8 * stage, parity);
    ptx::wgmma_fence();
    issue_product(t, p, stage);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::pin(t);
    warp_arrive(base_ + Map::kValueEmpty + 8 * stage);
    add_sums(t, rows, tiles_);
    add_product(o, t, {rows[0].factor, rows[1].factor});
    ++tiles_;
  }

  /// Writes O, its residual and the log-sum-exp of the rows that exist.
  FLAMIA_DEVICE void store(const WorkDescription* description, float (&o)[kOutputs],
                           const Row (&rows)[2]) const {
    const int4 reference = *references(consumer_thread());
    const RowResult results[2] = {
        {rows[0].l, rows[0].m + static_cast<float>(reference.x), rows[0].m == -kFloatInfinity},
        {rows[1].l, rows[1].m + static_cast<float>(reference.y), rows[1].m == -kFloatInfinity}};
    store_results<kConfig>(args_, shared_, description, o, results);
  }

  const ForwardArgs& args_;
  unsigned char* shared_;
  uint32_t base_;
  uint32_t group_;
  uint32_t tiles_ = 0;
  int common_reference_ = 0;  ///< E of all rows of the warp, if they have one
};

}  // namespace flamia::hopper
