// What wgmma.wait_group waits for: the reads of all four warps, whoever of them came last.
#include <gtest/gtest.h>

#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

/// Four products in one group, another in a second; then one thread writes the tile of the first.
std::string products(const std::string& waits) {
  std::string text = R"(
.visible .entry k()
{
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %d<8>;
  .shared .align 128 .b8 tile[4096];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 5;
  mov.u32 %r3, tile;
  add.u32 %r2, %r2, %r3;
  mov.u32 %r4, 0;
  st.shared.v4.u32 [%r2], {%r4, %r4, %r4, %r4};
  st.shared.v4.u32 [%r2+16], {%r4, %r4, %r4, %r4};
  fence.proxy.async.shared::cta;
  bar.sync 0;
  shr.u32 %r5, %r3, 4;
  cvt.u64.u32 %d1, %r5;
  or.b64 %d1, %d1, 68720001024;
  setp.ne.u32 %p1, %r1, 999;
  wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %d1, %d1, %p1, 1, 1;
  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %d1, %d1, %p1, 1, 1;
  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %d1, %d1, %p1, 1, 1;
  wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %d1, %d1, %p1, 1, 1;
  wgmma.commit_group.sync.aligned;
WAITS
  setp.eq.u32 %p2, %r1, 0;
  @%p2 st.shared.u32 [%r3], %r4;
  wgmma.wait_group.sync.aligned 0;
  ret;
})";
  return text.replace(text.find("WAITS"), 5, waits);
}

std::string outcome(const std::string& waits, Adversary adversary, uint64_t seed) {
  MachineOptions options;
  options.adversary = adversary;
  options.seed = seed;
  options.check_uninitialized = false;  // the accumulators
  Machine machine(options);
  machine.load(products(waits));
  const Status status = machine.launch("k", {1, 1, 1}, {128, 1, 1});
  return status.ok() ? "" : machine.report.traps.at(0).kind;
}

TEST(ExecutionMatrixWait, OneWarpsWaitCoversTheReadsOfAllWarps) {
  // Seeds enough for a turn to end between two of the four products.
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (const Adversary adversary : {Adversary::kEarly, Adversary::kLate, Adversary::kRandom}) {
      EXPECT_EQ(outcome("wgmma.wait_group.sync.aligned 0;", adversary, seed), "") << seed;
    }
  }
}

TEST(ExecutionMatrixWait, GroupsLeftInFlightAreNotCovered) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(outcome("wgmma.wait_group.sync.aligned 1;", Adversary::kEarly, seed), "hazard");
    EXPECT_EQ(outcome("wgmma.wait_group.sync.aligned 1;", Adversary::kLate, seed), "hazard");
  }
}

}  // namespace
}  // namespace flamia::emulator
