// A consumer warpgroup of the forward kernel whose scores have binary16 accumulators.
// Paper: 3.1, 3.2, 3.4, B.1; row sums from P-hat. Used by: forward.cuh.
//
// Half the registers of FP32 scores: while the exponentials of a tile are formed, the tensor cores
// compute the scores of the next one; while its product is under way, the maxima of the next one
// are found. No product is in flight from one tile to the next, since the compiler would serialize
// it. Maxima, arguments and exponentials are packed binary16, two columns of a row to a register.
//
// Per row: base, c - m rounded down to binary16 (numerics/online_softmax.h); E, the V exponent that
// P-hat is folded against; O and the row sum l both divided by 2^E. Where binary16 cannot hold a
// bias or a multiplier, arguments are formed in FP32 and rounded. The usual and the general form of
// a tile give the same bits: a row's form may depend on its neighbours in the warp.
// Over 500 lines: one role whose parts share a thread's registers.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/hopper/forward_config.h"
#include "kernels/hopper/forward_half_pairs.cuh"
#include "kernels/hopper/forward_rows.cuh"
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
class ForwardHalfConsumer {
  using Map = ForwardSharedMap<kConfig>;
  static constexpr int kHeadDim = kConfig.head_dim;
  static constexpr int kScorePairs = kKeyTile / 4;  // pairs of accumulators of S per thread
  static constexpr int kOutputs = kHeadDim / 2;     // elements of O
  /// The product with V in two parts, so that registers suffice: the first is added to O while the
  /// second is under way, the second, with the row sums, beside the exponentials of the next tile.
  static constexpr int kFirst = 32;
  static constexpr bool kSplit = kOutputs > kFirst;
  static constexpr int kSecond = kOutputs - (kSplit ? kFirst : 0);

 public:
  FLAMIA_DEVICE ForwardHalfConsumer(const ForwardArgs& args, unsigned char* shared)
      : args_(args),
        shared_(shared),
        base_(ptx::shared_address(shared)),
        group_(ptx::uniform((threadIdx.x - kFirstConsumer) / 128)) {}

  FLAMIA_DEVICE void run() {
    take_work<kConfig>(shared_,
                       [this](const WorkDescription*, uint32_t buffer) { attend(buffer); });
  }

 private:
  /// The two rows of a thread.
  struct Rows {
    float base[2];  ///< c - m; infinite before the first key
    float l[2];
  };
  /// What becomes of O and l before the product of a tile is added.
  struct Due {
    float factor[2];  ///< of each row; both with the sign bit set if the tile has notes
  };
  /// The rest of it where a tile is not of the usual kind; waits in shared memory.
  struct Note {
    float sum;   ///< of P; kInProduct: it comes with the product
    int change;  ///< exponent of another factor: E has changed
  };
  static constexpr float kInProduct = -1.0f;
  FLAMIA_DEVICE Note* notes(uint32_t tile, int thread) const {
    return reinterpret_cast<Note*>(shared_ + Map::kNotes) +
           2 * (128 * kConsumerGroups * (tile % 2) + thread);
  }
  /// What prepares a tile, read ahead.
  struct Incoming {
    uint4 scales;  ///< HalfScales
    int reference;
  };
  FLAMIA_DEVICE const HalfTileScales* scales_of(uint32_t tile) const {
    return reinterpret_cast<const HalfTileScales*>(shared_ + Map::kScales) +
           tile % Map::kScaleSlots;
  }
  FLAMIA_DEVICE const WorkDescription* description() const {
    return reinterpret_cast<const WorkDescription*>(shared_ + Map::kWork) + buffer_;
  }
  /// E of the two rows of a thread, then how far each may fall. They seldom change and wait in
  /// shared memory.
  FLAMIA_DEVICE int4* references(int thread) const {
    return reinterpret_cast<int4*>(shared_ + Map::kReferences) + thread;
  }

  FLAMIA_DEVICE void attend(uint32_t buffer) {
    buffer_ = buffer;
    float o[kOutputs];
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] = 0.0f;
    Rows rows;
    begin_unit(&rows);
    const ForwardItem& item = description()->item;
    const uint32_t tiles = ptx::uniform(static_cast<uint32_t>(item.tile_end - item.tile_begin));
    if (tiles > 0) attend_tiles(tiles, o, rows);
    finish_unit(o, rows);
  }

  FLAMIA_DEVICE void attend_tiles(uint32_t left, float (&o)[kOutputs], Rows& rows) {
    uint32_t a[kScorePairs];
    uint32_t b[kScorePairs];
    float second[kSecond + kSumRows / 2];
    Due last;
    Due due;
    Line line;
    tile_ = ptx::uniform(tile_);
    wait_for_keys();
    ptx::wgmma_fence();
    issue_scores(a);
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::pin(a);
    release_keys();
    prepare(a, rows, due, line, load_scales());
#pragma unroll
    for (int i = 0; i < kSecond; ++i) second[i] = 0.0f;
    last = {{1.0f, 1.0f}};
    for (;;) {
      if (--left == 0) return last_step(a, o, second, rows, last, due, line);
      step(a, b, o, second, rows, last, due, line);
      if (--left == 0) return last_step(b, o, second, rows, last, due, line);
      step(b, a, o, second, rows, last, due, line);
    }
  }

  FLAMIA_DEVICE void begin_unit(Rows* rows) {
    rows->base[0] = rows->base[1] = kFloatInfinity;
    rows->l[0] = rows->l[1] = 0.0f;
    *references(consumer_thread()) = {0, 0, 0, 0};
    common_reference_ = kWideRows;
  }
  FLAMIA_DEVICE void finish_unit(float (&o)[kOutputs], const Rows& rows) const {
    const int4 reference = *references(consumer_thread());
    const RowResult results[2] = {
        {rows.l[0], args_.p_log2 - rows.base[0] + static_cast<float>(reference.x),
         rows.base[0] == kFloatInfinity},
        {rows.l[1], args_.p_log2 - rows.base[1] + static_cast<float>(reference.y),
         rows.base[1] == kFloatInfinity}};
    store_results<kConfig>(args_, shared_, description(), o, results);
    warp_arrive(base_ + Map::kQueryEmpty + 8 * buffer_);
  }

  /// Scores of tile tile_.
  FLAMIA_DEVICE void issue_scores(uint32_t (&s)[kScorePairs]) const {
    const uint32_t stage = tile_ % kConfig.stages;
    const uint32_t query = ptx::wgmma_descriptor_low(base_ + Map::kQuery) +
                           (buffer_ * Map::kQueryBytes + group_ * (Map::kQueryBytes / 2)) / 16;
    const uint32_t keys = ptx::wgmma_descriptor_low(base_ + Map::kKey + stage * Map::kKeyBytes);
#pragma unroll
    for (int step = 0; step < kHeadDim / 32; ++step) {
      ptx::wgmma_m64n128k32_f16<kHeadDim>(s, query + 2 * step, keys + 2 * step, step != 0);
    }
  }

  /// Rows with such bases take the usual form: their biases stay exact.
  static constexpr float kNarrowBase = kHalfExactLimit - 16.0f;
  /// No common reference, or rows without keys: differs from every tile's, also from kUnusualTile.
  static constexpr int kWideRows = 1 << 20;

  /// A row's base for a new maximum and the factor of what was accumulated.
  FLAMIA_DEVICE void renew(float* base, float* factor, float largest) const {
    if (largest + *base > ceiling()) {
      // half_row_base() in two instructions.
      const float exact = args_.p_log2 - largest;
      const float next =
          magnitude(exact) < kHalfExactLimit ? __half2float(__float2half_rd(exact)) : exact;
      *factor = ptx::exp2_approximate(next - *base);
      *base = next;
    }
  }
  FLAMIA_DEVICE float ceiling() const { return args_.p_log2 + args_.tau; }

  FLAMIA_DEVICE Incoming load_scales() const {
    const HalfTileScales* scales = scales_of(tile_);
    return {*reinterpret_cast<const uint4*>(scales->half + consumer_thread() / 64),
            scales->usual_reference[group_]};
  }

  /// From the scores of tile tile_ to how its exponentials are formed, and what becomes of O and l.
  /// The product of the tile before may still be under way.
  FLAMIA_DEVICE void prepare(uint32_t (&s)[kScorePairs], Rows& rows, Due& due, Line& line,
                             const Incoming& incoming) {
    due = {{1.0f, 1.0f}};
    line.multiplier[0] = pair(incoming.scales.x);
    line.multiplier[1] = pair(incoming.scales.y);
    const bool special = incoming.reference != common_reference_;
    __half2 most = largest_scores(s, line.multiplier);
    const bool grows = __low2float(most) + rows.base[0] > ceiling() ||
                       __high2float(most) + rows.base[1] > ceiling();
    if (__any_sync(kWholeWarp, special || grows)) {
      bool general = __any_sync(kWholeWarp, special);
      if (!general) {
        most = across_lanes(most);
        const float largest[2] = {__low2float(most), __high2float(most)};
        general = __any_sync(kWholeWarp, larger(largest[0], largest[1]) > kNarrowBase - 16.0f);
        if (!general) {
          renew(&rows.base[0], &due.factor[0], largest[0]);
          renew(&rows.base[1], &due.factor[1], largest[1]);
        }
      }
      if (general) {
        prepare_general(s, rows, due.factor, line);
        due.factor[0] = -due.factor[0];
        due.factor[1] = -due.factor[1];
        return;
      }
    }
    const __half2 base = __floats2half2_rn(rows.base[0], rows.base[1]);
#pragma unroll
    for (int g = 0; g < kBlocksPerTile; ++g) {
      line.bias[g] =
          __hadd2(base, both(pair(g < 2 ? incoming.scales.z : incoming.scales.w), g % 2));
    }
  }

  /// Row sum of a tile whose constant rows do not give it: decoded P-hat where the fold keeps it,
  /// else the exponential itself, as the exact definition says (numerics/key_fold.h). Scores are
  /// read from this thread's place in shared memory, so that rare code is short.
  FLAMIA_DEVICE float sum_aside(const uint32_t* aside, int half, const HalfTileScales* scales,
                                const float* multiplier, uint32_t narrow, float base,
                                int reference) const {
    float sum = 0.0f;
#pragma unroll 1
    for (int g = 0; g < kBlocksPerTile; ++g) {
      const int fold = fold_exponent(scales->value_exponent[g], reference);
      const bool decoded = fold_keeps_row_sum(fold) && !args_.sum_of_p;
      const float bias = base + (decoded ? static_cast<float>(fold) : 0.0f);
      float part = 0.0f;
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        const uint32_t score = aside[score_index(half, g, i) * 32];
        float2 p;
        if (decoded) {
          const __half2 x = arguments(score, multiplier[g], bias, (narrow >> g & 1) != 0);
          uint32_t low, high;
          ptx::unpack_e4m3x4(ptx::pack_e4m3x4(ptx::exp2_approximate_f16x2(bits(x)), 0u), &low,
                             &high);
          p = __half22float2(pair(low));
        } else {
          const float2 x = __half22float2(pair(score));
          p = {ptx::exp2_approximate(fma_f32(x.x, multiplier[g], bias)),
               ptx::exp2_approximate(fma_f32(x.y, multiplier[g], bias))};
        }
        part += p.x + p.y;
      }
      sum += decoded ? part * fold_factor(-fold) : part;
    }
    sum += __shfl_xor_sync(kWholeWarp, sum, 1);
    sum += __shfl_xor_sync(kWholeWarp, sum, 2);
    return sum * pow2(-reference);
  }

  /// The V exponent that a row's P-hat is folded against in this tile, in the general case. Each
  /// lane of a row's four looks at one key block. Returns whether the constant rows give the row's
  /// sum.
  FLAMIA_DEVICE bool refer_row(const HalfTileScales* scales, const VisibleKeys& seen, bool first,
                               int* change, int* reference, int* lowest) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int block = lane % 4;
    const int exponent = scales->value_exponent[block];
    const bool sees = seen.begin < seen.end;
    const bool visible = seen.begin < (block + 1) * kTokenBlock && seen.end > block * kTokenBlock;
    int wanted = visible ? larger(exponent, kMinReference) : kMinReference;
    wanted = larger(wanted, __shfl_xor_sync(kWholeWarp, wanted, 1));
    wanted = larger(wanted, __shfl_xor_sync(kWholeWarp, wanted, 2));
    if (!sees) wanted = *reference;
    const int lag = scales->first_exponent - exponent;
    const bool keeps =
        fold_keeps_row_sum(exponent - wanted) && lag >= kE4m3MinExponent && lag <= kE4m3MaxExponent;
    const uint32_t kept = __ballot_sync(kWholeWarp, keeps || !visible) >> (lane & ~3);
    // The constant rows count in units of the first block: a row that does not see it must not
    // depend on it.
    const bool in_product =
        (kept & 0xfu) == 0xfu && !args_.sum_of_p && (!sees || seen.begin < kTokenBlock);
    if (sees && (first || wanted != *reference)) {
      const int next = first ? wanted : larger(wanted, *lowest);
      if (!first) *change = *reference - next;
      *reference = next;
      *lowest = first ? next - kMaxReferenceDrop : larger(next - kMaxReferenceDrop, *lowest);
    }
    return in_product && *reference == wanted;
  }

  /// Multipliers in binary16; where that cannot hold one, 1, which masked scores do not mind.
  FLAMIA_DEVICE static void load_multipliers(__half2 (&multiplier)[kBlocksPerTile / 2],
                                             const HalfTileScales* scales, int row_block,
                                             uint32_t narrow) {
    const __half one = __float2half_rn(1.0f);
#pragma unroll
    for (int g = 0; g < kBlocksPerTile; g += 2) {
      const __half2 stored =
          *reinterpret_cast<const __half2*>(scales->half[row_block].multiplier + g);
      multiplier[g / 2] = __halves2half2((narrow >> g & 1) != 0 ? __low2half(stored) : one,
                                         (narrow >> g & 2) != 0 ? __high2half(stored) : one);
    }
  }

  /// Largest scores of the two rows in base 2, over all their columns.
  FLAMIA_DEVICE void largest_general(const uint32_t (&s)[kScorePairs], const HalfTileScales* scales,
                                     int row_block, uint32_t narrow, float (&largest)[2]) const {
    __half2 multiplier[kBlocksPerTile / 2];
    load_multipliers(multiplier, scales, row_block, narrow);
    const __half2 most = across_lanes(largest_scores(s, multiplier));
    largest[0] = __low2float(most);
    largest[1] = __high2float(most);
    const auto fits = [](float x) {
      return magnitude(x) < kHalfExactLimit || x == -kFloatInfinity;
    };
    const bool usual = narrow == 0xf && fits(largest[0]) && fits(largest[1]);
    if (__any_sync(kWholeWarp, !usual)) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float x = largest_wide(s, half, scales->multiplier[row_block], narrow);
        x = max_number(x, __shfl_xor_sync(kWholeWarp, x, 1));
        largest[half] = max_number(x, __shfl_xor_sync(kWholeWarp, x, 2));
      }
    }
  }

  FLAMIA_DEVICE static float finite_base(float base) {
    return base == kFloatInfinity ? 0.0f : base;
  }
  /// Bias of the arguments of a row's exponentials in a key block.
  FLAMIA_DEVICE static float bias_of(float base, const HalfTileScales* scales, int block,
                                     int reference) {
    return finite_base(base) +
           static_cast<float>(fold_exponent(scales->value_exponent[block], reference));
  }

  /// Replaces scores by arguments where binary16 cannot form them.
  FLAMIA_DEVICE static void form_arguments(uint32_t* aside, int half, const HalfTileScales* scales,
                                           int row_block, uint32_t narrow, float base,
                                           int reference) {
#pragma unroll 1
    for (int g = 0; g < kBlocksPerTile; ++g) {
      const float bias = bias_of(base, scales, g, reference);
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        uint32_t& x = aside[score_index(half, g, i) * 32];
        x = bits(arguments(x, scales->multiplier[row_block][g], bias, (narrow >> g & 1) != 0));
      }
    }
  }

  FLAMIA_DEVICE void prepare_general(uint32_t (&s)[kScorePairs], Rows& rows, float (&factor)[2],
                                     Line& line) {
    const HalfTileScales* scales = scales_of(tile_);
    const int thread = consumer_thread();
    const int row_block = thread / 64;
    const uint32_t narrow = static_cast<uint32_t>(scales->narrow) >> (4 * row_block) & 0xfu;
    VisibleKeys seen[2] = {{0, kKeyTile}, {0, kKeyTile}};  // of the tile
    if ((scales->masked >> group_ & 1) != 0) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        seen[half] = visible_tile_keys(args_, description()->item, scales->first_key,
                                       first_row(thread) + 8 * half);
      }
      mask(s, seen, thread % 4);
    }
    float largest[2];
    largest_general(s, scales, row_block, narrow, largest);
    int4* stored = references(thread);
    int reference[2] = {stored->x, stored->y};
    int lowest[2] = {stored->z, stored->w};
    bool in_product[2];
    Note* note = notes(tile_, thread);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool first = rows.base[half] == kFloatInfinity;
      renew(&rows.base[half], &factor[half], largest[half]);
      int change = 0;
      in_product[half] =
          refer_row(scales, seen[half], first, &change, &reference[half], &lowest[half]);
      note[half] = {kInProduct, change};
    }
    *stored = {reference[0], reference[1], lowest[0], lowest[1]};
    const int least = __reduce_min_sync(kWholeWarp, smaller(reference[0], reference[1]));
    const int most = __reduce_max_sync(kWholeWarp, larger(reference[0], reference[1]));
    const bool wide = larger(magnitude(rows.base[0]), magnitude(rows.base[1])) > kNarrowBase;
    common_reference_ = least == most && !__any_sync(kWholeWarp, wide) ? least : kWideRows;
    load_multipliers(line.multiplier, scales, row_block, narrow);
    bool usual = true;
#pragma unroll
    for (int g = 0; g < kBlocksPerTile; ++g) {
      float bias[2];
      bool sees = false;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        bias[half] = bias_of(rows.base[half], scales, g, reference[half]);
        usual = usual && magnitude(bias[half]) <= kHalfExactLimit;
        sees =
            sees || (seen[half].begin < (g + 1) * kTokenBlock && seen[half].end > g * kTokenBlock);
      }
      line.bias[g] = __floats2half2_rn(bias[0], bias[1]);
      usual = usual && ((narrow >> g & 1) != 0 || !sees);
    }
    const bool sums = !__all_sync(kWholeWarp, in_product[0] && in_product[1]);
    const bool forms = !__all_sync(kWholeWarp, usual);
    if (sums || forms) {
      set_aside(s, rows.base, sums, forms, in_product, reference, line);
    }
  }

  /// What few tiles need, from copies of the scores in shared memory, so that its code is short.
  FLAMIA_DEVICE void set_aside(uint32_t (&s)[kScorePairs], const float (&base)[2], bool sums,
                               bool forms, const bool (&in_product)[2], const int (&reference)[2],
                               Line& line) const {
    const HalfTileScales* scales = scales_of(tile_);
    const int thread = consumer_thread();
    const int row_block = thread / 64;
    const uint32_t narrow = static_cast<uint32_t>(scales->narrow) >> (4 * row_block) & 0xfu;
    uint32_t* aside =
        reinterpret_cast<uint32_t*>(shared_ + Map::kOutput + thread / 32 * Map::kOutputBytes) +
        thread % 32;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kScorePairs; ++i) aside[32 * i] = s[i];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (sums) {
        const float sum = sum_aside(aside, half, scales, scales->multiplier[row_block], narrow,
                                    finite_base(base[half]), reference[half]);
        if (!in_product[half]) notes(tile_, thread)[half].sum = sum;
      }
      if (forms)
        form_arguments(aside, half, scales, row_block, narrow, base[half], reference[half]);
    }
    if (!forms) return;
#pragma unroll
    for (int i = 0; i < kScorePairs; ++i) s[i] = aside[32 * i];
#pragma unroll
    for (int g = 0; g < kBlocksPerTile; ++g) {
      line.multiplier[g / 2] = __float2half2_rn(1.0f);
      line.bias[g] = __float2half2_rn(0.0f);
    }
  }

  /// What comes before the product of a tile is added: l is rescaled, `due` made the factors of O.
  /// Returns what the row sums are worth that come with the product: every column of the constant
  /// rows is one.
  FLAMIA_DEVICE float2 settle(Rows& rows, Due& due, uint32_t tile) const {
    const float unit = scales_of(tile)->sum_unit;
    float2 units{unit, unit};
    if (__any_sync(kWholeWarp, (float_bits(due.factor[0]) & kFloatSignBit) != 0)) {
      const Note* note = notes(tile, consumer_thread());
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        due.factor[half] = -due.factor[half];
        const int change = note[half].change;  // O of V too small to count may vanish, its mass not
        rows.l[half] *= pow2(change / 2);
        rows.l[half] *= pow2(change - change / 2);
        rows.l[half] *= due.factor[half];
        due.factor[half] *= pow2(change);
        if (note[half].sum != kInProduct) {
          rows.l[half] += note[half].sum;
          (half == 0 ? units.x : units.y) = 0.0f;
        }
      }
    } else {
      rows.l[0] *= due.factor[0];
      rows.l[1] *= due.factor[1];
    }
    return units;
  }

  FLAMIA_DEVICE static void add_sums(const float (&second)[kSecond + kSumRows / 2], Rows& rows,
                                     const float2& units) {
    rows.l[0] = fma_f32(second[kSecond], units.x, rows.l[0]);
    rows.l[1] = fma_f32(second[kSecond + 2], units.y, rows.l[1]);
  }

  /// Promotion and rescale of O from element kBegin on.
  template <int kBegin, int kCount, int kSize>
  FLAMIA_DEVICE static void add_product(float (&o)[kOutputs], const float (&t)[kSize],
                                        const Due& due) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      o[kBegin + i] = fma_f32(o[kBegin + i], due.factor[i / 2 % 2], t[i]);
    }
  }

  /// Two groups, or one where O is small.
  FLAMIA_DEVICE void issue_product(float (&first)[kFirst], float (&second)[kSecond + kSumRows / 2],
                                   const uint32_t (&p)[4][4], uint32_t tile) const {
    const uint32_t values =
        ptx::wgmma_descriptor_low(base_ + Map::kValue + tile % kConfig.stages * Map::kValueBytes);
    constexpr uint32_t kBlock = Map::kValueBlockBytes / 16;
    constexpr uint32_t kPart = kSplit ? 2 * kFirst * kTokenBlock / 16 : 0;
    if constexpr (kSplit) {
#pragma unroll
      for (int step = 0; step < kBlocksPerTile; ++step) {
        ptx::wgmma_m64n64k32<kTokenBlock>(first, p[step], values + step * kBlock, step != 0);
      }
      ptx::wgmma_commit();
    }
#pragma unroll
    for (int step = 0; step < kBlocksPerTile; ++step) {
      ptx::wgmma_m64n72k32<kTokenBlock>(second, p[step], values + kPart + step * kBlock, step != 0);
    }
    ptx::wgmma_commit();
  }

  FLAMIA_DEVICE void wait_for_keys() const {
    ptx::mbarrier_wait(base_ + Map::kKeyFull + 8 * (tile_ % kConfig.stages),
                       tile_ / kConfig.stages % 2);
  }
  FLAMIA_DEVICE void release_keys() const {
    warp_arrive(base_ + Map::kKeyEmpty + 8 * (tile_ % kConfig.stages));
  }
  FLAMIA_DEVICE void wait_for_values(uint32_t tile) const {
    ptx::mbarrier_wait(base_ + Map::kValueFull + 8 * (tile % kConfig.stages),
                       tile / kConfig.stages % 2);
  }
  FLAMIA_DEVICE void release_values(uint32_t tile) const {
    warp_arrive(base_ + Map::kValueEmpty + 8 * (tile % kConfig.stages));
  }

  /// A tile whose scores `s` are prepared: its exponentials, beside the promotion of the tile
  /// before and the scores of the next, then its product, beside what prepares the next.
  FLAMIA_DEVICE void step(uint32_t (&s)[kScorePairs], uint32_t (&next)[kScorePairs],
                          float (&o)[kOutputs], float (&second)[kSecond + kSumRows / 2], Rows& rows,
                          Due& last, Due& due, Line& line) {
    uint32_t p[4][4];
    float first[kFirst];
    const uint32_t tile = ptx::uniform(tile_);
    tile_ = tile + 1;
    wait_for_keys();
    ptx::wgmma_fence();
    issue_scores(next);
    ptx::wgmma_commit();
    add_product<kOutputs - kSecond, kSecond>(o, second, last);
    exponentials<kHeadDim == 128>(s, line, p);
    wait_for_values(tile);
    const Incoming incoming = load_scales();
    ptx::wgmma_fence();
    issue_product(first, second, p, tile);
    ptx::wgmma_wait<kSplit ? 2 : 1>();
    ptx::pin(next);
    release_keys();
    last = due;
    prepare(next, rows, due, line, incoming);
    const float2 units = settle(rows, last, tile);
    if constexpr (kSplit) {
      ptx::wgmma_wait<1>();
      ptx::pin(first);
      add_product<0, kFirst>(o, first, last);
    }
    ptx::wgmma_wait<0>();
    ptx::pin(second);
    release_values(tile);
    add_sums(second, rows, units);
  }

  /// The last tile of a unit.
  FLAMIA_DEVICE void last_step(uint32_t (&s)[kScorePairs], float (&o)[kOutputs],
                               float (&second)[kSecond + kSumRows / 2], Rows& rows, const Due& last,
                               Due& due, const Line& line) {
    uint32_t p[4][4];
    float first[kFirst];
    tile_ = ptx::uniform(tile_);
    add_product<kOutputs - kSecond, kSecond>(o, second, last);
    exponentials<kHeadDim == 128>(s, line, p);
    wait_for_values(tile_);
    ptx::wgmma_fence();
    issue_product(first, second, p, tile_);
    const float2 units = settle(rows, due, tile_);
    ptx::wgmma_wait<0>();
    if constexpr (kSplit) {
      ptx::pin(first);
      add_product<0, kFirst>(o, first, due);
    }
    ptx::pin(second);
    release_values(tile_);
    add_sums(second, rows, units);
    add_product<kOutputs - kSecond, kSecond>(o, second, due);
    ++tile_;
  }

  const ForwardArgs& args_;
  unsigned char* shared_;
  uint32_t base_;
  uint32_t group_;
  int common_reference_ = 0;  ///< E of all rows of the warp, if they have one and binary16 will do
  uint32_t tile_ = 0;    ///< the tile that is prepared or being prepared, counted over all units
  uint32_t buffer_ = 0;  ///< of the unit's queries
};

}  // namespace flamia::hopper
