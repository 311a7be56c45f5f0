// Block-scaled tcgen05.mma of one CTA and of a pair, their scales copied by tcgen05.cp, executed as
// PTX of sm_100a against sums of small exact numbers.
#include <gtest/gtest.h>

#include <random>

#include "base/bits.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/scale_codes.h"
#include "tests/emulator/blackwell_kernel.h"

namespace flamia::emulator {
namespace {

using namespace blackwell;

struct ScaledCase {
  const char* kind;
  uint32_t block, k;
  uint32_t types;  ///< of the instruction descriptor
  bool fp4, ue8m0;
};

constexpr uint32_t kN = 64;
// Shared memory of one CTA behind kData: 128 rows of A, its rows of B, scales of A and of B.
constexpr uint32_t kB = 32768, kScalesA = 49152, kScalesB = kScalesA + 512, kBytes = kScalesB + 512;

std::string scaled_kernel(const ScaledCase& c, uint32_t ctas) {
  const std::string group = number(ctas), dot_group = ".cta_group::" + group;
  const std::string meet =
      "  tcgen05.fence::before_thread_sync;\n  barrier.cluster.arrive.release.aligned;\n"
      "  barrier.cluster.wait.acquire.aligned;\n  tcgen05.fence::after_thread_sync;\n";
  const uint64_t rows_of_16 = uint64_t{128 >> 4} << 32 | uint64_t{1} << 46;
  const std::string commit =
      ctas == 1
          ? "  tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r399];\n"
          : "  mov.u16 %h2, 3;\n  tcgen05.commit.cta_group::2.mbarrier::arrive::one"
            ".shared::cluster.multicast::cluster.b64 [%r399], %h2;\n";
  return kernel_text(
      open_memory(128, group) + "  mov.u32 %r10, %cluster_ctarank;\n  mul.lo.u32 %r11, %r10, " +
      number(kBytes) + ";\n  cvt.u64.u32 %d50, %r11;\n  add.u64 %d0, %d0, %d50;\n" +
      copy_in(0, kData, 0, kBytes / 4) + "  fence.proxy.async.shared::cta;\n" + meet +
      descriptor(40, kData, kSwizzled) + descriptor(41, kData + kB, kSwizzled) +
      descriptor(42, kData + kScalesA, rows_of_16) + descriptor(43, kData + kScalesB, rows_of_16) +
      "  setp.ne.u32 %p12, %r10, 0;\n  or.pred %p13, %p11, %p12;\n  @%p13 bra ISSUED;\n"
      "  add.u32 %r23, %r20, 96;\n  add.u32 %r24, %r20, 112;\n  tcgen05.cp" +
      dot_group + ".32x128b.warpx4 [%r23], %d42;\n  tcgen05.cp" + dot_group +
      ".32x128b.warpx4 [%r24], %d43;\n  mov.u32 %r25, " +
      number(int64_t{ctas} << 27 | int64_t{kN / 8} << 17 | c.types) +
      ";\n  setp.ne.u32 %p15, %r0, %r0;\n  tcgen05.mma" + dot_group + "." + c.kind +
      " [%r20], %d40, %d41, %r25, [%r23], [%r24], %p15;\n" + commit + "ISSUED:\n" +
      wait_phase(1, "%r399", "0") + "  tcgen05.fence::after_thread_sync;\n" + dump_memory(kN) +
      meet + close_memory(128, group));
}

/// Values and scales of both operands, and the bytes of every CTA.
struct Operands {
  std::vector<float> values[2], scales[2];
  std::vector<uint32_t> words;
};

Operands make_operands(const ScaledCase& c, uint32_t ctas) {
  Operands made;
  std::mt19937 random(c.block + c.k + ctas);
  std::vector<uint8_t> bytes(size_t{kBytes} * ctas, 0);
  for (uint32_t o = 0; o < 2; ++o) {
    const uint32_t rows = o == 0 ? 128 * ctas : kN, own = rows / ctas;
    for (uint32_t i = 0; i < rows; ++i) {
      uint8_t* const cta = bytes.data() + size_t{i / own} * kBytes;
      const uint32_t row = i % own;
      for (uint32_t x = 0; x < c.k; ++x) {
        const uint8_t code = encode_e2m1(static_cast<float>(random() % 13) * 0.5f - 3.0f);
        made.values[o].push_back(decode_e2m1(code));
        const uint32_t at = c.fp4 ? x / 2 : x;
        uint8_t& byte = cta[(o == 0 ? 0 : kB) + row * 128 + ((at / 16) ^ (row % 8)) * 16 + at % 16];
        if (!c.fp4) byte = encode_e4m3(made.values[o].back());
        if (c.fp4) byte = static_cast<uint8_t>(x % 2 == 0 ? code : byte | code << 4);
      }
      // Rows of 16 bytes: four scales of rows r, r + 32, r + 64 and r + 96. Those of B are
      // complete in both CTAs.
      for (uint32_t s = 0; s < 4; ++s) {
        const uint8_t code = c.ue8m0 ? encode_ue8m0(static_cast<int>(random() % 4) - 2)
                                     : encode_ue4m3(0.5f * static_cast<float>(1 + random() % 6));
        made.scales[o].push_back(c.ue8m0 ? decode_ue8m0(code) : decode_ue4m3(code));
        for (uint32_t r = 0; r < ctas; ++r) {
          if (o == 0 && r != i / own) continue;
          const uint32_t place = o == 0 ? row : i;
          bytes[size_t{r} * kBytes + (o == 0 ? kScalesA : kScalesB) + place % 32 * 16 +
                place / 32 * 4 + s] = code;
        }
      }
    }
  }
  made.words.resize(bytes.size() / 4);
  std::memcpy(made.words.data(), bytes.data(), bytes.size());
  return made;
}

TEST(ExecutionTensorScales, EveryKindOfOneCtaAndOfAPair) {
  const ScaledCase cases[] = {
      {"kind::mxf8f6f4.block_scale", 32, 32, 0x00800000u, false, true},
      {"kind::mxf8f6f4.block_scale.scale_vec::1X", 32, 32, 0x00800000u, false, true},
      {"kind::mxf4.block_scale.scale_vec::2X", 32, 64, 0x00800480u, true, true},
      {"kind::mxf4nvf4.block_scale.scale_vec::2X", 32, 64, 0x00800480u, true, true},
      {"kind::mxf4nvf4.block_scale.scale_vec::4X", 16, 64, 0x480u, true, false},
      {"kind::mxf4nvf4.block_scale.block16", 16, 64, 0x480u, true, false},
  };
  for (const ScaledCase& c : cases) {
    for (const uint32_t ctas : {1u, 2u}) {
      const Operands in = make_operands(c, ctas);
      Launch launch;
      launch.ctas = launch.cluster = ctas;
      const uint32_t rows = 128 * ctas;
      const auto out = run(scaled_kernel(c, ctas), in.words, size_t{rows} * kN, launch);
      ASSERT_FALSE(out.empty()) << c.kind;
      for (uint32_t i = 0; i < rows; ++i) {
        for (uint32_t j = 0; j < kN; ++j) {
          float sum = 0.0f;
          for (uint32_t x = 0; x < c.k; ++x) {
            sum += in.values[0][i * c.k + x] * in.values[1][j * c.k + x] *
                   (in.scales[0][i * 4 + x / c.block] * in.scales[1][j * 4 + x / c.block]);
          }
          ASSERT_EQ(bits_float(out[i * kN + j]), sum)
              << c.kind << " of " << ctas << ": " << i << " " << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace flamia::emulator
