// E2M1 against its definition on every float, against the golden codes and the CUDA headers.
// Depends on: narrow_format_test.h. Run Exhaustive* alone for the slow part.
#include "numerics/e2m1.h"

#include <gtest/gtest.h>

#include "numerics/bf16.h"
#include "tests/numerics/narrow_format_test.h"
#include "tests/support/golden.h"

#if __has_include(<cuda_fp4.h>)
#include <cuda_fp4.h>
#define FLAMIA_HAS_CUDA_FP4 1
#endif

namespace flamia::test {
namespace {

struct E2m1 {
  static constexpr int kMantissaBits = 1, kMinExponent = 0, kCodes = 8, kSign = 0x8;
  static constexpr int kNanCode = 0x7;
  static uint8_t encode(float x) { return encode_e2m1(x); }
  static float decode(uint8_t code) { return decode_e2m1(code); }
  static float round(float x) { return round_e2m1(x); }
  static uint8_t stochastic(float x, uint32_t word) { return encode_e2m1_stochastic(x, word); }
};

TEST(E2m1, DecodesByDefinition) { expect_decode_follows_definition<E2m1>(); }

TEST(E2m1, IgnoresTheHighNibble) { EXPECT_EQ(decode_e2m1(0xf5), 3.0f); }

TEST(E2m1, PacksEveryPairOfCodes) {
  for (int low = 0; low < 16; ++low) {
    for (int high = 0; high < 16; ++high) {
      const uint8_t packed = pack_e2m1(static_cast<uint8_t>(low), static_cast<uint8_t>(high));
      EXPECT_EQ(packed, low + 16 * high);
      EXPECT_EQ(unpack_e2m1(packed, 0), low);
      EXPECT_EQ(unpack_e2m1(packed, 1), high);
      EXPECT_EQ(unpack_e2m1(packed, 6), low);
    }
  }
}

TEST(E2m1, EncodesEveryBf16PatternLikeGolden) {
  const Golden<uint8_t> golden = load_golden<uint8_t>("cvt_bf16_to_e2m1");
  for (uint32_t b = 0; b < 32768; ++b) {
    const uint8_t code = golden[b];
    EXPECT_EQ(encode_e2m1(bf16_to_float(static_cast<uint16_t>(b))), code) << b;
    const bool nan = b > 0x7f80;
    const uint8_t negative = nan ? code : code | 0x8;
    EXPECT_EQ(encode_e2m1(bf16_to_float(static_cast<uint16_t>(b | 0x8000))), negative) << b;
  }
}

TEST(E2m1, StochasticRoundingIsUnbiased) { expect_stochastic_is_unbiased<E2m1>(); }
TEST(E2m1, StochasticRoundingKeepsValuesAndSaturates) { expect_stochastic_edges<E2m1>(); }

TEST(ExhaustiveE2m1, RoundsEveryFloatToNearestEven) { expect_nearest_even_everywhere<E2m1>(); }
TEST(ExhaustiveE2m1, KeepsEveryNan) { expect_nan_is_kept_everywhere<E2m1>(); }

#ifdef FLAMIA_HAS_CUDA_FP4
TEST(ExhaustiveE2m1, EqualsTheCudaHeader) {
  expect_same_codes<E2m1>(
      [](float x) { return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest); });
}
#endif

}  // namespace
}  // namespace flamia::test
