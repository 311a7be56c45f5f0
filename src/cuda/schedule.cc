// Sizes and launches of the schedule's kernels.
#include "cuda/schedule.h"

#include <bit>

#include "base/refusals.h"
#include "cuda/launch.h"
#include "plan/schedule_kernels.h"

namespace flamia::cuda {
namespace {

constexpr const char* kFunction = "build_schedule";

/// Counts of all chunks together, which bounds the scratch and what the last CTA of a count reads
/// (only chunks and costs that occur); but a chunk for every SM of an H200.
constexpr int64_t kMaxHistogram = 1 << 20;
constexpr int64_t kMinChunks = 132;

/// Hands out parts of the scratch; without memory it only measures.
class Scratch {
 public:
  explicit Scratch(void* data) : data_(static_cast<unsigned char*>(data)) {}

  template <typename T>
  T* take(int64_t count) {
    const size_t at = bytes_;
    bytes_ += round_up<size_t>(static_cast<size_t>(count) * sizeof(T), 256);
    return data_ == nullptr ? nullptr : reinterpret_cast<T*>(data_ + at);
  }
  size_t bytes() const { return bytes_; }

 private:
  unsigned char* data_;
  size_t bytes_ = 0;
};

/// Everything but args and pass, for two block tables.
ScheduleLaunch plan_launch(int64_t query_tokens, int64_t key_tokens, int64_t documents,
                           Scratch* scratch) {
  ScheduleLaunch launch{};
  launch.slice_documents =
      kScheduleSliceStep *
      larger<int64_t>(1, ceil_div<int64_t>(documents, kScheduleSliceStep * kScheduleSlices));
  launch.slices =
      static_cast<int32_t>(larger<int64_t>(1, ceil_div(documents, launch.slice_documents)));
  launch.query_entries = token_block_capacity(query_tokens, documents);
  launch.key_entries = token_block_capacity(key_tokens, documents);

  launch.cost_limit = static_cast<int32_t>(ceil_div<int64_t>(key_tokens, kKeyTile));
  launch.bins = round_up(launch.cost_limit + 1, 4);
  launch.passes = 1;
  if (launch.bins > kScheduleMaxBins) {
    launch.passes = kSchedulePasses;
    const int key_bits = std::bit_width(static_cast<uint32_t>(launch.cost_limit));
    launch.digit_bits = ceil_div(key_bits, kSchedulePasses);
    launch.bins = 1 << launch.digit_bits;
  }
  const int64_t items = forward_item_capacity(query_tokens, documents);
  const int64_t most_chunks = larger<int64_t>(kMinChunks, kMaxHistogram / launch.bins);
  launch.chunks = static_cast<int32_t>(smaller<int64_t>(
      most_chunks, larger<int64_t>(1, ceil_div<int64_t>(items, kScheduleChunkItems))));

  const int64_t padded_documents = launch.slices * launch.slice_documents;
  launch.query_offsets = scratch->take<uint32_t>(padded_documents);
  launch.key_offsets = scratch->take<uint32_t>(padded_documents);
  launch.item_offsets = scratch->take<uint32_t>(padded_documents);
  launch.slice_sums = scratch->take<ScheduleSums>(launch.slices);
  launch.tickets = scratch->take<uint32_t>(kSchedulePasses);
  launch.histogram = scratch->take<uint32_t>(int64_t{launch.chunks} * launch.bins);
  launch.bin_begin = scratch->take<uint32_t>(launch.bins);
  launch.unsorted = scratch->take<ForwardItem>(items);
  launch.order = scratch->take<uint32_t>(launch.passes > 1 ? items : 0);
  return launch;
}

bool sizes_fit(int64_t query_tokens, int64_t key_tokens, int64_t documents) {
  return query_tokens >= 0 && key_tokens >= 0 && documents >= 0 && query_tokens <= INT32_MAX &&
         key_tokens <= INT32_MAX && documents <= INT32_MAX &&
         token_block_capacity(query_tokens, documents) <= INT32_MAX &&
         token_block_capacity(key_tokens, documents) <= INT32_MAX;
}

bool same_lengths(const DocumentsArgs& a, const DocumentsArgs& b) {
  return a.cu_seqlens == b.cu_seqlens && a.stride == b.stride && a.wide == b.wide &&
         a.batch_length == b.batch_length && a.tokens == b.tokens && a.documents == b.documents;
}

Status check_side(const char* name, const DocumentsArgs& side) {
  if (side.tokens < 0 || side.documents < 0) {
    return invalid_argument(kFunction, name, "have no negative number of tokens or documents",
                            concat(side.tokens, " tokens, ", side.documents, " documents"));
  }
  if (side.cu_seqlens == nullptr &&
      (side.batch_length < 0 || int64_t{side.batch_length} * side.documents > side.tokens)) {
    return invalid_argument(kFunction, name, "hold all documents of a batch",
                            concat(side.documents, " of ", side.batch_length, " in ", side.tokens));
  }
  return {};
}

Status check(const ScheduleArgs& args) {
  if (Status status = check_side("queries", args.queries); !status.ok()) return status;
  if (Status status = check_side("keys", args.keys); !status.ok()) return status;
  if (args.queries.documents != args.keys.documents) {
    return invalid_argument(kFunction, "keys.documents", "be those of the queries",
                            concat(args.keys.documents, " and ", args.queries.documents));
  }
  if (!sizes_fit(args.queries.tokens, args.keys.tokens, args.queries.documents)) {
    return unsupported(kFunction, "tokens", "make fewer than 2^31 token blocks",
                       concat(args.queries.tokens, " query and ", args.keys.tokens,
                              " key tokens in ", args.queries.documents, " documents"));
  }
  if (args.schedule.query_blocks == args.schedule.key_blocks &&
      !same_lengths(args.queries, args.keys)) {
    return invalid_argument(kFunction, "schedule.key_blocks",
                            "be a table of its own unless keys and queries are the same",
                            "one table");
  }
  return {};
}

/// `overlap`: the kernel may start before the one in front of it ends, for which it waits itself.
Status launch_kernel(const KernelInfo& kernel, int64_t grid, int shared_bytes, bool overlap,
                     const ScheduleLaunch& launch, void* stream) {
  const LaunchShape shape{dim3(static_cast<unsigned>(grid)), shared_bytes, overlap};
  return flamia::cuda::launch(kFunction, kernel, shape, &launch, stream);
}

}  // namespace

size_t schedule_scratch_bytes(int64_t query_tokens, int64_t key_tokens, int64_t documents) {
  if (!sizes_fit(query_tokens, key_tokens, documents)) return 0;
  Scratch scratch(nullptr);
  plan_launch(query_tokens, key_tokens, documents, &scratch);
  return scratch.bytes();
}

Status build_schedule(const ScheduleArgs& args, void* stream) {
  if (Status status = check(args); !status.ok()) return status;
  Scratch scratch(args.scratch);
  ScheduleLaunch launch =
      plan_launch(args.queries.tokens, args.keys.tokens, args.queries.documents, &scratch);
  launch.args = args;
  if (args.schedule.query_blocks == args.schedule.key_blocks) {
    launch.key_entries = 0;
    launch.key_offsets = nullptr;
  }
  const int bin_bytes = launch.bins * static_cast<int>(sizeof(uint32_t));
  const int64_t block_ctas = ceil_div<int64_t>(launch.query_entries, kScheduleThreads) +
                             ceil_div<int64_t>(launch.key_entries, kScheduleThreads);

  // The first waits for whatever is in front of it, so scratch and schedule are free when it
  // starts.
  Status status = launch_kernel(kScheduleDocumentsKernel, launch.slices, 0, false, launch, stream);
  if (!status.ok()) return status;
  status = launch_kernel(kScheduleExpandKernel, launch.chunks + block_ctas, bin_bytes, true, launch,
                         stream);
  if (!status.ok()) return status;
  for (; launch.pass < launch.passes; ++launch.pass) {
    if (launch.pass > 0) {
      status = launch_kernel(kScheduleCountKernel, launch.chunks, bin_bytes, true, launch, stream);
      if (!status.ok()) return status;
    }
    status = launch_kernel(kScheduleScatterKernel, launch.chunks, bin_bytes, true, launch, stream);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace flamia::cuda
