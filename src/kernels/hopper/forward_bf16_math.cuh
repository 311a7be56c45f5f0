// A consumer warpgroup of the BF16 forward kernel: 64 query rows against the key tiles of their
// document. Paper: 3.4 (the BF16 baseline), B.1. Used by: forward.cuh.
//
// The scores of tile t and the product of P and V of tile t - 1 are issued together; while the
// product runs, the exponentials of tile t are formed. O lives in the accumulators of the product
// from the first tile to the last: sums of BF16 products keep 23 bits and need no promotion. A row
// that sees a larger maximum is rescaled between two products.
//
// A thread holds two rows, r and r + 8, and of every eight columns two. Row sums add P as it was
// rounded (or not, by choice), each thread its own columns; the four of a row meet at the end.
#pragma once

#include <cstdint>

#include "kernels/hopper/forward_bf16_scores.cuh"
#include "kernels/hopper/forward_config.h"
#include "kernels/hopper/forward_load.cuh"
#include "kernels/hopper/forward_rows.cuh"
#include "plan/kernel_info.h"
#include "ptx/barrier.cuh"
#include "ptx/convert.cuh"
#include "ptx/descriptors.h"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "ptx/wgmma_bf16.cuh"

namespace flamia::hopper {

template <ForwardConfig kConfig>
class ForwardBf16Consumer {
  using Map = ForwardSharedMap<kConfig>;
  static constexpr int kHeadDim = kConfig.head_dim;
  static constexpr int kScores = kKeyTile / 2;   // accumulators of S per thread
  static constexpr int kOutputs = kHeadDim / 2;  // of O
  static constexpr int kSteps = kKeyTile / 16;   // of the product of P and V

 public:
  FLAMIA_DEVICE ForwardBf16Consumer(const ForwardArgs& args, unsigned char* shared)
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
    float l;       ///< of this thread's columns
    float factor;  ///< of O and l before this tile's part is added
  };

  /// Waits for a key tile and issues its scores as one group.
  FLAMIA_DEVICE void issue_scores(float (&s)[kScores], uint32_t buffer, uint32_t stage,
                                  uint32_t parity) const {
    ptx::mbarrier_wait(base_ + Map::kKeyFull + 8 * stage, parity);
    ptx::wgmma_fence();
    issue_bf16_scores<kConfig>(s, base_ + Map::kQuery + buffer * Map::kQueryBytes,
                               base_ + Map::kKey + stage * Map::kKeyBytes, group_);
    ptx::wgmma_commit();
  }

  /// Likewise a value tile and its product.
  FLAMIA_DEVICE void issue_product(float (&o)[kOutputs], const uint32_t (&p)[kSteps][4],
                                   uint32_t stage, uint32_t parity) const {
    ptx::mbarrier_wait(base_ + Map::kValueFull + 8 * stage, parity);
    ptx::wgmma_fence();
    const uint32_t values = ptx::wgmma_descriptor_low(
        base_ + Map::kValue + stage * Map::kValueBytes, bf16_block_bytes(64));
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint32_t keys = values + step / 2 * (Map::kValueBlockBytes / 16) + step % 2 * 128;
      if constexpr (kHeadDim == 128) {
        ptx::wgmma_bf16_m64n128k16_rows(o, p[step], keys);
      } else {
        ptx::wgmma_bf16_m64n64k16_rows(o, p[step], keys);
      }
    }
    ptx::wgmma_commit();
  }

  template <bool kPositive>
  FLAMIA_DEVICE static void largest_scores(const float (&s)[kScores], float (&largest)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int g = 0; g < kBlocksPerTile; ++g) {
        const float block = largest_of_block<kPositive>(s + 16 * g + 2 * half);
        largest[half] = g == 0 ? block : max_number(largest[half], block);
      }
    }
  }

  /// Scores become exponentials; maxima and factors are renewed.
  FLAMIA_DEVICE void exponentials(float (&s)[kScores], Row (&rows)[2],
                                  const WorkDescription* description) const {
    const TileScales* scales =
        reinterpret_cast<const TileScales*>(shared_ + Map::kScales) + tiles_ % Map::kScaleSlots;
    if ((scales->masked >> group_ & 1) != 0) {
      const int thread = consumer_thread();
      VisibleKeys seen[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        seen[half] = visible_tile_keys(args_, description->item, scales->first_key,
                                       first_row(thread) + 8 * half);
      }
      mask_scores(s, seen, thread % 4);
    }
    float tile_max[2];
    // Only scores above m matter; where no m is negative they are positive.
    if (__any_sync(kWholeWarp, !(rows[0].m >= 0.0f && rows[1].m >= 0.0f))) {
      largest_scores<false>(s, tile_max);
    } else {
      largest_scores<true>(s, tile_max);
    }
    const float multiplier = score_multiplier_of(args_);
    tile_max[0] *= multiplier;
    tile_max[1] *= multiplier;
    rows[0].factor = rows[1].factor = 1.0f;
    const bool grows = tile_max[0] - rows[0].m > args_.tau || tile_max[1] - rows[1].m > args_.tau;
    if (__any_sync(kWholeWarp, grows)) {
      renew_maximum(tile_max[0], args_.tau, &rows[0].m, &rows[0].factor);
      renew_maximum(tile_max[1], args_.tau, &rows[1].m, &rows[1].factor);
    }
    float bias[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      bias[half] = args_.p_log2 - (rows[half].m == -kFloatInfinity ? 0.0f : rows[half].m);
    }
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      s[i] = ptx::exp2_approximate(fma_f32(s[i], multiplier, bias[i / 2 % 2]));
    }
  }

  /// Adds pairs of probabilities of the two rows, each in two parts, which keeps the chains of
  /// additions short.
  FLAMIA_DEVICE static void add_pair(int i, float low, float high, float (&sum)[4]) {
    sum[i % 4] += low;
    sum[i % 4] += high;
  }

  /// Row sums of un-quantized probabilities. As a branch that needs them it also keeps the compiler
  /// from moving the exponentials behind the wait for the product that they run beside.
  FLAMIA_DEVICE void add_exact(const float (&s)[kScores], float (&sum)[4]) const {
    if (!args_.sum_of_p) return;
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) add_pair(i, s[2 * i], s[2 * i + 1], sum);
  }

  /// P as the product takes it, and its row sums.
  FLAMIA_DEVICE void round(const float (&s)[kScores], uint32_t (&p)[kSteps][4], float (&sum)[4],
                           Row (&rows)[2]) const {
#pragma unroll
    for (int i = 0; i < kScores / 2; ++i) {
      p[i / 4][i % 4] = ptx::pack_bf16x2(s[2 * i], s[2 * i + 1]);
    }
    if (!args_.sum_of_p) {
#pragma unroll
      for (int i = 0; i < kScores / 2; ++i) {
        const uint32_t pair = p[i / 4][i % 4];
        add_pair(i, bits_float(pair << 16), bits_float(pair & 0xffff0000u), sum);
      }
    }
    rows[0].l = fma_f32(rows[0].l, rows[0].factor, sum[0] + sum[2]);
    rows[1].l = fma_f32(rows[1].l, rows[1].factor, sum[1] + sum[3]);
  }

  FLAMIA_DEVICE static void rescale(float (&o)[kOutputs], const Row (&rows)[2]) {
    if (!__any_sync(kWholeWarp, rows[0].factor != 1.0f || rows[1].factor != 1.0f)) return;
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] *= rows[i / 2 % 2].factor;
  }

  FLAMIA_DEVICE void attend(const WorkDescription* description, uint32_t buffer) {
    float o[kOutputs];
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] = 0.0f;
    Row rows[2];
    rows[0] = rows[1] = Row{-kFloatInfinity, 0.0f, 1.0f};
    const uint32_t count = ptx::uniform(
        static_cast<uint32_t>(description->item.tile_end - description->item.tile_begin));
    if (count > 0) attend_tiles(description, buffer, count, o, rows);
    RowResult results[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float l = rows[half].l;
      l += __shfl_xor_sync(kWholeWarp, l, 1);
      l += __shfl_xor_sync(kWholeWarp, l, 2);
      results[half] = {l, rows[half].m, rows[half].m == -kFloatInfinity};
    }
    store_results<kConfig>(args_, shared_, description, o, results);
    warp_arrive(base_ + Map::kQueryEmpty + 8 * buffer);
  }

  FLAMIA_DEVICE void attend_tiles(const WorkDescription* description, uint32_t buffer,
                                  uint32_t left, float (&o)[kOutputs], Row (&rows)[2]) {
    float s[kScores];
    uint32_t p[kSteps][4];
    uint32_t stage = tiles_ % kConfig.stages;
    uint32_t parity = tiles_ / kConfig.stages % 2;
    issue_scores(s, buffer, stage, parity);
    ptx::wgmma_wait<0>();
    ptx::pin(s);
    warp_arrive(base_ + Map::kKeyEmpty + 8 * stage);
    exponentials(s, rows, description);
    float first_sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    add_exact(s, first_sum);
    round(s, p, first_sum, rows);

    while (--left > 0) {
      const uint32_t value_stage = stage;
      const uint32_t value_parity = parity;
      ++tiles_;
      stage = tiles_ % kConfig.stages;
      parity = tiles_ / kConfig.stages % 2;
      issue_scores(s, buffer, stage, parity);
      issue_product(o, p, value_stage, value_parity);
      ptx::wgmma_wait<1>();
      ptx::pin(s);
      warp_arrive(base_ + Map::kKeyEmpty + 8 * stage);
      exponentials(s, rows, description);
      float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      add_exact(s, sum);
      ptx::wgmma_wait<0>();
      ptx::pin(o);
      warp_arrive(base_ + Map::kValueEmpty + 8 * value_stage);
      rescale(o, rows);
      round(s, p, sum, rows);
    }

    issue_product(o, p, stage, parity);
    ptx::wgmma_wait<0>();
    ptx::pin(o);
    warp_arrive(base_ + Map::kValueEmpty + 8 * stage);
    ++tiles_;
  }

  const ForwardArgs& args_;
  unsigned char* shared_;
  uint32_t base_;
  uint32_t group_;
  uint32_t tiles_ = 0;
};

}  // namespace flamia::hopper
