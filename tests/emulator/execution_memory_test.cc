// Memory of the virtual GPU: spaces, vectors, atomics, asynchronous copies, and the faults.
#include <gtest/gtest.h>

#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

/// The trap of a kernel body that must not end well.
Trap trap_of(const std::string& body, const std::string& before = {}, uint32_t threads = 32,
             MachineOptions options = {}) {
  Machine machine(options);
  machine.load(before + kernel(body));
  const uint64_t out = machine.allocate(4 * threads);
  const Status status = machine.launch("k", {1, 1, 1}, {threads, 1, 1}, out);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  return machine.report.traps.empty() ? Trap{} : machine.report.traps[0];
}

TEST(ExecutionMemory, VectorsOfBytesAndWordsMoveThroughEverySpace) {
  Machine machine;
  const auto out =
      run_kernel(machine, R"(
  .local .align 16 .b8 mine[64];
  mov.u32 %r1, %laneid;
  mov.u32 %r2, 0x04030201;
  mov.b32 {%h1, %h2}, %r2;
  shr.u16 %h3, %h1, 8;
  shr.u16 %h4, %h2, 8;
  st.local.v4.u8 [mine+4], {%h1, %h3, %h2, %h4};
  ld.local.u32 %r3, [mine+4];
  mul.wide.u32 %d1, %r1, 16;
  mov.u64 %d2, tile;
  add.u64 %d2, %d2, %d1;
  st.shared.v4.b32 [%d2], {%r1, %r3, %r1, %r3};
  bar.warp.sync -1;
  cvta.shared.u64 %d3, %d2;
  ld.v2.b64 {%d4, %d5}, [%d3];
  cvt.u32.u64 %r4, %d5;
  ld.const.u32 %r5, [table+4];
  ld.global.s8 %r6, [bytes+1];
  sub.u32 %r0, %r3, 0x04030201;
  add.u32 %r0, %r0, %r4;
  add.u32 %r0, %r0, %r5;
  add.u32 %r0, %r0, %r6;
)",
                 32, 1,
                 ".shared .align 16 .b8 tile[512]; .const .align 4 .u32 table[2] = {5, 100};"
                 ".global .align 4 .s8 bytes[4] = {1, -3, 2, 9};");
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t + 100 - 3);
}

TEST(ExecutionMemory, AtomicsReturnTheOldValueInAnyOrder) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r9, %tid.x;
  setp.ne.u32 %p1, %r9, 0;
  @%p1 bra ready;
  st.shared.u64 [cell], 0;
  st.shared.f32 [cell+8], 0f00000000;
ready:
  bar.sync 0;
  atom.shared.add.u32 %r0, [cell], 1;
  red.shared.max.u32 [cell+4], %r9;
  red.shared.add.f32 [cell+8], 0f3F000000;
  bar.sync 0;
  ld.shared.u32 %r1, [cell+4];
  ld.shared.f32 %f1, [cell+8];
  cvt.rni.u32.f32 %r2, %f1;
  shl.b32 %r1, %r1, 8;
  shl.b32 %r2, %r2, 16;
  or.b32 %r0, %r0, %r1;
  or.b32 %r0, %r0, %r2;
)",
                              96, 1, ".shared .align 8 .b8 cell[16];");
  std::vector<bool> seen(96);
  for (const uint32_t value : out) {
    ASSERT_LT(value & 0xff, 96u);
    EXPECT_FALSE(seen[value & 0xff]);
    seen[value & 0xff] = true;
    EXPECT_EQ(value >> 8 & 0xff, 95u);
    EXPECT_EQ(value >> 16, 48u);
  }
}

TEST(ExecutionMemory, OutOfBoundsNamesTheBufferAndLane) {
  Machine machine;
  machine.load(
      kernel("ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 8;"
             "add.u64 %d1, %d1, %d2; ld.global.u32 %r0, [%d1];"));
  MachineOptions options;
  const uint64_t out = machine.upload(std::vector<uint32_t>(32, 1));
  const Status status = machine.launch("k", {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_EQ(machine.report.traps.size(), 1u);
  EXPECT_EQ(machine.report.traps[0].kind, "out of bounds");
  EXPECT_NE(status.message().find("lane 16"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("ld.global.u32 %r0, [%d1];"), std::string::npos);
  EXPECT_NE(status.message().find("buffer"), std::string::npos);
}

TEST(ExecutionMemory, FaultsHaveTheirKind) {
  EXPECT_EQ(trap_of("ld.param.u64 %d1, [out]; ld.global.u32 %r0, [%d1+2];").kind, "misaligned");
  EXPECT_EQ(trap_of("ld.param.u64 %d1, [out]; ld.global.u32 %r0, [%d1];").kind, "uninitialized");
  EXPECT_EQ(trap_of("ld.shared.u32 %r0, [tile];", ".shared .b32 tile[4];").kind, "uninitialized");
  EXPECT_EQ(trap_of("ld.shared.u32 %r0, [tile+16];", ".shared .b32 tile[4];").kind,
            "out of bounds");
  EXPECT_EQ(trap_of("mov.u64 %d1, 0; ld.u32 %r0, [%d1];").kind, "out of bounds");
  EXPECT_EQ(trap_of("mov.u64 %d1, table; cvta.const.u64 %d1, %d1; st.u32 [%d1], %r0;",
                    ".const .u32 table[2];")
                .kind,
            "read only");
  EXPECT_EQ(trap_of("mov.u64 %d1, tile; cvta.shared.u64 %d1, %d1; ld.global.u32 %r0, [%d1];",
                    ".shared .b32 tile[4];")
                .kind,
            "wrong space");
}

TEST(ExecutionMemory, UninitializedReadsPassWhereTheyAreNotChecked) {
  MachineOptions options;
  options.check_uninitialized = false;
  Machine machine(options);
  const auto out =
      run_kernel(machine, "ld.shared.u32 %r0, [tile];", 32, 1, ".shared .b32 tile[4];");
  EXPECT_EQ(out.size(), 32u);
}

constexpr char kExchange[] = R"(
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, tile;
  add.u32 %r3, %r3, %r2;
  st.shared.u32 [%r3], %r1;
  BARRIER
  xor.b32 %r4, %r2, 128;
  mov.u32 %r5, tile;
  add.u32 %r5, %r5, %r4;
  ld.shared.u32 %r0, [%r5];
)";

std::string exchange(const std::string& barrier) {
  std::string text = kExchange;
  return text.replace(text.find("BARRIER"), 7, barrier);
}

TEST(ExecutionMemory, MissingBarrierIsARaceAndItsTwinIsNot) {
  const std::string before = ".shared .b32 tile[64];";
  Machine machine;
  const auto out = run_kernel(machine, exchange("bar.sync 0;"), 64, 1, before);
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(out[t], t ^ 32);
  MachineOptions options;
  options.check_uninitialized = false;
  const Trap trap = trap_of(exchange(""), before, 64, options);
  EXPECT_EQ(trap.kind, "hazard");
  EXPECT_NE(trap.text.find("st.shared.u32"), std::string::npos) << trap.text;
  EXPECT_NE(trap.text.find("ld.shared.u32"), std::string::npos) << trap.text;
}

constexpr char kAsyncCopy[] = R"(
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  cvt.u64.u32 %d2, %r2;
  mov.u64 %d1, source;
  add.u64 %d1, %d1, %d2;
  mov.u32 %r3, tile;
  add.u32 %r3, %r3, %r2;
  cp.async.ca.shared.global [%r3], [%d1], 4;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r3+128], [%d1], 4, %r2;
  cp.async.commit_group;
  WAIT
  ld.shared.u32 %r0, [%r3];
)";

TEST(ExecutionMemory, AsyncCopiesLandBeforeTheirWaitOnly) {
  std::string text = kAsyncCopy;
  const std::string before =
      ".shared .align 16 .b32 tile[64]; .global .align 16 .b32 source[32] = "
      "{10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31};";
  const auto with = [&](const std::string& wait) {
    std::string body = text;
    body.replace(body.find("WAIT"), 4, wait);
    // src-size beyond 4 is not allowed: lanes above 1 use 4.
    body.replace(body.find("[%d1], 4, %r2"), 13, "[%d1], 4");
    return body;
  };
  for (const Adversary adversary : {Adversary::kEarly, Adversary::kLate, Adversary::kRandom}) {
    MachineOptions options;
    options.adversary = adversary;
    Machine machine(options);
    const auto out = run_kernel(machine, with("cp.async.wait_group 1;"), 32, 1, before);
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(out[t], t < 22 ? 10 + t : 0);
  }
  MachineOptions late;
  late.adversary = Adversary::kLate;
  EXPECT_EQ(trap_of(with("cp.async.wait_group 2;"), before, 32, late).kind, "uninitialized");
}

TEST(ExecutionMemory, StoreToALiveMbarrierIsReported) {
  const Trap trap = trap_of(R"(
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra done;
  mbarrier.init.shared::cta.b64 [bar], 1;
  st.shared.u32 [bar+4], 0;
done:
  mov.u32 %r0, 0;
)",
                            ".shared .align 8 .b64 bar;");
  EXPECT_EQ(trap.kind, "barrier misuse");
}

}  // namespace
}  // namespace flamia::emulator
