// The packed layout and the forward work list, built on the device: what schedule/work_list.h
// builds on the CPU, to the bit. Launches and their sizes: plan/schedule_kernels.h.
// Paper: 3.6.1, 3.6.2, B.6 (which sorts by merging; costs are small integers, so counting sorts
// with one large digit do the same in fewer launches).
//
// Nothing waits inside a launch for another CTA: where one CTA needs what all have counted, the
// last one to finish does the work. Atomics only add and take maxima, so results do not depend on
// the order of CTAs.
#include <cstdint>

#include "kernels/shared/schedule_documents.cuh"
#include "kernels/shared/schedule_sort.cuh"
#include "ptx/grid_dependency.cuh"

namespace flamia {
namespace {

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
  const DocumentTokens queries = document_tokens(launch.args.queries, place.document);
  DocumentTokens keys =
      launch.key_entries == 0 ? queries : document_tokens(launch.args.keys, place.document);
  const uint32_t query_block =
      bases.query_blocks[place.slice] + launch.query_offsets[place.document];
  const uint32_t key_block = bases.key_blocks[place.slice] + key_offsets_of(launch)[place.document];
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
  for (uint32_t i = chunks.begin() + threadIdx.x; i < chunks.end(); i += kScheduleThreads) {
    const ForwardItem item = item_at(launch, bases, sums, i);
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

}  // namespace

extern "C" __global__ void __launch_bounds__(kScheduleDocumentThreads)
    flamia_shared_schedule_documents(const __grid_constant__ ScheduleLaunch launch) {
  ptx::allow_next_grid();
  sum_slice(launch);
}

extern "C" __global__ void __launch_bounds__(kScheduleThreads)
    flamia_shared_schedule_expand(const __grid_constant__ ScheduleLaunch launch) {
  extern __shared__ uint4 bins[];
  __shared__ SliceBases bases;
  ptx::allow_next_grid();
  ptx::wait_for_previous_grid();
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
  ptx::allow_next_grid();
  ptx::wait_for_previous_grid();
  count_items(launch, reinterpret_cast<uint32_t*>(bins));
}

extern "C" __global__ void __launch_bounds__(kScheduleThreads)
    flamia_shared_schedule_scatter(const __grid_constant__ ScheduleLaunch launch) {
  extern __shared__ uint4 bins[];
  ptx::allow_next_grid();
  ptx::wait_for_previous_grid();
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
