// Exchange and synchronization: shuffles, votes, named barriers, mbarriers, clusters.
#include <gtest/gtest.h>

#include <bit>

#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

TEST(ExecutionSync, ShufflesFollowTheirFourModes) {
  const struct {
    const char* mode;
    const char* operands;
    uint32_t (*expected)(uint32_t lane);
  } cases[] = {
      {"bfly", "5, 0x1f", [](uint32_t t) { return t ^ 5; }},
      {"up", "3, 0", [](uint32_t t) { return t < 3 ? t : t - 3; }},
      {"down", "3, 0x1f", [](uint32_t t) { return t + 3 > 31 ? t : t + 3; }},
      {"idx", "2, 0x181f", [](uint32_t t) { return (t & 24u) | 2u; }},
      {"down", "4, 0x181f", [](uint32_t t) { return t % 8 + 4 > 7 ? t : t + 4; }},
      {"up", "4, 0x1800", [](uint32_t t) { return t % 8 < 4 ? t : t - 4; }},
  };
  for (const auto& c : cases) {
    Machine machine;
    const auto out = run_kernel(machine, std::string("mov.u32 %r1, %laneid; shfl.sync.") + c.mode +
                                             ".b32 %r0|%p1, %r1, " + c.operands + ", -1;");
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], c.expected(t)) << c.mode << " " << t;
  }
}

TEST(ExecutionSync, ShuffleWaitsForDivergedLanesOfItsMask) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, %laneid;
  mov.u32 %r2, %r1;
  setp.ge.u32 %p1, %r1, 7;
  @%p1 bra meet;
again:
  add.u32 %r2, %r2, 100;
  setp.lt.u32 %p2, %r2, 2000;
  @%p2 bra again;
meet:
  shfl.sync.idx.b32 %r0, %r2, 0, 0x1f, -1;
)");
  for (const uint32_t value : out) EXPECT_EQ(value, 2000u);
}

TEST(ExecutionSync, VotesMatchesAndReductionsSeeTheWholeMask) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, %laneid;
  setp.lt.u32 %p1, %r1, 9;
  vote.sync.ballot.b32 %r2, %p1, -1;
  popc.b32 %r0, %r2;
  vote.sync.any.pred %p2, %p1, -1;
  vote.sync.all.pred %p3, !%p1, -1;
  selp.u32 %r3, 100, 0, %p2;
  add.u32 %r0, %r0, %r3;
  selp.u32 %r3, 1000, 0, %p3;
  add.u32 %r0, %r0, %r3;
  and.b32 %r4, %r1, 3;
  match.any.sync.b32 %r5, %r4, -1;
  popc.b32 %r5, %r5;
  mul.lo.u32 %r5, %r5, 10000;
  add.u32 %r0, %r0, %r5;
  redux.sync.max.u32 %r6, %r1, -1;
  mul.lo.u32 %r6, %r6, 1000000;
  add.u32 %r0, %r0, %r6;
  elect.sync _|%p4, -1;
  @%p4 add.u32 %r0, %r0, 1;
)");
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], 31'080'109u + (t == 0 ? 1 : 0)) << t;
}

TEST(ExecutionSync, NamedBarriersCountThreadsAndReduce) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 64;
  @%p1 bra consumer;
  mov.u32 %r2, 77;
  st.shared.u32 [cell], %r2;
  bar.arrive 3, 96;
  mov.u32 %r0, 1;
  bra done;
consumer:
  bar.sync 3, 96;
  ld.shared.u32 %r0, [cell];
done:
  setp.eq.u32 %p2, %r1, 70;
  bar.red.popc.u32 %r4, 0, %p2;
  bar.red.or.pred %p3, 0, %p2;
  selp.u32 %r5, 100, 0, %p3;
  add.u32 %r0, %r0, %r4;
  add.u32 %r0, %r0, %r5;
)",
                              96, 1, ".shared .b32 cell;");
  for (uint32_t t = 0; t < 96; ++t) EXPECT_EQ(out[t], (t < 64 ? 77u : 1u) + 101u);
}

constexpr char kPingPong[] = R"(
  mov.u32 %r1, %tid.x;
  mov.u32 %r9, bars;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra made;
  mbarrier.init.shared::cta.b64 [%r9], 1;
  mbarrier.init.shared::cta.b64 [%r9+8], 32;
made:
  bar.sync 0;
  mov.u32 %r2, 0;
  mov.u32 %r0, 0;
  setp.ge.u32 %p2, %r1, 32;
loop:
  and.b32 %r3, %r2, 1;
  @%p2 bra consume;
  xor.b32 %r4, %r3, 1;
wait0:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9+8], %r4;
  @!%p3 bra wait0;
  elect.sync _|%p4, -1;
  mul.lo.u32 %r5, %r2, 3;
  @%p4 st.shared.u32 [cell], %r5;
  @%p4 mbarrier.arrive.shared::cta.b64 _, [%r9];
  bra next;
consume:
wait1:
  mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r3;
  @!%p3 bra wait1;
  ld.shared.u32 %r6, [cell];
  add.u32 %r0, %r0, %r6;
  mbarrier.arrive.shared::cta.b64 _, [%r9+8];
next:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p5, %r2, 10;
  @%p5 bra loop;
)";

TEST(ExecutionSync, MbarriersCarryAPingPongForEverySeed) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    MachineOptions options;
    options.seed = seed;
    Machine machine(options);
    const auto out =
        run_kernel(machine, kPingPong, 64, 1, ".shared .align 8 .b64 bars[2]; .shared .b32 cell;");
    for (uint32_t t = 32; t < 64; ++t) EXPECT_EQ(out[t], 135u);
  }
}

TEST(ExecutionSync, WaitingForAPhaseThatNeverComesIsADeadlock) {
  std::string text = kPingPong;
  text.replace(text.find("@%p4 mbarrier.arrive"), 20, "@%p1 mbarrier.arrive");
  Machine machine;
  machine.load(".shared .align 8 .b64 bars[2]; .shared .b32 cell;" + kernel(text));
  const uint64_t out = machine.allocate(256);
  const Status status = machine.launch("k", {1, 1, 1}, {64, 1, 1}, out);
  ASSERT_EQ(machine.report.traps.size(), 1u);
  // 31 lanes arrive on a barrier of one.
  EXPECT_EQ(machine.report.traps[0].kind, "barrier misuse") << status.message();
  text.replace(text.find("@%p1 mbarrier.arrive.shared::cta.b64 _, [%r9];"), 46, "");
  Machine second;
  second.load(".shared .align 8 .b64 bars[2]; .shared .b32 cell;" + kernel(text));
  const Status waits = second.launch("k", {1, 1, 1}, {64, 1, 1}, second.allocate(256));
  ASSERT_EQ(second.report.traps.size(), 1u) << waits.message();
  EXPECT_EQ(second.report.traps[0].kind, "deadlock");
  EXPECT_NE(waits.message().find("waits for mbarrier 0x400 (phase 0, 1 of 1 arrivals pending"),
            std::string::npos)
      << waits.message();
}

TEST(ExecutionSync, ClustersReadEachOthersSharedMemory) {
  Machine machine;
  machine.load(".shared .b32 cell;" + kernel(R"(
  mov.u32 %r1, %cluster_ctarank;
  mov.u32 %r2, %tid.x;
  setp.ne.u32 %p1, %r2, 0;
  add.u32 %r3, %r1, 40;
  @!%p1 st.shared.u32 [cell], %r3;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  add.u32 %r4, %r1, 1;
  and.b32 %r4, %r4, 3;
  mov.u32 %r5, cell;
  mapa.shared::cluster.u32 %r6, %r5, %r4;
  ld.shared::cluster.u32 %r0, [%r6];
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)"));
  machine.request.cluster = {4, 1, 1};
  const uint64_t out = machine.allocate(4 * 8 * 32);
  const Status status = machine.launch("k", {8, 1, 1}, {32, 1, 1}, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto values = machine.download<uint32_t>(out, 256);
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(values[i], 40 + (i / 32 % 4 + 1) % 4);
}

TEST(ExecutionSync, LateExitOfAPeerIsNeededForRemoteReads) {
  Machine machine;
  machine.load(".shared .b32 cell;" + kernel(R"(
  mov.u32 %r1, %cluster_ctarank;
  setp.eq.u32 %p1, %r1, 1;
  @%p1 ret;
  mov.u32 %r7, 0;
spin:
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p2, %r7, 2000;
  @%p2 bra spin;
  mov.u32 %r5, cell;
  mapa.shared::cluster.u32 %r6, %r5, 1;
  ld.shared::cluster.u32 %r0, [%r6];
)"));
  machine.request.cluster = {2, 1, 1};
  const Status status = machine.launch("k", {2, 1, 1}, {32, 1, 1}, machine.allocate(256));
  ASSERT_EQ(machine.report.traps.size(), 1u);
  EXPECT_EQ(machine.report.traps[0].kind, "use after free") << status.message();
}

TEST(ExecutionSync, SetmaxnregTakesFromThePoolThatOthersFilled) {
  MachineOptions options;
  Machine machine(options);
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 128;
  @%p1 bra few;
  setmaxnreg.inc.sync.aligned.u32 232;
  bra done;
few:
  setmaxnreg.dec.sync.aligned.u32 40;
done:
  mov.u32 %r0, 3;
)",
                              384);
  for (const uint32_t value : out) EXPECT_EQ(value, 3u);
}

}  // namespace
}  // namespace flamia::emulator
