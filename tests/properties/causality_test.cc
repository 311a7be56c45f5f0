// Nothing that a query may not see changes its results: future tokens, other documents, tails.
// Paper: 3.2, A.3, A.4. Comparisons are bitwise.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "numerics/bf16.h"
#include "tests/support/attention_case.h"

namespace flamia::test {
namespace {

constexpr float kSpike = 1e6f;

/// First query row whose bits differ, -1 if none does; rows [0, end) only.
int64_t first_changed_row(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b,
                          int64_t row_values, int64_t end) {
  for (int64_t x = 0; x < end * row_values; ++x) {
    if (a[static_cast<size_t>(x)] != b[static_cast<size_t>(x)]) return x / row_values;
  }
  return -1;
}

Shape one_document(int tokens, int dim) {
  Shape shape;
  shape.lengths = {tokens};
  shape.dim = dim;
  return shape;
}

class ExactSafety : public testing::TestWithParam<std::tuple<Path, Family, int>> {};

TEST_P(ExactSafety, FutureSpikesLeaveEarlierRowsBitwiseUnchanged) {
  const auto [path, family, dim] = GetParam();
  Options options = options_of(path);
  options.emulate = family;
  options.safety = Safety::kExact;
  const Shape shape = one_document(200, dim);
  const Outputs before = Case(shape).run(options);
  // Every offset of one 32-token block, and both sides of the tile edge.
  for (int64_t token = 127; token < 161; ++token) {
    for (const float factor : {kSpike, 0.0f}) {
      Case changed(shape);
      changed.scale_key_token(token, factor);
      for (int c = 0; c < dim; ++c) {
        changed.q(token, 0, c) = float_to_bf16(bf16_to_float(changed.q(token, 0, c)) * factor);
        changed.d_o(token, 0, c) = float_to_bf16(bf16_to_float(changed.d_o(token, 0, c)) * factor);
      }
      const Outputs after = changed.run(options);
      EXPECT_EQ(first_changed_row(before.o, after.o, dim, token), -1) << "O, token " << token;
      EXPECT_EQ(first_changed_row(before.dq, after.dq, dim, token), -1) << "dQ, token " << token;
      for (int64_t i = 0; i < token; ++i) {
        ASSERT_EQ(before.lse[static_cast<size_t>(i)], after.lse[static_cast<size_t>(i)]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, ExactSafety,
                         testing::Combine(testing::Values(Path::kBf16, Path::kMxfp8, Path::kNvfp4,
                                                          Path::kAll4Bit),
                                          testing::Values(Family::kHopper, Family::kBlackwell),
                                          testing::Values(64, 128)));

class DefaultSafety : public testing::TestWithParam<std::tuple<Path, Family>> {};

TEST_P(DefaultSafety, ChangesOfOStayInsideTheTokenBlock) {
  const auto [path, family] = GetParam();
  Options options = options_of(path);
  options.emulate = family;
  const Shape shape = one_document(200, 64);
  const Outputs before = Case(shape).run(options, false);
  for (int64_t token = 96; token < 200; token += 7) {
    Case changed(shape);
    changed.scale_key_token(token, kSpike);
    const Outputs after = changed.run(options, false);
    EXPECT_EQ(first_changed_row(before.o, after.o, 64, token / 32 * 32), -1) << "token " << token;
  }
}

TEST_P(DefaultSafety, EarlierDqMovesByAccumulatorRoundingAloneAndNotAtAllWithTheCausalScale) {
  const auto [path, family] = GetParam();
  const Shape shape = one_document(200, 64);
  constexpr int64_t kToken = 190;
  for (const DqScale scale : {DqScale::kDocument, DqScale::kCausal}) {
    Options options = options_of(path);
    options.emulate = family;
    options.dq_accumulate = DqAccumulate::kFp16;
    options.dq_scale = scale;
    const Outputs before = Case(shape).run(options);
    Case changed(shape);
    for (int c = 0; c < 64; ++c) {
      changed.v(kToken, 0, c) = float_to_bf16(bf16_to_float(changed.v(kToken, 0, c)) * kSpike);
    }
    const Outputs after = changed.run(options);
    double largest = 0;
    double change = 0;
    for (size_t x = 0; x < static_cast<size_t>(kToken / 32 * 32 * 64); ++x) {
      const auto a = static_cast<double>(bf16_to_float(before.dq[x]));
      const auto b = static_cast<double>(bf16_to_float(after.dq[x]));
      largest = std::max(largest, std::abs(a));
      change = std::max(change, std::abs(a - b));
    }
    if (scale == DqScale::kCausal) {
      EXPECT_EQ(change, 0.0);
    } else {
      // A BF16 step is 2^-8 of an entry; the accumulator's rounding can flip it.
      EXPECT_LE(change, largest / 128);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, DefaultSafety,
                         testing::Combine(testing::Values(Path::kMxfp8, Path::kNvfp4,
                                                          Path::kAll4Bit),
                                          testing::Values(Family::kHopper, Family::kBlackwell)));

class Isolation : public testing::TestWithParam<std::tuple<Path, Family>> {};

TEST_P(Isolation, ADocumentAloneEqualsTheSameDocumentBetweenPoisonedNeighbours) {
  const auto [path, family] = GetParam();
  Options options = options_of(path);
  options.emulate = family;
  Shape packed;
  packed.lengths = {37, 0, 141, 1, 90};
  packed.tail = 5;
  packed.heads = 4;
  packed.kv_heads = 2;
  Case all(packed);
  constexpr int64_t kBegin = 37;
  constexpr int64_t kEnd = kBegin + 141;
  const auto poison = [&](std::vector<uint16_t>* values, int64_t row_values) {
    const uint16_t poisons[] = {0x7fff, 0x7f80, 0xff80, 0x7f7f, 0x4974};  // NaN, inf, max, 1e6
    for (size_t x = 0; x < values->size(); ++x) {
      const int64_t token = static_cast<int64_t>(x) / row_values;
      if (token < kBegin || token >= kEnd) (*values)[x] = poisons[x % 5];
    }
  };
  Shape alone = packed;
  alone.lengths = {141};
  alone.tail = 0;
  Case single(alone);
  const auto copy = [&](const std::vector<uint16_t>& from, std::vector<uint16_t>* to,
                        int64_t row_values) {
    std::copy(from.begin() + kBegin * row_values, from.begin() + kEnd * row_values, to->begin());
  };
  copy(all.q_data, &single.q_data, 4 * 64);
  copy(all.d_o_data, &single.d_o_data, 4 * 64);
  copy(all.k_data, &single.k_data, 2 * 64);
  copy(all.v_data, &single.v_data, 2 * 64);
  poison(&all.q_data, 4 * 64);
  poison(&all.d_o_data, 4 * 64);
  poison(&all.k_data, 2 * 64);
  poison(&all.v_data, 2 * 64);
  const Outputs inside = all.run(options);
  const Outputs expected = single.run(options);
  const auto equal = [&](const std::vector<uint16_t>& whole, const std::vector<uint16_t>& part,
                         int64_t row_values) {
    return std::equal(part.begin(), part.end(), whole.begin() + kBegin * row_values);
  };
  EXPECT_TRUE(equal(inside.o, expected.o, 4 * 64));
  EXPECT_TRUE(equal(inside.dq, expected.dq, 4 * 64));
  EXPECT_TRUE(equal(inside.dk, expected.dk, 2 * 64));
  EXPECT_TRUE(equal(inside.dv, expected.dv, 2 * 64));
}

INSTANTIATE_TEST_SUITE_P(Paths, Isolation,
                         testing::Combine(testing::Values(Path::kBf16, Path::kMxfp8, Path::kNvfp4,
                                                          Path::kAll4Bit),
                                          testing::Values(Family::kHopper, Family::kBlackwell)));

TEST(Tails, RowsOfNoDocumentAreZeroAndTheirLseMinusInfinity) {
  Shape shape;
  shape.lengths = {10, 0, 20};
  shape.tail = 7;
  shape.heads = 2;
  shape.kv_heads = 1;
  for (const Path path : all_paths()) {
    Case call(shape);
    const Outputs out = call.run(options_of(path));
    for (int64_t token = 30; token < 37; ++token) {
      for (int x = 0; x < 2 * 64; ++x) {
        EXPECT_EQ(out.o[static_cast<size_t>(token * 2 * 64 + x)], 0);
        EXPECT_EQ(out.dq[static_cast<size_t>(token * 2 * 64 + x)], 0);
      }
      for (int x = 0; x < 64; ++x) {
        EXPECT_EQ(out.dk[static_cast<size_t>(token * 64 + x)], 0);
        EXPECT_EQ(out.dv[static_cast<size_t>(token * 64 + x)], 0);
      }
      EXPECT_EQ(out.lse[static_cast<size_t>(token)], -INFINITY);
      EXPECT_EQ(out.lse[static_cast<size_t>(37 + token)], -INFINITY);
    }
  }
}

}  // namespace
}  // namespace flamia::test
