// Crimes against synchronization: mbarriers, named and cluster barriers, convergence, and kernels
// that do not end.
// Same cases for Hopper and Blackwell; launch control is Blackwell's.
#include "tests/emulator/crimes.h"

namespace flamia::emulator {
namespace {

const std::vector<Crime>& mbarriers() {
  static const std::vector<Crime> crimes = {
      {"barrier without init", "barrier misuse", {"mbarrier.arrive", "without mbarrier.init"}, R"(
  {{@%p1 mbarrier.init.shared::cta.b64 [%r11], 1;||}}
  bar.sync 0;
  @%p1 mbarrier.arrive.shared::cta.b64 _, [%r11];
)"},
      {"use that nothing orders after init", "hazard|barrier misuse", {"mbarrier."}, R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  {{bar.sync 0;||}}
  setp.eq.u32 %p4, %r1, 32;
  @%p4 mbarrier.arrive.shared::cta.b64 _, [%r11];
)"},
      {"use in a peer that nothing orders after init",
       "hazard|barrier misuse",
       {"mbarrier."},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  {{barrier.cluster.arrive.relaxed.aligned;
  barrier.cluster.wait.aligned;||}}
  xor.b32 %r20, %r3, 1;
  mapa.shared::cluster.u32 %r21, %r11, %r20;
  @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r21];
  bar.warp.sync -1;
  WAIT0
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)",
       32,
       2,
       2},
      {"init of a live barrier", "barrier misuse", {"initialized again"}, R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  {{@%p1 mbarrier.inval.shared::cta.b64 [%r11];||}}
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
)"},
      {"store over a barrier", "barrier misuse", {"st.shared", "must not touch the mbarrier"}, R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  bar.sync 0;
  @%p1 st.shared.u32 [%r11+{{8||4}}], 0;
)"},
      {"more arrivals than the phase needs",
       "barrier misuse",
       {"mbarrier.arrive", "must not exceed"},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 2;
  @%p1 mbarrier.arrive.shared::cta.b64 _, [%r11], {{2||3}};
)"},
      {"two phases that nobody waited for", "barrier misuse", {"phase overrun"}, R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  @%p1 mbarrier.arrive.shared::cta.b64 _, [%r11];
  {{@!%p1 bra meet;
  WAIT0
meet:||}}
  @%p1 mbarrier.arrive.shared::cta.b64 _, [%r11];
)"},
      // The right one expects after the last arrival: the phase stays open until then.
      {"bytes that nothing expected, nobody waits",
       "barrier misuse",
       {"transactions open", "0 of 2 arrivals pending, 8 bytes too many", "made by",
        "mbarrier.init"},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 2;
  @%p1 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r11], 16;
  @%p1 mbarrier.arrive.shared::cta.b64 _, [%r11], 2;
  @%p1 mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r11], {{16||8}};
)"},
      {"bytes that nothing expected",
       "deadlock",
       {"waits for mbarrier", "0 of 1 arrivals pending, 128 bytes too many"},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 128;
  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%d1], 256, [%r11];
  {{@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r11], 128;||}}
  WAIT0
)"},
      {"transactions open at exit",
       "barrier misuse",
       {"transactions open", "16 bytes expected"},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  @%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r11], 16;
  {{@%p1 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r11], 16;||}}
)"},
      {"expectation that only one CTA of a multicast has",
       "barrier misuse|deadlock|undrained",
       {"CTA ("},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  fence.mbarrier_init.release.cluster;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  and.pred %p4, %p1, %p3;
  mov.u16 %h1, 3;
  @{{%p1||%p4}} mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 256;
  {{||@%p3 bra ready;
  @%p1 mbarrier.arrive.shared::cta.b64 _, [%r11];
ready:}}
  @%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r10], [%d1], 256, [%r11], %h1;
  WAIT0
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)",
       32,
       2,
       2},
      {"parity that counts on", "barrier misuse", {"parity must be 0 or 1"}, R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  bar.sync 0;
  mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r11], {{1||2}};
)"},
  };
  return crimes;
}

const std::vector<Crime>& meetings() {
  static const std::vector<Crime> crimes = {
      {"barrier with two thread counts", "barrier misuse|deadlock", {"bar"}, R"(
  @%p2 bar.sync 1, 64;
  @!%p2 bar.sync 1, {{64||96}};
)"},
      {"cluster arrival without a wait",
       "barrier misuse",
       {"barrier.cluster.arrive"},
       R"(
  barrier.cluster.arrive.aligned;
  {{barrier.cluster.wait.aligned;||}}
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)",
       32,
       2,
       2},
      {"cluster wait without an arrival",
       "barrier misuse",
       {"barrier.cluster.wait"},
       R"(
  {{barrier.cluster.arrive.aligned;||}}
  barrier.cluster.wait.aligned;
)",
       32,
       2,
       2},
      {"diverged lanes at an aligned barrier", "divergence", {"lanes"}, R"(
  and.b32 %r20, %r1, 1;
  setp.eq.u32 %p4, %r20, {{2||1}};
  @%p4 bra leave;
  bar.sync 0;
leave:
)"},
      {"lanes that wait for each other apart", "divergence", {"wait for each other"}, R"(
  and.b32 %r20, %r1, 1;
  setp.eq.u32 %p4, %r20, {{2||1}};
  @%p4 bra other;
  bar.warp.sync -1;
  bra done;
other:
  vote.sync.any.pred %p5, %p4, -1;
done:
)"},
      {"a barrier that one warp never reaches",
       "deadlock",
       {"waits at barrier 1", "CTA (0,0,0) warp"},
       R"(
  {{bar.sync 1, 64;||@%p2 bar.sync 1, 64;}}
)"},
      {"a phase that never ends",
       "deadlock",
       {"waits for mbarrier", "1 of 2 arrivals pending", "mbarrier.try_wait"},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 2;
  bar.sync 0;
  @%p1 mbarrier.arrive.shared::cta.b64 _, [%r11], {{2||1}};
  WAIT0
)"},
      {"registers that nobody gives",
       "deadlock",
       {"setmaxnreg"},
       R"(
  setp.ge.u32 %p4, %r1, 128;
  @%p4 bra few;
  setmaxnreg.inc.sync.aligned.u32 232;
  bra done;
few:
  setmaxnreg.dec.sync.aligned.u32 {{40||160}};
done:
  bar.sync 0;
)",
       384},
      {"a loop without end",
       "watchdog",
       {"must end within 2000 warp instructions"},
       R"(
  mov.u32 %r20, 0;
again:
  add.u32 %r20, %r20, {{1||0}};
  setp.lt.u32 %p4, %r20, 20;
  @%p4 bra again;
)",
       64,
       1,
       1,
       Rules::kPublic,
       2000},
  };
  return crimes;
}

const std::vector<Crime>& launch_control() {
  static const std::vector<Crime> crimes = {
      {"request after one that was seen to fail",
       "bad operand",
       {"try_cancel", "seen to fail", "query_cancel"},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  @%p1 mbarrier.init.shared::cta.b64 [%r11+8], 1;
  bar.sync 0;
  mov.u32 %r20, cell;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 16;
  @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r20], [%r11];
  WAIT0
  ld.shared.b128 %q1, [%r20];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %q1;
  bar.sync 0;
  {{@%p4 bra next;
  bra done;||}}
next:
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11+8], 16;
  @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r20+16], [%r11+8];
  WAIT1
done:
)",
       32},
      {"first CTA of a request that failed",
       "bad operand",
       {"get_first_ctaid"},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  bar.sync 0;
  mov.u32 %r20, cell;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 16;
  @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r20], [%r11];
  WAIT0
  ld.shared.b128 %q1, [%r20];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, %q1;
  {{@%p4||}} clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r21, %r22, %r23, _}, %q1;
)",
       32},
  };
  return crimes;
}

const std::vector<Crime>& strict_rules() {
  static const std::vector<Crime> crimes = {
      {"relaxed cluster barrier after init without its fence",
       "hazard|barrier misuse",
       {"mbarrier."},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  {{fence.mbarrier_init.release.cluster;||}}
  barrier.cluster.arrive.relaxed.aligned;
  barrier.cluster.wait.aligned;
  xor.b32 %r20, %r3, 1;
  mapa.shared::cluster.u32 %r21, %r11, %r20;
  @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r21];
  WAIT0
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)",
       32,
       2,
       2,
       Rules::kStrict},
      {"bytes that nothing expected",
       "barrier misuse",
       {"16 bytes completed that nothing expected"},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 2;
  @%p1 mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r11], 16;
  {{@%p1 mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r11], 16;||}}
  @%p1 mbarrier.arrive.shared::cta.b64 _, [%r11], 2;
  {{||@%p1 mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%r11], 16;}}
)",
       64,
       1,
       1,
       Rules::kStrict},
      {"barrier handed to the async proxy without a fence",
       "hazard",
       {"mbarrier.init", "cp.async.bulk", "fence.mbarrier_init"},
       R"(
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  {{fence.mbarrier_init.release.cluster;||}}
  bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 256;
  @%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r10], [%d1], 256, [%r11];
  WAIT0
)",
       64,
       1,
       1,
       Rules::kStrict},
  };
  return crimes;
}

TEST(CrimesBarrier, StrictRulesOnHopper) { judge(strict_rules(), Chip::kH200, "sm_90a"); }
TEST(CrimesBarrier, StrictRulesOnBlackwell) { judge(strict_rules(), Chip::kB200, "sm_100a"); }
TEST(CrimesBarrier, MbarriersOnHopper) { judge(mbarriers(), Chip::kH200, "sm_90a"); }
TEST(CrimesBarrier, MbarriersOnBlackwell) { judge(mbarriers(), Chip::kB200, "sm_100a"); }
TEST(CrimesBarrier, MeetingsOnHopper) { judge(meetings(), Chip::kH200, "sm_90a"); }
TEST(CrimesBarrier, MeetingsOnBlackwell) { judge(meetings(), Chip::kB200, "sm_100a"); }
TEST(CrimesBarrier, LaunchControl) { judge(launch_control(), Chip::kB200, "sm_100a"); }

}  // namespace
}  // namespace flamia::emulator
