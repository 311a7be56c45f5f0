// What PTX leaves open and a program must not rely on: who is elected, who starts first and where,
// which columns an allocation gets.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

#include "emulator/execution/state.h"
#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

MachineOptions options_of(Adversary adversary, uint64_t seed) {
  MachineOptions options;
  options.adversary = adversary;
  options.seed = seed;
  return options;
}

/// Bits of the lanes that two elections among lanes 8 to 15 pick, where both name the same one.
uint32_t elected(Adversary adversary, uint64_t seed, bool strict = true) {
  MachineOptions options = options_of(adversary, seed);
  options.rules = strict ? Rules::kStrict : Rules::kPublic;
  Machine machine(options);
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, %tid.x;
  mov.u32 %r0, 0;
  shr.u32 %r2, %r1, 3;
  setp.ne.u32 %p1, %r2, 1;
  @%p1 bra done;
  elect.sync %r3|%p2, 0xff00;
  elect.sync %r4|%p3, 0xff00;
  setp.ne.u32 %p4, %r3, %r4;
  @%p4 trap;
  setp.ne.u32 %p5, %r3, %r1;
  @%p2 add.u32 %r0, %r0, 1;
  @%p3 add.u32 %r0, %r0, 2;
  @%p5 bra done;
  add.u32 %r0, %r0, 4;
done:
)");
  uint32_t lanes = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    if (out[i] == 7) lanes |= 1u << i;
    EXPECT_TRUE(out[i] == 0 || out[i] == 7) << i;
  }
  return lanes;
}

TEST(ExecutionPlacement, OneLaneOfTheMaskIsElectedEachTime) {
  std::set<uint32_t> seen;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const uint32_t lane = elected(Adversary::kRandom, seed);
    EXPECT_EQ(std::popcount(lane), 1) << seed;
    EXPECT_EQ(lane & ~0xff00u, 0u) << seed;
    seen.insert(lane);
  }
  EXPECT_GE(seen.size(), 5u);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(elected(Adversary::kRandom, seed, false), 0x100u) << seed;
  }
  EXPECT_EQ(elected(Adversary::kLate, 3), 0x100u);
  EXPECT_EQ(elected(Adversary::kEarly, 3), 0x100u);
}

/// The order in which a grid of ten clusters of two starts on a machine of nine SMs.
std::vector<uint64_t> order_of(const MachineOptions& options) {
  execution::Grid grid;
  grid.options = &options;
  grid.random_state = options.seed;
  grid.cluster_dim = {2, 1, 1};
  grid.cluster_count = 10;
  grid.sm_busy.assign(9, false);
  std::vector<uint64_t> order;
  while (grid.next_cluster < grid.cluster_count) order.push_back(grid.take_cluster());
  return order;
}

TEST(ExecutionPlacement, ClustersOfOneWaveStartInAnyOrder) {
  std::set<std::vector<uint64_t>> orders;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const auto order = order_of(options_of(Adversary::kRandom, seed));
    orders.insert(order);
    ASSERT_EQ(order.size(), 10u);
    std::vector<uint64_t> sorted = order;
    // Four at a time, two in the last wave.
    for (int first : {0, 4, 8}) {
      std::sort(sorted.begin() + first, sorted.begin() + std::min(first + 4, 10));
    }
    for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(sorted[i], i) << seed;
  }
  EXPECT_GE(orders.size(), 20u);
  const auto plain = order_of(options_of(Adversary::kLate, 5));
  EXPECT_TRUE(std::is_sorted(plain.begin(), plain.end()));
}

/// SMs of the CTAs, in order.
std::vector<uint32_t> sms_of(Adversary adversary, uint64_t seed) {
  MachineOptions options = options_of(adversary, seed);
  options.sms = 6;
  Machine machine(options);
  const auto out = run_kernel(machine, "  mov.u32 %r0, %smid;\n", 32, 6);
  std::vector<uint32_t> sms;
  for (uint32_t c = 0; c < 6; ++c) sms.push_back(out[32 * c]);
  return sms;
}

TEST(ExecutionPlacement, CtasAreOnAnySmAndNotTwoOnOne) {
  std::set<std::vector<uint32_t>> places;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    auto sms = sms_of(Adversary::kRandom, seed);
    places.insert(sms);
    std::sort(sms.begin(), sms.end());
    EXPECT_EQ(sms, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5})) << seed;
  }
  EXPECT_GE(places.size(), 7u);
  EXPECT_EQ(sms_of(Adversary::kLate, 1), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5}));
}

TEST(ExecutionPlacement, TensorMemoryStartsAtAnyColumn) {
  std::set<uint32_t> columns;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    MachineOptions options = options_of(Adversary::kRandom, seed);
    options.chip = Chip::kB200;
    Machine machine(options);
    machine.load(".shared .b32 cell;" + kernel(R"(
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [cell], 128;
  bar.sync 0;
  ld.shared.u32 %r0, [cell];
  tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r0, 128;
)"),
                 "sm_100a");
    const uint64_t out = machine.allocate(128);
    const Status status = machine.launch("k", {1, 1, 1}, {32, 1, 1}, out);
    ASSERT_TRUE(status.ok()) << status.message();
    const uint32_t column = machine.download<uint32_t>(out, 1)[0];
    EXPECT_EQ(column % 32, 0u);
    EXPECT_LE(column, 512u - 128);
    columns.insert(column);
  }
  EXPECT_GE(columns.size(), 6u);
}

}  // namespace
}  // namespace flamia::emulator
