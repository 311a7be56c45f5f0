// The forward kernel with exponentials other than the exact one, which is for some columns only:
// against the CPU backend, where the same columns are chosen.
// Runs on the virtual GPU, or by hand on a real one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/forward_compare.h"
#include "tests/kernels/forward_inputs.h"

namespace flamia::test {
namespace {

struct Form {
  const char* name;
  Exponential exponential;
  Safety safety;
};
class ForwardExponential : public testing::TestWithParam<Form> {
 protected:
  static Options options(MaskKind mask) {
    Options result = options_of(Path::kMxfp8, mask);
    result.exponential = GetParam().exponential;
    result.safety = GetParam().safety;
    return result;
  }
};

TEST_P(ForwardExponential, LikeTheCpu) {
  for (const int dim : {64, 128}) {
    Case one({{1, 33, 0, 200}, {}, 2, 1, dim, 3}, 51);
    expect_like_cpu(one, options(MaskKind::kCausal));
    expect_like_cpu(one, options(MaskKind::kFull));
  }
  Case longer({{390}, {}, 1, 1, 64, 0}, 52);
  Options window = options(MaskKind::kWindow);
  window.mask.window_left = 100;
  window.mask.window_right = 30;
  expect_like_cpu(longer, window);
}

/// V that no constant row can count: sums of the registers add the same exponentials.
TEST_P(ForwardExponential, SumsInRegisters) {
  Case one({{290}, {}, 1, 1, 64, 0}, 53);
  for (int64_t token = 0; token < 290; ++token) {
    if (token / 32 % 2 == 0) continue;
    for (int c = 0; c < 64; ++c) {
      one.v(token, 0, c) = float_to_bf16(bf16_to_float(one.v(token, 0, c)) * 0x1p-9f);
    }
  }
  expect_like_cpu(one, options(MaskKind::kCausal));
  Options sum_of_p = options(MaskKind::kFull);
  sum_of_p.row_sum = RowSum::kP;
  expect_like_cpu(one, sum_of_p);
}

/// Rows that see one key each: the sum of a row is the exponential of its column, at an argument
/// where exact and other exponentials differ by more than the tolerance, also after rounding to
/// P-hat (233 is above 232, between two codes; Schraudolph's is not).
TEST_P(ForwardExponential, EveryColumnHasItsOwn) {
  Case one({{300}, {}, 1, 1, 64, 0}, 54);
  Options itself = options(MaskKind::kWindow);
  itself.mask.window_left = itself.mask.window_right = 0;
  itself.p_scale = 233.0f;
  ForwardTolerance tolerance;
  tolerance.lse = tolerance.row_lse = 2e-5;
  for (const RowSum sum : {RowSum::kP, RowSum::kPHat}) {
    itself.row_sum = sum;
    const ForwardResult got = expect_like_cpu(one, itself, tolerance);
    Options usual = itself;
    usual.exponential = Exponential::kExact;
    const ForwardResult other = cpu_forward(one, usual);
    int different = 0;
    for (size_t i = 0; i < 128; ++i) different += std::fabs(got.lse[i] - other.lse[i]) > 2e-5f;
    const bool rounded_away =
        sum == RowSum::kPHat && itself.exponential == Exponential::kPolynomial;
    const int wanted = itself.exponential == Exponential::kPolynomial ? 128 / 4 : 128 / 8 * 5;
    EXPECT_EQ(different, rounded_away ? 0 : wanted);
  }
}

TEST_P(ForwardExponential, ADocumentAloneIsTheSameInsideARow) {
  Case alone({{150}, {}, 1, 1, 64, 0}, 55);
  const Options causal = options(MaskKind::kCausal);
  const ForwardResult wanted = device_forward(alone, causal);
  for (const int32_t before : {1, 31, 128}) {
    const Shape shape{{before, 150, 45}, {}, 1, 1, 64, 0};
    Case row(shape, 56);
    copy_rows(alone.q_data, 0, &row.q_data, before, 150, 64);
    copy_rows(alone.k_data, 0, &row.k_data, before, 150, 64);
    copy_rows(alone.v_data, 0, &row.v_data, before, 150, 64);
    expect_same_bits(rows_of(device_forward(row, causal), shape, before, 150), wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ForwardExponential,
    testing::Values(Form{"polynomial", Exponential::kPolynomial, Safety::kDefault},
                    Form{"schraudolph", Exponential::kSchraudolph, Safety::kDefault},
                    Form{"exact_polynomial", Exponential::kPolynomial, Safety::kExact},
                    Form{"exact_schraudolph", Exponential::kSchraudolph, Safety::kExact}),
    [](const testing::TestParamInfo<Form>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace flamia::test
