// Figures against sums written out; edges where a figure has no value.
#include "tools/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "numerics/bf16.h"

namespace flamia::tools {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr float kNanF = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

HostTensor bf16_tensor(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  HostTensor tensor;
  EXPECT_TRUE(HostTensor::allocate(ElementType::kBF16, shape, &tensor).ok());
  for (size_t i = 0; i < values.size(); ++i) tensor.as<uint16_t>()[i] = float_to_bf16(values[i]);
  return tensor;
}

TEST(Accuracy, GivesFiguresOfTheFlattenedTensor) {
  // Two tokens, one head, two channels: rows (3, 4) and (1, 0) against (4, 3) and (2, 0).
  const HostTensor out = bf16_tensor({2, 1, 2}, {3, 4, 1, 0});
  const std::vector<double> reference = {4, 3, 2, 0};
  const OutputAccuracy a = compare_rows(out, reference, {}, 1);
  EXPECT_DOUBLE_EQ(*a.cosine, 26 / std::sqrt(26.0 * 29.0));
  EXPECT_DOUBLE_EQ(*a.row_cosine, (24.0 / 25 + 1) / 2);
  EXPECT_DOUBLE_EQ(*a.rel_l2, std::sqrt(3.0 / 29));
  EXPECT_DOUBLE_EQ(*a.max_abs, 1);
  EXPECT_DOUBLE_EQ(*a.gain, 26.0 / 29);
  EXPECT_EQ(a.rows, 2);
}

TEST(Accuracy, ComparesSampledTokensOnly) {
  const HostTensor out = bf16_tensor({3, 1, 1}, {5, 1, 9});
  const std::vector<double> reference = {kNan, 2, kNan};
  const std::vector<int64_t> tokens = {1};
  const OutputAccuracy a = compare_rows(out, reference, tokens, 1);
  EXPECT_EQ(*a.max_abs, 1);
  EXPECT_EQ(a.rows, 1);
  EXPECT_EQ(a.unexpected_nans, 0);
}

TEST(Accuracy, SkipsZeroRowsInTheRowCosine) {
  const HostTensor out = bf16_tensor({3, 1, 2}, {1, 0, 7, 7, 0, 0});
  const OutputAccuracy a = compare_rows(out, std::vector<double>{2, 0, 0, 0, 1, 1}, {}, 1);
  EXPECT_EQ(*a.row_cosine, 0.5) << "a zero row against a non-zero reference counts as 0";
}

TEST(Accuracy, HasNoCosineOfAZeroReference) {
  const OutputAccuracy a =
      compare_rows(bf16_tensor({1, 1, 2}, {0, 2}), std::vector<double>{0, 0}, {}, 1);
  EXPECT_FALSE(a.cosine || a.row_cosine || a.rel_l2 || a.gain);
  EXPECT_EQ(*a.max_abs, 2);
  const OutputAccuracy nothing = compare_rows(bf16_tensor({0, 1, 2}, {}), {}, {}, 1);
  EXPECT_FALSE(nothing.cosine || nothing.max_abs);
}

TEST(Accuracy, CountsNansThatTheReferenceDoesNotHave) {
  const HostTensor out = bf16_tensor({2, 1, 2}, {kNanF, 1, kNanF, 1});
  const OutputAccuracy a = compare_rows(out, std::vector<double>{kNan, 1, 1, 1}, {}, 1);
  EXPECT_EQ(a.unexpected_nans, 1);
  EXPECT_EQ(*a.max_abs, 0);
}

TEST(Accuracy, LeavesOutInfiniteReferences) {
  const HostTensor out = bf16_tensor({1, 1, 3}, {1, 2, 3});
  const OutputAccuracy a = compare_rows(out, std::vector<double>{1, kInfinity, 3}, {}, 1);
  EXPECT_DOUBLE_EQ(*a.cosine, 1);
  EXPECT_EQ(*a.max_abs, 0);
  EXPECT_EQ(a.unexpected_nans, 0);
}

TEST(Accuracy, DoesNotDependOnThreads) {
  std::vector<float> values(3000);
  std::vector<double> reference(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    reference[i] = std::sin(static_cast<double>(i)) + 1e-3 * std::cos(static_cast<double>(7 * i));
  }
  const HostTensor out = bf16_tensor({1000, 1, 3}, values);
  const OutputAccuracy one = compare_rows(out, reference, {}, 1);
  const OutputAccuracy five = compare_rows(out, reference, {}, 5);
  EXPECT_EQ(*one.cosine, *five.cosine);
  EXPECT_EQ(*one.row_cosine, *five.row_cosine);
  EXPECT_EQ(*one.rel_l2, *five.rel_l2);
}

struct LseCase {
  Problem problem;
  AttentionOutputs outputs;
  oracle::Result reference;

  LseCase(int32_t batch, const std::vector<float>& lse, std::vector<double> expected) {
    problem.query_tokens = 4;
    problem.batch = batch;
    problem.heads = 2;
    problem.kv_heads = 2;
    problem.head_dim = 1;
    EXPECT_TRUE(HostTensor::allocate(ElementType::kF32, {8}, &outputs.lse).ok());
    std::copy(lse.begin(), lse.end(), outputs.lse.as<float>());
    outputs.o = bf16_tensor({4, 2, 1}, std::vector<float>(8));
    reference.o.resize(8);
    reference.lse = std::move(expected);
  }
};

TEST(Accuracy, TakesTheLargestLseDifference) {
  LseCase one(0, {0, 0, 0, 0, 0, 0, 0.25F, 0}, std::vector<double>(8));
  EXPECT_EQ(*compare_outputs(one.problem, one.outputs, one.reference, 1).lse_max_abs, 0.25);
}

TEST(Accuracy, FindsLseRowsOfSampledTokens) {
  // Batched [2, heads 2, length 2]: token 2 is entry 0 of sequence 1: indices 4 and 6.
  LseCase one(2, {9, 9, 9, 9, 1, 9, 3, 9}, {0, 0, 0, 0, 1, 0, 2, 0});
  one.reference.query_rows = {2};
  one.reference.key_rows = {2};
  const Accuracy a = compare_outputs(one.problem, one.outputs, one.reference, 1);
  EXPECT_EQ(*a.lse_max_abs, 1);
  EXPECT_EQ(a.query_rows, 1);
  EXPECT_FALSE(a.all_rows);
}

TEST(Accuracy, TakesEqualInfinitiesOfLseAsEqual) {
  const auto minus = -std::numeric_limits<float>::infinity();
  LseCase equal(0, {minus, 0, 0, 0, 0, 0, 0, 0}, {-kInfinity, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(*compare_outputs(equal.problem, equal.outputs, equal.reference, 1).lse_max_abs, 0);
  LseCase other(0, {minus, 0, 0, 0, 0, 0, 0, 0}, std::vector<double>(8));
  EXPECT_EQ(*compare_outputs(other.problem, other.outputs, other.reference, 1).lse_max_abs,
            kInfinity);
}

}  // namespace
}  // namespace flamia::tools
