// E5M2 against its definition on every float, against the golden codes and the CUDA headers.
// Depends on: narrow_format_test.h. Run Exhaustive* alone for the slow part.
#include "numerics/e5m2.h"

#include <gtest/gtest.h>

#include "numerics/bf16.h"
#include "tests/numerics/narrow_format_test.h"
#include "tests/support/golden.h"

#if __has_include(<cuda_fp8.h>)
#include <cuda_fp8.h>
#define FLAMIA_HAS_CUDA_FP8 1
#endif

namespace flamia::test {
namespace {

struct E5m2 {
  static constexpr int kMantissaBits = 2, kMinExponent = -14, kCodes = 124, kSign = 0x80;
  static constexpr int kNanCode = 0x7f;
  static uint8_t encode(float x) { return encode_e5m2(x); }
  static float decode(uint8_t code) { return decode_e5m2(code); }
  static float round(float x) { return round_e5m2(x); }
  static uint8_t stochastic(float x, uint32_t word) { return encode_e5m2_stochastic(x, word); }
};

TEST(E5m2, DecodesByDefinition) { expect_decode_follows_definition<E5m2>(); }

TEST(E5m2, DecodesInfinitiesAndNans) {
  EXPECT_EQ(decode_e5m2(0x7c), bits_float(kInfinityBits));
  EXPECT_EQ(decode_e5m2(0xfc), -bits_float(kInfinityBits));
  for (int nan = 0x7d; nan <= 0x7f; ++nan) {
    EXPECT_TRUE(std::isnan(decode_e5m2(static_cast<uint8_t>(nan)))) << nan;
    EXPECT_TRUE(std::isnan(decode_e5m2(static_cast<uint8_t>(nan | 0x80)))) << nan;
  }
}

TEST(E5m2, EncodesEveryBf16PatternLikeGolden) {
  const Golden<uint8_t> golden = load_golden<uint8_t>("cvt_bf16_to_e5m2");
  for (uint32_t b = 0; b < 32768; ++b) {
    const uint8_t code = golden[b];
    EXPECT_EQ(encode_e5m2(bf16_to_float(static_cast<uint16_t>(b))), code) << b;
    const uint8_t negative = code == 0x7f ? code : code | 0x80;
    EXPECT_EQ(encode_e5m2(bf16_to_float(static_cast<uint16_t>(b | 0x8000))), negative) << b;
  }
}

TEST(E5m2, StochasticRoundingIsUnbiased) { expect_stochastic_is_unbiased<E5m2>(); }
TEST(E5m2, StochasticRoundingKeepsValuesAndSaturates) { expect_stochastic_edges<E5m2>(); }

TEST(ExhaustiveE5m2, RoundsEveryFloatToNearestEven) { expect_nearest_even_everywhere<E5m2>(); }
TEST(ExhaustiveE5m2, KeepsEveryNan) { expect_nan_is_kept_everywhere<E5m2>(); }

#ifdef FLAMIA_HAS_CUDA_FP8
TEST(ExhaustiveE5m2, EqualsTheCudaHeader) {
  expect_same_codes<E5m2>(
      [](float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2); });
}
#endif

}  // namespace
}  // namespace flamia::test
