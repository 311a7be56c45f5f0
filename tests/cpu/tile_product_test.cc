// Tile products against their definitions.
#include "cpu/tile_product.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "numerics/e4m3.h"
#include "numerics/tensor_core.h"
#include "tests/support/golden.h"

namespace flamia::cpu {
namespace {

class HardwareProduct : public testing::Test {
 protected:
  HardwareProduct() : a_(128 * 128), b_(128 * 128), exponent_(128 * 128) {
    scratch_ = {a_.data(), b_.data(), exponent_.data()};
    model_.exact = false;
  }
  static std::vector<float> codes(int count, uint32_t seed, int smallest, int largest) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> code(smallest, largest);
    std::vector<float> values;
    for (int x = 0; x < count; ++x) {
      const int sign = static_cast<int>(random() & 1u) << 7;
      values.push_back(decode_e4m3(static_cast<uint8_t>(code(random) | sign)));
    }
    return values;
  }

  std::vector<float> a_, b_;
  std::vector<int> exponent_;
  ProductScratch scratch_;
  ProductModel model_;
};

TEST_F(HardwareProduct, EqualsTheGoldenAccumulationOfAnH200) {
  const auto a_codes = test::load_golden<uint8_t>("acc_A_e4m3");
  const auto b_codes = test::load_golden<uint8_t>("acc_B_e4m3");
  const auto expected = test::load_golden<uint32_t>("acc_D_model_fp32bits");
  std::vector<float> a, b;
  for (const uint8_t code : a_codes.values) a.push_back(decode_e4m3(code));
  for (const uint8_t code : b_codes.values) b.push_back(decode_e4m3(code));
  std::vector<float> c(64 * 8);
  product_abt(model_, scratch_, {a.data(), 128}, {b.data(), 128}, 64, 8, 128, c.data(), 8, false);
  for (size_t x = 0; x < c.size(); ++x) {
    ASSERT_EQ(float_bits(c[x]), expected[x]) << "element " << x;
  }
}

TEST_F(HardwareProduct, EqualsTheScalarDefinitionForSubnormalLargeAndCarriedAccumulators) {
  constexpr int kM = 5, kN = 7, kK = 96;
  for (const auto& [smallest, largest] :
       {std::pair{0, 126}, std::pair{0, 15}, std::pair{96, 126}}) {
    const std::vector<float> a = codes(kM * kK, 1, smallest, largest);
    const std::vector<float> b = codes(kK * kN, 2, smallest, largest);
    std::vector<float> c(kM * kN);
    for (size_t x = 0; x < c.size(); ++x) c[x] = static_cast<float>(x * x) * 3.7f - 40.0f;
    std::vector<float> expected = c;
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        float column[kK];
        for (int p = 0; p < kK; ++p) column[p] = b[static_cast<size_t>(p * kN + j)];
        float& sum = expected[static_cast<size_t>(i * kN + j)];
        for (int p = 0; p < kK; p += 32) {
          sum = accumulate_chunk(a.data() + i * kK + p, column + p, 32, sum, kHopperFp8Accumulator,
                                 -6);
        }
      }
    }
    product_ab(model_, scratch_, {a.data(), kK}, {b.data(), kN}, kM, kN, kK, c.data(), kN, true);
    for (size_t x = 0; x < c.size(); ++x) ASSERT_EQ(c[x], expected[x]) << "element " << x;
  }
}

TEST_F(HardwareProduct, TransposedFormsAgree) {
  constexpr int kM = 9, kN = 16, kK = 64;
  const std::vector<float> a = codes(kM * kK, 3, 0, 126);
  const std::vector<float> b = codes(kK * kN, 4, 0, 126);
  std::vector<float> a_t(a.size()), b_t(b.size());
  for (int i = 0; i < kM; ++i) {
    for (int p = 0; p < kK; ++p)
      a_t[static_cast<size_t>(p * kM + i)] = a[static_cast<size_t>(i * kK + p)];
  }
  for (int p = 0; p < kK; ++p) {
    for (int j = 0; j < kN; ++j)
      b_t[static_cast<size_t>(j * kK + p)] = b[static_cast<size_t>(p * kN + j)];
  }
  for (const bool exact : {true, false}) {
    model_.exact = exact;
    std::vector<float> ab(kM * kN), abt(kM * kN), atb(kM * kN);
    product_ab(model_, scratch_, {a.data(), kK}, {b.data(), kN}, kM, kN, kK, ab.data(), kN, false);
    product_abt(model_, scratch_, {a.data(), kK}, {b_t.data(), kK}, kM, kN, kK, abt.data(), kN,
                false);
    product_atb(model_, scratch_, {a_t.data(), kM}, {b.data(), kN}, kM, kN, kK, atb.data(), kN,
                false);
    for (size_t x = 0; x < ab.size(); ++x) {
      // FP32 sums may differ in order between forms: 64 products, 2^-23 each, of at most 448^2.
      const float tolerance = exact ? 64 * 448.0f * 448.0f * 1.2e-7f : 0.0f;
      EXPECT_NEAR(ab[x], abt[x], tolerance);
      EXPECT_NEAR(ab[x], atb[x], tolerance);
    }
  }
}

}  // namespace
}  // namespace flamia::cpu
