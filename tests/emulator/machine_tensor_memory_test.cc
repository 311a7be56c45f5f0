// Tensor memory: allocator, register layouts, lane rule, reductions.
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/bits.h"
#include "emulator/machine/tensor_memory.h"
#include "numerics/minifloat.h"

namespace flamia::emulator::test {
namespace {

constexpr uint32_t kCta = 7;

TEST(TensorMemory, AllocatesPowersOfTwoAndChecksSizes) {
  TensorMemory memory;
  for (const uint32_t bad : {0u, 16u, 48u, 1024u}) {
    EXPECT_EQ(memory.allocate(kCta, bad, 0).fault.kind, FaultKind::kBadOperand) << bad;
  }
  const TensorAllocation first = memory.allocate(kCta, 128, 0);
  ASSERT_TRUE(first.fault.ok());
  EXPECT_EQ(first.address, 0u);
  EXPECT_EQ(memory.allocate(kCta, 256, 0).fault.kind, FaultKind::kBadOperand);
  const TensorAllocation second = memory.allocate(kCta, 32, 0);
  EXPECT_EQ(tensor_column(second.address), 128u);
  EXPECT_EQ(memory.free_columns(), 352u);
}

TEST(TensorMemory, BlocksWhileColumnsAreMissing) {
  TensorMemory memory;
  const TensorAllocation all = memory.allocate(1, 512, 0);
  EXPECT_TRUE(memory.allocate(2, 32, 0).blocked);
  EXPECT_TRUE(memory.deallocate(1, all.address, 512).ok());
  EXPECT_FALSE(memory.allocate(2, 32, 0).blocked);
}

TEST(TensorMemory, ASeedMovesThePlace) {
  std::set<uint32_t> places;
  for (uint64_t seed = 1; seed < 50; ++seed) {
    TensorMemory memory;
    const TensorAllocation got = memory.allocate(kCta, 64, seed);
    ASSERT_TRUE(got.fault.ok());
    EXPECT_EQ(got.address % 32, 0u);
    places.insert(got.address);
  }
  EXPECT_GT(places.size(), 8u);
}

TEST(TensorMemory, DeallocChecksAddressSizeAndOwner) {
  TensorMemory memory;
  const TensorAllocation a = memory.allocate(kCta, 64, 0);
  EXPECT_EQ(memory.deallocate(kCta, a.address, 32).kind, FaultKind::kBadOperand);
  EXPECT_EQ(memory.deallocate(kCta, a.address + 32, 32).kind, FaultKind::kUseAfterFree);
  EXPECT_EQ(memory.deallocate(8, a.address, 64).kind, FaultKind::kUseAfterFree);
  EXPECT_TRUE(memory.deallocate(kCta, a.address, 64).ok());
  EXPECT_EQ(memory.deallocate(kCta, a.address, 64).kind, FaultKind::kUseAfterFree);
}

TEST(TensorMemory, ColumnsGivenBackLingerIfAskedForUntilTheyAreTaken) {
  for (const bool lingering : {false, true}) {
    TensorMemory memory(lingering);
    const uint32_t other = kCta + 1;
    const TensorAllocation a = memory.allocate(kCta, 512, 0);
    ASSERT_TRUE(memory.deallocate(kCta, a.address, 512).ok());
    EXPECT_EQ(memory.free_columns(), 512u);
    EXPECT_EQ(memory.check_columns(kCta, 0, 512, "ld").ok(), lingering);
    EXPECT_EQ(memory.check_columns(other, 0, 32, "ld").kind, FaultKind::kUseAfterFree);
    EXPECT_EQ(memory.deallocate(kCta, a.address, 512).kind, FaultKind::kUseAfterFree);
    ASSERT_TRUE(memory.allocate(other, 256, 0).fault.ok());
    EXPECT_EQ(memory.check_columns(kCta, 0, 512, "ld").kind, FaultKind::kUseAfterFree);
    EXPECT_EQ(memory.check_columns(kCta, 256, 256, "ld").ok(), lingering);
    EXPECT_EQ(memory.leave(kCta), 0u);
    EXPECT_EQ(memory.check_columns(kCta, 256, 256, "ld").kind, FaultKind::kUseAfterFree);
  }
}

TEST(TensorMemory, RelinquishForbidsAllocAndExitReportsLeaks) {
  TensorMemory memory;
  EXPECT_TRUE(memory.allocate(kCta, 64, 0).fault.ok());
  EXPECT_TRUE(memory.relinquish(kCta).ok());
  EXPECT_EQ(memory.allocate(kCta, 32, 0).fault.kind, FaultKind::kBadOperand);
  EXPECT_EQ(memory.leave(kCta), 64u);
  EXPECT_EQ(memory.leave(kCta), 0u);
  EXPECT_EQ(memory.free_columns(), 512u);
}

TEST(TensorMemory, EveryShapeIsABijectionOfItsCells) {
  for (const TensorShape shape : {TensorShape::k32x32b, TensorShape::k16x64b, TensorShape::k16x128b,
                                  TensorShape::k16x256b, TensorShape::k16x32bx2}) {
    for (uint32_t count = 1; count <= 128; count *= 2) {
      TensorAccess access{shape, count, false, 128};
      const uint32_t registers = tensor_register_count(access);
      if (registers == 0) continue;
      std::set<std::pair<uint32_t, uint32_t>> cells;
      for (uint32_t t = 0; t < 32; ++t) {
        for (uint32_t r = 0; r < registers; ++r) {
          const TensorCell cell = tensor_cell(access, t, r);
          EXPECT_LT(cell.column, tensor_column_span(access));
          EXPECT_LT(cell.lane, shape == TensorShape::k32x32b ? 32u : 16u);
          cells.insert({cell.lane, cell.column});
        }
      }
      EXPECT_EQ(cells.size(), 32u * registers);
    }
  }
  EXPECT_EQ(tensor_register_count({TensorShape::k16x256b, 64, false, 0}), 0u);
  EXPECT_EQ(tensor_register_count({TensorShape::k16x128b, 64, false, 0}), 128u);
  EXPECT_EQ(tensor_register_count({TensorShape::k32x32b, 3, false, 0}), 0u);
}

TEST(TensorMemory, LoadReturnsWhatStoreWroteInEveryShape) {
  for (const TensorShape shape : {TensorShape::k32x32b, TensorShape::k16x64b, TensorShape::k16x128b,
                                  TensorShape::k16x256b, TensorShape::k16x32bx2}) {
    for (const bool packed : {false, true}) {
      TensorMemory memory;
      ASSERT_TRUE(memory.allocate(kCta, 512, 0).fault.ok());
      const TensorAccess access{shape, 8, packed, 64};
      const uint32_t registers = tensor_register_count(access);
      uint32_t out[128][32] = {}, in[128][32] = {};
      for (uint32_t r = 0; r < registers; ++r) {
        for (uint32_t t = 0; t < 32; ++t) out[r][t] = (r * 32 + t) * 0x01010101u + 0x8001u;
      }
      const uint32_t address = tensor_address(64, 16);
      ASSERT_TRUE(memory.store(kCta, 2, access, address, out).ok());
      ASSERT_TRUE(memory.load(kCta, 2, access, address, in).ok());
      for (uint32_t r = 0; r < registers; ++r) {
        for (uint32_t t = 0; t < 32; ++t) ASSERT_EQ(in[r][t], out[r][t]) << r << ' ' << t;
      }
    }
  }
}

TEST(TensorMemory, The16x256bShapeIsTheAccumulatorFragment) {
  const TensorAccess access{TensorShape::k16x256b, 1, false, 0};
  for (uint32_t t = 0; t < 32; ++t) {
    for (uint32_t r = 0; r < 4; ++r) {
      const TensorCell cell = tensor_cell(access, t, r);
      EXPECT_EQ(cell.lane, t / 4 + 8 * (r / 2));
      EXPECT_EQ(cell.column, 2 * (t % 4) + r % 2);
    }
  }
}

TEST(TensorMemory, AWarpReachesItsOwnQuarterOnly) {
  TensorMemory memory;
  ASSERT_TRUE(memory.allocate(kCta, 64, 0).fault.ok());
  uint32_t registers[1][32] = {};
  const TensorAccess access{TensorShape::k32x32b, 1, false, 0};
  EXPECT_EQ(memory.store(kCta, 1, access, tensor_address(0, 0), registers).kind,
            FaultKind::kMisaligned);
  EXPECT_TRUE(memory.store(kCta, 1, access, tensor_address(32, 1), registers).ok());
  const TensorAccess half{TensorShape::k16x64b, 1, false, 0};
  EXPECT_TRUE(memory.store(kCta, 1, half, tensor_address(48, 0), registers).ok());
  EXPECT_EQ(memory.store(kCta, 1, half, tensor_address(40, 0), registers).kind,
            FaultKind::kMisaligned);
  EXPECT_EQ(memory.store(kCta, 1, half, tensor_address(48, 1), registers).kind,
            FaultKind::kMisaligned);
  EXPECT_EQ(memory.store(kCta, 1, access, tensor_address(32, 64), registers).kind,
            FaultKind::kUseAfterFree);
}

TEST(TensorMemory, UnwrittenCellsAreReported) {
  TensorMemory memory;
  ASSERT_TRUE(memory.allocate(kCta, 32, 0).fault.ok());
  uint32_t registers[2][32] = {};
  ASSERT_TRUE(memory.store(kCta, 0, {TensorShape::k32x32b, 1, false, 0}, 0, registers).ok());
  const Fault fault = memory.load(kCta, 0, {TensorShape::k32x32b, 2, false, 0}, 0, registers);
  EXPECT_EQ(fault.kind, FaultKind::kUninitialized);
  EXPECT_NE(fault.text.find("column 1"), std::string::npos) << fault.text;
}

TEST(TensorMemory, ReducesOverTheLoadedColumns) {
  TensorMemory memory;
  ASSERT_TRUE(memory.allocate(kCta, 32, 0).fault.ok());
  uint32_t registers[4][32];
  for (uint32_t t = 0; t < 32; ++t) {
    const float values[4] = {static_cast<float>(t), -100.0f - static_cast<float>(t), 3.0f, -0.0f};
    for (uint32_t r = 0; r < 4; ++r) registers[r][t] = float_bits(values[r]);
  }
  registers[1][9] = kCanonicalNanBits;
  const TensorAccess access{TensorShape::k32x32b, 4, false, 0};
  ASSERT_TRUE(memory.store(kCta, 0, access, 0, registers).ok());
  uint32_t reduced[32];
  TensorReduce how;
  ASSERT_TRUE(memory.load_reduce(kCta, 0, access, 0, how, registers, reduced).ok());
  EXPECT_EQ(bits_float(reduced[5]), 5.0f);
  EXPECT_EQ(bits_float(reduced[9]), 9.0f);
  how.propagate_nan = true;
  ASSERT_TRUE(memory.load_reduce(kCta, 0, access, 0, how, registers, reduced).ok());
  EXPECT_EQ(reduced[9], kCanonicalNanBits);
  how.absolute = true;
  ASSERT_TRUE(memory.load_reduce(kCta, 0, access, 0, how, registers, reduced).ok());
  EXPECT_EQ(bits_float(reduced[5]), 105.0f);
  how = {TensorReduceType::kU32, false, false, false};
  ASSERT_TRUE(memory.load_reduce(kCta, 0, access, 0, how, registers, reduced).ok());
  EXPECT_EQ(reduced[0], 0u);
  EXPECT_EQ(
      memory.load_reduce(kCta, 0, {TensorShape::k16x64b, 4, false, 0}, 0, how, registers, reduced)
          .kind,
      FaultKind::kBadOperand);
}

TEST(TensorMemory, ShiftMovesRowsDownByOneLane) {
  TensorMemory memory;
  ASSERT_TRUE(memory.allocate(kCta, 32, 0).fault.ok());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    memory.row(lane)[3] = lane;
    memory.mark(lane, 0, 8, true);
  }
  ASSERT_TRUE(memory.shift_down(kCta, 0).ok());
  EXPECT_EQ(memory.row(0)[3], 0u);
  EXPECT_EQ(memory.row(1)[3], 0u);
  EXPECT_EQ(memory.row(31)[3], 30u);
}

}  // namespace
}  // namespace flamia::emulator::test
