// Memories of the machine: allocation, bounds, written flags, windows.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emulator/machine/memory.h"

namespace flamia::emulator::test {
namespace {

constexpr uint64_t kArena = uint64_t{1} << 30;

struct Machine {
  GlobalMemory global{kArena, 1 << 20};
  SharedMemory shared0{4096}, shared1{4096};
  SharedMemory* cluster[3] = {&shared0, &shared1, nullptr};
  ByteBank local{64}, param{32, true}, constant{16, true};
  MemoryView view{&global, cluster, 3, 1, &local, &param, &constant};
};

TEST(GlobalMemory, HandsOutAlignedRangesWithGaps) {
  Machine m;
  uint64_t a = 0, b = 0;
  ASSERT_TRUE(m.global.allocate(100, "a", &a).ok());
  ASSERT_TRUE(m.global.allocate(100, "b", &b).ok());
  EXPECT_EQ(a % 256, 0u);
  EXPECT_GE(b, a + 100 + 256);
  EXPECT_EQ(m.global.check(a, 100).kind, FaultKind::kNone);
  EXPECT_EQ(m.global.check(a, 101).kind, FaultKind::kOutOfBounds);
  EXPECT_EQ(m.global.check(a + 100, 1).kind, FaultKind::kOutOfBounds);
  EXPECT_EQ(m.global.check(a - 1, 1).kind, FaultKind::kOutOfBounds);
  EXPECT_EQ(m.global.used_bytes(), 200u);
}

TEST(GlobalMemory, NamesTheBlockThatAnAccessMisses) {
  Machine m;
  uint64_t a = 0;
  ASSERT_TRUE(m.global.allocate(100, "queries", &a).ok());
  const Fault fault = m.global.check(a + 96, 16);
  EXPECT_NE(fault.text.find("queries"), std::string::npos) << fault.text;
  EXPECT_NE(fault.text.find("by 12"), std::string::npos) << fault.text;
}

TEST(GlobalMemory, DetectsUseAfterFreeAndDoubleFree) {
  Machine m;
  uint64_t a = 0;
  ASSERT_TRUE(m.global.allocate(64, "a", &a).ok());
  ASSERT_TRUE(m.global.release(a).ok());
  EXPECT_EQ(m.global.check(a + 8, 4).kind, FaultKind::kUseAfterFree);
  EXPECT_FALSE(m.global.release(a).ok());
  EXPECT_FALSE(m.global.release(a + 8).ok());
  EXPECT_EQ(m.global.used_bytes(), 0u);
}

TEST(GlobalMemory, RefusesMoreThanTheChipHas) {
  Machine m;
  uint64_t a = 0;
  EXPECT_EQ(m.global.allocate((1 << 20) + 1, "a", &a).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(m.global.allocate(0, "a", &a).code(), StatusCode::kInvalidArgument);
}

TEST(GlobalMemory, ReusesFreedRangesOnlyWhenTheArenaIsUsedUp) {
  GlobalMemory global(16384, 1 << 20);
  uint64_t first = 0, second = 0, third = 0;
  ASSERT_TRUE(global.allocate(6000, "first", &first).ok());
  ASSERT_TRUE(global.release(first).ok());
  ASSERT_TRUE(global.allocate(6000, "second", &second).ok());
  EXPECT_NE(first, second);
  ASSERT_TRUE(global.allocate(6000, "third", &third).ok());
  EXPECT_EQ(third, first);
  EXPECT_EQ(global.first_unwritten(third, 6000), 0u);
}

TEST(GlobalMemory, RegisteredHostMemoryCountsAsWritten) {
  Machine m;
  std::vector<uint32_t> host(8, 7);
  ASSERT_TRUE(m.global.register_host(host.data(), 32, "pinned").ok());
  EXPECT_FALSE(m.global.register_host(host.data() + 2, 8, "again").ok());
  uint32_t value = 0;
  const uint64_t address = reinterpret_cast<uint64_t>(host.data());
  EXPECT_TRUE(read_bytes(m.view, Space::kGeneric, address + 4, 4, 4, &value).ok());
  EXPECT_EQ(value, 7u);
  EXPECT_TRUE(m.global.live_blocks().empty());
}

TEST(Memory, ReportsTheFirstUnwrittenByteAndStillDelivers) {
  Machine m;
  uint64_t a = 0;
  ASSERT_TRUE(m.global.allocate(64, "a", &a).ok());
  const uint16_t half = 0xabcd;
  ASSERT_TRUE(write_bytes(m.view, Space::kGlobal, a + 4, 2, 2, &half).ok());
  uint32_t value = 0;
  const Fault fault = read_bytes(m.view, Space::kGlobal, a + 4, 4, 4, &value);
  EXPECT_EQ(fault.kind, FaultKind::kUninitialized);
  EXPECT_NE(fault.text.find("byte 2"), std::string::npos) << fault.text;
  EXPECT_EQ(value & 0xffffu, 0xabcdu);
}

TEST(Memory, SharedAddressesCarryTheRank) {
  Machine m;
  const uint32_t own = map_shared(kSharedReserved + 16, 1);
  const uint32_t peer = map_shared(own, 0);
  EXPECT_EQ(own, 0x01000410u);
  const uint32_t value = 5;
  EXPECT_TRUE(write_bytes(m.view, Space::kSharedCta, own, 4, 4, &value).ok());
  EXPECT_EQ(write_bytes(m.view, Space::kSharedCta, peer, 4, 4, &value).kind,
            FaultKind::kWrongSpace);
  EXPECT_TRUE(write_bytes(m.view, Space::kSharedCluster, peer, 4, 4, &value).ok());
  EXPECT_EQ(m.shared0.first_unwritten(kSharedReserved + 16, 4), 4u);
  const uint32_t gone = map_shared(own, 2), outside = map_shared(own, 3);
  EXPECT_EQ(write_bytes(m.view, Space::kSharedCluster, gone, 4, 4, &value).kind,
            FaultKind::kUseAfterFree);
  EXPECT_EQ(write_bytes(m.view, Space::kSharedCluster, outside, 4, 4, &value).kind,
            FaultKind::kWrongSpace);
}

TEST(Memory, TheReservedStartAndTheEndOfSharedMemoryFault) {
  Machine m;
  uint32_t value = 0;
  const uint32_t base = map_shared(0, 1);
  EXPECT_EQ(read_bytes(m.view, Space::kSharedCta, base, 4, 4, &value).kind,
            FaultKind::kOutOfBounds);
  EXPECT_EQ(
      write_bytes(m.view, Space::kSharedCta, base + kSharedReserved + 4092, 8, 4, &value).kind,
      FaultKind::kOutOfBounds);
  EXPECT_EQ(read_bytes(m.view, Space::kSharedCta, base + kSharedReserved + 2, 4, 4, &value).kind,
            FaultKind::kMisaligned);
}

TEST(Memory, GenericWindowsRoundTrip) {
  const Space spaces[] = {Space::kSharedCta, Space::kLocal, Space::kParam, Space::kConst};
  for (const Space space : spaces) {
    const uint64_t generic = to_generic(space, 0x01000420);
    uint64_t back = 0;
    EXPECT_TRUE(from_generic(space, generic, &back).ok());
    EXPECT_EQ(back, 0x01000420u);
  }
  uint64_t back = 0;
  EXPECT_EQ(from_generic(Space::kLocal, to_generic(Space::kParam, 4), &back).kind,
            FaultKind::kWrongSpace);
  EXPECT_EQ(to_generic(Space::kGlobal, 0x7f0000001000), 0x7f0000001000u);
}

TEST(Memory, IsSpaceTellsTheOwnCtaFromTheCluster) {
  Machine m;
  const uint64_t own = to_generic(Space::kSharedCta, map_shared(kSharedReserved, 1));
  const uint64_t peer = to_generic(Space::kSharedCta, map_shared(kSharedReserved, 0));
  EXPECT_TRUE(is_space(m.view, Space::kSharedCta, own));
  EXPECT_FALSE(is_space(m.view, Space::kSharedCta, peer));
  EXPECT_TRUE(is_space(m.view, Space::kSharedCluster, peer));
  EXPECT_FALSE(is_space(m.view, Space::kGlobal, peer));
}

TEST(Memory, AWindowAddressIsNoGlobalAddress) {
  Machine m;
  uint32_t value = 0;
  const uint64_t shared = to_generic(Space::kSharedCta, map_shared(kSharedReserved, 1));
  EXPECT_EQ(read_bytes(m.view, Space::kGlobal, shared, 4, 4, &value).kind, FaultKind::kWrongSpace);
}

TEST(Memory, ParametersAndConstantsAreReadOnly) {
  Machine m;
  uint32_t value = 0;
  EXPECT_TRUE(read_bytes(m.view, Space::kParam, 28, 4, 4, &value).ok());
  EXPECT_EQ(read_bytes(m.view, Space::kParam, 32, 4, 4, &value).kind, FaultKind::kOutOfBounds);
  EXPECT_EQ(write_bytes(m.view, Space::kParam, 0, 4, 4, &value).kind, FaultKind::kReadOnly);
  EXPECT_EQ(write_bytes(m.view, Space::kGeneric, kConstWindow, 4, 4, &value).kind,
            FaultKind::kReadOnly);
}

TEST(Memory, LaneAccessesMoveVectorsAndNameTheLane) {
  Machine m;
  uint64_t a = 0;
  ASSERT_TRUE(m.global.allocate(32 * 16, "a", &a).ok());
  const MemoryView* views[32];
  uint64_t addresses[32];
  uint32_t out[4][32], in[4][32] = {};
  for (uint32_t t = 0; t < 32; ++t) {
    views[t] = &m.view;
    addresses[t] = a + 16 * t;
    for (uint32_t r = 0; r < 4; ++r) out[r][t] = 100 * r + t;
  }
  ASSERT_TRUE(write_lanes(views, Space::kGlobal, addresses, 0xffffffffu, 16, out).ok());
  ASSERT_TRUE(read_lanes(views, Space::kGlobal, addresses, 0xffffffffu, 16, in).ok());
  EXPECT_EQ(std::memcmp(in, out, sizeof(in)), 0);
  addresses[5] += 4;
  const Fault fault = read_lanes(views, Space::kGlobal, addresses, 0x60u, 16, in);
  EXPECT_EQ(fault.kind, FaultKind::kMisaligned);
  EXPECT_EQ(fault.lane, 5);
}

TEST(ByteFlags, FillAndFirstClearAgreeWithABytewiseModel) {
  std::vector<uint64_t> words(5, 0);
  ByteFlags flags(words.data());
  std::vector<bool> model(320, false);
  uint32_t state = 1;
  for (int step = 0; step < 2000; ++step) {
    state = state * 1664525u + 1013904223u;
    const uint32_t first = (state >> 8) % 300, count = (state >> 20) % (320 - first);
    const bool value = (state >> 30 & 1u) != 0;
    flags.fill(first, count, value);
    for (uint32_t i = first; i < first + count; ++i) model[i] = value;
    const uint32_t from = (state >> 4) % 200;
    uint32_t expected = 0;
    while (expected < 100 && model[from + expected]) ++expected;
    ASSERT_EQ(flags.first_clear(from, 100), expected);
  }
}

}  // namespace
}  // namespace flamia::emulator::test
