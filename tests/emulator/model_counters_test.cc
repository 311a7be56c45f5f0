// Counters of small kernels whose numbers can be counted by hand, and the roles made of them.
// Depends on: data/*.ptx for the matrix products.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "emulator/model/counters.h"
#include "emulator/model/matrix_cost.h"
#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

using model::Counter;
using model::Counters;
using model::Slot;

MachineOptions counted(Chip chip = Chip::kH200) {
  MachineOptions options;
  options.chip = chip;
  options.count = true;
  return options;
}

Counters totals(const Machine& machine) {
  EXPECT_NE(machine.report.counters, nullptr);
  return machine.report.counters == nullptr ? Counters() : machine.report.counters->total();
}

TEST(ModelCounters, NothingIsCountedUnlessAsked) {
  Machine machine;
  run_kernel(machine, "mov.u32 %r0, 1;");
  EXPECT_EQ(machine.report.counters, nullptr);
}

TEST(ModelCounters, InstructionsByClass) {
  Machine machine(counted());
  // The frame of run_kernel: ld.param, 3 mov of special registers, mad, mul.wide, add.u64, st, ret.
  run_kernel(machine, R"(
  mov.f32 %f1, 0f3f800000;
  fma.rn.f32 %f2, %f1, %f1, %f1;
  add.f32 %f3, %f2, %f1;
  ex2.approx.ftz.f32 %f4, %f3;
  max.f32 %f4, %f4, %f3;
  cvt.rn.satfinite.e4m3x2.f32 %h1, %f4, %f3;
  mov.u32 %r1, 5;
  shl.b32 %r2, %r1, 3;
  and.b32 %r2, %r2, 7;
  shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;
  bar.sync 0;)",
             64, 3);
  const Counters c = totals(machine);
  constexpr uint64_t kWarps = 6;
  EXPECT_EQ(c[Counter::kFma], 3 * kWarps);
  EXPECT_EQ(c[Counter::kMufu], 1 * kWarps);
  EXPECT_EQ(c[Counter::kConversion], 1 * kWarps);
  EXPECT_EQ(c[Counter::kMove], 2 * kWarps);
  EXPECT_EQ(c[Counter::kUniform], 4 * kWarps);
  EXPECT_EQ(c[Counter::kInteger], 5 * kWarps);
  EXPECT_EQ(c[Counter::kShuffle], 1 * kWarps);
  EXPECT_EQ(c[Counter::kBarrier], 1 * kWarps);
  EXPECT_EQ(c[Counter::kGlobal], 1 * kWarps);
  EXPECT_EQ(c[Counter::kControl], 1 * kWarps);
  EXPECT_EQ(c[Counter::kWarpInstructions], 20 * kWarps);
  EXPECT_EQ(c[Counter::kLaneInstructions], 32 * 20 * kWarps);
  EXPECT_EQ(c[Counter::kWarpInstructions], machine.report.warp_instructions);
  uint64_t classes = 0;
  for (size_t i = 0; i < model::kClassCount; ++i) classes += c.values[i];
  EXPECT_EQ(classes, c[Counter::kWarpInstructions]);
  // Machine instructions: fma, add, max; MUFU; F2FP; shl, and; shfl, bar, st, ret; mad, mul.wide,
  // two for add.u64.
  EXPECT_EQ(c[Slot::kIssue], 15 * kWarps);
  EXPECT_EQ(c[Slot::kFma], 2 * kWarps);
  EXPECT_EQ(c[Slot::kAlu], 3 * kWarps);
  EXPECT_EQ(c[Slot::kXu], 1 * kWarps);
  EXPECT_EQ(c[Slot::kImad], 2 * kWarps);
  EXPECT_EQ(c[Slot::kPort], 1 * kWarps);
}

TEST(ModelCounters, LoopsAndBranchesCountTheirExecutions) {
  Machine machine(counted());
  run_kernel(machine, R"(
  mov.u32 %r0, 0;
again:
  add.u32 %r0, %r0, 1;
  setp.lt.u32 %p1, %r0, 10;
  @%p1 bra again;)");
  const Counters c = totals(machine);
  EXPECT_EQ(c[Counter::kControl], 10 + 1);
  EXPECT_EQ(c[Counter::kInteger], 20 + 3);
  EXPECT_EQ(c[Counter::kLaneInstructions], 32u * (1 + 20 + 9 + 9));
}

TEST(ModelCounters, GlobalAndSharedMemory) {
  Machine machine(counted());
  machine.load(R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<8>; .reg .b64 %d<8>;
  .shared .align 16 .b32 tile[1024];
  ld.param.u64 %d1, [in];
  ld.param.u64 %d2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d3, %r1, 128;
  add.u64 %d4, %d1, %d3;
  ld.global.u32 %r2, [%d4];
  ld.global.u32 %r2, [%d4];
  mul.wide.u32 %d3, %r1, 4;
  add.u64 %d5, %d2, %d3;
  shl.b32 %r3, %r1, 5;
  mov.u32 %r4, tile;
  add.u32 %r4, %r4, %r3;
  st.shared.u32 [%r4], %r2;
  ld.shared.u32 %r5, [%r4];
  st.global.u32 [%d5], %r5;
  red.global.add.u32 [%d5], %r5;
  ret;
})");
  const uint64_t in = machine.upload(std::vector<uint32_t>(1024, 1)), out = machine.allocate(128);
  const Status status = machine.launch("k", {1, 1, 1}, {32, 1, 1}, in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const Counters c = totals(machine);
  EXPECT_EQ(c[Counter::kGlobalReadBytes], 2u * 128);
  EXPECT_EQ(c[Counter::kGlobalWriteBytes], 128u);
  EXPECT_EQ(c[Counter::kGlobalAtomicBytes], 128u);
  // One sector a lane, twice; the stores and the atomics fill four.
  EXPECT_EQ(c[Counter::kGlobalSectors], 32u + 32 + 4 + 4);
  EXPECT_EQ(c[Counter::kGlobalIdealSectors], 4u * 4);
  EXPECT_EQ(c[Counter::kL2ReadBytes], 64u * 32);
  EXPECT_EQ(c[Counter::kL2WriteBytes], 8u * 32);
  EXPECT_EQ(c[Counter::kHbmReadBytes], 32u * 32);
  EXPECT_EQ(c[Counter::kHbmWriteBytes], 4u * 32);
  EXPECT_EQ(c[Counter::kSharedReadBytes], 128u);
  EXPECT_EQ(c[Counter::kSharedWriteBytes], 128u);
  EXPECT_EQ(c[Counter::kSharedWavefronts], 16u);  // stride of eight words
  EXPECT_EQ(c[Counter::kSharedIdealWavefronts], 2u);
}

TEST(ModelCounters, BulkCopiesAndMulticast) {
  Machine machine(counted());
  machine.request.cluster = {2, 1, 1};
  machine.load(R"(
.visible .entry .explicitcluster k(.param .u64 in, .param .u64 out)
{
  .reg .pred %p<4>; .reg .b16 %h<2>; .reg .b32 %r<8>; .reg .b64 %d<8>;
  .shared .align 128 .b8 tile[256];
  .shared .align 8 .b64 full;
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
  @!%p1 bra done;
  shl.b32 %r5, %r2, 8;
  cvt.u64.u32 %d4, %r5;
  add.u64 %d4, %d2, %d4;
  cp.async.bulk.global.shared::cta.bulk_group [%d4], [%r4], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
done:
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
})");
  const uint64_t in = machine.upload(std::vector<uint32_t>(64, 1)), out = machine.allocate(512);
  const Status status = machine.launch("k", {2, 1, 1}, {64, 1, 1}, in, out);
  ASSERT_TRUE(status.ok()) << status.message();
  const Counters c = totals(machine);
  EXPECT_EQ(c[Counter::kTmaReadBytes], 2u * 128);
  EXPECT_EQ(c[Counter::kMulticastBytes], 2u * 128);
  EXPECT_EQ(c[Counter::kTmaWriteBytes], 2u * 256);
  EXPECT_EQ(c[Counter::kL2ReadBytes], 256u);
  EXPECT_EQ(c[Counter::kHbmReadBytes], 256u);
  EXPECT_EQ(c[Counter::kHbmWriteBytes], 512u);
  const auto roles = find_roles(*machine.report.counters);
  ASSERT_EQ(roles.size(), 2u);
  EXPECT_EQ(roles[0].name, "tma load+tma store");
  EXPECT_EQ(roles[0].counters[Counter::kTmaReadBytes], 256u);
  EXPECT_EQ(roles[1].first_warp, 1u);
  EXPECT_EQ(roles[1].counters[Counter::kTmaReadBytes], 0u);
}

std::string sample(const std::string& name) {
  std::ifstream file(std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/data/" + name + ".ptx");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Counters product(Machine& machine, const std::string& name, size_t a_bytes, size_t b_bytes) {
  machine.load(sample(name));
  const uint64_t a = machine.upload(std::vector<uint8_t>(a_bytes, 0x38));
  const uint64_t b = machine.upload(std::vector<uint8_t>(b_bytes, 0x38));
  const uint64_t out = machine.allocate(size_t{4} * 128 * 64);
  const Status status = machine.launch("product", {1, 1, 1}, {128, 1, 1}, a, b, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return totals(machine);
}

TEST(ModelCounters, HopperProduct) {
  Machine machine(counted());
  const Counters c = product(machine, "wgmma_sm90a", 2048, 512);
  ASSERT_EQ(c.tensor.size(), 1u);
  const auto& [name, count] = *c.tensor.begin();
  EXPECT_EQ(name, "wgmma.m64n16k32.f32.e4m3.e4m3.ss");
  EXPECT_EQ(count.instructions(), 1u);
  EXPECT_EQ(count.flops, 2u * 64 * 16 * 32);
  EXPECT_EQ(c[Counter::kTensorFlops], 2u * 64 * 16 * 32);
  EXPECT_EQ(c[Counter::kOperandBytes], (64u + 16) * 32);
  EXPECT_EQ(c[Counter::kTensor], 4u);
}

TEST(ModelCounters, BlackwellProduct) {
  Machine machine(counted(Chip::kB200));
  const Counters c = product(machine, "tcgen05_sm100a", 4096, 2048);
  ASSERT_EQ(c.tensor.size(), 1u);
  const auto& [name, count] = *c.tensor.begin();
  EXPECT_EQ(name, "tcgen05.mma.f8f6f4.1cta.m128n64k32.ss");
  EXPECT_EQ(count.instructions(), 1u);
  EXPECT_EQ(count.flops, 2u * 128 * 64 * 32);
  EXPECT_EQ(count.used, 1.0);
  EXPECT_EQ(c[Counter::kOperandBytes], (128u + 64) * 32);
  EXPECT_EQ(c[Counter::kTmemReadBytes], 128u * 64 * 4);
}

TEST(ModelCounters, TensorKindsOfBlackwell) {
  InstructionForm form;
  form.kind = TensorKind::kMxf4;
  form.cta_group = 2;
  InstructionDescriptor d;
  d.kind = form.kind;
  d.m = 256;
  d.n = 128;
  d.k = 64;
  model::TensorMmaCost cost = model::tensor_mma_cost(form, d);
  EXPECT_EQ(cost.name, "tcgen05.mma.mxf4.2cta.m256n128k64.ss");
  EXPECT_EQ(cost.count.flops, 2u * 256 * 128 * 64);
  EXPECT_EQ(cost.count.rate, model::TensorRate::kFp4);
  EXPECT_EQ(cost.operand_bytes, (256u + 128) * 64 / 2);
  form = {};
  form.kind = TensorKind::kF16;
  form.a_in_tensor_memory = true;
  d.m = 64;
  d.k = 16;
  cost = model::tensor_mma_cost(form, d);
  EXPECT_EQ(cost.name, "tcgen05.mma.f16.1cta.m64n128k16.ts");
  EXPECT_EQ(cost.count.used, 0.5);
  EXPECT_EQ(cost.operand_bytes, 128u * 16 * 2);
}

TEST(ModelCounters, RolesJoinNeighboursThatWorkAlike) {
  model::LaunchCounters launch;
  launch.ctas = 1;
  launch.warps_per_cta = 4;
  launch.warps.resize(4);
  launch.warps[0][Counter::kTmaReadBytes] = 128;
  launch.warps[0][Counter::kAsync] = 4;
  for (uint32_t w = 1; w < 4; ++w) {
    launch.warps[w][Counter::kFma] = 100;
    launch.warps[w][Counter::kMufu] = 10 + w;
    launch.warps[w][Counter::kControl] = 1000 * w;  // waiting does not count
  }
  launch.warps[3][Counter::kShared] = 200;
  const auto roles = find_roles(launch);
  ASSERT_EQ(roles.size(), 3u);
  EXPECT_EQ(roles[0].name, "tma load");
  EXPECT_EQ(roles[1].first_warp, 1u);
  EXPECT_EQ(roles[1].last_warp, 2u);
  EXPECT_EQ(roles[1].counters[Counter::kFma], 200u);
  EXPECT_EQ(roles[2].name, "shared");
  EXPECT_EQ(mix_distance(launch.warps[1], launch.warps[1]), 0.0);
  EXPECT_EQ(mix_distance(launch.warps[0], launch.warps[1]), 1.0);
}

}  // namespace
}  // namespace flamia::emulator
