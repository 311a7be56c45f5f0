// Sums over documents and the way back: from a place in a table or list to its document.
// Paper: 3.6.1. Used by: schedule.cu.
//
// Documents are summed slice by slice, relative to the slice; whoever needs a place scans the
// slices' sums again, which is cheaper than a launch that does it for all.
#pragma once

#include <cstdint>

#include "device/block_scan.cuh"
#include "device/document_tokens.cuh"
#include "plan/schedule_kernels.h"

namespace flamia {

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

__device__ inline uint32_t blocks_of(int64_t length) {
  return static_cast<uint32_t>(ceil_div<int64_t>(length, kTokenBlock));
}

__device__ inline ScheduleSums document_sums(const ScheduleLaunch& launch, int64_t document) {
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
__device__ inline void sum_slice(const ScheduleLaunch& launch) {
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
__device__ inline uint32_t last_at_most(const uint32_t* values, uint32_t count, uint32_t x) {
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
  uint32_t slice;
  int64_t document;
  uint32_t offset;
};

/// Finds the document that place x of a list falls into; x is below the list's length.
__device__ inline Place find_document(const ScheduleLaunch& launch, const uint32_t* bases,
                                      const uint32_t* offsets, uint32_t x) {
  const uint32_t slice = last_at_most(bases, static_cast<uint32_t>(launch.slices), x);
  const int64_t first = slice * launch.slice_documents;
  const int64_t count =
      smaller(launch.slice_documents, int64_t{launch.args.queries.documents} - first);
  const uint32_t rest = x - bases[slice];
  const uint32_t at = last_at_most(offsets + first, static_cast<uint32_t>(count), rest);
  return {slice, first + at, rest - offsets[first + at]};
}

__device__ inline const uint32_t* key_offsets_of(const ScheduleLaunch& launch) {
  return launch.key_offsets != nullptr ? launch.key_offsets : launch.query_offsets;
}

/// Sums without what does not fit into the tables (only bad lengths make that): the document that
/// holds the first block too many has no blocks, nor has any after it.
__device__ inline ScheduleSums fitting_sums(const ScheduleLaunch& launch, const SliceBases& bases,
                                            ScheduleSums sums) {
  const int64_t query_capacity = launch.query_entries - kSlackBlocks;
  const int64_t key_capacity =
      launch.key_entries == 0 ? query_capacity : launch.key_entries - kSlackBlocks;
  if (sums.query_blocks > query_capacity) {
    const uint32_t x = static_cast<uint32_t>(query_capacity);
    const Place cut = find_document(launch, bases.query_blocks, launch.query_offsets, x);
    sums.query_blocks = x - cut.offset;
    sums.items = bases.items[cut.slice] + launch.item_offsets[cut.document];
  }
  if (sums.key_blocks > key_capacity) {
    const uint32_t x = static_cast<uint32_t>(key_capacity);
    sums.key_blocks = x - find_document(launch, bases.key_blocks, key_offsets_of(launch), x).offset;
  }
  return sums;
}

/// Fills *bases; all threads of the CTA return the sums that fit.
__device__ inline ScheduleSums scan_slices(const ScheduleLaunch& launch, SliceBases* bases) {
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

}  // namespace flamia
