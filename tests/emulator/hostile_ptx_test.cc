// PTX that no compiler writes: the virtual GPU stops it in words and leaves the host's memory
// whole. What memory it would have touched, only the address sanitizer sees; the words hold
// everywhere.
#include <gtest/gtest.h>

#include <string>

#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

/// Message of a launch of one kernel with the given body, which gets a buffer of 4096 bytes.
std::string outcome(const std::string& body, const MachineOptions& options = {},
                    uint32_t threads = 32, const std::string& before = {}) {
  Machine machine(options);
  machine.load(before + kernel(body));
  const uint64_t out = machine.upload(std::vector<uint32_t>(1024, 0));
  return std::string(machine.launch("k", {1, 1, 1}, {threads, 1, 1}, out).message());
}

void expect_words(const std::string& message, const std::string& words) {
  EXPECT_NE(message.find(words), std::string::npos) << message;
}

MachineOptions unchecked(Adversary adversary) {
  MachineOptions options;
  options.adversary = adversary;
  options.check_hazards = options.check_uninitialized = false;
  return options;
}

MachineOptions blackwell() {
  MachineOptions options;
  options.chip = Chip::kB200;
  return options;
}

TEST(HostilePtx, RefusedModuleGivesItsMemoryBack) {
  Emulator emulator{MachineOptions{}};
  std::unique_ptr<LoadedModule> module;
  const Status status = emulator.load(
      ".version 9.0\n.target sm_90a\n.address_size 64\n"
      ".global .b8 first[4096]; .global .b8 second[64]; .const .b8 large[70000];\n",
      &module);
  expect_words(std::string(status.message()), "constant variables must fit");
  EXPECT_EQ(module, nullptr);
  EXPECT_EQ(emulator.memory().used_bytes(), 0u);
}

TEST(HostilePtx, EqualStoresAtTheEdgesOfRegisteredMemoryAreComparedWithinIt) {
  // Words of four bytes are compared; the first and the last one reach beyond the buffer.
  for (const uint64_t first : {1u, 2u, 3u}) {
    for (const char* value : {"%r5", "%r6"}) {
      auto host = std::make_unique<uint8_t[]>(first + 4);
      Machine machine;
      uint8_t* const begin = host.get() + first;
      ASSERT_TRUE(machine.emulator().memory().register_host(begin, 4, "host").ok());
      machine.load(std::string(R"(
.visible .entry k(.param .u64 p)
{
  .reg .b32 %r<8>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [p];
  mov.u32 %r1, %tid.x;
  mov.u32 %r5, 5;
  shr.u32 %r6, %r1, 5;
  st.global.u8 [%d1], )") +
                   value + ";\n  st.global.u8 [%d1+3], " + value + ";\n  ret;\n}\n");
      const Status status =
          machine.launch("k", {1, 1, 1}, {64, 1, 1}, reinterpret_cast<uint64_t>(begin));
      const bool equal = std::string(value) == "%r5";
      EXPECT_EQ(status.ok(), equal) << status.message();
      if (!equal) expect_words(std::string(status.message()), "no barrier between them");
    }
  }
}

TEST(HostilePtx, ParameterAccessBeforeItsFrameIsRefused) {
  const std::string message = outcome("  mov.u64 %d0, 1;\n  call f, (%d0);\n", {}, 32, R"(
.func f(.param .u64 p) { .reg .b64 %d<4>; ld.param.u64 %d1, [p+-8]; ret; }
)");
  expect_words(message, "parameter access of 8 bytes at offset -8 must lie within 8 bytes");
}

TEST(HostilePtx, CallVariablesMustHoldWhatTheCalleeTakesAndGives) {
  const std::string functions = R"(
.func takes(.param .b8 p[256]) { ret; }
.func (.param .b8 r[256]) gives() { ret; }
)";
  expect_words(outcome("  { .param .b8 small[8];\n  call takes, (small); }\n", {}, 32, functions),
               "call of takes: the arguments must match its parameters");
  expect_words(outcome("  { .param .b8 small[8];\n  call (small), gives; }\n", {}, 32, functions),
               "call of gives: the arguments must match its parameters");
}

TEST(HostilePtx, PrintedCountNeedsRoomInItsVariable) {
  EXPECT_EQ(outcome(R"(
  { .param .b8 r; .param .b64 a; .param .b64 b;
  mov.u64 %d0, text;
  cvta.global.u64 %d0, %d0;
  st.param.b64 [a], %d0;
  st.param.b64 [b], %d0;
  call (r), vprintf, (a, b); }
  mov.u32 %r0, 0;
)",
                    {}, 32, R"(
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .b8 text[4] = {104, 105, 10, 0};
)"),
            "");
}

TEST(HostilePtx, WidthsOfPrintedNumbersAreBounded) {
  Machine machine;
  machine.load(R"(
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .align 8 .b8 text[24] = "%999999999d|%.999999999f";
.global .align 8 .b64 numbers[2];
.visible .entry k()
{
  .reg .b64 %d<4>;
  .param .b32 r; .param .b64 a; .param .b64 b;
  mov.u64 %d0, text;
  st.param.b64 [a], %d0;
  mov.u64 %d0, numbers;
  st.param.b64 [b], %d0;
  call (r), vprintf, (a, b);
  ret;
}
)");
  EXPECT_FALSE(machine.launch("k", {1, 1, 1}, {1, 1, 1}).message().empty());  // no zero at its end
  EXPECT_LT(machine.report.printed.size(), 4096u);
}

TEST(HostilePtx, EndlessRecursionIsAStackOverflow) {
  const std::string message = outcome("  call f;\n", {}, 32, R"(
.func f;
.func f() { .reg .b64 %d<64>; add.u64 %d1, %d2, %d3; add.u64 %d4, %d5, %d6; call f; ret; }
)");
  expect_words(message, "stack overflow: kernel k");
}

TEST(HostilePtx, CallVariablesLargerThanAnyStackAreRefused) {
  expect_words(outcome("  { .param .b8 huge[2000000000]; }\n"), "stack overflow");
}

TEST(HostilePtx, ParametersThatAddUpBeyondTheAddressRangeAreRefused) {
  std::string text = ".version 9.0\n.target sm_90a\n.address_size 64\n.func f(";
  for (int i = 0; i < 4097; ++i) {
    text += (i == 0 ? ".param .b8 p" : ", .param .b8 p") + std::to_string(i) + "[1048576]";
  }
  Emulator emulator((MachineOptions()));
  std::unique_ptr<LoadedModule> module;
  const Status status = emulator.load(text + ") { ret; }\n", &module);
  expect_words(std::string(status.message()), "parameters must have at most 2^20 bytes; got f");
}

TEST(HostilePtx, VariablesLargerThanTheMachineCanHoldAreRefused) {
  Emulator emulator((MachineOptions()));
  std::unique_ptr<LoadedModule> module;
  const std::string head = ".version 9.0\n.target sm_90a\n.address_size 64\n";
  Status status = emulator.load(head + ".global .b8 huge[100000000000];\n", &module);
  EXPECT_EQ(status.message(), "load: global variables must fit 4294967296 bytes; got 100000000000");
  status = emulator.load(head + ".const .b8 huge[100000000000];\n", &module);
  EXPECT_EQ(status.message(), "load: constant variables must fit 65536 bytes; got 100000000000");
}

TEST(HostilePtx, BlocksWhoseSizeWrapsAreRefused) {
  Machine machine;
  machine.load(kernel("  mov.u32 %r0, 0;\n"));
  // The product is 2^64 + 4.
  const Status status = machine.launch("k", {1, 1, 1}, {4294836226u, 2147549185u, 2}, uint64_t{0});
  EXPECT_EQ(status.message(),
            "launch: block must have 1 to 1024 threads; got 4294836226x2147549185x2");
}

TEST(HostilePtx, OnlyRegistersOf128BitsAre128BitOperands) {
  expect_words(outcome("  mov.u64 %d0, 0;\n  st.global.b128 [%d0], %laneid;\n"),
               "a 128-bit operand must be a .b128 register");
  expect_words(outcome("  mov.u64 %d0, 0;\n  st.global.b128 [%d0], %d1;\n"),
               "a 128-bit operand must be a .b128 register");
}

TEST(HostilePtx, VectorsOfMovHaveNoEmptyElements) {
  std::string vector = "{%d0, %d1";
  for (int i = 0; i < 127; ++i) vector += ", _";
  expect_words(outcome("  mov.b128 " + vector + "}, %q1;\n"), "an element has a wrong width");
}

TEST(HostilePtx, FloatTypesOfIntegerInstructionsAreRefused) {
  expect_words(outcome("  rem.f32 %f0, %f1, %f2;\n"), "the type is not handled");
}

TEST(HostilePtx, AtomicsOfOddTypesAndLengthsAreRefused) {
  expect_words(outcome("  mov.u64 %d0, 0;\n  red.global.add.u8 [%d0], 1;\n"),
               "the type is not handled");
  expect_words(outcome("  mov.u64 %d0, 0;\n"
                       "  atom.global.add.v4.f32 {%f0, %f1}, [%d0], {%f0, %f1, %f2, %f3};\n"),
               "the vectors must have one length");
}

TEST(HostilePtx, AsynchronousStoresOfOddTypesAreRefused) {
  for (const char* type : {"b8", "b16", "b128"}) {
    const std::string value = std::string(type) == "b128" ? "%q1" : "%h1";
    expect_words(outcome("  mov.u32 %r1, 1024;\n"
                         "  st.async.shared::cluster.mbarrier::complete_tx::bytes." +
                         std::string(type) + " [%r1], " + value + ", [%r1];\n"),
                 "the type must have 32 or 64 bits");
  }
}

TEST(HostilePtx, MatrixProductsNeedAllTheirRegisters) {
  expect_words(outcome("  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0}, "
                       "{%r0,%r1,%r2,%r3}, {%r4,%r5}, {%f0,%f1,%f2,%f3};\n"),
               "the number of registers does not fit the shape");
  expect_words(outcome("  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, "
                       "{%r0,%r1,%r2,%r3}, {%r4}, {%f0,%f1,%f2,%f3};\n"),
               "the number of registers does not fit the shape");
}

TEST(HostilePtx, GenericStoresOfAnyLaneIntoConstantsAreStopped) {
  const std::string message = outcome(R"(
  ld.param.u64 %d0, [out];
  mov.u64 %d1, table;
  cvta.const.u64 %d1, %d1;
  mov.u32 %r1, %laneid;
  setp.eq.u32 %p1, %r1, 7;
  selp.b64 %d0, %d1, %d0, %p1;
  st.u32 [%d0], 1;
)",
                                      {}, 32, ".const .align 8 .b64 table[4];\n");
  expect_words(message, "read only");
  expect_words(message, "lane 7");
}

TEST(HostilePtx, LaunchControlAnswersIntoSharedMemoryOnly) {
  const std::string message = outcome(R"(
  ld.param.u64 %d0, [out];
  mov.u32 %r1, bar;
  cvt.u64.u32 %d1, %r1;
  cvta.shared.u64 %d1, %d1;
  mbarrier.init.b64 [%d1], 1;
  clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.b128 [%d0], [%d1];
)",
                                      blackwell(), 1, ".shared .align 8 .b64 bar;\n");
  expect_words(message, "try_cancel must answer into shared memory");
}

TEST(HostilePtx, ScaleOfTheAccumulatorIsWithinItsField) {
  expect_words(outcome("  setp.eq.u32 %p1, 0, 0;\n"
                       "  tcgen05.mma.cta_group::1.kind::f16 [%r1], %d1, %d2, %r2, %p1, "
                       "-2147483648;\n",
                       blackwell()),
               "scale-input-d must be 0 to 15");
}

TEST(HostilePtx, ProductsInFlightMayOutliveTheirFunctionAndWarp) {
  const std::string product = R"(
.shared .align 1024 .b8 data[8192];
.func f()
{
  .reg .f32 %f<8>; .reg .b64 %d<8>; .reg .b32 %r<4>; .reg .pred %p<2>;
  mov.u32 %r1, data;
  cvt.u64.u32 %d5, %r1;
  shr.u64 %d5, %d5, 4;
  or.b64 %d5, %d5, 0x1000080000;
  setp.eq.u32 %p1, %r1, 0;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1,%f2,%f3,%f4}, %d5, %d5, %p1, 1, 1;
  wgmma.commit_group.sync.aligned;
  ret;
}
)";
  EXPECT_EQ(outcome("  call f;\n  mov.u32 %r0, 0;\n", unchecked(Adversary::kLate), 128, product),
            "");
  EXPECT_EQ(outcome("  call f;\n  wgmma.wait_group.sync.aligned 0;\n  mov.u32 %r0, 0;\n",
                    unchecked(Adversary::kLate), 128, product),
            "");
}

TEST(HostilePtx, CopiesOfAWarpThatHasLeftStillArrive) {
  MachineOptions options;
  options.adversary = Adversary::kLate;
  const std::string message = outcome(R"(
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, bar;
  mov.u32 %r3, room;
  ld.param.u64 %d0, [out];
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra initialized;
  mbarrier.init.shared.b64 [%r2], 32;
initialized:
  bar.sync 0;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra waits;
  shl.b32 %r4, %r1, 2;
  add.u32 %r3, %r3, %r4;
  cvt.u64.u32 %d1, %r4;
  add.u64 %d0, %d0, %d1;
  cp.async.ca.shared.global [%r3], [%d0], 4;
  cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];
  exit;
waits:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
  @!%p2 bra waits;
  ld.shared.u32 %r0, [%r3];
)",
                                      options, 64,
                                      ".shared .align 8 .b64 bar;\n"
                                      ".shared .align 16 .b8 room[128];\n");
  EXPECT_EQ(message, "");
}

TEST(HostilePtx, BulkStoresOfSourcesThatDoNotExistAreStopped) {
  MachineOptions options;
  options.adversary = Adversary::kLate;
  const std::string message = outcome(R"(
  ld.param.u64 %d0, [out];
  mov.u32 %r1, room;
  mov.u32 %r2, 0xfffffff0;
  cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1], %r2;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
)",
                                      options, 1, ".shared .align 128 .b8 room[128];\n");
  expect_words(message, "bulk copy: shared offset");
}

}  // namespace
}  // namespace flamia::emulator
