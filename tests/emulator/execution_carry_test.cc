// The carry flag between instructions of both kinds, as an H200 leaves it; grids that must be
// resident as a whole.
#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

struct Chain {
  const char* set;
  const char* use;
  int expected[5];  ///< for the operand pairs below
};

constexpr uint32_t kPairs[5][2] = {{5, 7}, {7, 5}, {5, 5}, {0xffffffffu, 2}, {0, 0}};

// Recorded. A difference sets the flag where nothing is borrowed, and takes one where it is clear.
constexpr Chain kChains[] = {
    {"add.cc.u32 %r3, %r1, %r2;", "addc.u32", {0, 0, 0, 1, 0}},
    {"add.cc.u32 %r3, %r1, %r2;", "subc.u32", {-1, -1, -1, 0, -1}},
    {"sub.cc.u32 %r3, %r1, %r2;", "addc.u32", {0, 1, 1, 1, 1}},
    {"sub.cc.u32 %r3, %r1, %r2;", "subc.u32", {-1, 0, 0, 0, 0}},
    {"sub.cc.u32 %r3, %r1, %r2; subc.cc.u32 %r3, 0, 0;", "addc.u32", {0, 1, 1, 1, 1}},
    {"add.cc.u32 %r3, %r1, %r2; addc.cc.u32 %r3, 0xffffffff, 0;", "subc.u32", {-1, -1, -1, 0, -1}},
    {"mad.lo.cc.u32 %r3, %r1, 1, %r2;", "subc.u32", {-1, -1, -1, 0, -1}},
    {"mad.lo.cc.u32 %r3, %r1, 1, %r2;", "addc.u32", {0, 0, 0, 1, 0}},
};

TEST(ExecutionCarry, OneFlagServesSumsAndDifferences) {
  for (const Chain& chain : kChains) {
    Machine machine;
    machine.load(
        std::string(".visible .entry chain(.param .u64 out, .param .u32 a, .param .u32 b) {\n"
                    ".reg .b32 %r<6>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [out];\n"
                    "ld.param.u32 %r1, [a];\nld.param.u32 %r2, [b];\n") +
        chain.set + "\n" + chain.use + " %r4, 0, 0;\nst.global.u32 [%rd1], %r4;\nret;\n}\n");
    for (size_t i = 0; i < std::size(kPairs); ++i) {
      const uint64_t out = machine.allocate(4);
      const Status status =
          machine.launch("chain", {1, 1, 1}, {1, 1, 1}, out, kPairs[i][0], kPairs[i][1]);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(machine.download<int>(out, 1)[0], chain.expected[i])
          << chain.set << " " << chain.use << " " << kPairs[i][0] << " " << kPairs[i][1];
    }
  }
}

// Every CTA waits for all others, which one CTA an SM could not do.
TEST(ExecutionCooperative, AllCtasAreResident) {
  MachineOptions options;
  options.sms = 2;
  options.watchdog_steps = 100000;
  Machine machine(options);
  machine.load(R"(
.visible .entry meet(.param .u64 count) {
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [count];
  atom.global.add.u32 %r1, [%rd1], 1;
  mov.u32 %r2, %nctaid.x;
again:
  ld.volatile.global.u32 %r3, [%rd1];
  setp.lt.u32 %p1, %r3, %r2;
  @%p1 bra again;
  ret;
}
)");
  machine.request.cooperative = true;
  const uint64_t count = machine.upload<uint32_t>({0});
  const Status status = machine.launch("meet", {9, 1, 1}, {1, 1, 1}, count);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(machine.download<uint32_t>(count, 1)[0], 9u);
}

}  // namespace
}  // namespace flamia::emulator
