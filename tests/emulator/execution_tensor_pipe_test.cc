// CTA pairs, multicast through tensor maps and commits, cluster launch control with multicast,
// executed as PTX of sm_100a against sums of small exact numbers.
#include <gtest/gtest.h>

#include <random>

#include "base/bits.h"
#include "numerics/bf16.h"
#include "tests/emulator/blackwell_kernel.h"

namespace flamia::emulator {
namespace {

using namespace blackwell;

/// Halves from -2 to 2: every sum is exact.
std::vector<float> small_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = (static_cast<float>(random() % 9) - 4.0f) * 0.5f;
  return values;
}

float product(const std::vector<float>& a, const std::vector<float>& b, size_t k, size_t i,
              size_t j) {
  float sum = 0.0f;
  for (size_t x = 0; x < k; ++x) sum += a[i * k + x] * b[j * k + x];
  return sum;
}

constexpr uint32_t kPairK = 64, kPairN = 64, kPairB = kData + 16384, kColumnsOfPair = 64;

/// Pairs of a cluster: CTA r loads rows 128r of A; the CTAs of the first pair load halves of B for
/// the same place of every pair. Loads signal the even CTA of a pair, which multiplies; its commit
/// signals both. M: 256 rows of D (128 lanes each), or 128 (rows 64 to 127 of A are not read).
std::string pair_kernel(uint32_t pairs, uint32_t m) {
  const uint32_t boxes = 2 * 16384 + 2 * 4096;
  const std::string idesc = number(int64_t{m / 16} << 24 | int64_t{kPairN / 8} << 17 | 0x490);
  std::string text =
      open_memory(kColumnsOfPair, "2") +
      "  mov.u32 %r10, %cluster_ctarank;\n  and.b32 %r11, %r10, 1;\n"
      "  setp.ne.u32 %p12, %r11, 0;\n"
      // Only the even CTA's barrier gets bytes.
      "  or.pred %p13, %p11, %p12;\n"
      "  @!%p13 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r399], " +
      number(boxes) +
      ";\n  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n"
      "  @%p11 bra LOADED;\n  mov.b64 %d10, map0;\n  cvta.param.u64 %d10, %d10;\n"
      "  mov.b64 %d11, map1;\n  cvta.param.u64 %d11, %d11;\n"
      "  add.u32 %r12, %r399, " +
      number(kData) + ";\n  add.u32 %r13, %r399, " + number(kPairB) +
      ";\n  mov.u32 %r14, 0;\n  shl.b32 %r15, %r10, 7;\n  shl.b32 %r16, %r11, 5;\n"
      // The even CTA of the own pair, as the cluster window sees it.
      "  and.b32 %r17, %r10, 14;\n  mapa.shared::cluster.u32 %r18, %r399, %r17;\n"
      "  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 "
      "[%r12], [%d10, {%r14, %r15}], [%r18];\n"
      "  setp.gt.u32 %p14, %r10, 1;\n  @%p14 bra LOADED;\n";
  if (pairs == 1) {
    text +=
        "  "
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2 "
        "[%r13], [%d11, {%r14, %r16}], [%r18];\n";
  } else {
    text +=
        "  mov.u32 %r24, 5;\n  shl.b32 %r24, %r24, %r11;\n  cvt.u16.u32 %h1, %r24;\n"
        "  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster.cta_group::2 [%r13], [%d11, {%r14, %r16}], [%r18], %h1;\n";
  }
  text += "LOADED:\n  @%p13 bra MULTIPLIED;\n" + wait_phase(1, "%r399", "0") +
          "  tcgen05.fence::after_thread_sync;\n  mov.u32 %r25, " + idesc +
          ";\n  setp.ne.u32 %p15, %r0, %r0;\n  setp.eq.u32 %p16, %r0, %r0;\n";
  for (uint32_t step = 0; step < kPairK / 16; ++step) {
    text += descriptor(40 + step, kData + 32 * step, kSwizzled) +
            descriptor(50 + step, kPairB + 32 * step, kSwizzled) +
            "  tcgen05.mma.cta_group::2.kind::f16 [%r20], %d" + number(40 + step) + ", %d" +
            number(50 + step) + ", %r25, " + (step == 0 ? "%p15" : "%p16") + ";\n";
  }
  // Both CTAs of the own pair.
  return kernel_text(
      text +
      "  mov.u32 %r26, 3;\n  shl.b32 %r26, %r26, %r10;\n  cvt.u16.u32 %h2, %r26;\n"
      "  add.u32 %r27, %r399, 8;\n"
      "  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
      "[%r27], %h2;\nMULTIPLIED:\n" +
      wait_phase(2, "%r399+8", "0") + "  tcgen05.fence::after_thread_sync;\n" +
      dump_memory(m == 256 ? kPairN : kPairN / 2) +
      "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n" +
      close_memory(kColumnsOfPair, "2"));
}

silicon::MapSpec tile_map(uint32_t offset, uint32_t rows, uint32_t box_rows) {
  silicon::MapSpec map;
  map.type = 9;
  map.rank = 2;
  map.offset_bytes = offset;
  map.dims[0] = kPairK;
  map.dims[1] = rows;
  map.strides[0] = 2 * kPairK;
  map.box[0] = kPairK;
  map.box[1] = box_rows;
  map.swizzle = 3;
  return map;
}

std::vector<uint32_t> bf16_words(const std::vector<float>& values) {
  std::vector<uint32_t> words;
  for (size_t i = 0; i < values.size(); i += 2) {
    words.push_back(float_to_bf16(values[i]) | uint32_t{float_to_bf16(values[i + 1])} << 16);
  }
  return words;
}

TEST(ExecutionTensorPipe, PairsMultiplyWhatTensorMapsMulticast) {
  for (const uint32_t pairs : {1u, 2u}) {
    for (const uint32_t m : {256u, 128u}) {
      const uint32_t ctas = 2 * pairs;
      const auto a = small_values(size_t{128} * ctas * kPairK, pairs + m);
      const auto b = small_values(size_t{kPairN} * kPairK, pairs + m + 1);
      std::vector<uint32_t> in = bf16_words(a);
      const uint32_t b_offset = static_cast<uint32_t>(in.size()) * 4;
      const auto words = bf16_words(b);
      in.insert(in.end(), words.begin(), words.end());
      Launch launch;
      launch.ctas = launch.cluster = ctas;
      launch.maps = {tile_map(0, 128 * ctas, 128), tile_map(b_offset, kPairN, kPairN / 2)};
      const uint32_t columns = m == 256 ? kPairN : kPairN / 2;
      const auto out = run(pair_kernel(pairs, m), in, size_t{128} * ctas * columns, launch);
      ASSERT_FALSE(out.empty()) << pairs << " pairs, M " << m;
      for (uint32_t cta = 0; cta < ctas; ++cta) {
        for (uint32_t row = 0; row < m / 2; ++row) {
          for (uint32_t j = 0; j < kPairN; ++j) {
            // M = 128: rows in 64 lanes, the other lanes hold the second half of the columns.
            const uint32_t lane = m == 256 ? row : row + j / 32 * 64;
            const uint32_t column = m == 256 ? j : j % 32;
            ASSERT_EQ(bits_float(out[(cta * 128 + lane) * columns + column]),
                      product(a, b, kPairK, cta * 128 + row, j))
                << "CTA " << cta << " row " << row << " column " << j;
          }
        }
      }
    }
  }
}

TEST(ExecutionTensorPipe, PairsCopyAndShiftInBothCtas) {
  // The even CTA issues; each CTA has its own bytes.
  const auto text = kernel_text(
      open_memory(32, "2") + fill_memory(32) +
      "  mov.u32 %r10, %cluster_ctarank;\n  mul.lo.u32 %r11, %r10, 16384;\n"
      "  cvt.u64.u32 %d50, %r11;\n  add.u64 %d0, %d0, %d50;\n" +
      copy_in(0, kData, 0, 4096) +
      "  fence.proxy.async.shared::cta;\n  tcgen05.fence::before_thread_sync;\n"
      "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n"
      "  tcgen05.fence::after_thread_sync;\n" +
      descriptor(40, kData, kPlainRows) +
      "  setp.ne.u32 %p12, %r10, 0;\n  or.pred %p13, %p11, %p12;\n  @%p13 bra ISSUED;\n"
      "  tcgen05.cp.cta_group::2.128x256b [%r20], %d40;\n"
      "  add.u32 %r12, %r20, 0x200000;\n  tcgen05.shift.cta_group::2.down [%r12];\n"
      "  mov.u16 %h2, 3;\n"
      "  tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 "
      "[%r399], %h2;\nISSUED:\n" +
      wait_phase(1, "%r399", "0") + "  tcgen05.fence::after_thread_sync;\n" + dump_memory(32) +
      "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n" +
      close_memory(32, "2"));
  const auto in = silicon::random_words(17, 8192);
  Launch launch;
  launch.ctas = launch.cluster = 2;
  const auto out = run(text, in, 2 * 128 * 32, launch);
  ASSERT_FALSE(out.empty());
  for (uint32_t cta = 0; cta < 2; ++cta) {
    for (uint32_t lane = 0; lane < 128; ++lane) {
      const uint32_t row = lane > 32 && lane < 64 ? lane - 1 : lane;
      for (uint32_t c = 0; c < 32; ++c) {
        const uint32_t expected =
            c < 8 ? in[cta * 4096 + row * 4 + c % 4 + c / 4 * 2048] : lane * 1000 + c;
        ASSERT_EQ(out[(cta * 128 + lane) * 32 + c], expected) << cta << " " << lane << " " << c;
      }
    }
  }
}

// ---- Cluster launch control

TEST(ExecutionTensorPipe, CancelledClustersAreAnnouncedToEveryCta) {
  // %r12: first CTA of the cluster that this one works for; both CTAs must learn the same.
  const auto text = kernel_text(
      "  setp.ne.u32 %p11, %r0, 0;\n  @%p11 bra MADE;\n"
      "  mbarrier.init.shared::cta.b64 [%r399], 1;\n  fence.mbarrier_init.release.cluster;\nMADE:\n"
      "  mov.u32 %r10, %cluster_ctarank;\n  mov.u32 %r11, %ctaid.x;\n  sub.u32 %r12, %r11, %r10;\n"
      "  mov.u32 %r13, 0;\n  or.b32 %r14, %r0, %r10;\n  setp.ne.u32 %p12, %r14, 0;\n"
      "  add.u32 %r15, %r399, 16;\nLOOP:\n"
      "  @!%p11 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r399], 16;\n"
      "  fence.proxy.async.shared::cta;\n"
      "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n"
      "  @%p12 bra ASKED;\n"
      "  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
      ".multicast::cluster::all.b128 [%r15], [%r399];\nASKED:\n"
      "  add.u32 %r16, %r12, %r10;\n  mul.wide.u32 %d10, %r16, 4;\n  add.u64 %d10, %d10, %d1;\n"
      "  @!%p11 red.global.add.u32 [%d10], 1;\n" +
      wait_phase(1, "%r399", "%r13") +
      "  xor.b32 %r13, %r13, 1;\n  ld.shared.b128 %q1, [%r399+16];\n"
      "  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p13, %q1;\n  @!%p13 bra DONE;\n"
      "  clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r12, %q1;\n  bra LOOP;\n"
      "DONE:\n");
  Launch launch;
  launch.ctas = 48;
  launch.cluster = 2;
  launch.shared_bytes = 1024;
  EXPECT_EQ(run(text, {0}, 48, launch), std::vector<uint32_t>(48, 1));
}

}  // namespace
}  // namespace flamia::emulator
