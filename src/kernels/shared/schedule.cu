// The packed layout and the forward work list, built on the device: what schedule/work_list.h
// builds on the CPU, to the bit. Launches and their sizes: plan/schedule_kernels.h.
// Paper: 3.6.1, 3.6.2, B.6 (which sorts by merging; costs are small integers, so counting sorts
// with one large digit do the same in fewer launches).
//
// Nothing waits inside a launch for another CTA: where one CTA needs what all have counted, the
// last one to finish does the work. Atomics only add and take maxima, so results do not depend on
// the order of CTAs.
#include <cstdint>

#include "device/block_scan.cuh"
#include "device/document_tokens.cuh"
#include "plan/schedule_kernels.h"

namespace flamia {
// Not in the unnamed namespace, so that block_exclusive_scan() finds them.
__device__ inline uint32_t saturated_sum(uint32_t a, uint32_t b) {
  return smaller(a + b, kScheduleSaturated);
}
__device__ inline ScheduleSums plus(const ScheduleSums& a, const ScheduleSums& b) {
  return {saturated_sum(a.query_blocks, b.query_blocks), saturated_sum(a.key_blocks, b.key_blocks),
          saturated_sum(a.items, b.items)};
}
__device__ inline ScheduleSums shuffle_up(const ScheduleSums& sums, int lanes) {
  return {shuffle_up(sums.query_blocks, lanes), shuffle_up(sums.key_blocks, lanes),
          shuffle_up(sums.items, lanes)};
}

namespace {

__device__ uint32_t blocks_of(int64_t length) {
  return static_cast<uint32_t>(ceil_div<int64_t>(length, kTokenBlock));
}

__device__ ScheduleSums document_sums(const ScheduleLaunch& launch, int64_t document) {
  const int64_t queries = document_tokens(launch.args.queries, document).length;
  ScheduleSums sums;
  sums.query_blocks = blocks_of(queries);
  sums.key_blocks = launch.key_entries == 0
                        ? sums.query_blocks
                        : blocks_of(document_tokens(launch.args.keys, document).length);
  sums.items = static_cast<uint32_t>(ceil_div<int64_t>(queries, kQueryTile));
  return sums;
}

/// Sums before the documents of one slice, relative to the slice.
__device__ void sum_slice(const ScheduleLaunch& launch) {
  constexpr int kEach = kScheduleSliceStep / kScheduleDocumentThreads;
  static_assert(kEach == 4, "offsets are stored as vectors");
  __shared__ ScheduleSums scratch[kScheduleDocumentThreads / 32];
  const int64_t documents = launch.args.queries.documents;
  const int64_t begin = blockIdx.x * launch.slice_documents;
  const int64_t end = smaller(begin + launch.slice_documents, documents);
  ScheduleSums carry{};
  for (int64_t base = begin; base < end; base += kScheduleSliceStep) {
    const int64_t first = base + int64_t{threadIdx.x} * kEach;
    ScheduleSums before[kEach];
    ScheduleSums sum{};
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      before[j] = sum;
      if (first + j < end) sum = plus(sum, document_sums(launch, first + j));
    }
    ScheduleSums total;
    const ScheduleSums earlier =
        plus(carry, block_exclusive_scan<kScheduleDocumentThreads>(sum, scratch, &total));
#pragma unroll
    for (int j = 0; j < kEach; ++j) before[j] = plus(earlier, before[j]);
    *reinterpret_cast<uint4*>(launch.query_offsets + first) = {
        before[0].query_blocks, before[1].query_blocks, before[2].query_blocks,
        before[3].query_blocks};
    *reinterpret_cast<uint4*>(launch.item_offsets + first) = {before[0].items, before[1].items,
                                                              before[2].items, before[3].items};
    if (launch.key_offsets != nullptr) {
      *reinterpret_cast<uint4*>(launch.key_offsets + first) = {
          before[0].key_blocks, before[1].key_blocks, before[2].key_blocks, before[3].key_blocks};
    }
    carry = plus(carry, total);
    __syncthreads();  // before scratch is written again
  }
  if (threadIdx.x == 0) launch.slice_sums[blockIdx.x] = carry;
  if (blockIdx.x == 0 && threadIdx.x < kSchedulePasses) launch.tickets[threadIdx.x] = 0;
  if (blockIdx.x == 0 && threadIdx.x == 0) launch.args.schedule.counts->longest = 0;
}

/// Index of the last of `count` non-decreasing values that is at most x; the first one is.
__device__ uint32_t last_at_most(const uint32_t* values, uint32_t count, uint32_t x) {
  uint32_t at = 0;
  while (count > 1) {
    const uint32_t half = count / 2;
    if (values[at + half] <= x) {
      at += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return at;
}

/// Sums before every slice, in shared memory, and over everything.
struct SliceBases {
  uint32_t query_blocks[kScheduleSlices];
  uint32_t key_blocks[kScheduleSlices];
  uint32_t items[kScheduleSlices];
  ScheduleSums scratch[kScheduleThreads / 32];
};

/// A document and how far into its blocks or items a place is.
struct Place {
  int64_t document;
  uint32_t offset;
};

/// Finds the document that place x of a list falls into; x is below the list's length.
__device__ Place find_document(const ScheduleLaunch& launch, const uint32_t* bases,
                               const uint32_t* offsets, uint32_t x) {
  const uint32_t slice = last_at_most(bases, static_cast<uint32_t>(launch.slices), x);
  const int64_t first = slice * launch.slice_documents;
  const int64_t count =
      smaller(launch.slice_documents, int64_t{launch.args.queries.documents} - first);
  const uint32_t rest = x - bases[slice];
  const uint32_t at = last_at_most(offsets + first, static_cast<uint32_t>(count), rest);
  return {first + at, rest - offsets[first + at]};
}

__device__ const uint32_t* key_offsets_of(const ScheduleLaunch& launch) {
  return launch.key_offsets != nullptr ? launch.key_offsets : launch.query_offsets;
}

/// Sums without what does not fit into the tables (only bad lengths make that): the document that
/// holds the first block too many has no blocks, nor has any after it.
__device__ ScheduleSums fitting_sums(const ScheduleLaunch& launch, const SliceBases& bases,
                                     ScheduleSums sums) {
  const int64_t query_capacity = launch.query_entries - kSlackBlocks;
  const int64_t key_capacity =
      launch.key_entries == 0 ? query_capacity : launch.key_entries - kSlackBlocks;
  if (sums.query_blocks > query_capacity) {
    const uint32_t x = static_cast<uint32_t>(query_capacity);
    const Place cut = find_document(launch, bases.query_blocks, launch.query_offsets, x);
    sums.query_blocks = x - cut.offset;
    sums.items =
        bases.items[cut.document / launch.slice_documents] + launch.item_offsets[cut.document];
  }
  if (sums.key_blocks > key_capacity) {
    const uint32_t x = static_cast<uint32_t>(key_capacity);
    sums.key_blocks = x - find_document(launch, bases.key_blocks, key_offsets_of(launch), x).offset;
  }
  return sums;
}

/// Fills *bases; all threads of the CTA return the sums that fit.
__device__ ScheduleSums scan_slices(const ScheduleLaunch& launch, SliceBases* bases) {
  ScheduleSums carry{};
  for (int base = 0; base < launch.slices; base += kScheduleThreads) {
    const int slice = base + static_cast<int>(threadIdx.x);
    const ScheduleSums mine = slice < launch.slices ? launch.slice_sums[slice] : ScheduleSums{};
    ScheduleSums total;
    const ScheduleSums before =
        plus(carry, block_exclusive_scan<kScheduleThreads>(mine, bases->scratch, &total));
    if (slice < launch.slices) {
      bases->query_blocks[slice] = before.query_blocks;
      bases->key_blocks[slice] = before.key_blocks;
      bases->items[slice] = before.items;
    }
    carry = plus(carry, total);
    __syncthreads();
  }
  return fitting_sums(launch, *bases, carry);
}

/// One entry of a block table.
__device__ TokenBlockRange block_at(const ScheduleLaunch& launch, const DocumentsArgs& side,
                                    const uint32_t* bases, const uint32_t* offsets,
                                    uint32_t block) {
  const Place place = find_document(launch, bases, offsets, block);
  const DocumentTokens tokens = document_tokens(side, place.document);
  const int64_t token = int64_t{place.offset} * kTokenBlock;
  return {static_cast<int32_t>(tokens.begin + token),
          static_cast<int32_t>(smaller<int64_t>(kTokenBlock, tokens.length - token))};
}

__device__ ForwardItem item_at(const ScheduleLaunch& launch, const SliceBases& bases,
                               const ScheduleSums& sums, uint32_t index) {
  const Place place = find_document(launch, bases.items, launch.item_offsets, index);
  const int64_t slice = place.document / launch.slice_documents;
  const DocumentTokens queries = document_tokens(launch.args.queries, place.document);
  DocumentTokens keys =
      launch.key_entries == 0 ? queries : document_tokens(launch.args.keys, place.document);
  const uint32_t query_block = bases.query_blocks[slice] + launch.query_offsets[place.document];
  const uint32_t key_block = bases.key_blocks[slice] + key_offsets_of(launch)[place.document];
  if (key_block >= sums.key_blocks) keys.length = 0;
  const DocumentMask mask{queries.length, keys.length, launch.args.window_left,
                          launch.args.window_right};
  const int64_t first = int64_t{place.offset} * kQueryTile;
  const int64_t rows = smaller<int64_t>(kQueryTile, queries.length - first);
  const KeyRange tiles = visible_key_tiles(mask, first, rows);
  ForwardItem item;
  item.query_block = static_cast<int32_t>(query_block + first / kTokenBlock);
  item.query_token = static_cast<int32_t>(queries.begin + first);
  item.rows = static_cast<int32_t>(rows);
  item.key_block = keys.length > 0 ? static_cast<int32_t>(key_block) : 0;
  item.keys = static_cast<int32_t>(keys.length);
  item.position = static_cast<int32_t>(first + keys.length - queries.length);
  item.tile_begin = static_cast<int32_t>(tiles.begin);
  item.tile_end = static_cast<int32_t>(tiles.end);
  return item;
}

__device__ uint32_t cost_of(const ForwardItem& item) {
  return static_cast<uint32_t>(item.tile_end - item.tile_begin);
}

__device__ uint32_t digit_of(const ScheduleLaunch& launch, uint32_t cost) {
  const uint32_t key = static_cast<uint32_t>(launch.cost_limit) - cost;
  if (launch.digit_bits == 0) return key;
  return key >> (launch.pass * launch.digit_bits) & ((1u << launch.digit_bits) - 1);
}

/// Bins that this launch can have filled, in whole vectors: [begin, end).
struct BinRange {
  int begin;
  int end;
};

__device__ BinRange used_bins(const ScheduleLaunch& launch, int32_t longest) {
  if (launch.digit_bits > 0) return {0, launch.bins};
  return {(launch.cost_limit - longest) / 4 * 4, launch.bins};
}

/// How `items` items are dealt to CTAs.
struct Chunks {
  int64_t items;
  int64_t length;  ///< items of a chunk but the last
  uint32_t count;  ///< at least one

  __device__ Chunks(const ScheduleLaunch& launch, uint32_t all_items)
      : items(all_items),
        length(larger<int64_t>(
            kScheduleChunkItems,
            round_up<int64_t>(ceil_div<int64_t>(items, launch.chunks), kScheduleThreads))),
        count(static_cast<uint32_t>(larger<int64_t>(1, ceil_div(items, length)))) {}
  /// Items of this CTA: [begin(), end()).
  __device__ int64_t begin() const { return blockIdx.x * length; }
  __device__ int64_t end() const { return smaller(begin() + length, items); }
};

__device__ void add(uint4* sum, const uint4& value) {
  sum->x += value.x;
  sum->y += value.y;
  sum->z += value.z;
  sum->w += value.w;
}

/// Replaces the counts of a column of four bins by the counts of earlier chunks; returns the sums.
__device__ uint4 sum_chunks(uint4* column, int64_t row_vectors, uint32_t chunks) {
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
__device__ void finish_histogram(const ScheduleLaunch& launch, const uint32_t* bins,
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

__device__ void clear_bins(const ScheduleLaunch& launch, uint32_t* bins) {
  for (int bin = static_cast<int>(threadIdx.x); bin < launch.bins; bin += kScheduleThreads) {
    bins[bin] = 0;
  }
  __syncthreads();
}

__device__ void write_counts(const ScheduleLaunch& launch, const ScheduleSums& sums) {
  ScheduleCounts* const counts = launch.args.schedule.counts;
  counts->query_blocks = static_cast<int32_t>(sums.query_blocks);
  counts->key_blocks = static_cast<int32_t>(sums.key_blocks);
  counts->items = static_cast<int32_t>(sums.items);
  const int32_t documents = launch.args.queries.documents;
  DocumentTokens first[2] = {{0, 0}, {0, 0}};
  DocumentTokens last[2] = {{0, 0}, {0, 0}};
  if (documents > 0) {
    first[0] = document_tokens(launch.args.queries, 0);
    last[0] = document_tokens(launch.args.queries, documents - 1);
    first[1] = document_tokens(launch.args.keys, 0);
    last[1] = document_tokens(launch.args.keys, documents - 1);
  }
  counts->query_begin = static_cast<int32_t>(first[0].begin);
  counts->query_end = static_cast<int32_t>(last[0].begin + last[0].length);
  counts->key_begin = static_cast<int32_t>(first[1].begin);
  counts->key_end = static_cast<int32_t>(last[1].begin + last[1].length);
}

/// The chunk of items of this CTA: writes and counts them.
__device__ void expand_items(const ScheduleLaunch& launch, const SliceBases& bases,
                             const ScheduleSums& sums, uint32_t* bins) {
  const Chunks chunks(launch, sums.items);
  if (blockIdx.x >= chunks.count) return;
  clear_bins(launch, bins);
  uint32_t longest = 0;
  for (int64_t i = chunks.begin() + threadIdx.x; i < chunks.end(); i += kScheduleThreads) {
    const ForwardItem item = item_at(launch, bases, sums, static_cast<uint32_t>(i));
    launch.unsorted[i] = item;
    atomicAdd(bins + digit_of(launch, cost_of(item)), 1u);
    longest = larger(longest, cost_of(item));
  }
  longest = __reduce_max_sync(kAllLanes, longest);
  if (threadIdx.x % 32 == 0) {
    atomicMax(&launch.args.schedule.counts->longest, static_cast<int32_t>(longest));
  }
  __syncthreads();
  finish_histogram(launch, bins, chunks.count);
}

__device__ void expand_blocks(const ScheduleLaunch& launch, const SliceBases& bases,
                              const ScheduleSums& sums) {
  int64_t entry = int64_t{blockIdx.x - launch.chunks} * kScheduleThreads + threadIdx.x;
  const int64_t query_places = round_up<int64_t>(launch.query_entries, kScheduleThreads);
  if (entry < query_places) {
    if (entry >= launch.query_entries) return;
    launch.args.schedule.query_blocks[entry] =
        entry < sums.query_blocks ? block_at(launch, launch.args.queries, bases.query_blocks,
                                             launch.query_offsets, static_cast<uint32_t>(entry))
                                  : TokenBlockRange{0, 0};
    return;
  }
  entry -= query_places;
  if (entry >= launch.key_entries) return;
  launch.args.schedule.key_blocks[entry] =
      entry < sums.key_blocks ? block_at(launch, launch.args.keys, bases.key_blocks,
                                         launch.key_offsets, static_cast<uint32_t>(entry))
                              : TokenBlockRange{0, 0};
}

__device__ uint32_t stored_cost(const ScheduleLaunch& launch, uint32_t index) {
  const int2 tiles = *reinterpret_cast<const int2*>(&launch.unsorted[index].tile_begin);
  return static_cast<uint32_t>(tiles.y - tiles.x);
}

/// Index of the item that stands at place i before this pass.
__device__ uint32_t index_at(const ScheduleLaunch& launch, int64_t i) {
  return launch.pass == 0 ? static_cast<uint32_t>(i) : launch.order[i];
}

__device__ void count_items(const ScheduleLaunch& launch, uint32_t* bins) {
  const Chunks chunks(launch, static_cast<uint32_t>(launch.args.schedule.counts->items));
  if (blockIdx.x >= chunks.count) return;
  clear_bins(launch, bins);
  for (int64_t i = chunks.begin() + threadIdx.x; i < chunks.end(); i += kScheduleThreads) {
    atomicAdd(bins + digit_of(launch, stored_cost(launch, index_at(launch, i))), 1u);
  }
  __syncthreads();
  finish_histogram(launch, bins, chunks.count);
}

/// Warps take turns, so that equals keep their order; `places` are those of the next item of a bin.
__device__ uint32_t take_place(uint32_t* places, uint32_t digit, bool valid, int warps) {
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

__device__ void scatter_items(const ScheduleLaunch& launch, uint32_t* places) {
  const Chunks chunks(launch, static_cast<uint32_t>(launch.args.schedule.counts->items));
  const int64_t end = chunks.end();
  if (chunks.begin() >= end) return;
  const BinRange range = used_bins(launch, launch.args.schedule.counts->longest);
  const uint32_t* const earlier = launch.histogram + int64_t{blockIdx.x} * launch.bins;
  for (int bin = range.begin + static_cast<int>(threadIdx.x); bin < range.end;
       bin += kScheduleThreads) {
    places[bin] = launch.bin_begin[bin] + earlier[bin];
  }
  __syncthreads();
  for (int64_t base = chunks.begin(); base < end; base += kScheduleThreads) {
    const int64_t i = base + threadIdx.x;
    const bool valid = i < end;
    uint32_t index = 0;
    uint32_t digit = 0;
    if (valid) {
      index = index_at(launch, i);
      digit = digit_of(launch, stored_cost(launch, index));
    }
    const auto here = static_cast<int>(smaller<int64_t>(kScheduleThreads, end - base));
    const uint32_t place = take_place(places, digit, valid, ceil_div(here, 32));
    if (!valid) continue;
    if (launch.pass == launch.passes - 1) {
      launch.args.schedule.items[place] = launch.unsorted[index];
    } else {
      launch.order[place] = index;
    }
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kScheduleDocumentThreads)
    flamia_shared_schedule_documents(const __grid_constant__ ScheduleLaunch launch) {
  sum_slice(launch);
}

extern "C" __global__ void __launch_bounds__(kScheduleThreads)
    flamia_shared_schedule_expand(const __grid_constant__ ScheduleLaunch launch) {
  extern __shared__ uint4 bins[];
  __shared__ SliceBases bases;
  const ScheduleSums sums = scan_slices(launch, &bases);
  if (blockIdx.x == 0 && threadIdx.x == 0) write_counts(launch, sums);
  if (blockIdx.x < launch.chunks) {
    expand_items(launch, bases, sums, reinterpret_cast<uint32_t*>(bins));
  } else {
    expand_blocks(launch, bases, sums);
  }
}

extern "C" __global__ void __launch_bounds__(kScheduleThreads)
    flamia_shared_schedule_count(const __grid_constant__ ScheduleLaunch launch) {
  extern __shared__ uint4 bins[];
  count_items(launch, reinterpret_cast<uint32_t*>(bins));
}

extern "C" __global__ void __launch_bounds__(kScheduleThreads)
    flamia_shared_schedule_scatter(const __grid_constant__ ScheduleLaunch launch) {
  extern __shared__ uint4 bins[];
  scatter_items(launch, reinterpret_cast<uint32_t*>(bins));
}

namespace {

constexpr int kMaxBinBytes = kScheduleMaxBins * 4;

}  // namespace

#define FLAMIA_SCHEDULE_KERNEL(step, threads, shared_bytes)                                        \
  {                                                                                                \
    "flamia_shared_schedule_" #step, reinterpret_cast<const void*>(flamia_shared_schedule_##step), \
        threads, shared_bytes                                                                      \
  }
const KernelInfo kScheduleDocumentsKernel =
    FLAMIA_SCHEDULE_KERNEL(documents, kScheduleDocumentThreads, 0);
const KernelInfo kScheduleExpandKernel =
    FLAMIA_SCHEDULE_KERNEL(expand, kScheduleThreads, kMaxBinBytes);
const KernelInfo kScheduleCountKernel =
    FLAMIA_SCHEDULE_KERNEL(count, kScheduleThreads, kMaxBinBytes);
const KernelInfo kScheduleScatterKernel =
    FLAMIA_SCHEDULE_KERNEL(scatter, kScheduleThreads, kMaxBinBytes);
#undef FLAMIA_SCHEDULE_KERNEL

}  // namespace flamia
