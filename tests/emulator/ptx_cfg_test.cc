// Where divergent lanes meet again, on small graphs whose answer is plain.
#include <gtest/gtest.h>

#include "base/message.h"
#include "emulator/ptx/cfg.h"
#include "emulator/ptx/parser.h"

namespace flamia::emulator::ptx {
namespace {

ControlFlow flow_of(std::string_view body) {
  Module module;
  const Status status =
      parse(concat(".version 9.0\n.target sm_90a\n.entry k() { .reg .pred %p<4>; .reg .b32 %r<4>;",
                   body, "}"),
            &module);
  EXPECT_TRUE(status.ok()) << status.message();
  return analyze(module.functions.at(0));
}

TEST(PtxCfg, BranchesMeetBehindTheirDiamond) {
  const ControlFlow flow = flow_of(
      "@%p1 bra then; mov.b32 %r1, 1; bra join; then: mov.b32 %r1, 2; join: mov.b32 %r2, 3; ret;");
  EXPECT_EQ(flow.blocks.size(), 4u);
  EXPECT_EQ(flow.reconvergence[0], 4u);
  EXPECT_EQ(flow.reconvergence[2], kNoIndex);
}

TEST(PtxCfg, LoopsMeetBehindTheirLastBranch) {
  const ControlFlow flow =
      flow_of("top: add.s32 %r1, %r1, 1; @%p1 bra out; @%p2 bra top; out: ret;");
  EXPECT_EQ(flow.reconvergence[1], 3u);
  EXPECT_EQ(flow.reconvergence[2], 3u);
}

TEST(PtxCfg, EarlyReturnsMeetAtTheExit) {
  const ControlFlow flow = flow_of("@%p1 bra early; mov.b32 %r1, 1; ret; early: ret;");
  EXPECT_EQ(flow.reconvergence[0], 4u);
}

TEST(PtxCfg, GuardedExitsDoNotEndTheOtherLanes) {
  const ControlFlow flow = flow_of("@%p1 exit; @%p2 bra a; mov.b32 %r1, 1; a: mov.b32 %r1, 2;");
  EXPECT_EQ(flow.reconvergence[0], kNoIndex);
  EXPECT_EQ(flow.reconvergence[1], 3u);
}

TEST(PtxCfg, BranchTablesMeetBehindAllCases) {
  const ControlFlow flow = flow_of(
      "t: .branchtargets a, b, c; brx.idx %r1, t; a: mov.b32 %r1, 1; bra d;"
      "b: mov.b32 %r1, 2; bra d; c: mov.b32 %r1, 3; d: ret;");
  EXPECT_EQ(flow.reconvergence[0], 6u);
}

TEST(PtxCfg, EndlessLoopsAreNoReasonToHang) {
  const ControlFlow flow = flow_of(
      "@%p1 bra spin; @%p2 bra other; ret; spin: @%p3 bra half; bra spin; half: bra spin;"
      "other: bra other;");
  EXPECT_EQ(flow.reconvergence[0], 7u);
  EXPECT_EQ(flow.reconvergence[3], 5u);
}

TEST(PtxCfg, UnreachableBlocksAreAnalyzedToo) {
  const ControlFlow flow = flow_of("ret; @%p1 bra a; mov.b32 %r1, 1; a: ret;");
  EXPECT_EQ(flow.reconvergence[1], 3u);
}

}  // namespace
}  // namespace flamia::emulator::ptx
