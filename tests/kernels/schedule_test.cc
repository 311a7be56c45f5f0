// The device's schedule against the CPU's, bit for bit.
#include "cuda/schedule.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "schedule/work_list.h"
#include "tests/support/lengths.h"

namespace flamia {
namespace {

using test::Lengths;
using test::lengths_of;
using test::OwnedLayout;

void expect_success(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

/// Device memory of exactly so many elements.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(int64_t count) : count_(static_cast<size_t>(count)) {
    expect_success(cudaMalloc(&data_, larger<size_t>(1, count_ * sizeof(T))));
  }
  explicit DeviceArray(const std::vector<T>& values)
      : DeviceArray(static_cast<int64_t>(values.size())) {
    write(values);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return static_cast<T*>(data_); }
  void write(const std::vector<T>& values) {
    ASSERT_EQ(values.size(), count_);
    expect_success(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> read(size_t count) const {
    EXPECT_LE(count, count_);
    std::vector<T> values(count);
    expect_success(cudaMemcpy(values.data(), data_, count * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }
  size_t size() const { return count_; }

 private:
  void* data_ = nullptr;
  size_t count_;
};

template <typename T>
testing::AssertionResult same_bits(const std::vector<T>& got, const std::vector<T>& wanted) {
  if (got.size() != wanted.size()) {
    return testing::AssertionFailure() << got.size() << " elements, wanted " << wanted.size();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &wanted[i], sizeof(T)) == 0) continue;
    testing::AssertionResult result = testing::AssertionFailure() << "element " << i << ":";
    for (size_t word = 0; word < sizeof(T) / 4; ++word) {
      int32_t a;
      int32_t b;
      std::memcpy(&a, reinterpret_cast<const char*>(&got[i]) + 4 * word, 4);
      std::memcpy(&b, reinterpret_cast<const char*>(&wanted[i]) + 4 * word, 4);
      result << " " << a << (a == b ? "" : " (wanted ") << (a == b ? "" : std::to_string(b) + ")");
    }
    return result;
  }
  return testing::AssertionSuccess();
}

/// A schedule on the device, with memory for any lengths of its capacities.
class DeviceSchedule {
 public:
  DeviceSchedule(int64_t query_tokens, int64_t key_tokens, int64_t documents, bool one_table)
      : counts_(1),
        query_blocks_(token_block_capacity(query_tokens, documents)),
        key_blocks_(one_table ? 0 : token_block_capacity(key_tokens, documents)),
        items_(forward_item_capacity(query_tokens, documents)),
        scratch_(static_cast<int64_t>(
            cuda::schedule_scratch_bytes(query_tokens, key_tokens, documents))),
        one_table_(one_table) {}

  Status build(const DocumentsArgs& queries, const DocumentsArgs& keys, int64_t left, int64_t right,
               cudaStream_t stream = nullptr) {
    ScheduleArgs args;
    args.queries = queries;
    args.keys = keys;
    args.window_left = left;
    args.window_right = right;
    args.schedule.counts = counts_.get();
    args.schedule.query_blocks = query_blocks_.get();
    args.schedule.key_blocks = one_table_ ? query_blocks_.get() : key_blocks_.get();
    args.schedule.items = items_.get();
    args.scratch = scratch_.get();
    return cuda::build_schedule(args, stream);
  }

  void expect(const WorkList& wanted) const {
    expect_success(cudaDeviceSynchronize());
    const ScheduleCounts counts = counts_.read(1)[0];
    ASSERT_TRUE(same_bits(std::vector{counts}, std::vector{wanted.counts})) << "counts";
    EXPECT_TRUE(same_bits(query_blocks_.read(query_blocks_.size()), wanted.query_blocks))
        << "query blocks";
    if (!one_table_) {
      EXPECT_TRUE(same_bits(key_blocks_.read(key_blocks_.size()), wanted.key_blocks))
          << "key blocks";
    }
    EXPECT_TRUE(same_bits(items_.read(static_cast<size_t>(counts.items)), wanted.items)) << "items";
  }

 private:
  DeviceArray<ScheduleCounts> counts_;
  DeviceArray<TokenBlockRange> query_blocks_;
  DeviceArray<TokenBlockRange> key_blocks_;
  DeviceArray<ForwardItem> items_;
  DeviceArray<unsigned char> scratch_;
  bool one_table_;
};

/// Cumulative lengths on the device.
class DeviceLengths {
 public:
  explicit DeviceLengths(const Lengths& lengths)
      : lengths_(lengths),
        narrow_(lengths.wide ? std::vector<int32_t>{} : lengths.stored<int32_t>()),
        wide_(lengths.wide ? lengths.stored<int64_t>() : std::vector<int64_t>{}) {}

  DocumentsArgs args() const {
    DocumentsArgs args{};
    args.cu_seqlens = lengths_.wide ? static_cast<const void*>(wide_.get()) : narrow_.get();
    args.stride = lengths_.stride;
    args.wide = lengths_.wide ? 1 : 0;
    args.tokens = static_cast<int32_t>(lengths_.tokens);
    args.documents = lengths_.documents();
    return args;
  }
  void write(const Lengths& lengths) { narrow_.write(lengths.stored<int32_t>()); }

 private:
  Lengths lengths_;
  DeviceArray<int32_t> narrow_;
  DeviceArray<int64_t> wide_;
};

struct Window {
  int64_t left;
  int64_t right;
};
constexpr Window kCausal{-1, 0};
constexpr Window kFull{-1, -1};

/// Same lengths on both sides: one table, then two.
void check_same(const Lengths& lengths, Window window) {
  const OwnedLayout owned(lengths, lengths);
  const WorkList wanted = build_work_list(owned.get(), window.left, window.right);
  const DeviceLengths device(lengths);
  for (const bool one_table : {true, false}) {
    DeviceSchedule schedule(lengths.tokens, lengths.tokens, lengths.documents(), one_table);
    const Status status = schedule.build(device.args(), device.args(), window.left, window.right);
    ASSERT_TRUE(status.ok()) << status.message();
    schedule.expect(wanted);
  }
}

void check_both(const Lengths& queries, const Lengths& keys, Window window) {
  const OwnedLayout owned(queries, keys);
  const WorkList wanted = build_work_list(owned.get(), window.left, window.right);
  const DeviceLengths device_queries(queries);
  const DeviceLengths device_keys(keys);
  DeviceSchedule schedule(queries.tokens, keys.tokens, queries.documents(), false);
  const Status status =
      schedule.build(device_queries.args(), device_keys.args(), window.left, window.right);
  ASSERT_TRUE(status.ok()) << status.message();
  schedule.expect(wanted);
}

std::vector<int64_t> random_lengths(std::mt19937& random, int documents, int64_t longest) {
  std::vector<int64_t> lengths;
  for (int document = 0; document < documents; ++document) {
    lengths.push_back(random() % 4 == 0 ? 0 : static_cast<int64_t>(random()) % (longest + 1));
  }
  return lengths;
}

TEST(Schedule, NoDocuments) {
  check_same(lengths_of({}), kCausal);
  check_same(lengths_of({}, 1000), kCausal);
}

TEST(Schedule, EdgesOfBlocksAndTiles) {
  check_same(lengths_of({31, 32, 33, 127, 128, 129, 1, 255, 256, 257}, 5), kCausal);
  for (const int64_t length : {1, 31, 32, 33, 127, 128, 129}) {
    check_same(lengths_of({length}), kCausal);
  }
}

TEST(Schedule, EmptyDocumentsAtEveryPlace) {
  check_same(lengths_of({0}), kCausal);
  check_same(lengths_of(std::vector<int64_t>(1500, 0), 70), kCausal);
  for (size_t place = 0; place <= 4; ++place) {
    std::vector<int64_t> documents = {40, 200, 1, 130};
    documents.insert(documents.begin() + static_cast<std::ptrdiff_t>(place), {0, 0});
    check_same(lengths_of(documents, 33), kCausal);
  }
}

TEST(Schedule, ThousandsOfOneTokenDocuments) {
  check_same(lengths_of(std::vector<int64_t>(5000, 1), 100), kCausal);
}

TEST(Schedule, TypicalRows) {
  check_same(lengths_of(std::vector<int64_t>(4, 4096)), kCausal);
  std::mt19937 random(5);
  check_same(lengths_of(random_lengths(random, 200, 700)), kCausal);
  check_same(lengths_of(random_lengths(random, 2500, 300), 11), kFull);
}

TEST(Schedule, MasksAndKeysOfTheirOwn) {
  std::mt19937 random(6);
  for (const Window window : {kCausal, kFull, Window{200, 0}, Window{0, 0}, Window{150, 40},
                              Window{-1, 300}, Window{90, -1}}) {
    const Lengths queries = lengths_of(random_lengths(random, 40, 900), 17);
    check_same(queries, window);
    check_both(queries, lengths_of(random_lengths(random, 40, 900), 3), window);
  }
  // More queries than keys: rows before the first key; and keys without queries.
  check_both(lengths_of({1000, 300, 0, 129}), lengths_of({100, 0, 500, 128}), kCausal);
  check_both(lengths_of({1000, 300, 7}), lengths_of({0, 0, 0}), kCausal);
  check_both(lengths_of({0, 0, 0}), lengths_of({10, 500, 1}), kCausal);
}

TEST(Schedule, WideAndStridedLengths) {
  std::mt19937 random(7);
  const std::vector<int64_t> documents = random_lengths(random, 30, 300);
  for (const bool wide : {false, true}) {
    for (const int64_t stride : {1, 2, 5}) {
      Lengths lengths = lengths_of(documents, 9);
      lengths.wide = wide;
      lengths.stride = stride;
      check_same(lengths, kCausal);
    }
  }
}

TEST(Schedule, Batches) {
  for (const auto& [batch, queries, keys] :
       {std::array<int32_t, 3>{3, 130, 70}, {1, 128, 128}, {2000, 1, 3}, {5, 0, 7}, {0, 9, 9}}) {
    const WorkList wanted = build_work_list(test::batch_layout(batch, queries, keys), -1, 0);
    DeviceSchedule schedule(batch * queries, batch * keys, batch, false);
    const Status status = schedule.build({nullptr, 0, 0, queries, batch * queries, batch},
                                         {nullptr, 0, 0, keys, batch * keys, batch}, -1, 0);
    ASSERT_TRUE(status.ok()) << status.message();
    schedule.expect(wanted);
  }
}

TEST(Schedule, BadLengthsStayInside) {
  std::mt19937 random(8);
  for (int round = 0; round < 40; ++round) {
    Lengths queries;
    Lengths keys;
    queries.wide = round % 2 == 0;
    queries.tokens = random() % 600;
    keys.tokens = random() % 600;
    const int documents = static_cast<int>(random() % 60);
    for (int entry = 0; entry <= documents; ++entry) {
      queries.cumulative.push_back(static_cast<int64_t>(random() % 1000) - 200);
      keys.cumulative.push_back(static_cast<int64_t>(random() % 1000) - 200);
    }
    if (queries.wide) queries.cumulative[random() % queries.cumulative.size()] = INT64_MIN;
    if (queries.wide) queries.cumulative[random() % queries.cumulative.size()] = INT64_MAX;
    check_same(queries, kCausal);
    check_both(queries, keys, kFull);
  }
}

TEST(Schedule, SumsDoNotWrapAround) {
  // Every other document has 2^17 blocks: 2^32 together, which must not look like none.
  Lengths lengths;
  lengths.tokens = 1 << 22;
  for (int entry = 0; entry <= 1 << 16; ++entry) {
    lengths.cumulative.push_back(entry % 2 == 0 ? 0 : INT32_MAX);
  }
  const OwnedLayout owned(lengths, lengths);
  const DeviceLengths device(lengths);
  DeviceSchedule schedule(lengths.tokens, lengths.tokens, lengths.documents(), true);
  const Status status = schedule.build(device.args(), device.args(), 100, 0);
  ASSERT_TRUE(status.ok()) << status.message();
  schedule.expect(build_work_list(owned.get(), 100, 0));
}

TEST(Schedule, MoreDocumentsThanOneCtaScansAtOnce) {
  // More than 2^20: the documents of a slice take more than one step.
  std::vector<int64_t> documents((1 << 20) + 5000, 0);
  for (size_t i = 0; i < documents.size(); i += 52'001) documents[i] = static_cast<int64_t>(i % 7);
  check_same(lengths_of(documents, 10), kCausal);
}

TEST(Schedule, SortsByTwoDigitsWhereThereAreManyCosts) {
  // 9000 key tiles in one document, and a thousand in another.
  check_both(lengths_of({1500, 300, 9, 4000}), lengths_of({9000 * 128, 77, 50'000, 128'000}),
             kFull);
  std::vector<int64_t> queries(1500, 1);
  std::vector<int64_t> keys(1500, 3);
  std::mt19937 random(9);
  for (int i = 0; i < 60; ++i)
    keys[random() % keys.size()] = static_cast<int64_t>(random() % 40'000);
  keys[700] = 1'100'000;
  check_both(lengths_of(queries), lengths_of(keys), kCausal);
}

TEST(Schedule, ChunksGrowWhereThereAreManyItemsAndManyCosts) {
  // More than 132 chunks of 1024 items.
  std::vector<int64_t> queries(140'000, 1);
  std::vector<int64_t> keys(140'000, 1);
  keys[123] = 600'000;
  keys[39'000] = 300'000;
  check_both(lengths_of(queries), lengths_of(keys), kCausal);
}

TEST(Schedule, CapturedLaunchesServeOtherLengths) {
  std::mt19937 random(10);
  const int64_t tokens = 9000;
  Lengths lengths = lengths_of(random_lengths(random, 50, 170));
  lengths.tokens = tokens;
  DeviceLengths device(lengths);
  DeviceSchedule schedule(tokens, tokens, 50, true);
  cudaStream_t stream;
  expect_success(cudaStreamCreate(&stream));
  expect_success(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  const Status status = schedule.build(device.args(), device.args(), -1, 0, stream);
  cudaGraph_t graph;
  expect_success(cudaStreamEndCapture(stream, &graph));
  ASSERT_TRUE(status.ok()) << status.message();
  cudaGraphExec_t executable;
  expect_success(cudaGraphInstantiate(&executable, graph, 0));
  for (int replay = 0; replay < 4; ++replay) {
    const Lengths next = lengths_of(random_lengths(random, 50, replay % 2 == 0 ? 160 : 20));
    lengths.cumulative = next.cumulative;
    device.write(lengths);
    expect_success(cudaGraphLaunch(executable, stream));
    expect_success(cudaStreamSynchronize(stream));
    const OwnedLayout owned(lengths, lengths);
    schedule.expect(build_work_list(owned.get(), -1, 0));
  }
  expect_success(cudaGraphExecDestroy(executable));
  expect_success(cudaGraphDestroy(graph));
  expect_success(cudaStreamDestroy(stream));
}

TEST(Schedule, RefusesArgumentsThatCannotBe) {
  DeviceSchedule two(100, 100, 4, false);
  DeviceSchedule one(100, 100, 4, true);
  const DocumentsArgs good{nullptr, 0, 0, 25, 100, 4};
  DocumentsArgs bad = good;
  bad.documents = 3;
  EXPECT_EQ(two.build(good, bad, -1, 0).message(),
            "build_schedule: keys.documents must be those of the queries; got 3 and 4");
  bad = good;
  bad.batch_length = 26;
  EXPECT_EQ(two.build(bad, good, -1, 0).code(), StatusCode::kInvalidArgument);
  bad.batch_length = 24;
  EXPECT_EQ(one.build(good, bad, -1, 0).code(), StatusCode::kInvalidArgument);
  bad = good;
  bad.tokens = -1;
  EXPECT_EQ(two.build(good, bad, -1, 0).code(), StatusCode::kInvalidArgument);
  const DocumentsArgs endless{nullptr, 0, 0, 1, INT32_MAX, INT32_MAX};
  EXPECT_EQ(two.build(endless, endless, -1, 0).code(), StatusCode::kUnsupported);
  EXPECT_EQ(cuda::schedule_scratch_bytes(INT32_MAX, INT32_MAX, INT32_MAX), 0u);
  EXPECT_GT(cuda::schedule_scratch_bytes(INT32_MAX, INT32_MAX, 1), 0u);
}

}  // namespace
}  // namespace flamia
