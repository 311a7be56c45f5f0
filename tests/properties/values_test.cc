// Structured inputs that random data cannot replace: constant V, rising maxima, sinks with tiny V,
// means at long context, extreme magnitudes, very negative scores.
// Paper: 3.4, B.1; P-Cast. Figures: docs/numerics.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "numerics/bf16.h"
#include "tests/support/attention_case.h"

namespace flamia::test {
namespace {

Shape document(int tokens, int dim) {
  Shape shape;
  shape.lengths = {tokens};
  shape.dim = dim;
  return shape;
}

TEST(ConstantV, GivesThatConstantForEveryPathAndOrder) {
  for (const Path path : all_paths()) {
    for (const Family family : {Family::kHopper, Family::kBlackwell}) {
      for (const KvOrder order : {KvOrder::kReverse, KvOrder::kForward}) {
        Case call(document(700, 64));
        call.fill_v(1.0f);
        Options options = options_of(path);
        options.emulate = family;
        options.kv_order = order;
        const Outputs out = call.run(options, false);
        // 1 is no multiple of an NVFP4 scale of 1/6: half a UE4M3 step, 2^-5, remains.
        const float tolerance = path == Path::kAll4Bit ? 1.0f / 32 : 0.0f;
        for (const uint16_t x : out.o) {
          ASSERT_NEAR(bf16_to_float(x), 1.0f, tolerance) << path_name(path);
        }
      }
    }
  }
}

/// Scores of key j: logits[j] nats, the same for every query, with softmax_scale = 1/6. Multiples
/// of 6 and 0 are exact in every format.
Options with_logits(Options options) {
  options.softmax_scale = 1.0f / 6.0f;
  return options;
}
void set_logits(Case* call, const std::vector<float>& logits) {
  std::fill(call->q_data.begin(), call->q_data.end(), uint16_t{0});
  std::fill(call->k_data.begin(), call->k_data.end(), uint16_t{0});
  for (int64_t t = 0; t < call->query_tokens(); ++t) {
    call->q(t, 0, 0) = float_to_bf16(6.0f);
    call->k(t, 0, 0) = float_to_bf16(logits[static_cast<size_t>(t)]);
  }
}

TEST(OneHotKey, DiffuseKeysKeepTheirMass) {
  // One key at 0 and 2047 keys at -6 nats hold 1 : 5.07 of the mass; V marks the hot key.
  Case call(document(2048, 64));
  std::vector<float> logits(2048, -6.0f);
  logits[0] = 0.0f;
  set_logits(&call, logits);
  call.fill_v(0.0f);
  for (int c = 0; c < 64; ++c) call.v(0, 0, c) = float_to_bf16(1.0f);
  const double expected = 1.0 / (1.0 + 2047 * std::exp(-6.0));
  for (const Path path : {Path::kMxfp8, Path::kNvfp4}) {
    Options options = with_logits(options_of(path, MaskKind::kFull));
    options.hadamard = Hadamard::kOff;
    const Outputs out = call.run(options, false);
    EXPECT_NEAR(static_cast<double>(bf16_to_float(out.o[0])), expected, 0.01) << path_name(path);
  }
}

TEST(RisingMaxima, NeverSaturateWhateverTheLag) {
  for (const float step : {0.5f, 1.0f, 2.0f, 2.7f, 3.0f}) {
    Case call(document(512, 64));
    std::vector<float> logits;
    for (int j = 0; j < 512; ++j) logits.push_back(step * static_cast<float>(j / 128));
    set_logits(&call, logits);
    for (const Family family : {Family::kHopper, Family::kBlackwell}) {
      Options options = with_logits(options_of(Path::kMxfp8, MaskKind::kFull));
      options.emulate = family;
      options.kv_order = KvOrder::kForward;
      options.hadamard = Hadamard::kOff;
      const Outputs out = call.run(options, false);
      const oracle::Result expected = call.reference(options, false);
      EXPECT_LE(relative_error(out.o, expected.o), 0.05) << "step " << step;
    }
  }
}

TEST(SinkWithTinyV, KeepsItsPlaceInTheRowSum) {
  // Key 0 takes nearly all the mass and its V is 2^-30 of the others': with per-token exponents its
  // folded P-hat flushes, and the row sum must not forget it.
  for (const Path path : all_paths()) {
    for (const Safety safety : {Safety::kDefault, Safety::kExact}) {
      Case call(document(256, 64));
      std::vector<float> logits(256, -6.0f);
      logits[0] = 0.0f;
      set_logits(&call, logits);
      for (int c = 0; c < 64; ++c) call.v(0, 0, c) = float_to_bf16(std::ldexp(1.0f, -30));
      Options options = with_logits(options_of(path, MaskKind::kFull));
      options.safety = safety;
      const Outputs out = call.run(options, false);
      const oracle::Result expected = call.reference(options, false);
      EXPECT_NEAR(gain(out.o, expected.o), 1.0, path == Path::kAll4Bit ? 0.1 : 0.03)
          << path_name(path);
    }
  }
}

TEST(Promotion, KeepsTheGainAtLongContextAndItsAbsenceLosesATenth) {
  constexpr int kKeys = 16384;
  Shape shape;
  shape.lengths = {64};
  shape.lengths_k = {kKeys};
  shape.dim = 128;
  Case call(shape);
  call.add_to_v(0.5f);
  Options options = options_of(Path::kMxfp8, MaskKind::kFull);
  const Outputs exact = call.run(options, false);
  options.accumulate = Accumulate::kHardware;
  const Outputs promoted = call.run(options, false);
  options.promote = Promote::kNone;
  const Outputs single = call.run(options, false);
  const oracle::Result expected = call.reference(options, false);
  EXPECT_NEAR(gain(promoted.o, decoded(exact.o)), 1.0, 1e-3);
  EXPECT_NEAR(gain(single.o, decoded(exact.o)), 0.89, 0.02);
  EXPECT_GE(gain(promoted.o, expected.o), 0.997);
}

TEST(Magnitudes, FromTinyToHugeStayAccurateAndFinite) {
  for (const Path path : {Path::kBf16, Path::kMxfp8, Path::kNvfp4}) {
    for (const float factor : {1e-30f, 1e-12f, 1e12f, 1e28f}) {
      Case call(document(150, 64));
      for (uint16_t& x : call.v_data) x = float_to_bf16(bf16_to_float(x) * factor);
      const Outputs out = call.run(options_of(path), false);
      const oracle::Result expected = call.reference(options_of(path), false);
      EXPECT_GE(cosine(out.o, expected.o), 0.985) << path_name(path) << " " << factor;
    }
    // Tiny queries against huge keys: the score is ordinary.
    Case call(document(150, 64));
    for (uint16_t& x : call.q_data) x = float_to_bf16(bf16_to_float(x) * 1e-30f);
    for (uint16_t& x : call.k_data) x = float_to_bf16(bf16_to_float(x) * 1e30f);
    const Outputs out = call.run(options_of(path), false);
    const oracle::Result expected = call.reference(options_of(path), false);
    EXPECT_GE(cosine(out.o, expected.o), 0.985) << path_name(path);
  }
}

TEST(NegativeScores, FarBelowZeroStillNormalize) {
  for (const Path path : all_paths()) {
    for (const float logit : {-200.0f, -490.0f, -46000.0f}) {
      Case call(document(130, 64));
      set_logits(&call, std::vector<float>(130, logit));
      call.fill_v(2.0f);
      const Outputs out = call.run(with_logits(options_of(path)), false);
      for (const uint16_t x : out.o)
        ASSERT_NEAR(bf16_to_float(x), 2.0f, path == Path::kAll4Bit ? 0.0625f : 0.0f)
            << path_name(path);
    }
  }
}

TEST(Outliers, DqAccumulatorNeverOverflows) {
  for (const Path path : {Path::kMxfp8, Path::kNvfp4, Path::kAll4Bit}) {
    Case call(document(256, 64));
    for (int64_t t = 0; t < 256; ++t) {
      for (int c = 0; c < 4; ++c) {
        call.k(t, 0, c) = float_to_bf16(bf16_to_float(call.k(t, 0, c)) * 1000.0f);
      }
    }
    for (uint16_t& x : call.d_o_data) x = float_to_bf16(bf16_to_float(x) * 1e5f);
    const Outputs out = call.run(options_of(path));
    for (const uint16_t x : out.dq) ASSERT_TRUE(std::isfinite(bf16_to_float(x))) << path_name(path);
  }
}

TEST(OtherDocument, ScaledByTenThousandLeavesTheGradientsOfTheOthersAlone) {
  Shape shape;
  shape.lengths = {500, 500};
  shape.dim = 128;
  Case plain(shape);
  Case scaled(shape);
  for (auto* values : {&scaled.q_data, &scaled.k_data, &scaled.v_data, &scaled.d_o_data}) {
    for (size_t x = values->size() / 2; x < values->size(); ++x) {
      (*values)[x] = float_to_bf16(bf16_to_float((*values)[x]) * 1e4f);
    }
  }
  const Outputs a = plain.run(options_of(Path::kMxfp8));
  const Outputs b = scaled.run(options_of(Path::kMxfp8));
  EXPECT_TRUE(std::equal(a.dk.begin(), a.dk.begin() + 500 * 128, b.dk.begin()));
  EXPECT_TRUE(std::equal(a.dq.begin(), a.dq.begin() + 500 * 128, b.dq.begin()));
}

TEST(Consistency, RowSumsOfDsAreSmall) {
  Case call(document(2048, 128));
  const Outputs causal = call.run(options_of(Path::kMxfp8, MaskKind::kCausal));
  EXPECT_LE(causal.statistics.ds_row_sum_residual, 3e-3);
  const Outputs full = call.run(options_of(Path::kMxfp8, MaskKind::kFull));
  EXPECT_LE(full.statistics.ds_row_sum_residual, 1.5e-3);
  for (const Outputs* out : {&causal, &full}) {
    EXPECT_LE(static_cast<double>(out->statistics.ds_flushed),
              5e-4 * static_cast<double>(out->statistics.ds_nonzero));
  }
}

TEST(LongContext, MeasuredExponentOfTheDvOperandDoesNotDie) {
  // One key tile against many queries that spread their mass over 64k keys.
  Shape shape;
  shape.lengths = {128};
  shape.lengths_k = {65536};
  shape.dim = 64;
  Case call(shape);
  const Options options = options_of(Path::kMxfp8, MaskKind::kFull);
  const Outputs out = call.run(options);
  const oracle::Result expected = call.reference(options);
  EXPECT_GE(cosine(out.dv, expected.dv), 0.998);
}

}  // namespace
}  // namespace flamia::test
