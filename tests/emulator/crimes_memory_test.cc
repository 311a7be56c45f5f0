// Crimes against memory: accesses that nothing orders, and addresses that are wrong.
// Same cases for Hopper and Blackwell.
#include "tests/emulator/crimes.h"

namespace flamia::emulator {
namespace {

const std::vector<Crime>& races() {
  static const std::vector<Crime> crimes = {
      {"shared read after write", "hazard", {"st.shared", "ld.shared", "no barrier"}, R"(
  @%p2 st.shared.u32 [cell], 7;
  bar.sync 0;
  @%p2 st.shared.u32 [cell], %r1;
  {{bar.sync 0;||}}
  @!%p2 ld.shared.u32 %r20, [cell];
)"},
      {"shared write after write", "hazard", {"st.shared", "no barrier"}, R"(
  @%p2 st.shared.u32 [cell], 7;
  {{bar.sync 0;||}}
  @!%p2 st.shared.u32 [cell], 8;
)"},
      {"shared write after read", "hazard", {"st.shared", "ld.shared", "no barrier"}, R"(
  @%p2 st.shared.u32 [cell], 7;
  bar.sync 0;
  ld.shared.u32 %r20, [cell];
  {{bar.sync 0;||}}
  @!%p2 st.shared.u32 [cell], 9;
)"},
      {"shared store against an atomic", "hazard", {"st.shared", "atom.shared"}, R"(
  @%p2 st.shared.u32 [cell], 7;
  bar.sync 0;
  @!%p2 {{atom.shared.exch.b32 %r20, [cell], %r1;||st.shared.u32 [cell], %r1;}}
  @%p2 atom.shared.add.u32 %r20, [cell], 1;
)"},
      {"stores of one value are none", "hazard", {"st.shared"}, R"(
  st.shared.u32 [cell], {{5||%r2}};
)"},
      {"remote store without a cluster barrier",
       "hazard",
       {"st.shared::cluster", "ld.shared"},
       R"(
  st.shared.u32 [cell], 7;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r20, cell;
  mapa.shared::cluster.u32 %r21, %r20, 1;
  @%p3 st.shared::cluster.u32 [%r21], 8;
  {{barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;||}}
  @!%p3 ld.shared.u32 %r22, [cell];
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)",
       32,
       2,
       2},
      {"global read after write", "hazard", {"st.global", "ld.global", "global address"}, R"(
  @%p2 st.global.u32 [%d2+64], 1;
  bar.sync 0;
  @%p2 st.global.u32 [%d2], %r1;
  {{bar.sync 0;||}}
  @!%p2 ld.global.u32 %r20, [%d2];
)"},
      {"global write after write", "hazard", {"st.global", "no barrier"}, R"(
  @%p2 st.global.u32 [%d2], 7;
  {{bar.sync 0;||}}
  @!%p2 st.global.u32 [%d2], 8;
)"},
      {"global write after read", "hazard", {"ld.global", "st.global"}, R"(
  @%p2 st.global.u32 [%d2], 7;
  bar.sync 0;
  @%p2 ld.global.u32 %r20, [%d2];
  {{bar.sync 0;||}}
  @!%p2 st.global.u32 [%d2], 8;
)"},
      {"global exchange between the CTAs of a cluster",
       "hazard",
       {"st.global", "ld.global"},
       R"(
  @%p3 st.global.u32 [%d2+64], 1;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @%p3 st.global.u32 [%d2], 7;
  {{barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;||}}
  @!%p3 ld.global.u32 %r20, [%d2];
)",
       32,
       2,
       2},
      {"message without a fence", "hazard", {"st.global.u32", "ld.global.u32"}, R"(
  @!%p2 bra receive;
  st.global.u32 [%d2], 7;
  {{fence.acq_rel.gpu;||}}
  st.relaxed.gpu.global.u32 [%d2+64], 1;
  bra done;
receive:
  ld.relaxed.gpu.global.u32 %r20, [%d2+64];
  setp.eq.u32 %p4, %r20, 0;
  @%p4 bra receive;
  fence.acq_rel.gpu;
  ld.global.u32 %r21, [%d2];
done:
)"},
      {"message by an atomic that does not release",
       "hazard",
       {"st.global.u32", "ld.global.u32"},
       R"(
  @!%p2 bra receive;
  st.global.u32 [%d2], 7;
  bar.warp.sync -1;
  @%p1 red.{{release||relaxed}}.gpu.global.add.u32 [%d2+64], 1;
  bra done;
receive:
  ld.acquire.gpu.global.u32 %r20, [%d2+64];
  setp.eq.u32 %p4, %r20, 0;
  @%p4 bra receive;
  ld.global.u32 %r21, [%d2];
done:
)"},
      {"generic write, bulk read",
       "hazard",
       {"st.shared", "cp.async.bulk", "fence.proxy.async"},
       R"(
  shl.b32 %r20, %r1, 2;
  add.u32 %r21, %r10, %r20;
  st.shared.u32 [%r21], %r1;
  {{fence.proxy.async.shared::cta;||}}
  bar.sync 0;
  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r10], 256;
  @%p1 cp.async.bulk.commit_group;
  @%p1 cp.async.bulk.wait_group 0;
)"},
      {"staging overwritten too early", "hazard", {"cp.async.bulk.global", "st.shared"}, R"(
  shl.b32 %r20, %r1, 2;
  add.u32 %r21, %r10, %r20;
  st.shared.u32 [%r21], %r1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r10], 256;
  @%p1 cp.async.bulk.commit_group;
  {{@%p1 cp.async.bulk.wait_group.read 0;||}}
  bar.sync 0;
  st.shared.u32 [%r21], 5;
  @%p1 cp.async.bulk.wait_group 0;
)"},
      {"bulk store without its commit", "hazard", {"cp.async.bulk.global", "st.shared"}, R"(
  shl.b32 %r20, %r1, 2;
  add.u32 %r21, %r10, %r20;
  st.shared.u32 [%r21], %r1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r10], 256;
  {{@%p1 cp.async.bulk.commit_group;||}}
  @%p1 cp.async.bulk.wait_group 0;
  bar.sync 0;
  st.shared.u32 [%r21], 5;
  @%p1 cp.async.bulk.commit_group;
  @%p1 cp.async.bulk.wait_group 0;
)"},
      {"global result of a bulk store read too early",
       "hazard",
       {"cp.async.bulk.global", "ld.global"},
       R"(
  st.shared.v4.u32 [cell], {%r1, %r1, %r1, %r1};
  @%p1 st.global.u32 [%d2+512], 1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  mov.u32 %r20, cell;
  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r20], 16;
  @%p1 cp.async.bulk.commit_group;
  @%p1 cp.async.bulk.wait_group{{||.read}} 0;
  @%p1 ld.global.u32 %r21, [%d2];
  @%p1 cp.async.bulk.wait_group 0;
)",
       32},
      {"two bulk reductions and a store", "hazard", {"cp.reduce.async.bulk", "st.global"}, R"(
  shl.b32 %r20, %r1, 2;
  add.u32 %r21, %r10, %r20;
  st.shared.u32 [%r21], %r1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  and.b32 %r22, %r1, 31;
  setp.eq.u32 %p5, %r22, 0;
  @%p5 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d2], [%r10], 64;
  @%p5 cp.async.bulk.commit_group;
  {{||@%p1 st.global.u32 [%d2], 3;}}
  @%p5 cp.async.bulk.wait_group 0;
)"},
      {"bulk data read before the wait", "hazard", {"cp.async.bulk.shared", "ld.shared"}, R"(
  shl.b32 %r20, %r1, 2;
  add.u32 %r21, %r10, %r20;
  st.shared.u32 [%r21], 0;
  fence.proxy.async.shared::cta;
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 256;
  @%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r10], [%d1], 256, [%r11];
  {{WAIT0||}}
  ld.shared.u32 %r22, [%r21];
  {{||WAIT0}}
)"},
      {"stage refilled while it is read", "hazard", {"cp.async.bulk.shared", "ld.shared"}, R"(
  shl.b32 %r20, %r1, 2;
  add.u32 %r21, %r10, %r20;
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  @%p1 mbarrier.init.shared::cta.b64 [%r11+8], 1;
  bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 256;
  @%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r10], [%d1], 256, [%r11];
  WAIT0
  ld.shared.u32 %r22, [%r21];
  {{bar.sync 0;||}}
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11+8], 256;
  @%p1 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r10], [%d1], 256, [%r11+8];
  WAIT1
)"},
  };
  return crimes;
}

/// A message of one CTA to another of its cluster, passed on by a CTA of another cluster: legal.
const std::vector<Crime>& look_alikes() {
  static const std::vector<Crime> crimes = {
      {"message through another cluster",
       "uninitialized",
       {"ld.shared"},
       R"(
  mov.u32 %r20, %ctaid.x;
  setp.ne.u32 %p4, %r20, 0;
  @%p4 bra second;
  st.global.u32 [%d2], 7;
  fence.acq_rel.gpu;
  st.relaxed.gpu.global.u32 [%d2+64], 1;
  bra done;
second:
  setp.ne.u32 %p4, %r20, 2;
  @%p4 bra third;
spin1:
  ld.relaxed.gpu.global.u32 %r21, [%d2+64];
  setp.eq.u32 %p5, %r21, 0;
  @%p5 bra spin1;
  fence.acq_rel.gpu;
  st.relaxed.gpu.global.u32 [%d2+128], 1;
  bra done;
third:
  setp.ne.u32 %p4, %r20, 1;
  @%p4 bra done;
spin2:
  ld.relaxed.gpu.global.u32 %r21, [%d2+128];
  setp.eq.u32 %p5, %r21, 0;
  @%p5 bra spin2;
  fence.acq_rel.gpu;
  ld.global.u32 %r22, [%d2];
  {{||ld.shared.u32 %r23, [cell];}}
done:
)",
       32,
       4,
       2},
      {"bulk store by every lane",
       "uninitialized",
       {"ld.shared"},
       R"(
  shl.b32 %r20, %r1, 2;
  add.u32 %r21, %r10, %r20;
  st.shared.u32 [%r21], %r1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r10], 128;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  {{||ld.shared.u32 %r23, [cell];}}
)",
       32},
  };
  return crimes;
}

const std::vector<Crime>& places() {
  static const std::vector<Crime> crimes = {
      {"beyond a buffer", "out of bounds", {"ld.global"}, R"(
  ld.global.u32 %r20, [%d1+{{0||400}}];
)"},
      {"beyond shared memory",
       "out of bounds",
       {"ld.shared"},
       R"(
  st.shared.u32 [cell], 1;
  bar.warp.sync -1;
  ld.shared.u32 %r20, [cell+{{0||65536}}];
)",
       32},
      {"misaligned", "misaligned", {"ld.global.u64"}, R"(
  ld.global.u64 %d20, [%d1+{{8||4}}];
)"},
      {"never written", "uninitialized", {"ld.shared", "never written"}, R"(
  {{st.shared.u32 [cell], 1;||}}
  bar.sync 0;
  ld.shared.u32 %r20, [cell];
)"},
      {"shared memory of another CTA as the own",
       "out of bounds|wrong space",
       {"ld.shared"},
       R"(
  st.shared.u32 [cell], 1;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r20, cell;
  xor.b32 %r22, %r3, 1;
  mapa.shared::cluster.u32 %r21, %r20, {{%r3||%r22}};
  ld.shared::cta.u32 %r23, [%r21];
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)",
       32,
       2,
       2},
      {"write to a parameter", "read only", {"st."}, R"(
  mov.u64 %d20, in;
  cvta.param.u64 %d20, %d20;
  {{ld.u64 %d21, [%d20];||st.u64 [%d20], %d1;}}
)"},
      {"peer that has left",
       "use after free",
       {"ld.shared::cluster"},
       R"(
  st.shared.u32 [cell], 1;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @!%p3 bra leave;
  mov.u32 %r22, 0;
spin:
  add.u32 %r22, %r22, 1;
  setp.lt.u32 %p5, %r22, 2000;
  @%p5 bra spin;
  mov.u32 %r20, cell;
  mapa.shared::cluster.u32 %r21, %r20, 1;
  ld.shared::cluster.u32 %r23, [%r21];
leave:
  {{barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;||}}
)",
       32,
       2,
       2},
      {"copy to a peer that does not wait for it",
       "undrained|barrier misuse|wrong space",
       {"CTA ("},
       R"(
  st.shared.v4.u32 [cell], {%r1, %r1, %r1, %r1};
  @%p1 mbarrier.init.shared::cta.b64 [%r11], 1;
  fence.proxy.async.shared::cta;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  mov.u32 %r20, cell;
  mapa.shared::cluster.u32 %r21, %r10, 1;
  mapa.shared::cluster.u32 %r22, %r11, 1;
  and.pred %p4, %p1, %p3;
  @%p4 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r21], [%r20], 16, [%r22];
  @%p3 bra {{together||stay}};
  {{@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 16;
  WAIT0||ret;}}
together:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
stay:
  mov.u32 %r24, 0;
spin:
  add.u32 %r24, %r24, 1;
  setp.lt.u32 %p5, %r24, 20000;
  @%p5 bra spin;
)",
       32,
       2,
       2},
      {"exit before a store has read its source",
       "undrained",
       {"cp.async.bulk.global"},
       R"(
  shl.b32 %r20, %r1, 2;
  add.u32 %r21, %r10, %r20;
  st.shared.u32 [%r21], %r1;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @!%p1 ret;
  cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r10], 256;
  cp.async.bulk.commit_group;
  {{cp.async.bulk.wait_group.read 0;||}}
)",
       64,
       1,
       1,
       Rules::kStrict,
       0,
       false},
  };
  return crimes;
}

/// Lanes of one warp, one instruction, one place: strict rules only.
const std::vector<Crime>& lanes_of_a_store() {
  static const std::vector<Crime> crimes = {
      {"shared store",
       "hazard",
       {"lanes 0 and 1", "st.shared", "shared address", "not defined"},
       R"(
  @%p2 st.shared.u32 [cell], {{5||%r1}};
)",
       64,
       1,
       1,
       Rules::kStrict},
      {"global vector store, two lanes of a place",
       "hazard",
       {"lanes 8 and 9", "st.global.v2", "global address"},
       R"(
  shr.u32 %r20, %r1, 1;
  mul.wide.u32 %d10, %r20, 8;
  add.u64 %d10, %d10, %d2;
  setp.eq.u32 %p5, %r1, 9;
  selp.u32 %r21, 7, %r20, %p5;
  st.global.v2.u32 [%d10], {%r20, {{%r20||%r21}}};
)",
       64,
       1,
       1,
       Rules::kStrict},
      {"bytes of one word are apart",
       "hazard",
       {"lanes 3 and 4", "st.shared.u8"},
       R"(
  setp.eq.u32 %p5, %r1, 4;
  selp.u32 %r20, {{4||3}}, %r1, %p5;
  add.u32 %r20, %r20, %r10;
  st.shared.u8 [%r20], %r1;
)",
       32,
       1,
       1,
       Rules::kStrict},
      {"rows of stmatrix",
       "hazard",
       {"stmatrix"},
       R"(
  and.b32 %r20, %r1, 7;
  shl.b32 %r20, %r20, 4;
  add.u32 %r20, %r20, %r10;
  stmatrix.sync.aligned.m8n8.x1.shared.b16 [{{%r20||%r10}}], {%r1};
)",
       32,
       1,
       1,
       Rules::kStrict},
      {"a strong store is no race",
       "hazard",
       {"st.shared"},
       R"(
  st{{.relaxed.cta||}}.shared.u32 [cell], %r1;
)",
       32,
       1,
       1,
       Rules::kStrict},
  };
  return crimes;
}

TEST(CrimesMemory, LanesOfAStoreOnHopper) { judge(lanes_of_a_store(), Chip::kH200, "sm_90a"); }
TEST(CrimesMemory, LanesOfAStoreOnBlackwell) { judge(lanes_of_a_store(), Chip::kB200, "sm_100a"); }
TEST(CrimesMemory, ByDefaultTheHighestLaneOfAStoreWins) {
  Machine machine;
  const auto out = run_kernel(machine, R"(
  mov.u32 %r1, %tid.x;
  st.shared.u32 [cell], %r1;
  bar.sync 0;
  ld.shared.u32 %r0, [cell];
)",
                              32, 1, ".shared .b32 cell;");
  EXPECT_EQ(out, std::vector<uint32_t>(32, 31));
}
TEST(CrimesMemory, RacesOnHopper) { judge(races(), Chip::kH200, "sm_90a"); }
TEST(CrimesMemory, RacesOnBlackwell) { judge(races(), Chip::kB200, "sm_100a"); }
TEST(CrimesMemory, LookAlikesAreLegal) { judge(look_alikes(), Chip::kH200, "sm_90a"); }
TEST(CrimesMemory, PlacesOnHopper) { judge(places(), Chip::kH200, "sm_90a"); }
TEST(CrimesMemory, PlacesOnBlackwell) { judge(places(), Chip::kB200, "sm_100a"); }

}  // namespace
}  // namespace flamia::emulator
