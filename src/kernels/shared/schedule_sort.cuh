// One digit of a stable counting sort over many CTAs: histograms of chunks, places of bins, moves.
// Paper: B.6. Used by: schedule.cu.
#pragma once

#include <cstdint>

#include "device/block_scan.cuh"
#include "plan/schedule_kernels.h"

namespace flamia {

__device__ inline uint32_t cost_of(const ForwardItem& item) {
  return static_cast<uint32_t>(item.tile_end - item.tile_begin);
}

__device__ inline uint32_t digit_of(const ScheduleLaunch& launch, uint32_t cost) {
  const uint32_t key = static_cast<uint32_t>(launch.cost_limit) - cost;
  if (launch.digit_bits == 0) return key;
  return key >> (launch.pass * launch.digit_bits) & ((1u << launch.digit_bits) - 1);
}

/// Bins that this launch can have filled, in whole vectors: [begin, end).
struct BinRange {
  int begin;
  int end;
};

__device__ inline BinRange used_bins(const ScheduleLaunch& launch, int32_t longest) {
  if (launch.digit_bits > 0) return {0, launch.bins};
  return {(launch.cost_limit - longest) / 4 * 4, launch.bins};
}

/// How `items` items are dealt to CTAs.
struct Chunks {
  uint32_t items;
  uint32_t length;  ///< items of a chunk but the last
  uint32_t count;   ///< at least one

  __device__ Chunks(const ScheduleLaunch& launch, uint32_t all_items)
      : items(all_items),
        length(larger<uint32_t>(
            kScheduleChunkItems,
            round_up<uint32_t>(ceil_div(items, static_cast<uint32_t>(launch.chunks)),
                               kScheduleThreads))),
        count(larger(1u, ceil_div(items, length))) {}
  /// Items of this CTA: [begin(), end()).
  __device__ uint32_t begin() const { return blockIdx.x * length; }
  __device__ uint32_t end() const { return smaller(begin() + length, items); }
};

__device__ inline void add(uint4* sum, const uint4& value) {
  sum->x += value.x;
  sum->y += value.y;
  sum->z += value.z;
  sum->w += value.w;
}

/// Replaces the counts of a column of four bins by the counts of earlier chunks; returns the sums.
__device__ inline uint4 sum_chunks(uint4* column, int64_t row_vectors, uint32_t chunks) {
  constexpr uint32_t kTogether = 8;  // loads in flight
  uint4 sum{0, 0, 0, 0};
  for (uint32_t chunk = 0; chunk < chunks; chunk += kTogether) {
    uint4 counts[kTogether];
#pragma unroll
    for (uint32_t j = 0; j < kTogether; ++j) {
      counts[j] = {0, 0, 0, 0};
      if (chunk + j < chunks) counts[j] = __ldcg(column + (chunk + j) * row_vectors);
    }
#pragma unroll
    for (uint32_t j = 0; j < kTogether; ++j) {
      if (chunk + j < chunks) column[(chunk + j) * row_vectors] = sum;
      add(&sum, counts[j]);
    }
  }
  return sum;
}

/// Writes this chunk's counts. The last CTA to come turns all of them into places.
__device__ inline void finish_histogram(const ScheduleLaunch& launch, const uint32_t* bins,
                                        uint32_t chunks) {
  __shared__ uint32_t ticket;
  __shared__ uint32_t scratch[kScheduleThreads / 32];
  const int64_t row_vectors = launch.bins / 4;
  auto* const histogram = reinterpret_cast<uint4*>(launch.histogram);
  for (int64_t v = threadIdx.x; v < row_vectors; v += kScheduleThreads) {
    histogram[blockIdx.x * row_vectors + v] = reinterpret_cast<const uint4*>(bins)[v];
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) ticket = atomicAdd(launch.tickets + launch.pass, 1u);
  __syncthreads();
  if (ticket != chunks - 1) return;
  __threadfence();

  const BinRange range = used_bins(launch, __ldcg(&launch.args.schedule.counts->longest));
  uint32_t carry = 0;
  for (int base = range.begin / 4; base < range.end / 4; base += kScheduleThreads) {
    const int v = base + static_cast<int>(threadIdx.x);
    const bool inside = v < range.end / 4;
    uint4 sum{0, 0, 0, 0};
    if (inside) sum = sum_chunks(histogram + v, row_vectors, chunks);
    uint32_t total;
    const uint32_t before = carry + block_exclusive_scan<kScheduleThreads>(
                                        sum.x + sum.y + sum.z + sum.w, scratch, &total);
    if (inside) {
      reinterpret_cast<uint4*>(launch.bin_begin)[v] = {
          before, before + sum.x, before + sum.x + sum.y, before + sum.x + sum.y + sum.z};
    }
    carry += total;
    __syncthreads();
  }
}

__device__ inline void clear_bins(const ScheduleLaunch& launch, uint32_t* bins) {
  for (int bin = static_cast<int>(threadIdx.x); bin < launch.bins; bin += kScheduleThreads) {
    bins[bin] = 0;
  }
  __syncthreads();
}

__device__ inline uint32_t stored_cost(const ScheduleLaunch& launch, uint32_t index) {
  const int2 tiles = *reinterpret_cast<const int2*>(&launch.unsorted[index].tile_begin);
  return static_cast<uint32_t>(tiles.y - tiles.x);
}

/// Index of the item that stands at place i before this pass.
__device__ inline uint32_t index_at(const ScheduleLaunch& launch, uint32_t i) {
  return launch.pass == 0 ? i : launch.order[i];
}

__device__ inline void count_items(const ScheduleLaunch& launch, uint32_t* bins) {
  const Chunks chunks(launch, static_cast<uint32_t>(launch.args.schedule.counts->items));
  if (blockIdx.x >= chunks.count) return;
  clear_bins(launch, bins);
  for (uint32_t i = chunks.begin() + threadIdx.x; i < chunks.end(); i += kScheduleThreads) {
    atomicAdd(bins + digit_of(launch, stored_cost(launch, index_at(launch, i))), 1u);
  }
  __syncthreads();
  finish_histogram(launch, bins, chunks.count);
}

/// Warps take turns, so that equals keep their order; `places` are those of the next item of a bin.
__device__ inline uint32_t take_place(uint32_t* places, uint32_t digit, bool valid, int warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint32_t present = __ballot_sync(kAllLanes, valid);
  uint32_t equals = 0;
  if (valid) equals = __match_any_sync(present, digit);
  uint32_t begin = 0;
  for (int turn = 0; turn < warps; ++turn) {
    if (turn == warp && valid) {
      begin = places[digit];
      __syncwarp(present);
      if (lane == __ffs(static_cast<int>(equals)) - 1) {
        places[digit] = begin + static_cast<uint32_t>(__popc(equals));
      }
    }
    __syncthreads();
  }
  return begin + static_cast<uint32_t>(__popc(equals & ((1u << lane) - 1)));
}

__device__ inline void scatter_items(const ScheduleLaunch& launch, uint32_t* places) {
  const Chunks chunks(launch, static_cast<uint32_t>(launch.args.schedule.counts->items));
  const uint32_t end = chunks.end();
  if (chunks.begin() >= end) return;
  const BinRange range = used_bins(launch, launch.args.schedule.counts->longest);
  const uint32_t* const earlier = launch.histogram + int64_t{blockIdx.x} * launch.bins;
  for (int bin = range.begin + static_cast<int>(threadIdx.x); bin < range.end;
       bin += kScheduleThreads) {
    places[bin] = launch.bin_begin[bin] + earlier[bin];
  }
  __syncthreads();
  for (uint32_t base = chunks.begin(); base < end; base += kScheduleThreads) {
    const uint32_t i = base + threadIdx.x;
    const bool valid = i < end;
    uint32_t index = 0;
    uint32_t digit = 0;
    if (valid) {
      index = index_at(launch, i);
      digit = digit_of(launch, stored_cost(launch, index));
    }
    const auto here = static_cast<int>(smaller<uint32_t>(kScheduleThreads, end - base));
    const uint32_t place = take_place(places, digit, valid, ceil_div(here, 32));
    if (!valid) continue;
    if (launch.pass == launch.passes - 1) {
      launch.args.schedule.items[place] = launch.unsorted[index];
    } else {
      launch.order[place] = index;
    }
  }
}

}  // namespace flamia
