// Tile and bulk copies against element-by-element references.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

#include "base/bits.h"
#include "emulator/tma/copy.h"
#include "numerics/bf16.h"
#include "numerics/f16.h"

namespace flamia::emulator::test {
namespace {

struct World {
  GlobalMemory global{uint64_t{1} << 28, 1 << 24};
  SharedMemory shared{65536};
  uint64_t address = 0;
  uint32_t bytes = 0;
  explicit World(uint32_t size) : bytes(size) {
    EXPECT_TRUE(global.allocate(size, "tensor", &address).ok());
    std::mt19937 random(5);
    for (uint32_t i = 0; i < size; ++i) data()[i] = static_cast<uint8_t>(random() % 251 + 1);
    global.mark(address, size, true);
  }
  uint8_t* data() const { return reinterpret_cast<uint8_t*>(address); }
  SharedSide side(uint32_t offset) { return {&shared, offset}; }
};

TensorMap make_map(const World& w, MapType type, std::initializer_list<uint64_t> dims,
                   std::initializer_list<uint32_t> box, Swizzle swizzle) {
  TensorMap map;
  map.type = type;
  map.address = w.address;
  map.swizzle = swizzle;
  map.rank = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), map.dims);
  std::copy(box.begin(), box.end(), map.box);
  uint64_t stride = dims.begin()[0] * map_element_bits(type) / 8;
  for (uint32_t i = 0; i + 1 < map.rank; ++i) {
    map.strides[i] = stride;
    stride *= map.dims[i + 1];
  }
  return map;
}

/// The value that a load must put at element (x, row coordinates) of the box; false out of bounds.
bool reference(const TensorMap& map, const int32_t* at, uint32_t x, const uint32_t* index,
               uint64_t* address) {
  const int64_t inner = int64_t{at[0]} + x;
  if (inner < 0 || static_cast<uint64_t>(inner) >= map.dims[0]) return false;
  *address = map.address + static_cast<uint64_t>(inner) * (map_element_bits(map.type) / 8);
  for (uint32_t i = 1; i < map.rank; ++i) {
    const int64_t c = int64_t{at[i]} + int64_t{index[i]} * map.element_strides[i];
    if (c < 0 || static_cast<uint64_t>(c) >= map.dims[i]) return false;
    *address += static_cast<uint64_t>(c) * map.strides[i - 1];
  }
  return true;
}

void check_load(World* w, const TensorMap& map, const int32_t* at, uint32_t offset) {
  CopyResult result;
  const Fault fault = tile_load(map, at, w->global, w->side(offset), &result);
  ASSERT_TRUE(fault.ok()) << fault.text;
  EXPECT_EQ(result.completed_bytes, map_box_bytes(map));
  const uint32_t size = map_element_bits(map.type) / 8;
  uint32_t rows = 1;
  for (uint32_t i = 1; i < map.rank; ++i) rows *= map_box_count(map, i);
  for (uint32_t row = 0; row < rows; ++row) {
    uint32_t index[5] = {}, rest = row;
    for (uint32_t i = 1; i < map.rank; ++i) {
      index[i] = rest % map_box_count(map, i);
      rest /= map_box_count(map, i);
    }
    for (uint32_t x = 0; x < map.box[0]; ++x) {
      uint64_t from = 0;
      const bool inside = reference(map, at, x, index, &from);
      const uint32_t place = swizzled(map.swizzle, offset + row * map_row_pitch(map) + x * size);
      if (inside) {
        ASSERT_EQ(std::memcmp(w->shared.at(place), reinterpret_cast<uint8_t*>(from), size), 0)
            << row << ' ' << x;
      } else {
        for (uint32_t i = 0; i < size; ++i) {
          ASSERT_EQ(*w->shared.at(place + i), map.nan_fill ? (i % 2 == 0 ? 0xf7 : 0x7f) : 0);
        }
      }
      ASSERT_EQ(w->shared.first_unwritten(place, size), size);
    }
  }
}

TEST(TileLoad, EveryRankInsideAndAcrossTheEdges) {
  World w(1 << 20);
  const int32_t inside[5] = {16, 3, 1, 1, 0};
  const int32_t outside[5] = {-16, -2, 1, -1, 1};
  const int32_t beyond[5] = {48, 14, 3, 2, 1};
  for (const int32_t* at : {inside, outside, beyond}) {
    check_load(&w, make_map(w, MapType::kF32, {64}, {32}, Swizzle::kNone), at, 2048);
    check_load(&w, make_map(w, MapType::kU16, {64, 16}, {32, 8}, Swizzle::kNone), at, 2048);
    check_load(&w, make_map(w, MapType::kU8, {64, 16, 4}, {32, 8, 2}, Swizzle::k32B), at, 2048);
    check_load(&w, make_map(w, MapType::kF16, {64, 16, 4, 3}, {64, 4, 2, 2}, Swizzle::k128B), at,
               2048);
    check_load(&w, make_map(w, MapType::kU64, {64, 16, 4, 3, 2}, {4, 4, 2, 2, 2}, Swizzle::k32B),
               at, 2048);
  }
}

TEST(TileLoad, EverySwizzle) {
  World w(1 << 16);
  const int32_t at[2] = {0, 1};
  for (const Swizzle swizzle :
       {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B, Swizzle::k128BAtom32,
        Swizzle::k128BAtom32Flip8, Swizzle::k128BAtom64}) {
    const uint32_t span = swizzle_span(swizzle);
    check_load(&w, make_map(w, MapType::kU8, {256, 64}, {span, 32}, swizzle), at, 4096);
    check_load(&w, make_map(w, MapType::kU8, {256, 64}, {span, 32}, swizzle), at, 4096 + 128);
  }
}

TEST(TileLoad, The128BSwizzleEqualsTheUnitXor) {
  World w(1 << 16);
  const TensorMap map = make_map(w, MapType::kU8, {128, 64}, {128, 16}, Swizzle::k128B);
  const int32_t at[2] = {0, 0};
  CopyResult result;
  ASSERT_TRUE(tile_load(map, at, w.global, w.side(4096), &result).ok());
  for (uint32_t row = 0; row < 16; ++row) {
    for (uint32_t byte = 0; byte < 128; ++byte) {
      const uint32_t offset = 4096 + row * 128 + (((byte / 16) ^ (row % 8)) * 16) + byte % 16;
      ASSERT_EQ(*w.shared.at(offset), w.data()[row * 128 + byte]);
    }
  }
}

TEST(TileLoad, NanFillAndElementStrides) {
  World w(1 << 16);
  TensorMap map = make_map(w, MapType::kBF16, {64, 16}, {64, 8}, Swizzle::k128B);
  map.nan_fill = true;
  const int32_t at[2] = {32, 12};
  check_load(&w, map, at, 2048);
  map.element_strides[1] = 3;
  map.box[1] = 8;
  EXPECT_EQ(map_box_count(map, 1), 3u);
  check_load(&w, map, at, 2048);
}

TEST(TileLoad, ARowNarrowerThanTheSwizzleKeepsThePitchOfTheSpan) {
  World w(1 << 16);
  for (const Swizzle swizzle : {Swizzle::k64B, Swizzle::k128B}) {
    const TensorMap map = make_map(w, MapType::kU8, {256, 64}, {32, 16}, swizzle);
    const int32_t at[2] = {16, 2};
    check_load(&w, map, at, 4096);
    EXPECT_EQ(map_row_pitch(map), swizzle_span(swizzle));
    EXPECT_EQ(map_box_bytes(map), 32u * 16);
    // The bytes between the rows are not touched.
    uint32_t touched = 0;
    for (uint32_t i = 0; i < 16 * swizzle_span(swizzle); ++i) {
      touched += w.shared.first_unwritten(4096 + i, 1) != 0 ? 1 : 0;
    }
    EXPECT_EQ(touched, 32u * 16);
    w.shared.mark(1024, 65536, false);
  }
}

TEST(TileLoad, Tf32TypesAreRoundedOnTheWay) {
  World w(4096);
  const uint32_t words[4] = {0x3f800fffu, 0x3f801000u, 0x3f803000u, 0x7ffe775cu};
  const uint32_t expected[4] = {0x3f800000u, 0x3f800000u, 0x3f804000u, 0x7fffe000u};
  std::memcpy(w.data(), words, 16);
  const TensorMap map = make_map(w, MapType::kTF32, {4}, {4}, Swizzle::kNone);
  const int32_t at[1] = {0};
  CopyResult result;
  ASSERT_TRUE(tile_load(map, at, w.global, w.side(2048), &result).ok());
  EXPECT_EQ(std::memcmp(w.shared.at(2048), expected, 16), 0);
}

TEST(TileLoad, AlignmentIsChecked) {
  World w(1 << 16);
  const TensorMap map = make_map(w, MapType::kF16, {64, 16}, {64, 8}, Swizzle::k128B);
  const int32_t odd[2] = {4, 0}, good[2] = {8, 0};
  CopyResult result;
  EXPECT_EQ(tile_load(map, odd, w.global, w.side(2048), &result).kind, FaultKind::kMisaligned);
  EXPECT_EQ(tile_load(map, good, w.global, w.side(2048 + 64), &result).kind,
            FaultKind::kMisaligned);
  EXPECT_EQ(tile_load(map, good, w.global, w.side(66560 - 512), &result).kind,
            FaultKind::kOutOfBounds);
  EXPECT_TRUE(tile_prefetch(map, good).ok());
  EXPECT_EQ(tile_prefetch(map, odd).kind, FaultKind::kMisaligned);
}

TEST(TileLoad, UnwrittenBytesTravelAsUnwritten) {
  World w(4096);
  w.global.mark(w.address + 100, 3, false);
  const TensorMap map = make_map(w, MapType::kU8, {128, 32}, {128, 2}, Swizzle::kNone);
  const int32_t at[2] = {0, 0};
  CopyResult result;
  ASSERT_TRUE(tile_load(map, at, w.global, w.side(2048), &result).ok());
  EXPECT_TRUE(result.unwritten);
  EXPECT_EQ(w.shared.first_unwritten(2048, 256), 100u);
  EXPECT_EQ(w.shared.first_unwritten(2048 + 103, 128), 128u);
  TensorMap too_far = map;
  too_far.dims[1] = 64;
  const int32_t late[2] = {0, 40};
  EXPECT_EQ(tile_load(too_far, late, w.global, w.side(2048), &result).kind,
            FaultKind::kOutOfBounds);
}

TEST(TileLoad, PaddedFourAndSixBitTypes) {
  World w(1 << 16);
  for (const MapType type : {MapType::kU4Align16, MapType::kU6Align16}) {
    const uint32_t payload = type == MapType::kU4Align16 ? 8 : 12;
    const TensorMap map = make_map(w, type, {256, 16}, {128, 4}, Swizzle::k128B);
    const int32_t at[2] = {128, 2};
    CopyResult result;
    const Fault fault = tile_load(map, at, w.global, w.side(2048), &result);
    ASSERT_TRUE(fault.ok()) << fault.text;
    EXPECT_EQ(result.completed_bytes, 512u);
    for (uint32_t row = 0; row < 4; ++row) {
      for (uint32_t group = 0; group < 8; ++group) {
        const uint32_t place = swizzled(Swizzle::k128B, 2048 + row * 128 + group * 16);
        const uint8_t* from = w.data() + (2 + row) * payload * 16 + (8 + group) * payload;
        ASSERT_EQ(std::memcmp(w.shared.at(place), from, payload), 0);
        ASSERT_EQ(w.shared.first_unwritten(place, 16), payload);
      }
    }
    const int32_t odd[2] = {64, 0};
    EXPECT_EQ(tile_load(map, odd, w.global, w.side(2048), &result).kind, FaultKind::kMisaligned);
  }
}

TEST(TileStore, WritesBackWhatLoadReadAndClipsTheRest) {
  World w(1 << 16);
  for (const Swizzle swizzle : {Swizzle::kNone, Swizzle::k128B, Swizzle::k128BAtom32Flip8}) {
    World target(1 << 16);
    const TensorMap from = make_map(w, MapType::kU8, {128, 32}, {128, 16}, swizzle);
    TensorMap to = from;
    to.address = target.address;
    const std::vector<uint8_t> before(target.data(), target.data() + 4096);
    const int32_t at[2] = {16, 24}, before_first[2] = {-16, 0}, before_row[2] = {0, -1};
    CopyResult result;
    ASSERT_TRUE(tile_load(from, at, w.global, w.side(2048), &result).ok());
    // As an H200: only loads may begin before the tensor.
    for (const int32_t* const early : {before_first, before_row}) {
      EXPECT_EQ(tile_store(to, early, &target.global, w.side(2048), &result).kind,
                FaultKind::kBadOperand);
    }
    ASSERT_TRUE(tile_store(to, at, &target.global, w.side(2048), &result).ok());
    for (uint32_t row = 0; row < 32; ++row) {
      for (uint32_t x = 0; x < 128; ++x) {
        const bool inside = row >= 24 && x >= 16;
        ASSERT_EQ(target.data()[row * 128 + x],
                  inside ? w.data()[row * 128 + x] : before[row * 128 + x]);
      }
    }
  }
}

TEST(TileStore, ClipsWholeUnitsOfSixteenBytes) {
  // Measured on an H200: the unit of the last element is written as a whole.
  World w(4096), target(4096);
  const TensorMap from = make_map(w, MapType::kU8, {128, 4}, {64, 1}, Swizzle::kNone);
  TensorMap to = make_map(target, MapType::kU8, {128, 4}, {64, 1}, Swizzle::kNone);
  to.dims[0] = 33;
  const std::vector<uint8_t> before(target.data(), target.data() + 128);
  const int32_t at[2] = {0, 0};
  CopyResult result;
  ASSERT_TRUE(tile_load(from, at, w.global, w.side(2048), &result).ok());
  ASSERT_TRUE(tile_store(to, at, &target.global, w.side(2048), &result).ok());
  for (uint32_t x = 0; x < 64; ++x) {
    ASSERT_EQ(target.data()[x], x < 48 ? w.data()[x] : before[x]) << x;
  }
}

TEST(TileReduce, AddsAndComparesByType) {
  World w(4096);
  const TensorMap map = make_map(w, MapType::kF16, {64, 4}, {64, 2}, Swizzle::kNone);
  const int32_t at[2] = {0, 1};
  for (uint32_t i = 0; i < 256; ++i) {
    const uint16_t one = float_to_f16(static_cast<float>(i % 7));
    std::memcpy(w.data() + 2 * i, &one, 2);
  }
  for (uint32_t i = 0; i < 128; ++i) {
    const uint16_t value = float_to_f16(0.5f * static_cast<float>(i));
    std::memcpy(w.shared.at(2048 + 2 * i), &value, 2);
  }
  w.shared.mark(2048, 256, true);
  CopyResult result;
  ASSERT_TRUE(tile_reduce(map, at, ReduceOp::kAdd, &w.global, w.side(2048), &result).ok());
  for (uint32_t i = 0; i < 128; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, w.data() + 2 * (64 + i), 2);
    EXPECT_EQ(f16_to_float(bits), 0.5f * static_cast<float>(i) + static_cast<float>((64 + i) % 7));
  }
  EXPECT_EQ(tile_reduce(map, at, ReduceOp::kXor, &w.global, w.side(2048), &result).kind,
            FaultKind::kBadOperand);
  // An illegal instruction on an H200.
  const TensorMap signed_map = make_map(w, MapType::kS64, {16, 4}, {16, 1}, Swizzle::kNone);
  EXPECT_EQ(tile_reduce(signed_map, at, ReduceOp::kAnd, &w.global, w.side(2048), &result).kind,
            FaultKind::kBadOperand);
}

TEST(GatherScatter, RowsByIndex) {
  World w(1 << 16);
  const TensorMap map = make_map(w, MapType::kU8, {256, 64}, {64, 1}, Swizzle::k64B);
  const int32_t at[5] = {16, 40, 3, -1, 63};
  CopyResult result;
  ASSERT_TRUE(tile_gather4(map, at, w.global, w.side(2048), &result).ok());
  EXPECT_EQ(result.completed_bytes, 256u);
  for (uint32_t row = 0; row < 4; ++row) {
    for (uint32_t x = 0; x < 64; ++x) {
      const uint8_t got = *w.shared.at(swizzled(Swizzle::k64B, 2048 + row * 64 + x));
      const uint8_t expected = at[1 + row] < 0
                                   ? uint8_t{0}
                                   : w.data()[static_cast<uint32_t>(at[1 + row]) * 256 + 16 + x];
      ASSERT_EQ(got, expected);
    }
  }
  World target(1 << 16);
  TensorMap out = map;
  out.address = target.address;
  const int32_t to[5] = {16, 1, 2, -1, 4};
  ASSERT_TRUE(tile_scatter4(out, to, &target.global, w.side(2048), &result).ok());
  EXPECT_EQ(std::memcmp(target.data() + 256 + 16, w.data() + 40 * 256 + 16, 64), 0);
  EXPECT_EQ(std::memcmp(target.data() + 4 * 256 + 16, w.data() + 63 * 256 + 16, 64), 0);
  TensorMap tall = map;
  tall.box[1] = 2;
  EXPECT_EQ(tile_gather4(tall, at, w.global, w.side(2048), &result).kind, FaultKind::kBadOperand);
}

TEST(Bulk, CopiesBothWaysWithMasksAndChecks) {
  World w(4096);
  CopyResult result;
  ASSERT_TRUE(bulk_load(w.global, w.address + 32, w.side(2048), 64, &result).ok());
  EXPECT_EQ(result.completed_bytes, 64u);
  EXPECT_EQ(std::memcmp(w.shared.at(2048), w.data() + 32, 64), 0);
  const uint8_t kept = w.data()[1025];
  ASSERT_TRUE(bulk_store(w.side(2048), &w.global, w.address + 1024, 64, 0xfffd, &result).ok());
  EXPECT_EQ(w.data()[1024], w.data()[32]);
  EXPECT_EQ(w.data()[1025], kept);
  EXPECT_EQ(bulk_load(w.global, w.address + 8, w.side(2048), 64, &result).kind,
            FaultKind::kMisaligned);
  EXPECT_EQ(bulk_load(w.global, w.address, w.side(2048), 24, &result).kind, FaultKind::kMisaligned);
  EXPECT_EQ(bulk_load(w.global, w.address + 4064, w.side(2048), 64, &result).kind,
            FaultKind::kOutOfBounds);
  EXPECT_EQ(bulk_prefetch(w.global, w.address + 4096, 16).kind, FaultKind::kOutOfBounds);
  ASSERT_TRUE(bulk_shared(w.side(2048), w.side(8192), 64, &result).ok());
  EXPECT_EQ(std::memcmp(w.shared.at(8192), w.data() + 32, 64), 0);
}

TEST(Bulk, ReductionsOfEveryType) {
  World w(4096);
  CopyResult result;
  const auto run = [&](ReduceOp op, MapType type, auto target, auto source) {
    auto value = target;
    for (uint32_t i = 0; i < 16; i += sizeof(target)) {
      std::memcpy(w.data() + i, &target, sizeof(target));
      std::memcpy(w.shared.at(2048 + i), &source, sizeof(source));
    }
    EXPECT_TRUE(bulk_reduce(op, type, w.side(2048), &w.global, w.address, 16, &result).ok());
    std::memcpy(&value, w.data(), sizeof(value));
    return value;
  };
  EXPECT_EQ(run(ReduceOp::kAdd, MapType::kU32, 0xffffffffu, 3u), 2u);
  EXPECT_EQ(run(ReduceOp::kMin, MapType::kS32, -5, 3), -5);
  EXPECT_EQ(run(ReduceOp::kMin, MapType::kU32, 0xfffffffbu, 3u), 3u);
  EXPECT_EQ(run(ReduceOp::kMax, MapType::kS64, int64_t{-5}, int64_t{3}), 3);
  EXPECT_EQ(run(ReduceOp::kInc, MapType::kU32, 7u, 7u), 0u);
  EXPECT_EQ(run(ReduceOp::kInc, MapType::kU32, 6u, 7u), 7u);
  EXPECT_EQ(run(ReduceOp::kDec, MapType::kU32, 0u, 7u), 7u);
  EXPECT_EQ(run(ReduceOp::kDec, MapType::kU32, 3u, 7u), 2u);
  EXPECT_EQ(run(ReduceOp::kXor, MapType::kU64, uint64_t{5}, uint64_t{1}), 4u);
  EXPECT_EQ(run(ReduceOp::kAdd, MapType::kF32, 1.5f, 2.0f), 3.5f);
  EXPECT_EQ(run(ReduceOp::kAdd, MapType::kF32, pow2(-130), pow2(-130)), pow2(-129));
  EXPECT_EQ(run(ReduceOp::kAdd, MapType::kF64, 1.5, 2.0), 3.5);
  EXPECT_EQ(run(ReduceOp::kAdd, MapType::kBF16, float_to_bf16(1.0f), float_to_bf16(0.5f)),
            float_to_bf16(1.5f));
  EXPECT_EQ(run(ReduceOp::kMax, MapType::kF16, float_to_f16(-2.0f), float_to_f16(-1.0f)),
            float_to_f16(-1.0f));
  EXPECT_EQ(
      bulk_reduce(ReduceOp::kMin, MapType::kF32, w.side(2048), &w.global, w.address, 16, &result)
          .kind,
      FaultKind::kBadOperand);
  EXPECT_EQ(
      bulk_reduce_shared(ReduceOp::kAdd, MapType::kF32, w.side(2048), w.side(4096), 16, &result)
          .kind,
      FaultKind::kBadOperand);
  w.shared.mark(4096, 16, true);
  EXPECT_TRUE(
      bulk_reduce_shared(ReduceOp::kAdd, MapType::kU32, w.side(2048), w.side(4096), 16, &result)
          .ok());
}

TEST(Multicast, TargetsAndTheirBarriers) {
  std::vector<MulticastTarget> targets;
  ASSERT_TRUE(multicast_targets(0b1011, 4, 0, 0, false, &targets).ok());
  ASSERT_EQ(targets.size(), 3u);
  EXPECT_EQ(targets[2].rank, 3u);
  EXPECT_EQ(targets[2].barrier_rank, 3u);
  ASSERT_TRUE(multicast_targets(0b1111, 4, 1, 2, true, &targets).ok());
  EXPECT_EQ(targets[1].barrier_rank, 0u);
  EXPECT_EQ(targets[3].barrier_rank, 2u);
  EXPECT_FALSE(multicast_targets(0b10000, 4, 0, 0, false, &targets).ok());
  EXPECT_FALSE(multicast_targets(0, 4, 1, 0, false, &targets).ok());
  ASSERT_TRUE(multicast_targets(0, 4, 1, 0, true, &targets).ok());
  EXPECT_EQ(targets[0].barrier_rank, 0u);
  EXPECT_FALSE(multicast_targets(0, 4, 2, 0, true, &targets).ok());
}

}  // namespace
}  // namespace flamia::emulator::test
