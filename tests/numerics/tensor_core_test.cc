// The tensor-core model against golden hardware-confirmed results and a second implementation.
// Depends on: golden vectors, base/philox.h; std::frexp for the independent form.
#include "numerics/tensor_core.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/philox.h"
#include "numerics/bf16.h"
#include "tests/support/golden.h"

namespace flamia::test {
namespace {

constexpr float kInfinity = bits_float(kFloatInfinityBits);
constexpr int kE4m3Min = -6;

TEST(TensorCore, FourChainedHopperStepsEqualGolden) {
  const Golden<uint8_t> a_codes = load_golden<uint8_t>("acc_A_e4m3");
  const Golden<uint8_t> b_codes = load_golden<uint8_t>("acc_B_e4m3");
  const Golden<uint32_t> expected = load_golden<uint32_t>("acc_D_model_fp32bits");
  for (int i = 0; i < 64; ++i) {
    for (int j = 0; j < 8; ++j) {
      float d = 0.0f;
      for (int step = 0; step < 128; step += 32) {
        float a[32], b[32];
        for (int k = 0; k < 32; ++k) {
          a[k] = decode_e4m3(a_codes.row(i)[step + k]);
          b[k] = decode_e4m3(b_codes.row(j)[step + k]);
        }
        d = accumulate_chunk(a, b, 32, d, kHopperFp8Accumulator, kE4m3Min);
      }
      EXPECT_EQ(float_bits(d), expected.row(i)[j]) << i << ' ' << j;
    }
  }
}

/// A second implementation with frexp, in the terms of the published simulator: significands and
/// exponents as real numbers.
struct Parts {
  double significand;
  int exponent;
};

Parts parts(double x, int min_exponent) {
  if (x == 0.0) return {0.0, -126};
  int exponent = 0;
  double significand = 2 * std::frexp(x, &exponent);
  --exponent;
  if (exponent < min_exponent) {
    significand = std::ldexp(significand, exponent - min_exponent);
    exponent = min_exponent;
  }
  return {significand, exponent};
}

struct Addends {
  std::vector<Parts> terms;

  double truncated_sum(int fraction_bits) const {
    int largest = -100000;
    for (const Parts& term : terms) largest = std::max(largest, term.exponent);
    double sum = 0.0;
    for (const Parts& term : terms) {
      sum += std::trunc(std::ldexp(term.significand, fraction_bits + term.exponent - largest));
    }
    return std::ldexp(sum, largest - fraction_bits);
  }
};

float truncate_f32(double x, int fraction_bits) {
  const Parts p = parts(x, -126);
  const double kept = std::trunc(std::ldexp(p.significand, fraction_bits));
  return static_cast<float>(std::ldexp(kept, p.exponent - fraction_bits));
}

/// Random decoded operands of a format, many binades wide, some zero, some subnormal.
std::vector<float> operands(uint64_t seed, int n, int min_exponent, int mantissa_bits, int spread) {
  std::vector<float> values;
  for (int k = 0; k < n; ++k) {
    const Philox4 bits = philox(seed, 3, static_cast<uint64_t>(k));
    const int exponent =
        min_exponent + static_cast<int>(bits.word[0] % static_cast<uint32_t>(spread));
    const int fraction = static_cast<int>(bits.word[1] & ((1u << mantissa_bits) - 1u));
    const bool subnormal = exponent == min_exponent && (bits.word[2] & 1u) != 0;
    const int significand = subnormal ? fraction : fraction + (1 << mantissa_bits);
    const float value = std::ldexp(static_cast<float>(significand), exponent - mantissa_bits);
    values.push_back((bits.word[2] & 2u) != 0 ? -value : value);
    if (bits.word[3] % 11 == 0) values.back() = 0.0f;
  }
  return values;
}

struct Case {
  AccumulatorModel model;
  int min_exponent, mantissa_bits, spread;
};

void expect_second_implementation(const Case& test) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const int n = test.model.chunk;
    const std::vector<float> a =
        operands(2 * seed, n, test.min_exponent, test.mantissa_bits, test.spread);
    const std::vector<float> b =
        operands(2 * seed + 1, n, test.min_exponent, test.mantissa_bits, test.spread);
    const float c = operands(seed + 77777, 1, test.min_exponent, 23, test.spread + 6)[0];
    Addends addends;
    addends.terms.push_back(parts(c, -126));
    for (int k = 0; k < n; ++k) {
      const Parts pa = parts(a[k], test.min_exponent), pb = parts(b[k], test.min_exponent);
      if (a[k] == 0.0f || b[k] == 0.0f) continue;
      addends.terms.push_back({pa.significand * pb.significand, pa.exponent + pb.exponent});
    }
    const double sum = addends.truncated_sum(test.model.product_fraction_bits);
    const float d = accumulate_chunk(a.data(), b.data(), n, c, test.model, test.min_exponent);
    ASSERT_EQ(d, truncate_f32(sum, test.model.result_fraction_bits)) << seed;
  }
}

TEST(TensorCore, HopperFp8EqualsASecondImplementation) {
  expect_second_implementation({kHopperFp8Accumulator, -6, 3, 15});
  expect_second_implementation({kHopperFp8Accumulator, -14, 2, 30});
}
TEST(TensorCore, F16AndBf16EqualASecondImplementation) {
  expect_second_implementation({kHopperF16Accumulator, -14, 10, 30});
  expect_second_implementation({kBlackwellF16Accumulator, -126, 7, 100});
  expect_second_implementation({kHopperF16Accumulator, -126, 7, 16});  // results near 2^-126
}
TEST(TensorCore, BlackwellF8f6f4EqualsASecondImplementation) {
  expect_second_implementation({kBlackwellF8f6f4Accumulator, -6, 3, 15});
  expect_second_implementation({kBlackwellF8f6f4Accumulator, 0, 1, 3});
}

TEST(TensorCore, SubnormalOperandKeepsItsFormatsExponent) {
  // 2^-9 is an E4M3 subnormal: its product with 1 is aligned at 2^-6, so C = 2^-9 + 2^-20 loses
  // the bit that it would keep beside a normal operand of 2^-9.
  const float a[1] = {0x1p-9f}, b[1] = {1.0f};
  const float c = 0x1p-9f + 0x1p-20f;
  EXPECT_EQ(accumulate_chunk(a, b, 1, c, kHopperFp8Accumulator, -6), 0x1p-8f);
  EXPECT_EQ(accumulate_chunk(a, b, 1, c, kHopperFp8Accumulator, -14), 0x1p-8f + 0x1p-20f);
}

TEST(TensorCore, MixedOperandsUseTheirOwnSmallestExponents) {
  const float a[1] = {0x1p-9f}, b[1] = {0x1p-16f};
  const float both = accumulate_chunk(a, b, 1, 0.0f, kHopperFp8Accumulator, -6, -14, 0);
  EXPECT_EQ(both, 0x1p-25f);
}

TEST(TensorCore, BlockScaleExponentsJoinTheAlignment) {
  const float a[2] = {1.5f, -448.0f}, b[2] = {2.0f, 0.001953125f};
  for (const int scale : {-254, -200, -40, 0, 40}) {
    const float plain = accumulate_chunk(a, b, 2, 0.0f, kBlackwellF8f6f4Accumulator, -6, -6, 0);
    const float scaled =
        accumulate_chunk(a, b, 2, 0.0f, kBlackwellF8f6f4Accumulator, -6, -6, scale);
    EXPECT_EQ(scaled, scale < -140 ? 0.0f : std::ldexp(plain, scale)) << scale;
  }
}

TEST(TensorCore, SumStagnatesOnHopperAndNotOnBlackwell) {
  const std::vector<float> ones(32, 1.0f);
  EXPECT_EQ(accumulate_chunk(ones.data(), ones.data(), 32, 16384.0f, kHopperFp8Accumulator, -6),
            16384.0f);
  EXPECT_EQ(
      accumulate_chunk(ones.data(), ones.data(), 32, 16384.0f, kBlackwellF8f6f4Accumulator, -6),
      16416.0f);
}

TEST(TensorCore, TruncationIsTowardZeroForBothSigns) {
  const float zero[1] = {0.0f};
  EXPECT_EQ(accumulate_chunk(zero, zero, 1, 1.9999999f, kHopperFp8Accumulator, -6),
            2.0f - 0x1p-13f);
  EXPECT_EQ(accumulate_chunk(zero, zero, 1, -1.9999999f, kHopperFp8Accumulator, -6),
            -2.0f + 0x1p-13f);
}

TEST(TensorCore, ZeroProductAlignsNothing) {
  const float a[2] = {0.0f, 0x1p-120f}, b[2] = {0x1p60f, 1.0f};
  EXPECT_EQ(accumulate_chunk(a, b, 2, 0.0f, kHopperF16Accumulator, -126), 0x1p-120f);
}

TEST(TensorCore, CancelledSumIsPositiveZero) {
  const float a[2] = {1.0f, -1.0f}, b[2] = {3.0f, 3.0f};
  EXPECT_EQ(float_bits(accumulate_chunk(a, b, 2, 0.0f, kHopperFp8Accumulator, -6)), 0u);
}

TEST(TensorCore, NanAndInfinityFollowTheExactSum) {
  const AccumulatorModel model = kHopperF16Accumulator;
  const float one[1] = {1.0f}, zero[1] = {0.0f}, infinity[1] = {kInfinity};
  const float minus[1] = {-1.0f}, nan[1] = {bits_float(0xffc00000u)};
  EXPECT_EQ(accumulate_chunk(infinity, one, 1, 5.0f, model, -126), kInfinity);
  EXPECT_EQ(accumulate_chunk(infinity, minus, 1, 5.0f, model, -126), -kInfinity);
  EXPECT_EQ(accumulate_chunk(one, one, 1, -kInfinity, model, -126), -kInfinity);
  EXPECT_EQ(float_bits(accumulate_chunk(infinity, one, 1, -kInfinity, model, -126)),
            kCanonicalNanBits);
  EXPECT_EQ(float_bits(accumulate_chunk(infinity, zero, 1, 0.0f, model, -126)), kCanonicalNanBits);
  EXPECT_EQ(float_bits(accumulate_chunk(nan, one, 1, 0.0f, model, -126)), kCanonicalNanBits);
}

TEST(TensorCore, OverflowGivesInfinity) {
  const float a[2] = {0x1p100f, 0x1p100f}, b[2] = {0x1p27f, 0x1p27f};
  EXPECT_EQ(accumulate_chunk(a, b, 2, 0.0f, kHopperF16Accumulator, -126), kInfinity);
  EXPECT_EQ(accumulate_chunk(a, b, 1, 0.0f, kHopperF16Accumulator, -126), 0x1p127f);
}

TEST(TensorCore, F16AccumulatorRoundsToNearestEvenOnce) {
  const AccumulatorModel model = kHopperF16Accumulator;
  const float one[1] = {1.0f}, half[1] = {0.5f}, more[1] = {0.5f + 0x1p-10f};
  EXPECT_EQ(accumulate_chunk_f16(half, one, 1, 1024.0f, model, -14), 1024.0f);  // a tie
  EXPECT_EQ(accumulate_chunk_f16(half, one, 1, 1025.0f, model, -14), 1026.0f);  // a tie
  EXPECT_EQ(accumulate_chunk_f16(more, one, 1, 1024.0f, model, -14), 1025.0f);
  EXPECT_EQ(accumulate_chunk_f16(half, one, 1, -1025.0f, model, -14), -1024.0f);
  const float large[1] = {65504.0f};
  EXPECT_EQ(accumulate_chunk_f16(large, one, 1, 15.0f, model, -14), 65504.0f);
  EXPECT_EQ(accumulate_chunk_f16(large, one, 1, 16.0f, model, -14), kInfinity);
  const float tiny[1] = {0x1p-14f}, small[1] = {0x1p-10f + 0x1p-13f};
  EXPECT_EQ(accumulate_chunk_f16(tiny, small, 1, 0.0f, model, -14), 0x1p-24f);
}

TEST(TensorCore, F16AccumulatorEqualsASecondImplementation) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const std::vector<float> a = operands(2 * seed, 16, -14, 10, 18);
    const std::vector<float> b = operands(2 * seed + 1, 16, -14, 10, 18);
    const float c = operands(seed + 99, 1, -14, 10, 20)[0];
    Addends addends;
    addends.terms.push_back(parts(c, -14));
    for (int k = 0; k < 16; ++k) {
      const Parts pa = parts(a[k], -14), pb = parts(b[k], -14);
      if (a[k] == 0.0f || b[k] == 0.0f) continue;
      addends.terms.push_back({pa.significand * pb.significand, pa.exponent + pb.exponent});
    }
    const double sum = addends.truncated_sum(25);
    const Parts p = parts(sum, -14);
    const double expected =
        std::ldexp(std::nearbyint(std::ldexp(p.significand, 10)), p.exponent - 10);
    const float d = accumulate_chunk_f16(a.data(), b.data(), 16, c, kHopperF16Accumulator, -14);
    ASSERT_EQ(d, std::fabs(expected) >= 65520 ? std::copysign(kInfinity, expected) : expected);
  }
}

TEST(TensorCore, Mxf4GroupsAreExactBeforeTheirScales) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const std::vector<float> a = operands(2 * seed, 64, 0, 1, 3);
    const std::vector<float> b = operands(2 * seed + 1, 64, 0, 1, 3);
    const float c = operands(seed, 1, -10, 23, 20)[0];
    float sa[4], sb[4];
    for (int g = 0; g < 4; ++g) {
      const Philox4 bits = philox(seed, 9, static_cast<uint64_t>(g));
      sa[g] = decode_ue4m3(static_cast<uint8_t>(bits.word[0] % 127));
      sb[g] = decode_ue4m3(static_cast<uint8_t>(bits.word[1] % 127));
    }
    Addends addends;
    addends.terms.push_back(parts(c, -126));
    for (int g = 0; g < 4; ++g) {
      double exact = 0.0;
      for (int k = 16 * g; k < 16 * g + 16; ++k) exact += double{a[k]} * b[k];
      const Parts pa = parts(sa[g], -6), pb = parts(sb[g], -6);
      addends.terms.push_back({exact * pa.significand * pb.significand, pa.exponent + pb.exponent});
    }
    const float expected = truncate_f32(addends.truncated_sum(35), 23);
    ASSERT_EQ(
        accumulate_chunk_mxf4(a.data(), b.data(), 64, sa, sb, 16, -6, c, kBlackwellMxf4Accumulator),
        expected)
        << seed;
  }
}

TEST(TensorCore, Mxf4TakesPowerOfTwoScalesPerThirtyTwo) {
  const std::vector<float> ones(64, 1.0f);
  const float sa[2] = {0.5f, 4.0f}, sb[2] = {1.0f, 0.25f};
  EXPECT_EQ(accumulate_chunk_mxf4(ones.data(), ones.data(), 64, sa, sb, 32, -127, 1.0f,
                                  kBlackwellMxf4Accumulator),
            1.0f + 16.0f + 32.0f);
}

TEST(TensorCore, Mxf4NanScaleGivesNan) {
  const std::vector<float> ones(64, 1.0f);
  const float nan[2] = {decode_ue8m0(0xff), 1.0f}, one[2] = {1.0f, 1.0f};
  EXPECT_EQ(float_bits(accumulate_chunk_mxf4(ones.data(), ones.data(), 64, nan, one, 32, -127, 0.0f,
                                             kBlackwellMxf4Accumulator)),
            kCanonicalNanBits);
}

}  // namespace
}  // namespace flamia::test
