// E4M3 against its definition on every float, against the golden codes and the CUDA headers.
// Depends on: narrow_format_test.h. Run Exhaustive* alone for the slow part.
#include "numerics/e4m3.h"

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

struct E4m3 {
  static constexpr int kMantissaBits = 3, kMinExponent = -6, kCodes = 127, kSign = 0x80;
  static constexpr int kNanCode = 0x7f;
  static uint8_t encode(float x) { return encode_e4m3(x); }
  static float decode(uint8_t code) { return decode_e4m3(code); }
  static float round(float x) { return round_e4m3(x); }
  static uint8_t stochastic(float x, uint32_t word) { return encode_e4m3_stochastic(x, word); }
};

TEST(E4m3, DecodesByDefinition) { expect_decode_follows_definition<E4m3>(); }

TEST(E4m3, DecodesBothNanCodes) {
  EXPECT_TRUE(std::isnan(decode_e4m3(0x7f)));
  EXPECT_TRUE(std::isnan(decode_e4m3(0xff)));
}

TEST(E4m3, EncodesEveryBf16PatternLikeGolden) {
  const Golden<uint8_t> golden = load_golden<uint8_t>("cvt_bf16_to_e4m3");
  for (uint32_t b = 0; b < 32768; ++b) {
    const uint8_t code = golden[b];
    EXPECT_EQ(encode_e4m3(bf16_to_float(static_cast<uint16_t>(b))), code) << b;
    const uint8_t negative = code == 0x7f ? code : code | 0x80;
    EXPECT_EQ(encode_e4m3(bf16_to_float(static_cast<uint16_t>(b | 0x8000))), negative) << b;
  }
}

TEST(E4m3, StochasticRoundingIsUnbiased) { expect_stochastic_is_unbiased<E4m3>(); }
TEST(E4m3, StochasticRoundingKeepsValuesAndSaturates) { expect_stochastic_edges<E4m3>(); }

TEST(ExhaustiveE4m3, RoundsEveryFloatToNearestEven) { expect_nearest_even_everywhere<E4m3>(); }
TEST(ExhaustiveE4m3, KeepsEveryNan) { expect_nan_is_kept_everywhere<E4m3>(); }

#ifdef FLAMIA_HAS_CUDA_FP8
TEST(ExhaustiveE4m3, EqualsTheCudaHeader) {
  expect_same_codes<E4m3>(
      [](float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3); });
}
#endif

}  // namespace
}  // namespace flamia::test
