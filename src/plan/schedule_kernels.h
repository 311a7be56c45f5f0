// The launches that build a schedule on the device: their one argument and their table rows.
// Paper: 3.6.2, B.6. Used by: src/kernels/shared/schedule.cu and src/cuda/schedule.cc.
//
// The order of launches: documents, expand, scatter; with more than 2^13 different costs, for which
// the items are sorted by two digits, also count and scatter. Every size here follows from
// capacities, never from lengths.
#pragma once

#include <cstdint>

#include "plan/kernel_info.h"

namespace flamia {

constexpr int kScheduleSlices = 1024;  ///< of documents, at most: a CTA scans their sums alone
constexpr int kScheduleSliceStep = 1024;
constexpr int kScheduleMaxBins = 1 << 13;
constexpr int kSchedulePasses = 2;
constexpr int kScheduleDocumentThreads = 256;
constexpr int kScheduleThreads = 512;
constexpr int kScheduleChunkItems = 2 * kScheduleThreads;  ///< of a chunk, at least

/// Running sums over documents. They saturate at kScheduleSaturated, which no capacity reaches.
struct ScheduleSums {
  uint32_t query_blocks;
  uint32_t key_blocks;
  uint32_t items;
};
constexpr uint32_t kScheduleSaturated = 0x7fffffffu;

/// Sorting is by digits of `cost_limit` - cost, the lowest first; stable counting sorts.
struct ScheduleLaunch {
  ScheduleArgs args;
  int64_t slice_documents;  ///< documents of a slice, a multiple of kScheduleSliceStep
  int64_t query_entries;    ///< of the block tables, slack included
  int64_t key_entries;      ///< 0: both sides share one table
  int32_t slices;
  int32_t chunks;      ///< of items, at most: one CTA counts and moves the items of a chunk
  int32_t cost_limit;  ///< no cost is larger
  int32_t digit_bits;  ///< 0: one digit, the whole key
  int32_t bins;        ///< of a digit, a multiple of 4
  int32_t pass;        ///< digit of this launch
  int32_t passes;

  // Scratch.
  uint32_t* query_offsets;  ///< [slices * slice_documents], sums inside the slice before a document
  uint32_t* key_offsets;    ///< null: as query_offsets
  uint32_t* item_offsets;
  ScheduleSums* slice_sums;  ///< [slices]
  uint32_t* tickets;         ///< [kSchedulePasses], CTAs that have counted
  uint32_t* histogram;       ///< [chunks][bins]; then how many of a bin earlier chunks have
  uint32_t* bin_begin;       ///< [bins], place of a bin's first item
  ForwardItem* unsorted;     ///< [item capacity], by document, then by row
  uint32_t* order;           ///< [item capacity] after the first of two passes
};

/// Sums over the documents of a slice; one CTA each. Clears the tickets.
extern const KernelInfo kScheduleDocumentsKernel;
/// Block tables, unsorted items, counts; counts the first digit.
extern const KernelInfo kScheduleExpandKernel;
/// Counts another digit.
extern const KernelInfo kScheduleCountKernel;
/// Moves items to their places.
extern const KernelInfo kScheduleScatterKernel;

}  // namespace flamia
