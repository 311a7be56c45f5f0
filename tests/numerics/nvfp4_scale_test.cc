// NVFP4 scales and codes against the golden tokens, and the rule's edges.
// Depends on: golden vectors.
#include "numerics/nvfp4_scale.h"

#include <gtest/gtest.h>

#include <string>

#include "numerics/bf16.h"
#include "numerics/hadamard.h"
#include "tests/support/golden.h"

namespace flamia::test {
namespace {

constexpr int kDim = 128;
constexpr float kInfinity = bits_float(kFloatInfinityBits);

/// te: which second-level exponent the golden file used.
enum class TokenExponent { kMeasured, kZero };

void expect_golden(const std::string& kind, const std::string& rotation, TokenExponent choice) {
  const Golden<uint16_t> input = load_golden<uint16_t>("tok_in_bf16");
  const Golden<uint8_t> scales = load_golden<uint8_t>("nvfp4_" + kind + "_scales_" + rotation);
  const Golden<uint8_t> codes = load_golden<uint8_t>("nvfp4_" + kind + "_codes_" + rotation);
  for (int token = 0; token < input.shape[0]; ++token) {
    float x[kDim];
    for (int c = 0; c < kDim; ++c) x[c] = bf16_to_float(input.row(token)[c]);
    if (rotation == "had") hadamard<kDim>(x);
    float token_amax = 0.0f;
    for (int c = 0; c < kDim; ++c) token_amax = max_number(token_amax, magnitude(x[c]));
    const int te = choice == TokenExponent::kZero ? 0 : nvfp4_token_exponent(token_amax);
    if (choice == TokenExponent::kMeasured) {
      ASSERT_EQ(te, load_golden<int8_t>("nvfp4_" + kind + "_e_" + rotation)[token]) << token;
    }
    for (int block = 0; block < kDim / kNvfp4Block; ++block) {
      const float* first = x + block * kNvfp4Block;
      float amax = 0.0f;
      for (int c = 0; c < kNvfp4Block; ++c) amax = max_number(amax, magnitude(first[c]));
      const uint8_t scale = nvfp4_block_scale(amax, te);
      ASSERT_EQ(scale, scales.row(token)[block]) << token << ' ' << block;
      for (int c = 0; c < kNvfp4Block; ++c) {
        const uint8_t code = encode_nvfp4(first[c], nvfp4_scale_value(scale, te));
        ASSERT_EQ(code, codes.row(token)[block * kNvfp4Block + c]) << token << ' ' << block;
      }
    }
  }
}

TEST(Nvfp4Scale, TokensEqualGolden) { expect_golden("tokpow2", "nohad", TokenExponent::kMeasured); }
TEST(Nvfp4Scale, RotatedTokensEqualGolden) {
  expect_golden("tokpow2", "had", TokenExponent::kMeasured);
}
TEST(Nvfp4Scale, TokensWithoutSecondLevelEqualGolden) {
  expect_golden("ts1", "nohad", TokenExponent::kZero);
}

TEST(Nvfp4Scale, LargestBlockScaleIsInTheTopBinade) {
  for (float amax = 1e-30f; amax < 1e30f; amax *= 1.7f) {
    const float scale = decode_ue4m3(nvfp4_block_scale(amax, nvfp4_token_exponent(amax)));
    EXPECT_GE(scale, 224.0f) << amax;
    EXPECT_LE(scale, kE4m3Max) << amax;
  }
}

TEST(Nvfp4Scale, ZeroScaleGivesZeroCodesOfEitherSign) {
  EXPECT_EQ(nvfp4_block_scale(1.0f, 20), 0);
  EXPECT_EQ(encode_nvfp4(1.0f, 0.0f), 0);
  EXPECT_EQ(encode_nvfp4(-1.0f, 0.0f), 0);
}

TEST(Nvfp4Scale, AllZeroTokenIsAllZero) {
  const int te = nvfp4_token_exponent(0.0f);
  EXPECT_EQ(te, kNoScaleExponent);
  EXPECT_EQ(nvfp4_block_scale(0.0f, te), 0);
  EXPECT_EQ(encode_nvfp4(0.0f, nvfp4_scale_value(0, te)), 0);
}

TEST(Nvfp4Scale, InfiniteTokenKeepsAnInfiniteScaleAndFlushesTheRest) {
  const int te = nvfp4_token_exponent(kInfinity);
  EXPECT_EQ(te, 120);
  EXPECT_EQ(nvfp4_block_scale(kInfinity, te), kE4m3MaxCode);
  const float scale = nvfp4_scale_value(kE4m3MaxCode, te);
  EXPECT_EQ(scale, kInfinity);
  EXPECT_EQ(encode_nvfp4(kInfinity, scale), 0x7);
  EXPECT_EQ(encode_nvfp4(-3.0f, scale), 0x8);
}

TEST(Nvfp4Scale, DivisionIsNotMultiplicationByTheReciprocal) {
  // x / S is a tie exactly; x * (1 / S) is not always one. Some of these must differ.
  int differences = 0;
  for (int code = 0x08; code < 0x7f; ++code) {
    const float scale = decode_ue4m3(static_cast<uint8_t>(code));
    for (const float tie : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f}) {
      const float x = tie * scale;
      differences += encode_nvfp4(x, scale) != encode_e2m1(x * (1.0f / scale));
      EXPECT_EQ(encode_nvfp4(x, scale), encode_e2m1(tie));
    }
  }
  EXPECT_GT(differences, 0);
}

}  // namespace
}  // namespace flamia::test
