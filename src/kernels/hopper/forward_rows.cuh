// What every consumer of a forward kernel does with its rows: masks, maxima, and the way of O, its
// residual and the log-sum-exp to memory.
// Paper: 3.4, 3.6.1. Used by: forward_math.cuh, forward_bf16_math.cuh.
//
// A thread holds two rows, r and r + 8, and of every eight columns two.
#pragma once

#include <cstdint>

#include "kernels/hopper/forward_config.h"
#include "kernels/hopper/forward_load.cuh"
#include "numerics/online_softmax.h"
#include "plan/kernel_info.h"
#include "ptx/barrier.cuh"
#include "ptx/convert.cuh"
#include "ptx/shared_matrix.cuh"
#include "ptx/warp.cuh"

namespace flamia::hopper {

inline constexpr uint32_t kWholeWarp = 0xffffffffu;

/// Thread among the consumers. Asked for where it is needed: what is derived from it would
/// otherwise live in registers throughout.
FLAMIA_DEVICE int consumer_thread() {
  int thread = static_cast<int>(threadIdx.x) - kFirstConsumer;
  asm volatile("" : "+r"(thread));
  return thread;
}
/// The first of the two rows of a thread, in the query tile.
FLAMIA_DEVICE int first_row(int thread) { return thread / 32 * 16 + thread % 32 / 4; }

/// One arrival for the warp, after all that its lanes did.
FLAMIA_DEVICE void warp_arrive(uint32_t barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(barrier);
}

/// Calls attend(description, query buffer) for each unit of work that the producers announce.
template <ForwardConfig kConfig, typename Attend>
FLAMIA_DEVICE void take_work(const unsigned char* shared, const Attend& attend) {
  using Map = ForwardSharedMap<kConfig>;
  const uint32_t full = ptx::shared_address(shared) + Map::kQueryFull;
  for (uint32_t unit = 0;; ++unit) {
    const uint32_t buffer = unit % 2;
    ptx::mbarrier_wait(full + 8 * buffer, unit / 2 % 2);
    const auto* description =
        reinterpret_cast<const WorkDescription*>(shared + Map::kWork + buffer * Map::kWorkBytes);
    if (!ptx::uniform(static_cast<uint32_t>(description->valid))) break;
    attend(description, buffer);
  }
}

/// A row's maximum m after a tile, from the maximum of this thread's columns, and the factor of
/// what the row has accumulated; left alone where m stays.
FLAMIA_DEVICE void renew_maximum(float tile_max, float tau, float* m, float* factor) {
  tile_max = max_number(tile_max, __shfl_xor_sync(kWholeWarp, tile_max, 1));
  tile_max = max_number(tile_max, __shfl_xor_sync(kWholeWarp, tile_max, 2));
  if (tile_max - *m > tau) {
    *factor = ptx::exp2_approximate(*m - tile_max);
    *m = tile_max;
  }
}

/// Keys of a tile that a row of the query tile sees, counted from the tile's first.
FLAMIA_DEVICE VisibleKeys visible_tile_keys(const ForwardArgs& args, const ForwardItem& item,
                                            int first_key, int row) {
  const VisibleKeys seen = visible_keys(args, item.keys, item.position + row);
  return {larger(seen.begin - first_key, 0), smaller(seen.end - first_key, kKeyTile)};
}

/// How many of a thread's 32 columns (8 j + b for j < 16, b < 2) are below `column`.
FLAMIA_DEVICE int columns_below(int column) {
  const int inside = larger(smaller(column, kKeyTile), 0);
  return inside / 8 * 2 + smaller(inside % 8, 2);
}
FLAMIA_DEVICE uint32_t low_bits(int count) { return count >= 32 ? ~0u : (1u << count) - 1; }

/// Scores outside what the rows see become -inf.
FLAMIA_DEVICE void mask_scores(float (&s)[kKeyTile / 2], const VisibleKeys (&seen)[2], int quad) {
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
FLAMIA_DEVICE float largest_of_block(const float* s) {
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
template <ForwardConfig kConfig>
FLAMIA_DEVICE void store_rows(const ForwardArgs& args, unsigned char* shared,
                              const WorkDescription* description, const Bf16Output& output,
                              const uint32_t (&pairs)[kConfig.head_dim / 4], int thread) {
  using Map = ForwardSharedMap<kConfig>;
  const int lane = thread % 32;
  const int warp = thread / 32;
  unsigned char* staging = shared + Map::kOutput + warp * Map::kOutputBytes;
  // Matrices of a store: rows 0-7 and 8-15 of eight columns, then of the next eight.
  const uint32_t address = ptx::shared_address(staging) + (lane % 16) * Map::kOutputRowBytes +
                           static_cast<uint32_t>(lane / 16) * 16;
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kConfig.head_dim / 16; ++k) {
    ptx::store_matrices(address + 32 * k,
                        {pairs[4 * k], pairs[4 * k + 1], pairs[4 * k + 2], pairs[4 * k + 3]});
  }
  __syncwarp();
  constexpr int kVectors = kConfig.head_dim / 8;  // of a row
  constexpr int kRowsAtOnce = 32 / kVectors;
  const int column = lane % kVectors;
  const unsigned char* source = staging + column * 16;
  // The rows of a tile are neighbours: a sequence of a batch is a document.
  const RowPlace place(args, description->item.query_token);
  uint16_t* destination = output.data + place.batch * output.batch_stride +
                          place.position * output.token_stride +
                          description->head * output.head_stride + column * 8 +
                          (warp * 16 + lane / kVectors) * output.token_stride;
  const int64_t step = kRowsAtOnce * output.token_stride;
  const int left = description->item.rows - warp * 16 - lane / kVectors;
  source += lane / kVectors * Map::kOutputRowBytes;
#pragma unroll
  for (int r = 0; r < 16; r += kRowsAtOnce) {
    if (r < left) {
      *reinterpret_cast<uint4*>(destination) =
          *reinterpret_cast<const uint4*>(source + r * Map::kOutputRowBytes);
    }
    destination += step;
  }
}

/// What a row came to besides O.
struct RowResult {
  float sum;      ///< what O is divided by
  float maximum;  ///< in base 2; the log-sum-exp is ln 2 (maximum + log2(sum) - c)
  bool empty;     ///< saw no key
};

/// Writes O, its residual and the log-sum-exp of a thread's rows that exist.
template <ForwardConfig kConfig>
FLAMIA_DEVICE void store_results(const ForwardArgs& args, unsigned char* shared,
                                 const WorkDescription* description,
                                 float (&o)[kConfig.head_dim / 2], const RowResult (&rows)[2]) {
  constexpr int kOutputs = kConfig.head_dim / 2;
  const int thread = consumer_thread();
  const int first = first_row(thread);
  const RowPlace place(args, description->item.query_token);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const RowResult& row = rows[half];
    const float inverse = ptx::reciprocal_approximate(row.sum);
#pragma unroll
    for (int i = 0; i < kOutputs; i += 4) {
      o[i + 2 * half] *= inverse;
      o[i + 2 * half + 1] *= inverse;
    }
    if (thread % 4 == 0 && first + 8 * half < description->item.rows) {
      const float lse = kLn2 * (row.maximum + ptx::log2_approximate(row.sum) - args.p_log2);
      args.lse.data[place.batch * args.lse.batch_stride + description->head * args.lse.head_stride +
                    (place.position + first + 8 * half) * args.lse.token_stride] =
          row.empty ? kEmptyLse : lse;
    }
  }
  if (__builtin_expect(__any_sync(kWholeWarp, rows[0].empty || rows[1].empty), 0)) {
    asm volatile("");  // a branch, for what is rare: nothing was added, unless zeros times NaN
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] = rows[i / 2 % 2].empty ? 0.0f : o[i];
  }
  uint32_t main[kOutputs / 2];
#pragma unroll
  for (int i = 0; i < kOutputs / 2; ++i) main[i] = ptx::pack_bf16x2(o[2 * i], o[2 * i + 1]);
  store_rows<kConfig>(args, shared, description, args.o, main, thread);
  if (args.o_residual.data == nullptr) return;
#pragma unroll
  for (int i = 0; i < kOutputs / 2; ++i) {
    main[i] = ptx::pack_bf16x2(o[2 * i] - bits_float(main[i] << 16),
                               o[2 * i + 1] - bits_float(main[i] & 0xffff0000u));
  }
  store_rows<kConfig>(args, shared, description, args.o_residual, main, thread);
}

}  // namespace flamia::hopper
