// Overlap of views against the sets of their bytes, counted one by one.
#include "problem/footprint.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <set>

namespace flamia {
namespace {

// Addresses are numbers here: nothing is read.
void* address(int64_t value) { return reinterpret_cast<void*>(static_cast<uintptr_t>(value)); }

TensorView view_of(int64_t at, DType dtype, std::initializer_list<int64_t> shape,
                   std::initializer_list<int64_t> stride) {
  TensorView view;
  view.data = address(at);
  view.dtype = dtype;
  for (const int64_t size : shape) view.shape[view.rank++] = size;
  int i = 0;
  for (const int64_t step : stride) view.stride[i++] = step;
  return view;
}

/// First bytes of all elements, with repetitions counted.
std::multiset<int64_t> elements(const TensorView& view) {
  std::multiset<int64_t> starts;
  int64_t index[4] = {0, 0, 0, 0};
  const int64_t bytes = dtype_bytes(view.dtype);
  int64_t size[4] = {1, 1, 1, 1};
  for (int i = 0; i < view.rank; ++i) size[i] = view.shape[i];
  for (index[0] = 0; index[0] < size[0]; ++index[0]) {
    for (index[1] = 0; index[1] < size[1]; ++index[1]) {
      for (index[2] = 0; index[2] < size[2]; ++index[2]) {
        for (index[3] = 0; index[3] < size[3]; ++index[3]) {
          int64_t at = static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data));
          for (int i = 0; i < view.rank; ++i) at += index[i] * view.stride[i] * bytes;
          starts.insert(at);
        }
      }
    }
  }
  return starts;
}

std::set<int64_t> bytes_of(const TensorView& view) {
  std::set<int64_t> bytes;
  for (const int64_t start : elements(view)) {
    for (int64_t i = 0; i < dtype_bytes(view.dtype); ++i) bytes.insert(start + i);
  }
  return bytes;
}

bool share_a_byte(const TensorView& a, const TensorView& b) {
  const std::set<int64_t> x = bytes_of(a);
  for (const int64_t byte : bytes_of(b)) {
    if (x.contains(byte)) return true;
  }
  return false;
}

TensorView random_view(std::mt19937* random) {
  const auto draw = [random](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(*random);
  };
  constexpr DType kTypes[] = {DType::kU8, DType::kBF16, DType::kF32, DType::kI64};
  TensorView view;
  view.dtype = kTypes[draw(0, 3)];
  view.data = address(100000 + draw(0, 40) * dtype_bytes(view.dtype));
  view.rank = static_cast<int32_t>(draw(1, 4));
  for (int i = 0; i < view.rank; ++i) {
    view.shape[i] = draw(i == 0 ? 0 : 1, 4);
    view.stride[i] = draw(-12, 24);
  }
  return view;
}

TEST(Footprint, AgreesWithTheSetsOfBytes) {
  constexpr uint32_t kSeed = 20240521;
  std::mt19937 random(kSeed);
  int apart = 0;
  for (int round = 0; round < 5000; ++round) {
    const TensorView a = random_view(&random);
    const TensorView b = random_view(&random);
    ASSERT_EQ(shared_bytes(a, b) != 0, share_a_byte(a, b))
        << "seed " << kSeed << " round " << round;
    ASSERT_EQ(shared_bytes(b, a) != 0, share_a_byte(a, b))
        << "seed " << kSeed << " round " << round;
    if (shared_bytes(a, b) == 0 && !is_empty(a) && !is_empty(b)) ++apart;
  }
  EXPECT_GT(apart, 300) << "the drawn views must also lie apart";
}

TEST(Footprint, NeverMissesAViewThatOverlapsItself) {
  constexpr uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 5000; ++round) {
    const TensorView view = random_view(&random);
    if (is_empty(view)) continue;
    const std::multiset<int64_t> starts = elements(view);
    const std::set<int64_t> once(starts.begin(), starts.end());
    if (starts.size() != once.size()) {
      ASSERT_TRUE(may_overlap_itself(view)) << "seed " << kSeed << " round " << round;
    }
  }
}

TEST(Footprint, LetsOrdinaryLayoutsBe) {
  EXPECT_FALSE(may_overlap_itself(view_of(64, DType::kBF16, {7, 4, 64}, {256, 64, 1})));
  EXPECT_FALSE(may_overlap_itself(view_of(64, DType::kBF16, {7, 4, 64}, {64, 448, 1})));
  EXPECT_FALSE(may_overlap_itself(view_of(64, DType::kBF16, {7, 4, 64}, {1000, 64, 1})));
  EXPECT_FALSE(may_overlap_itself(view_of(64, DType::kBF16, {1, 4, 64}, {0, 64, 1})));
}

TEST(Footprint, TellsFusedSlicesApartAtFullSize) {
  // [T, Hq + 2 Hkv, D] with a million tokens: the comparison must not grow with T.
  const int64_t tokens = 1 << 20;
  const int64_t row = int64_t{16 + 2 * 4} * 128;
  const TensorView q = view_of(4096, DType::kBF16, {tokens, 16, 128}, {row, 128, 1});
  const TensorView k = view_of(4096 + 16 * 128 * 2, DType::kBF16, {tokens, 4, 128}, {row, 128, 1});
  const TensorView v = view_of(4096 + 20 * 128 * 2, DType::kBF16, {tokens, 4, 128}, {row, 128, 1});
  EXPECT_EQ(shared_bytes(q, k), 0);
  EXPECT_EQ(shared_bytes(k, v), 0);
  EXPECT_EQ(shared_bytes(v, q), 0);
  EXPECT_NE(shared_bytes(q, q), 0);
}

TEST(Footprint, AssumesAnOverlapWhereAProofWouldTakeTooLong) {
  const TensorView a = view_of(4096, DType::kU8, {1 << 20, 2, 1}, {1000, 499, 1});
  const TensorView b = view_of(4097, DType::kU8, {1 << 20, 2, 1}, {998, 497, 1});
  EXPECT_NE(shared_bytes(a, b), 0);
}

TEST(Footprint, EmptyViewsShareNothing) {
  const TensorView a = view_of(4096, DType::kU8, {0, 8}, {8, 1});
  const TensorView b = view_of(4096, DType::kU8, {8, 8}, {8, 1});
  EXPECT_EQ(shared_bytes(a, b), 0);
}

TEST(Footprint, SeesStridesThatLeaveTheAddressSpace) {
  const int64_t largest = std::numeric_limits<int64_t>::max();
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_TRUE(is_addressable(view_of(4096, DType::kI64, {4, 4}, {4, 1})));
  EXPECT_TRUE(is_addressable(view_of(4096, DType::kI64, {4, 4}, {-4, 1})));
  EXPECT_TRUE(is_addressable(view_of(4096, DType::kI64, {1, 4}, {largest, 1})));
  EXPECT_FALSE(is_addressable(view_of(4096, DType::kI64, {2, 4}, {largest, 1})));
  EXPECT_FALSE(is_addressable(view_of(4096, DType::kI64, {2, 4}, {least, 1})));
  EXPECT_FALSE(is_addressable(view_of(8, DType::kI64, {3, 4}, {-1, 1})));
}

}  // namespace
}  // namespace flamia
