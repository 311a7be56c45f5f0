// The CPU backend against exact attention in FP64: every path, family, mask and kind of shape.
// Bounds are per-path relative errors of N(0, 1) data (docs/numerics.md), with head-room for short
// documents, where fewer terms average the rounding out.
#include <gtest/gtest.h>

#include <cmath>

#include "numerics/bf16.h"
#include "tests/support/attention_case.h"

namespace flamia::test {
namespace {

struct Bound {
  double o;
  double gradient;
};

Bound bound_of(Path path) {
  switch (path) {
    case Path::kBf16:
      return {0.006, 0.008};  // BF16 operands P and dS: 2^-9 each
    case Path::kMxfp8:
      return {0.08, 0.10};
    case Path::kNvfp4:
      return {0.19, 0.20};
    case Path::kAll4Bit:
      return {0.32, 0.45};
  }
  return {0, 0};
}

void expect_close(Case* call, const Options& options, const char* what) {
  SCOPED_TRACE(std::string(what) + " " + path_name(options.path) +
               (options.emulate == Family::kHopper ? " hopper" : " blackwell"));
  const Outputs out = call->run(options);
  const oracle::Result expected = call->reference(options);
  const Bound bound = bound_of(options.path);
  EXPECT_LE(relative_error(out.o, expected.o), bound.o);
  EXPECT_LE(relative_error(out.dq, expected.dq), bound.gradient);
  EXPECT_LE(relative_error(out.dk, expected.dk), bound.gradient);
  EXPECT_LE(relative_error(out.dv, expected.dv), bound.gradient);
  for (size_t x = 0; x < out.lse.size(); ++x) {
    if (std::isinf(expected.lse[x])) {
      ASSERT_EQ(static_cast<double>(out.lse[x]), expected.lse[x]);
    } else {
      ASSERT_NEAR(static_cast<double>(out.lse[x]), expected.lse[x], 1.0);
    }
  }
}

class Parity : public testing::TestWithParam<std::tuple<Path, Family>> {
 protected:
  Options options(MaskKind mask) const {
    Options result = options_of(std::get<0>(GetParam()), mask);
    result.emulate = std::get<1>(GetParam());
    return result;
  }
};

TEST_P(Parity, LengthsAroundEveryTileEdge) {
  Shape shape;
  shape.lengths = {1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257};
  shape.dim = 128;
  Case call(shape);
  expect_close(&call, options(MaskKind::kCausal), "causal");
  expect_close(&call, options(MaskKind::kFull), "full");
}

TEST_P(Parity, HeadGroupsOfAnyRatio) {
  for (const auto& [heads, kv_heads] : {std::pair{6, 2}, std::pair{7, 1}, std::pair{5, 5}}) {
    Shape shape;
    shape.lengths = {70, 3, 130};
    shape.heads = heads;
    shape.kv_heads = kv_heads;
    Case call(shape);
    expect_close(&call, options(MaskKind::kCausal), "grouped heads");
  }
}

TEST_P(Parity, QueriesAndKeysOfDifferentLengths) {
  Shape shape;
  shape.lengths = {5, 100, 0, 200, 1, 40};
  shape.lengths_k = {60, 230, 7, 70, 0, 40};
  Case call(shape);
  expect_close(&call, options(MaskKind::kCausal), "causal");
  expect_close(&call, options(MaskKind::kFull), "full");
}

TEST_P(Parity, SlidingWindows) {
  for (const auto& [left, right] : {std::pair{17, 0}, std::pair{1, 0}, std::pair{64, 32},
                                    std::pair{-1, 5}, std::pair{200, -1}}) {
    Shape shape;
    shape.lengths = {150, 300, 2};
    Case call(shape);
    Options windowed = options(MaskKind::kWindow);
    windowed.mask.window_left = left;
    windowed.mask.window_right = right;
    expect_close(&call, windowed, "window");
  }
}

TEST_P(Parity, ExactSafetyIsAsAccurate) {
  Shape shape;
  shape.lengths = {300, 45};
  shape.dim = 128;
  Case call(shape);
  Options exact = options(MaskKind::kCausal);
  exact.safety = Safety::kExact;
  expect_close(&call, exact, "exact");
}

TEST_P(Parity, SoftmaxScaleIsHonoured) {
  Shape shape;
  shape.lengths = {200};
  Case call(shape);
  Options scaled = options(MaskKind::kCausal);
  scaled.softmax_scale = 0.05f;
  expect_close(&call, scaled, "scale");
}

INSTANTIATE_TEST_SUITE_P(Paths, Parity,
                         testing::Combine(testing::Values(Path::kBf16, Path::kMxfp8, Path::kNvfp4,
                                                          Path::kAll4Bit),
                                          testing::Values(Family::kHopper, Family::kBlackwell)));

class Options8Bit : public testing::TestWithParam<Family> {};

TEST_P(Options8Bit, EveryChoiceStaysWithinTheMxfp8Bounds) {
  Shape shape;
  shape.lengths = {260, 50};
  shape.dim = 128;
  const auto check = [&](const char* what, auto change) {
    Case call(shape);
    Options options = options_of(Path::kMxfp8);
    options.emulate = GetParam();
    change(&options);
    expect_close(&call, options, what);
  };
  check("forward order", [](Options* o) { o->kv_order = KvOrder::kForward; });
  check("p_scale 448", [](Options* o) {
    o->p_scale = 448.0f;
    o->tau = 0.0f;
  });
  check("row sum p", [](Options* o) { o->row_sum = RowSum::kP; });
  check("delta bf16", [](Options* o) { o->delta = Delta::kOBf16; });
  check("hardware sums", [](Options* o) { o->accumulate = Accumulate::kHardware; });
  check("hardware sums, one accumulator", [](Options* o) {
    o->accumulate = Accumulate::kHardware;
    o->promote = Promote::kNone;
  });
  check("f16 scores", [](Options* o) { o->score_accumulator = ScoreAccumulator::kF16; });
  check("e5m2 dS", [](Options* o) { o->ds_format = DsFormat::kE5M2; });
  check("bf16 gradient products", [](Options* o) { o->grad_products = GradProducts::kBf16; });
  check("fp32 dQ", [](Options* o) { o->dq_accumulate = DqAccumulate::kFp32; });
  check("causal dQ scale", [](Options* o) { o->dq_scale = DqScale::kCausal; });
  check("no rotation", [](Options* o) { o->hadamard = Hadamard::kOff; });
  check("polynomial", [](Options* o) { o->exponential = Exponential::kPolynomial; });
}

INSTANTIATE_TEST_SUITE_P(Families, Options8Bit,
                         testing::Values(Family::kHopper, Family::kBlackwell));

TEST(InferenceExponentials, StayCloseToTheExactForward) {
  Shape shape;
  shape.lengths = {300};
  shape.dim = 128;
  Options options = options_of(Path::kMxfp8);
  Case call(shape);
  const Outputs exact = call.run(options, false);
  options.exponential = Exponential::kSchraudolph;
  const Outputs schraudolph = call.run(options, false);
  EXPECT_GE(cosine(schraudolph.o, decoded(exact.o)), 0.9995);
  options = options_of(Path::kAll4Bit);
  const Outputs exact4 = call.run(options, false);
  options.exponential = Exponential::kMitchell;
  const Outputs mitchell = call.run(options, false);
  EXPECT_GE(cosine(mitchell.o, decoded(exact4.o)), 0.995);
}

}  // namespace
}  // namespace flamia::test
