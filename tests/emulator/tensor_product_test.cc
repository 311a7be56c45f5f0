// The blocked product against the plain model, output by output.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "emulator/tensor/elements.h"
#include "emulator/tensor/product.h"
#include "numerics/f16.h"
#include "numerics/scale_codes.h"
#include "tests/support/golden.h"

namespace flamia::emulator::test {
namespace {

using flamia::test::Golden;
using flamia::test::load_golden;

/// Random codes of a format, every pattern included.
Matrix random_matrix(ElementFormat format, uint32_t rows, uint32_t k, std::mt19937* random) {
  Matrix m;
  m.resize(rows, k);
  m.min_exponent = min_exponent(format);
  std::vector<uint8_t> bytes(size_t{4} * k);
  for (uint32_t i = 0; i < rows; ++i) {
    // Most rows hold moderate values, so that sums are not all NaN.
    const bool wild = i % 4 == 3;
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((*random)());
    decode_elements(format, Packing::kPlain, bytes.data(), k, false, m.row(i));
    for (uint32_t x = 0; x < k && !wild; ++x) {
      float& value = m.row(i)[x];
      if (is_nan(value) || magnitude(value) > 1e30f || magnitude(value) > kF16Max) value = 0.0f;
    }
  }
  return m;
}

float random_c(std::mt19937* random, bool f16) {
  const uint32_t choice = static_cast<uint32_t>((*random)()) % 8;
  if (choice == 0) return 0.0f;
  float value = std::ldexp(static_cast<float>(static_cast<int32_t>((*random)())) * 0x1p-31f,
                           static_cast<int>((*random)() % 24) - 8);
  if (choice == 1) value = bits_float(static_cast<uint32_t>((*random)()));
  if (f16) return f16_to_float(float_to_f16(value));
  return is_nan(value) ? bits_float(kCanonicalNanBits) : value;
}

struct Case {
  ElementFormat format;
  AccumulatorModel model;
  uint32_t k;
  bool f16_result;
};

TEST(Product, HardwareModeEqualsThePlainModel) {
  const Case cases[] = {
      {ElementFormat::kE4M3, kHopperFp8Accumulator, 32, false},
      {ElementFormat::kE4M3, kHopperFp8Accumulator, 32, true},
      {ElementFormat::kE5M2, kHopperFp8Accumulator, 64, false},
      {ElementFormat::kE4M3, kBlackwellF8f6f4Accumulator, 32, false},
      {ElementFormat::kBF16, kBlackwellF16Accumulator, 16, false},
      {ElementFormat::kF16, kHopperF16Accumulator, 32, true},
      {ElementFormat::kTF32, {25, 23, 8}, 8, false},
  };
  std::mt19937 random(1);
  for (const Case& test : cases) {
    const Matrix a = random_matrix(test.format, 13, test.k, &random);
    const Matrix b = random_matrix(test.format, 22, test.k, &random);
    std::vector<float> c(13 * 22), expected;
    for (float& value : c) value = random_c(&random, test.f16_result);
    expected = c;
    for (uint32_t i = 0; i < 13; ++i) {
      for (uint32_t j = 0; j < 22; ++j) {
        float& d = expected[i * 22 + j];
        const uint32_t chunk = static_cast<uint32_t>(test.model.chunk);
        for (uint32_t x = 0; x < test.k; x += chunk) {
          const int n = test.model.chunk;
          d = test.f16_result
                  ? accumulate_chunk_f16(a.row(i) + x, b.row(j) + x, n, d, test.model,
                                         a.min_exponent)
                  : accumulate_chunk(a.row(i) + x, b.row(j) + x, n, d, test.model, a.min_exponent);
        }
      }
    }
    ProductRules rules{NumericMode::kHardware, test.model, test.f16_result, false};
    multiply(rules, a, b, {}, {}, c.data());
    for (size_t i = 0; i < c.size(); ++i) {
      ASSERT_EQ(float_bits(c[i]), float_bits(expected[i])) << i;
    }
  }
}

TEST(Product, FourChainedHopperStepsEqualGolden) {
  const Golden<uint8_t> a_codes = load_golden<uint8_t>("acc_A_e4m3");
  const Golden<uint8_t> b_codes = load_golden<uint8_t>("acc_B_e4m3");
  const Golden<uint32_t> expected = load_golden<uint32_t>("acc_D_model_fp32bits");
  Matrix a, b;
  a.resize(64, 128);
  b.resize(8, 128);
  a.min_exponent = b.min_exponent = min_exponent(ElementFormat::kE4M3);
  for (int i = 0; i < 64; ++i) {
    decode_elements(ElementFormat::kE4M3, Packing::kPlain, a_codes.row(i), 128, false,
                    a.row(static_cast<uint32_t>(i)));
  }
  for (int j = 0; j < 8; ++j) {
    decode_elements(ElementFormat::kE4M3, Packing::kPlain, b_codes.row(j), 128, false,
                    b.row(static_cast<uint32_t>(j)));
  }
  std::vector<float> c(64 * 8, 0.0f);
  multiply({NumericMode::kHardware, kHopperFp8Accumulator, false, false}, a, b, {}, {}, c.data());
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 8; ++j) {
      ASSERT_EQ(float_bits(c[static_cast<size_t>(i * 8 + j)]), expected.row(i)[j]);
    }
  }
}

TEST(Product, ExactModeIsTheRoundedSum) {
  std::mt19937 random(2);
  for (const bool f16 : {false, true}) {
    Matrix a = random_matrix(ElementFormat::kE4M3, 7, 32, &random);
    Matrix b = random_matrix(ElementFormat::kE4M3, 30, 32, &random);
    std::vector<float> c(7 * 30), before;
    for (float& value : c) value = f16 ? 0.5f : random_c(&random, false);
    before = c;
    multiply({NumericMode::kExact, kBlackwellF8f6f4Accumulator, f16, false}, a, b, {}, {},
             c.data());
    for (uint32_t i = 0; i < 7; ++i) {
      for (uint32_t j = 0; j < 30; ++j) {
        double sum = 0.0;
        for (uint32_t x = 0; x < 32; ++x) {
          sum += static_cast<double>(a.row(i)[x]) * static_cast<double>(b.row(j)[x]);
        }
        sum += static_cast<double>(before[i * 30 + j]);
        const float got = c[i * 30 + j];
        if (std::isnan(sum)) {
          EXPECT_EQ(float_bits(got), kCanonicalNanBits);
        } else {
          const float expected =
              f16 ? f16_to_float(float_to_f16(static_cast<float>(sum))) : static_cast<float>(sum);
          EXPECT_EQ(got, expected);
        }
      }
    }
  }
}

/// Decoded random scales, one NaN among them.
Scales random_scales(ScaleFormat format, uint32_t rows, uint32_t per_row, uint32_t block,
                     std::mt19937* random) {
  Scales s;
  s.block = block;
  s.per_row = per_row;
  s.min_exponent = format == ScaleFormat::kUE8M0 ? -127 : -6;
  for (uint32_t i = 0; i < rows * per_row; ++i) {
    const uint32_t code = static_cast<uint32_t>((*random)());
    s.values.push_back(format == ScaleFormat::kUE8M0
                           ? decode_ue8m0(static_cast<uint8_t>(117 + code % 20))
                           : decode_ue4m3(static_cast<uint8_t>(code % 127)));
  }
  s.values[1] = bits_float(kCanonicalNanBits);
  return s;
}

TEST(Product, ScaledEightBitKindAddsScaleExponents) {
  std::mt19937 random(3);
  const Matrix a = random_matrix(ElementFormat::kE4M3, 9, 32, &random);
  const Matrix b = random_matrix(ElementFormat::kE4M3, 17, 32, &random);
  const Scales sa = random_scales(ScaleFormat::kUE8M0, 9, 1, 32, &random);
  const Scales sb = random_scales(ScaleFormat::kUE8M0, 17, 1, 32, &random);
  std::vector<float> c(9 * 17, 1.5f);
  multiply({NumericMode::kHardware, kBlackwellF8f6f4Accumulator, false, false}, a, b, sa, sb,
           c.data());
  for (uint32_t i = 0; i < 9; ++i) {
    for (uint32_t j = 0; j < 17; ++j) {
      const float x = *sa.row(i), y = *sb.row(j);
      const float expected =
          is_nan(x) || is_nan(y)
              ? bits_float(kCanonicalNanBits)
              : accumulate_chunk(a.row(i), b.row(j), 32, 1.5f, kBlackwellF8f6f4Accumulator, -6, -6,
                                 floor_log2(x) + floor_log2(y));
      ASSERT_EQ(float_bits(c[i * 17 + j]), float_bits(expected));
    }
  }
}

TEST(Product, FourBitKindsEqualThePlainModel) {
  std::mt19937 random(6);
  for (const uint32_t block : {16u, 32u}) {
    const ScaleFormat format = block == 16 ? ScaleFormat::kUE4M3 : ScaleFormat::kUE8M0;
    for (int round = 0; round < 20; ++round) {
      Matrix a, b;
      a.resize(5, 64);
      b.resize(7, 64);
      a.min_exponent = b.min_exponent = 0;
      for (float& value : a.values) value = decode_e2m1(static_cast<uint8_t>(random() % 16));
      for (float& value : b.values) value = decode_e2m1(static_cast<uint8_t>(random() % 16));
      const Scales sa = random_scales(format, 5, 64 / block, block, &random);
      const Scales sb = random_scales(format, 7, 64 / block, block, &random);
      std::vector<float> c(35), expected;
      for (float& value : c) value = random_c(&random, false);
      expected = c;
      for (uint32_t i = 0; i < 5; ++i) {
        for (uint32_t j = 0; j < 7; ++j) {
          float& d = expected[i * 7 + j];
          d = accumulate_chunk_mxf4(a.row(i), b.row(j), 64, sa.row(i), sb.row(j),
                                    static_cast<int>(block), sa.min_exponent, d,
                                    kBlackwellMxf4Accumulator);
        }
      }
      multiply({NumericMode::kHardware, kBlackwellMxf4Accumulator, false, true}, a, b, sa, sb,
               c.data());
      for (size_t i = 0; i < c.size(); ++i) {
        ASSERT_EQ(float_bits(c[i]), float_bits(expected[i])) << i;
      }
    }
  }
}

TEST(Product, FourBitKindsAgreeInBothModesOnRepresentableSums) {
  std::mt19937 random(4);
  Matrix a, b;
  a.resize(6, 64);
  b.resize(8, 64);
  a.min_exponent = b.min_exponent = 0;
  for (float& value : a.values) value = decode_e2m1(static_cast<uint8_t>(random() % 16));
  for (float& value : b.values) value = decode_e2m1(static_cast<uint8_t>(random() % 16));
  Scales sa, sb;
  sa.block = sb.block = 16;
  sa.per_row = sb.per_row = 4;
  sa.min_exponent = sb.min_exponent = -6;
  sa.values.assign(24, 1.5f);
  sb.values.assign(32, 0.75f);
  std::vector<float> hardware(48, 2.0f), exact(48, 2.0f);
  multiply({NumericMode::kHardware, kBlackwellMxf4Accumulator, false, true}, a, b, sa, sb,
           hardware.data());
  multiply({NumericMode::kExact, kBlackwellMxf4Accumulator, false, true}, a, b, sa, sb,
           exact.data());
  for (size_t i = 0; i < 48; ++i) EXPECT_EQ(hardware[i], exact[i]);
}

TEST(Elements, SixBitFormatsHaveTheirLandmarks) {
  EXPECT_EQ(decode_e2m3(0x1f), 7.5f);
  EXPECT_EQ(decode_e2m3(0x01), 0.125f);
  EXPECT_EQ(decode_e2m3(0x28), -1.0f);
  EXPECT_EQ(decode_e3m2(0x1f), 28.0f);
  EXPECT_EQ(decode_e3m2(0x01), 0.0625f);
  EXPECT_EQ(decode_e3m2(0x0c), 1.0f);
}

TEST(Elements, PackedFormsHoldTheSameElements) {
  // Codes 0 to 15 of e2m1 in each packing.
  uint8_t padded[16] = {}, container[16], nibbles[8];
  for (uint32_t i = 0; i < 16; ++i) container[i] = static_cast<uint8_t>(i << 2);
  for (uint32_t i = 0; i < 8; ++i) nibbles[i] = static_cast<uint8_t>((2 * i) | (2 * i + 1) << 4);
  std::copy(nibbles, nibbles + 8, padded);
  float from[3][16];
  decode_elements(ElementFormat::kE2M1, Packing::kPadded16, padded, 16, false, from[0]);
  decode_elements(ElementFormat::kE2M1, Packing::kContainer, container, 16, false, from[1]);
  decode_elements(ElementFormat::kE2M1, Packing::kNibbles, nibbles, 16, true, from[2]);
  for (uint32_t i = 0; i < 16; ++i) {
    const float value = decode_e2m1(static_cast<uint8_t>(i));
    EXPECT_EQ(from[0][i], value);
    EXPECT_EQ(from[1][i], value);
    EXPECT_EQ(from[2][i], -value);
  }
}

}  // namespace
}  // namespace flamia::emulator::test
