// Divergence, convergence, calls and progress of the virtual GPU.
#include <gtest/gtest.h>

#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

TEST(ExecutionControl, NestedLoopsWithBreakAndContinueEqualTheHost) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, %tid.x;
  mov.u32 %r0, 0;
  mov.u32 %r2, 0;
outer:
  setp.gt.u32 %p1, %r2, %r1;
  @%p1 bra done;
  mov.u32 %r3, 0;
inner:
  add.u32 %r3, %r3, 1;
  and.b32 %r4, %r3, 3;
  setp.eq.u32 %p2, %r4, 2;
  @%p2 bra inner;
  add.u32 %r0, %r0, %r3;
  mul.lo.u32 %r5, %r3, 3;
  setp.gt.u32 %p3, %r5, %r1;
  @%p3 bra next;
  setp.lt.u32 %p4, %r3, 20;
  @%p4 bra inner;
next:
  add.u32 %r2, %r2, 1;
  bra outer;
done:
)");
  for (uint32_t t = 0; t < 32; ++t) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i <= t; ++i) {
      for (uint32_t j = 0;;) {
        ++j;
        if ((j & 3) == 2) continue;
        sum += j;
        if (3 * j > t || j >= 20) break;
      }
    }
    EXPECT_EQ(out[t], sum) << t;
  }
}

TEST(ExecutionControl, LanesOfOneWarpHandOverALock) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, lock;
  mov.u32 %r3, %tid.x;
  setp.ne.u32 %p3, %r3, 0;
  @%p3 bra ready;
  st.shared.u32 [%r1], 0;
  st.shared.u32 [%r1+4], 0;
ready:
  bar.sync 0;
again:
  atom.shared.cas.b32 %r2, [%r1], 0, 1;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra again;
  ld.volatile.shared.u32 %r4, [%r1+4];
  add.u32 %r4, %r4, 1;
  st.volatile.shared.u32 [%r1+4], %r4;
  atom.shared.exch.b32 %r2, [%r1], 0;
  bar.sync 0;
  ld.volatile.shared.u32 %r0, [%r1+4];
)",
                              64, 1, ".shared .align 8 .b8 lock[8];");
  for (const uint32_t value : out) EXPECT_EQ(value, 64u);
}

TEST(ExecutionControl, BranchTableSendsEachLaneToItsTarget) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, %laneid;
  and.b32 %r1, %r1, 3;
  table: .branchtargets a, b, c, e;
  brx.idx %r1, table;
a: mov.u32 %r0, 10; bra done;
b: mov.u32 %r0, 11; bra done;
c: mov.u32 %r0, 12; bra done;
e: mov.u32 %r0, 13;
done:
)");
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], 10 + t % 4);
}

constexpr char kFactorial[] = R"(
.func (.param .b32 result) factorial(.param .b32 n)
{
  .reg .pred %p<2>; .reg .b32 %r<6>;
  .local .align 4 .b8 mine[8];
  ld.param.u32 %r1, [n];
  st.local.u32 [mine], %r1;
  setp.le.u32 %p1, %r1, 1;
  mov.u32 %r2, 1;
  @%p1 bra done;
  sub.u32 %r3, %r1, 1;
  {
    .param .b32 argument;
    .param .b32 back;
    st.param.b32 [argument], %r3;
    call.uni (back), factorial, (argument);
    ld.param.b32 %r2, [back];
  }
  ld.local.u32 %r4, [mine];
  mul.lo.u32 %r2, %r2, %r4;
done:
  st.param.b32 [result], %r2;
  ret;
}
)";

TEST(ExecutionControl, RecursionOfDifferentDepthsReturnsToEachCaller) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, %laneid;
  rem.u32 %r1, %r1, 11;
  {
    .param .b32 argument;
    .param .b32 back;
    st.param.b32 [argument], %r1;
    call (back), factorial, (argument);
    ld.param.b32 %r0, [back];
  }
)",
                              32, 1, kFactorial);
  for (uint32_t t = 0; t < 32; ++t) {
    uint32_t value = 1;
    for (uint32_t i = 2; i <= t % 11; ++i) value *= i;
    EXPECT_EQ(out[t], value) << t;
  }
}

TEST(ExecutionControl, IndirectCallsOfDifferentTargetsAreMade) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, %laneid;
  and.b32 %r2, %r1, 1;
  setp.eq.u32 %p1, %r2, 0;
  mov.u64 %d1, twice;
  mov.u64 %d2, square;
  selp.b64 %d3, %d1, %d2, %p1;
  proto: .callprototype (.param .b32 _) _ (.param .b32 _);
  {
    .param .b32 argument;
    .param .b32 back;
    st.param.b32 [argument], %r1;
    call (back), %d3, (argument), proto;
    ld.param.b32 %r0, [back];
  }
)",
                              32, 1, R"(
.func (.param .b32 result) twice(.param .b32 n)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [n]; add.u32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
.func (.param .b32 result) square(.param .b32 n)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [n]; mul.lo.u32 %r2, %r1, %r1; st.param.b32 [result], %r2; ret; }
)");
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t % 2 == 0 ? 2 * t : t * t);
}

TEST(ExecutionControl, CtasSpinOnEachOther) {
  MachineOptions options;
  options.sms = 4;
  Machine machine(options);
  machine.load(R"(
.visible .entry k(.param .u64 flags)
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [flags];
  mov.u32 %r1, %ctaid.x;
again:
  ld.acquire.gpu.global.u32 %r2, [%d1];
  setp.ne.u32 %p1, %r2, %r1;
  @%p1 bra again;
  add.u32 %r3, %r1, 1;
  st.release.gpu.global.u32 [%d1], %r3;
  ret;
}
)");
  const uint64_t flags = machine.upload(std::vector<uint32_t>{0});
  const Status status = machine.launch("k", {12, 1, 1}, {1, 1, 1}, flags);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(machine.download<uint32_t>(flags, 1)[0], 12u);
}

TEST(ExecutionControl, AlignedBarrierInDivergentCodeIsReported) {
  Machine machine;
  machine.load(kernel(R"(
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra first;
  bar.sync 1;
  bra done;
first:
  bar.sync 0;
done:
  mov.u32 %r0, 0;
)"));
  const uint64_t out = machine.allocate(128);
  const Status status = machine.launch("k", {1, 1, 1}, {32, 1, 1}, out);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_NE(status.message().find("divergence"), std::string::npos) << status.message();
}

TEST(ExecutionControl, WatchdogStopsAnEndlessLoop) {
  MachineOptions options;
  options.watchdog_steps = 10000;
  Machine machine(options);
  machine.load(kernel("again: bra again; mov.u32 %r0, 0;"));
  const uint64_t out = machine.allocate(128);
  const Status status = machine.launch("k", {1, 1, 1}, {32, 1, 1}, out);
  EXPECT_EQ(machine.report.traps.at(0).kind, "watchdog") << status.message();
}

TEST(ExecutionControl, DeadlockNamesWhatEveryWarpWaitsFor) {
  Machine machine;
  machine.load(kernel(R"(
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 32;
  @%p1 bra first;
  bar.sync 1, 64;
first:
  bar.sync 2, 64;
  mov.u32 %r0, 0;
)"));
  const uint64_t out = machine.allocate(256);
  const Status status = machine.launch("k", {1, 1, 1}, {64, 1, 1}, out);
  ASSERT_EQ(machine.report.traps.size(), 1u) << status.message();
  EXPECT_EQ(machine.report.traps[0].kind, "deadlock");
  const std::string& text = machine.report.traps[0].text;
  EXPECT_NE(text.find("warp 0 lanes 0xffffffff waits at barrier 2: 32 of 64"), std::string::npos)
      << text;
  EXPECT_NE(text.find("warp 1 lanes 0xffffffff waits at barrier 1: 32 of 64"), std::string::npos)
      << text;
}

TEST(ExecutionControl, TrapNamesKernelWarpLaneAndLine) {
  Machine machine;
  machine.load(kernel(R"(
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 37;
  @%p1 trap;
  mov.u32 %r0, 0;
)"));
  const uint64_t out = machine.allocate(256);
  const Status status = machine.launch("k", {1, 1, 1}, {64, 1, 1}, out);
  EXPECT_EQ(status.message(),
            "trap: kernel k, CTA (0,0,0), warp 1, lane 5, line 12: @%p1 trap;: trap instruction");
}

TEST(ExecutionControl, UnknownFormTrapsOnlyWhereItIsExecuted) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r0, 7;
  setp.eq.u32 %p1, %r0, 8;
  @%p1 vadd.s32.s32.s32 %r1, %r0, %r0;
)");
  EXPECT_EQ(out[0], 7u);
  Machine second;
  second.load(kernel("mov.u32 %r0, 7; vadd.s32.s32.s32 %r1, %r0, %r0;"));
  const Status status = second.launch("k", {1, 1, 1}, {32, 1, 1}, second.allocate(128));
  EXPECT_NE(status.message().find("vadd is not handled"), std::string::npos) << status.message();
}

TEST(ExecutionControl, SeedsGiveTheSameRunTwice) {
  const auto run = [](uint64_t seed) {
    MachineOptions options;
    options.seed = seed;
    Machine machine(options);
    machine.load(R"(
.visible .entry k(.param .u64 order)
{
  .reg .b32 %r<6>; .reg .b64 %d<4>; .reg .pred %p<2>;
  ld.param.u64 %d1, [order];
  mov.u32 %r1, %tid.x;
  and.b32 %r4, %r1, 31;
  setp.ne.u32 %p1, %r4, 0;
  @%p1 ret;
  atom.global.add.u32 %r2, [%d1], 1;
  mul.wide.u32 %d2, %r2, 4;
  add.u64 %d2, %d2, %d1;
  st.global.u32 [%d2+4], %r1;
  ret;
}
)");
    const uint64_t order = machine.upload(std::vector<uint32_t>(40, 0));
    EXPECT_TRUE(machine.launch("k", {1, 1, 1}, {1024, 1, 1}, order).ok());
    return machine.download<uint32_t>(order, 33);
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

}  // namespace
}  // namespace flamia::emulator
