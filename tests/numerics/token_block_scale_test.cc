// The round-up exponent: its definition, its golden table, and whole token blocks.
// Depends on: golden vectors, sweep.h.
#include "numerics/token_block_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "numerics/bf16.h"
#include "numerics/hadamard.h"
#include "tests/numerics/sweep.h"
#include "tests/support/golden.h"

namespace flamia::test {
namespace {

constexpr int kDim = 128;
constexpr float kInfinity = bits_float(kInfinityBits);

void expect_golden_exponents(const char* name, Format format) {
  const Golden<int8_t> golden = load_golden<int8_t>(name);
  for (uint32_t b = 0; b < 32768; ++b) {
    if (golden[b] == -128) continue;  // NaN
    EXPECT_EQ(round_up_exponent(bf16_to_float(static_cast<uint16_t>(b)), format), golden[b]) << b;
  }
}

TEST(TokenBlockScale, ExponentsEqualGoldenForE4m3) {
  expect_golden_exponents("exp_up_e4m3", Format::kE4M3);
}
TEST(TokenBlockScale, ExponentsEqualGoldenForE5m2) {
  expect_golden_exponents("exp_up_e5m2", Format::kE5M2);
}
TEST(TokenBlockScale, ExponentsEqualGoldenForE2m1) {
  expect_golden_exponents("exp_up_e2m1", Format::kE2M1);
}

TEST(TokenBlockScale, ExponentsOfFloatsEqualGolden) {
  const Golden<int32_t> golden = load_golden<int32_t>("exp_up_e4m3_fp32_bits");
  for (int i = 0; i < golden.shape[0]; ++i) {
    const float amax = bits_float(static_cast<uint32_t>(golden.row(i)[0]));
    EXPECT_EQ(round_up_exponent_e4m3(amax), golden.row(i)[1]) << i;
    EXPECT_EQ(round_up_exponent_e2m1(amax), golden.row(i)[2]) << i;
  }
}

TEST(TokenBlockScale, RunTimeFormatChoosesTheSameRule) {
  for (uint32_t u = 0; u <= kInfinityBits; u += 65521) {
    const float amax = bits_float(u);
    EXPECT_EQ(round_up_exponent(amax, Format::kE4M3), round_up_exponent_e4m3(amax));
    EXPECT_EQ(round_up_exponent(amax, Format::kE5M2), round_up_exponent_e5m2(amax));
    EXPECT_EQ(round_up_exponent(amax, Format::kE2M1), round_up_exponent_e2m1(amax));
  }
}

/// Every amax, infinity included: exponent e from just above largest * 2^(e-1) to largest * 2^e.
template <typename Rule>
void expect_smallest_exponent_without_saturation(Rule rule, double largest) {
  std::vector<CodeRange> ranges;
  uint32_t first = 0;
  for (int e = kNoScaleExponent; first <= kInfinityBits; ++e) {
    const double bound = std::ldexp(largest, e);
    const bool all = bound > static_cast<double>(bits_float(kInfinityBits - 1));
    const uint32_t last = all ? kInfinityBits : float_bits(static_cast<float>(bound));
    ranges.push_back({first, last, static_cast<uint32_t>(e), 0.0f});
    first = last + 1;
  }
  const auto count = [rule](uint32_t from, uint32_t to, const CodeRange& range) {
    uint32_t difference = 0;
    for (uint32_t u = from; u < to; ++u) {
      difference |= static_cast<uint32_t>(rule(bits_float(u))) ^ range.code;
    }
    return difference != 0 ? 1u : 0u;
  };
  EXPECT_EQ(sweep_ranges(ranges, count), 0u);
}

TEST(ExhaustiveTokenBlockScale, E4m3ExponentIsTheSmallestThatDoesNotSaturate) {
  expect_smallest_exponent_without_saturation([](float a) { return round_up_exponent_e4m3(a); },
                                              448);
}
TEST(ExhaustiveTokenBlockScale, E5m2ExponentIsTheSmallestThatDoesNotSaturate) {
  expect_smallest_exponent_without_saturation([](float a) { return round_up_exponent_e5m2(a); },
                                              57344);
}
TEST(ExhaustiveTokenBlockScale, E2m1ExponentIsTheSmallestThatDoesNotSaturate) {
  expect_smallest_exponent_without_saturation([](float a) { return round_up_exponent_e2m1(a); }, 6);
}

TEST(TokenBlockScale, InverseScaleIsExactForEveryExponent) {
  for (int e = -127; e <= 127; ++e) EXPECT_EQ(inverse_scale(e), std::ldexp(1.0f, -e)) << e;
}

TEST(TokenBlockScale, InfinityPropagatesAndFiniteValuesFlush) {
  const int e = round_up_exponent_e4m3(kInfinity);
  EXPECT_EQ(e, 120);
  EXPECT_EQ(scale_pow2(quantize_e4m3(kInfinity, e), e), kInfinity);
  EXPECT_EQ(scale_pow2(quantize_e4m3(-kInfinity, e), e), -kInfinity);
  EXPECT_EQ(quantize_e4m3(1000.0f, e), 0.0f);
}

TEST(TokenBlockScale, AllZeroBlockGivesZeroCodes) {
  const int e = round_up_exponent_e4m3(0.0f);
  EXPECT_EQ(e, kNoScaleExponent);
  EXPECT_EQ(float_bits(quantize_e4m3(0.0f, e)), 0u);
  EXPECT_EQ(float_bits(quantize_e4m3(-0.0f, e)), kSignBit);
}

TEST(TokenBlockScale, TinyValuesOfATinyBlockAreScaledExactly) {
  const float amax = pow2(-140);
  EXPECT_EQ(round_up_exponent_e4m3(amax), -127);
  EXPECT_EQ(quantize_e4m3(amax, -127), pow2(-13 + 4) * 0.0f);  // 2^-13 is below the E4M3 grid
  EXPECT_EQ(quantize_e4m3(pow2(-130), -127), pow2(-3));
}

TEST(TokenBlockScale, ProductThatUnderflowsKeepsItsSign) {
  EXPECT_EQ(float_bits(quantize_e4m3(-pow2(-100), 100)), kSignBit);
}

TEST(TokenBlockScale, DoublingEveryValueDoublesTheScaleOnly) {
  for (float x = 1e-3f; x < 1e3f; x *= 1.37f) {
    const int e = round_up_exponent_e4m3(x);
    EXPECT_EQ(round_up_exponent_e4m3(2 * x), e + 1);
    EXPECT_EQ(quantize_e4m3(2 * x, e + 1), quantize_e4m3(x, e));
  }
}

/// Tokens [128][128] of tests/golden/tok_in_bf16, rotated if asked.
std::vector<float> golden_tokens(bool rotate) {
  const Golden<uint16_t> input = load_golden<uint16_t>("tok_in_bf16");
  std::vector<float> values;
  for (const uint16_t b : input.values) values.push_back(bf16_to_float(b));
  for (size_t row = 0; rotate && row < values.size(); row += kDim) hadamard<kDim>(&values[row]);
  return values;
}

/// Compares exponent and codes of tokens [first, last), which share one exponent.
void expect_group(const std::vector<float>& values, int first, int last,
                  const Golden<int8_t>& exponents, const Golden<uint8_t>& codes) {
  float amax = 0.0f;
  for (int i = first * kDim; i < last * kDim; ++i) amax = max_number(amax, magnitude(values[i]));
  const int e = round_up_exponent_e4m3(amax);
  for (int token = first; token < last; ++token) {
    ASSERT_EQ(exponents[token], e) << token;
    for (int c = 0; c < kDim; ++c) {
      const float x = values[token * kDim + c];
      ASSERT_EQ(encode_e4m3(x * inverse_scale(e)), codes.row(token)[c]) << token << ' ' << c;
      ASSERT_EQ(encode_e4m3(quantize_e4m3(x, e)), codes.row(token)[c]) << token << ' ' << c;
    }
  }
}

void expect_golden_blocks(bool rotate, const char* exponents_name, const char* codes_name) {
  const std::vector<float> values = golden_tokens(rotate);
  const Golden<int8_t> exponents = load_golden<int8_t>(exponents_name);
  const Golden<uint8_t> codes = load_golden<uint8_t>(codes_name);
  int start = 0;
  for (const int32_t length : load_golden<int32_t>("tok_doclens").values) {
    for (int block = 0; block < token_block_count(length); ++block) {
      const int first = start + block * kTokenBlock;
      expect_group(values, first, start + smaller((block + 1) * kTokenBlock, length), exponents,
                   codes);
    }
    start += length;
  }
  EXPECT_EQ(start, 128);
}

TEST(TokenBlockScale, PackedDocumentsEqualGolden) {
  expect_golden_blocks(false, "tok_exp_nohad", "tok_codes_nohad");
}
TEST(TokenBlockScale, RotatedPackedDocumentsEqualGolden) {
  expect_golden_blocks(true, "tok_exp_had", "tok_codes_had");
}

TEST(TokenBlockScale, PerTokenVariantEqualsGolden) {
  const std::vector<float> values = golden_tokens(false);
  const Golden<int8_t> exponents = load_golden<int8_t>("pertoken_exp_nohad");
  const Golden<uint8_t> codes = load_golden<uint8_t>("pertoken_codes_nohad");
  for (int token = 0; token < 128; ++token) {
    expect_group(values, token, token + 1, exponents, codes);
  }
}

}  // namespace
}  // namespace flamia::test
