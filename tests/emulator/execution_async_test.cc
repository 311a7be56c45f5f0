// Asynchronous engines of the virtual GPU: bulk copies, multicast, st.async, launch control, and
// the crimes that the hazard check finds in their use.
#include <gtest/gtest.h>

#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

constexpr char kBulk[] = R"(
.shared .align 128 .b8 tile[256];
.shared .align 8 .b64 full;
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %d<16>;
  ld.param.u64 %d1, [in];
  ld.param.u64 %d2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %cluster_ctarank;
  mov.u32 %r3, full;
  mov.u32 %r4, tile;
  setp.eq.u32 %p1, %r1, 0;
  @!%p1 bra made;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;
made:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @!%p1 bra wait;
  mov.u16 %h1, 3;
  shl.b32 %r5, %r2, 7;
  add.u32 %r6, %r4, %r5;
  cvt.u64.u32 %d3, %r5;
  add.u64 %d3, %d1, %d3;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r6], [%d3], 128, [%r3], %h1;
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra wait;
  shl.b32 %r7, %r1, 2;
  add.u32 %r8, %r4, %r7;
  ld.shared.u32 %r9, [%r8];
  add.u32 %r9, %r9, %r2;
  st.shared.u32 [%r8], %r9;
  FENCE
  bar.sync 0;
  @!%p1 bra done;
  shl.b32 %r10, %r2, 8;
  cvt.u64.u32 %d4, %r10;
  add.u64 %d4, %d2, %d4;
  cp.async.bulk.global.shared::cta.bulk_group [%d4], [%r4], 256;
  cp.async.bulk.commit_group;
  DRAIN
done:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
}
)";

std::string bulk(const std::string& fence, const std::string& drain) {
  std::string text = kBulk;
  text.replace(text.find("FENCE"), 5, fence);
  return text.replace(text.find("DRAIN"), 5, drain);
}

/// Runs the kernel; the kind of its trap, or empty if the results are right.
std::string outcome(const std::string& text, Adversary adversary, uint64_t seed,
                    bool strict = false) {
  MachineOptions options;
  if (strict) options.rules = Rules::kStrict;
  options.adversary = adversary;
  options.seed = seed;
  Machine machine(options);
  machine.load(text);
  std::vector<uint32_t> in(64);
  for (uint32_t i = 0; i < 64; ++i) in[i] = 100 + i;
  machine.request.cluster = {2, 1, 1};
  const uint64_t out = machine.allocate(512);
  const Status status = machine.launch("k", {2, 1, 1}, {64, 1, 1}, machine.upload(in), out);
  if (!status.ok()) return machine.report.traps.at(0).kind;
  const auto result = machine.download<uint32_t>(out, 128);
  for (uint32_t i = 0; i < 128; ++i) {
    if (result[i] != 100 + i % 64 + i / 64) return "wrong";
  }
  return "";
}

TEST(ExecutionAsync, MulticastHalvesArriveInBothCtasForEverySeed) {
  const std::string text =
      bulk("fence.proxy.async.shared::cta;", "cp.async.bulk.wait_group.read 0;");
  for (uint64_t seed = 0; seed < 6; ++seed) {
    EXPECT_EQ(outcome(text, Adversary::kEarly, seed), "");
    EXPECT_EQ(outcome(text, Adversary::kLate, seed), "");
    EXPECT_EQ(outcome(text, Adversary::kRandom, seed), "");
  }
}

TEST(ExecutionAsync, MissingProxyFenceIsAHazard) {
  const std::string text = bulk("", "cp.async.bulk.wait_group 0;");
  EXPECT_EQ(outcome(text, Adversary::kEarly, 1), "hazard");
  EXPECT_EQ(outcome(text, Adversary::kLate, 1), "hazard");
}

TEST(ExecutionAsync, ExitBeforeTheSourceWasReadIsReported) {
  const std::string text = bulk("fence.proxy.async.shared::cta;", "");
  EXPECT_EQ(outcome(text, Adversary::kLate, 1, true), "undrained");
  EXPECT_EQ(outcome(text, Adversary::kLate, 1, false),
            "");  // silicon waits, as public kernels know
}

TEST(ExecutionAsync, MissingExpectationIsReportedOrDeadlocks) {
  std::string text = bulk("fence.proxy.async.shared::cta;", "cp.async.bulk.wait_group 0;");
  text.replace(text.find("_, [%r3], 256;"), 14, "_, [%r3], 512;");
  EXPECT_EQ(outcome(text, Adversary::kRandom, 3), "deadlock");
}

TEST(ExecutionAsync, StAsyncDeliversToThePeerWithItsBarrier) {
  Machine machine;
  machine.load(".shared .align 16 .b32 cell[4]; .shared .align 8 .b64 full;" + kernel(R"(
  mov.u32 %r1, %cluster_ctarank;
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, full;
  setp.eq.u32 %p1, %r2, 0;
  @!%p1 bra made;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;
made:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  @!%p1 bra wait;
  xor.b32 %r4, %r1, 1;
  mov.u32 %r5, cell;
  mapa.shared::cluster.u32 %r6, %r5, %r4;
  mapa.shared::cluster.u32 %r7, %r3, %r4;
  add.u32 %r8, %r1, 50;
  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r6], {%r8, %r8, %r8, %r1}, [%r7];
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra wait;
  ld.shared.u32 %r0, [cell+8];
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
)"));
  machine.request.cluster = {2, 1, 1};
  const uint64_t out = machine.allocate(256);
  const Status status = machine.launch("k", {2, 1, 1}, {32, 1, 1}, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const auto values = machine.download<uint32_t>(out, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(values[i], i < 32 ? 51u : 50u);
}

TEST(ExecutionAsync, CancelledCtasAreDoneByTheirCancellersOnce) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    MachineOptions options;
    options.chip = Chip::kB200;
    options.sms = 3;
    options.seed = seed;
    Machine machine(options);
    machine.load(R"(
.shared .align 16 .b8 answer[16];
.shared .align 8 .b64 full;
.visible .entry k(.param .u64 counts)
{
  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .b128 %q<2>;
  ld.param.u64 %d1, [counts];
  mov.u32 %r3, full;
  mov.u32 %r4, answer;
  mov.u32 %r5, %ctaid.x;
  mov.u32 %r6, 0;
  mbarrier.init.shared::cta.b64 [%r3], 1;
loop:
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r4], [%r3];
  mul.wide.u32 %d2, %r5, 4;
  add.u64 %d2, %d1, %d2;
  atom.global.add.u32 %r7, [%d2], 1;
wait:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r6;
  @!%p2 bra wait;
  xor.b32 %r6, %r6, 1;
  ld.shared.b128 %q1, [%r4];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;
  @!%p1 bra done;
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r5, %r8, %r9, _}, %q1;
  fence.proxy.async.shared::cta;
  bra loop;
done:
  ret;
}
)",
                 "sm_100a");
    const uint64_t counts = machine.upload(std::vector<uint32_t>(40, 0));
    const Status status = machine.launch("k", {40, 1, 1}, {1, 1, 1}, counts);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(machine.download<uint32_t>(counts, 40), std::vector<uint32_t>(40, 1));
  }
}

}  // namespace
}  // namespace flamia::emulator
