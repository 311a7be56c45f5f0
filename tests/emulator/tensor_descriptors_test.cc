// Matrix and instruction descriptors against worked encodings and independent address formulas.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "emulator/tensor/descriptors.h"

namespace flamia::emulator::test {
namespace {

uint64_t wgmma_bits(uint32_t start, uint32_t leading, uint32_t stride, uint64_t swizzle) {
  return uint64_t{start >> 4} | uint64_t{leading >> 4} << 16 | uint64_t{stride >> 4} << 32 |
         swizzle << 62;
}

TEST(MatrixDescriptor, WorkedEncodingsDecode) {
  MatrixDescriptor d;
  ASSERT_TRUE(decode_wgmma_descriptor(wgmma_bits(0x2000, 16, 1024, 1), &d).ok());
  EXPECT_EQ(d.start, 0x2000u);
  EXPECT_EQ(d.stride, 1024u);
  EXPECT_EQ(d.swizzle, Swizzle::k128B);
  ASSERT_TRUE(decode_tcgen05_descriptor(0x4000404000010000u | 0x200, false, &d).ok());
  EXPECT_EQ(d.start, 0x2000u);
  EXPECT_EQ(d.leading, 16u);
  EXPECT_EQ(d.stride, 1024u);
  EXPECT_EQ(d.swizzle, Swizzle::k128B);
  ASSERT_TRUE(decode_tcgen05_descriptor(0x8000402000010000u, false, &d).ok());
  EXPECT_EQ(d.swizzle, Swizzle::k64B);
  EXPECT_EQ(d.stride, 512u);
  ASSERT_TRUE(decode_tcgen05_descriptor(0x0000400800000000u, false, &d).ok());
  EXPECT_EQ(d.swizzle, Swizzle::kNone);
  EXPECT_EQ(d.stride, 128u);
}

TEST(MatrixDescriptor, ReservedBitsAndVersionsAreChecked) {
  MatrixDescriptor d;
  const uint64_t good = 0x4000404000010000u;
  for (const int bit : {14, 15, 30, 31, 47, 48, 53, 60}) {
    EXPECT_FALSE(decode_tcgen05_descriptor(good | uint64_t{1} << bit, false, &d).ok()) << bit;
  }
  EXPECT_FALSE(decode_tcgen05_descriptor(good & ~(uint64_t{1} << 46), false, &d).ok());
  EXPECT_FALSE(decode_tcgen05_descriptor(good | uint64_t{1} << 61, false, &d).ok());
  EXPECT_FALSE(decode_tcgen05_descriptor(good | uint64_t{1} << 52, false, &d).ok());
  EXPECT_TRUE(decode_tcgen05_descriptor(good | uint64_t{1} << 52, true, &d).ok());
  EXPECT_EQ(decode_tcgen05_descriptor(good | uint64_t{1} << 49, false, &d).kind,
            FaultKind::kUnsupported);
  for (const int bit : {14, 30, 46, 52, 61}) {
    const uint64_t bits = wgmma_bits(0, 16, 1024, 1) | uint64_t{1} << bit;
    EXPECT_FALSE(decode_wgmma_descriptor(bits, &d).ok()) << bit;
  }
}

/// Where a 128-byte wide K-major tile keeps byte kb of row i: 16-byte unit XOR row in eight.
TEST(MatrixDescriptor, KMajor128BEqualsTheUnitXor) {
  SharedOperand operand{{4096, 16, 1024, Swizzle::k128B, false}, false, 8, 16};
  for (uint32_t row = 0; row < 64; ++row) {
    for (uint32_t byte = 0; byte < 128; ++byte) {
      const uint32_t expected = 4096 + row * 128 + (((byte / 16) ^ (row % 8)) * 16) + byte % 16;
      ASSERT_EQ(element_offset(operand, row, byte), expected);
    }
  }
  // Advancing the start inside the span reaches the same bytes.
  SharedOperand advanced = operand;
  advanced.descriptor.start += 32;
  for (uint32_t row = 0; row < 64; ++row) {
    ASSERT_EQ(element_offset(advanced, row, 5), element_offset(operand, row, 37));
  }
}

TEST(MatrixDescriptor, NarrowerSwizzlesEqualTheUnitXor) {
  for (const uint32_t span : {32u, 64u}) {
    const Swizzle swizzle = span == 32 ? Swizzle::k32B : Swizzle::k64B;
    SharedOperand operand{{2048, 16, 8 * span, swizzle, false}, false, 8, 16};
    for (uint32_t row = 0; row < 32; ++row) {
      for (uint32_t byte = 0; byte < span; ++byte) {
        const uint32_t line = row * span / 128;  // rows share 128-byte lines
        const uint32_t unit = byte / 16 ^ (line % (span / 16));
        ASSERT_EQ(element_offset(operand, row, byte), 2048 + row * span + unit * 16 + byte % 16);
      }
    }
  }
}

TEST(MatrixDescriptor, UnswizzledKMajorUsesCoreMatrices) {
  const SharedOperand operand{{1024, 512, 256, Swizzle::kNone, false}, false, 16, 16};
  EXPECT_EQ(element_offset(operand, 0, 0), 1024u);
  EXPECT_EQ(element_offset(operand, 3, 2), 1024u + 3 * 16 + 4);
  EXPECT_EQ(element_offset(operand, 3, 9), 1024u + 3 * 16 + 512 + 2);
  EXPECT_EQ(element_offset(operand, 17, 9), 1024u + 2 * 256 + 16 + 512 + 2);
}

TEST(MatrixDescriptor, MnMajorSpansAndGroups) {
  const SharedOperand operand{{8192, 16384, 1024, Swizzle::k128B, false}, true, 16, 16};
  for (uint32_t row = 0; row < 128; ++row) {
    for (uint32_t k = 0; k < 16; ++k) {
      const uint32_t unit = (row % 64 / 8) ^ (k % 8);
      const uint32_t expected = 8192 + row / 64 * 16384 + k * 128 + unit * 16 + row % 8 * 2;
      ASSERT_EQ(element_offset(operand, row, k), expected);
    }
  }
  const SharedOperand plain{{1024, 2048, 128, Swizzle::kNone, false}, true, 16, 16};
  EXPECT_EQ(element_offset(plain, 9, 11), 1024u + 2 + 128 + 3 * 16 + 2048);
}

TEST(MatrixDescriptor, AbsoluteLeadingAddressSplitsARowOf48Bytes) {
  const SharedOperand operand{{1024 + 96, 4096, 1024, Swizzle::k128B, true}, false, 4, 16};
  EXPECT_EQ(element_offset(operand, 0, 0), 1024u + 96);
  EXPECT_EQ(element_offset(operand, 0, 64), 4096u);
  EXPECT_EQ(element_offset(operand, 0, 80), 4096u + 8);
}

TEST(MatrixDescriptor, SwizzlesArePermutationsOfTheirPeriod) {
  for (int s = 0; s <= static_cast<int>(Swizzle::k96B); ++s) {
    const Swizzle swizzle = static_cast<Swizzle>(s);
    std::set<uint32_t> seen;
    for (uint32_t a = 0; a < 1024; ++a) seen.insert(swizzled(swizzle, a));
    EXPECT_EQ(seen.size(), 1024u);
    EXPECT_LT(*seen.rbegin(), 1024u);
    const uint32_t period = swizzle_period(swizzle);
    for (uint32_t a = 0; a + period < 1024; ++a) {
      ASSERT_EQ(swizzled(swizzle, a + period), swizzled(swizzle, a) + period);
    }
  }
}

TEST(ReadOperand, ReportsBoundsAndUnwrittenBytes) {
  SharedMemory shared(8192);
  SharedOperand operand{{kSharedReserved, 16, 1024, Swizzle::k128B, false}, false, 8, 16};
  std::vector<uint8_t> out(64 * 32);
  EXPECT_EQ(read_operand(shared, operand, 64, 32, out.data(), nullptr).kind,
            FaultKind::kUninitialized);
  shared.mark(kSharedReserved, 8192, true);
  std::vector<uint32_t> chunks;
  EXPECT_TRUE(read_operand(shared, operand, 64, 32, out.data(), &chunks).ok());
  EXPECT_EQ(chunks.size(), 128u);
  operand.descriptor.start += 1024;
  EXPECT_EQ(read_operand(shared, operand, 64, 32, out.data(), nullptr).kind,
            FaultKind::kOutOfBounds);
}

TEST(InstructionDescriptor, WorkedValuesDecode) {
  InstructionDescriptor d;
  InstructionForm form;
  ASSERT_TRUE(decode_instruction(0x08200490, form, &d).ok());
  EXPECT_EQ(d.m, 128u);
  EXPECT_EQ(d.n, 128u);
  EXPECT_EQ(d.k, 16u);
  EXPECT_EQ(d.a, ElementFormat::kBF16);
  EXPECT_FALSE(d.f16_result);
  ASSERT_TRUE(decode_instruction(0x08210490, form, &d).ok());
  EXPECT_TRUE(d.mn_major_b);
  form.cta_group = 2;
  ASSERT_TRUE(decode_instruction(0x10400490, form, &d).ok());
  EXPECT_EQ(d.m, 256u);
  EXPECT_EQ(d.n, 256u);
  form = {TensorKind::kF8f6f4, 1, 0, false, false};
  ASSERT_TRUE(decode_instruction(0x08200090, form, &d).ok());
  EXPECT_EQ(d.a, ElementFormat::kE5M2);
  EXPECT_EQ(d.b, ElementFormat::kE4M3);
  form = {TensorKind::kMxf8f6f4, 1, 32, false, false};
  ASSERT_TRUE(decode_instruction(0x08A00000, form, &d).ok());
  EXPECT_EQ(d.m, 128u);
  EXPECT_EQ(d.scale_format, ScaleFormat::kUE8M0);
  form = {TensorKind::kMxf4, 1, 32, false, false};
  ASSERT_TRUE(decode_instruction(0x08A00480, form, &d).ok());
  EXPECT_EQ(d.k, 64u);
  form = {TensorKind::kMxf4nvf4, 1, 16, false, false};
  ASSERT_TRUE(decode_instruction(0x08200480, form, &d).ok());
  EXPECT_EQ(d.scale_format, ScaleFormat::kUE4M3);
  EXPECT_FALSE(decode_instruction(0x88200480, form, &d).ok());
  form.sm103 = true;
  ASSERT_TRUE(decode_instruction(0x88200480, form, &d).ok());
  EXPECT_EQ(d.k, 96u);
}

TEST(InstructionDescriptor, IllegalFormsAreRefused) {
  InstructionDescriptor d;
  InstructionForm form;
  const auto shape = [](uint32_t m, uint32_t n) { return m / 16 << 24 | n / 8 << 17 | 0x490u; };
  EXPECT_TRUE(decode_instruction(shape(64, 8), form, &d).ok());
  EXPECT_FALSE(decode_instruction(shape(32, 64), form, &d).ok());
  EXPECT_FALSE(decode_instruction(shape(256, 64), form, &d).ok());
  EXPECT_FALSE(decode_instruction(shape(128, 264), form, &d).ok());
  EXPECT_FALSE(decode_instruction(0x08200490 | 1u << 23, form, &d).ok());
  EXPECT_FALSE(decode_instruction(0x08200490 | 1u << 3, form, &d).ok());
  EXPECT_EQ(decode_instruction(0x08200490 | 1u << 2, form, &d).kind, FaultKind::kUnsupported);
  EXPECT_FALSE(decode_instruction(0x08200480, form, &d).ok()) << "bf16 with f16";
  form.cta_group = 2;
  EXPECT_FALSE(decode_instruction(shape(64, 64), form, &d).ok());
  EXPECT_FALSE(decode_instruction(shape(128, 24), form, &d).ok());
  form = {TensorKind::kMxf4, 1, 32, false, false};
  EXPECT_FALSE(decode_instruction(0x08200480, form, &d).ok()) << "mxf4 needs UE8M0";
  EXPECT_FALSE(decode_instruction(0x08A00480 | 1u << 29, form, &d).ok()) << "odd id";
  EXPECT_TRUE(decode_instruction(0x08A00480 | 2u << 29, form, &d).ok());
  form = {TensorKind::kI8, 1, 0, false, false};
  EXPECT_EQ(decode_instruction(0x08200010, form, &d).kind, FaultKind::kUnsupported);
  form = {TensorKind::kF16, 1, 0, true, false};
  EXPECT_FALSE(decode_instruction(0x08200490 | 1u << 15, form, &d).ok()) << "transposed TMEM A";
}

}  // namespace
}  // namespace flamia::emulator::test
