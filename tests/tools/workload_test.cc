// Generated inputs have the distributions that their names promise.
// Tolerances are five standard errors of the statistic named beside them.
#include "tools/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "numerics/bf16.h"

namespace flamia::tools {
namespace {

WorkloadSpec spec_of(const std::string& distribution, std::vector<int64_t> lengths) {
  WorkloadSpec spec;
  EXPECT_EQ(parse_distribution("--dist", distribution, &spec.distribution).message(), "");
  spec.query_lengths = std::move(lengths);
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.head_dim = 64;
  spec.seed = 7;
  return spec;
}

AttentionInputs generated(const WorkloadSpec& spec) {
  AttentionInputs inputs;
  EXPECT_EQ(generate_inputs(spec, true, &inputs).message(), "");
  return inputs;
}

double value(const HostTensor& tensor, int64_t index) {
  return static_cast<double>(bf16_to_float(tensor.as<uint16_t>()[index]));
}

struct Moments {
  double mean = 0;
  double variance = 0;
};
Moments moments(const HostTensor& tensor) {
  Moments m;
  const auto n = static_cast<double>(tensor.elements());
  for (int64_t i = 0; i < tensor.elements(); ++i) m.mean += value(tensor, i) / n;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    m.variance += std::pow(value(tensor, i) - m.mean, 2) / n;
  }
  return m;
}

bool equal(const HostTensor& a, const HostTensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

std::string message(const std::string& text) {
  Distribution result;
  return parse_distribution("--dist", text, &result).message();
}

TEST(Distribution, ReadsPartsInOrder) {
  Distribution parts;
  ASSERT_TRUE(
      parse_distribution("--dist", "sinks:8+outliers:4,48+normal+vmean:-1e-1+heavy:3", &parts)
          .ok());
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].kind, DistributionPart::Kind::kSinks);
  EXPECT_EQ(parts[0].amount, 8);
  EXPECT_EQ(parts[1].channels, 4);
  EXPECT_EQ(parts[1].amount, 48);
  EXPECT_EQ(parts[2].amount, -0.1);
  EXPECT_EQ(parts[3].kind, DistributionPart::Kind::kHeavy);
}

TEST(Distribution, KeepsExponentsOfNumbersWhole) {
  Distribution parts;
  ASSERT_TRUE(parse_distribution("--dist", "sinks:1e+1+vmean:2", &parts).ok());
  EXPECT_EQ(parts[0].amount, 10);
  EXPECT_EQ(parts[1].amount, 2);
}

TEST(Distribution, SaysWhereTheMistakeIs) {
  const std::string rule =
      "--dist must be normal, sinks:DELTA, outliers:CHANNELS,GAIN, vmean:MU or heavy:DECADES, "
      "joined by +; got ";
  EXPECT_EQ(message("gauss"), rule + "'gauss' at position 1");
  EXPECT_EQ(message(""), rule + "'' at position 1");
  EXPECT_EQ(message("sinks:8+noise:1"), rule + "'noise:1' at position 9");
  EXPECT_EQ(message("sinks"), "--dist must have the form sinks:DELTA; got 'sinks' at position 1");
  EXPECT_EQ(message("sinks:x"),
            "--dist must have the form sinks:DELTA; got 'sinks:x' at position 1");
  EXPECT_EQ(message("outliers:4"),
            "--dist must have the form outliers:CHANNELS,GAIN; got 'outliers:4' at position 1");
  EXPECT_EQ(message("outliers:0,4"),
            "--dist: CHANNELS must be at least 1 and GAIN a finite number; got 'outliers:0,4' at "
            "position 1");
  EXPECT_EQ(message("vmean:nan"),
            "--dist: MU must be a finite number; got 'vmean:nan' at position 1");
  EXPECT_EQ(message("sinks:inf"),
            "--dist: DELTA must be in [-10000, 10000]; got 'sinks:inf' at position 1");
  EXPECT_EQ(message("heavy:-1"),
            "--dist: DECADES must be in [0, 60]; got 'heavy:-1' at position 1");
  EXPECT_EQ(message("vmean:1+vmean:2"),
            "--dist must have vmean once at most; got 'vmean:2' at "
            "position 9");
}

TEST(Workload, IsStandardNormal) {
  const AttentionInputs inputs = generated(spec_of("normal", {300, 212}));
  EXPECT_EQ(inputs.q.shape(), (std::vector<int64_t>{512, 4, 64}));
  EXPECT_EQ(inputs.k.shape(), (std::vector<int64_t>{512, 2, 64}));
  for (const HostTensor* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.d_o}) {
    const Moments m = moments(*tensor);
    const auto n = static_cast<double>(tensor->elements());
    EXPECT_NEAR(m.mean, 0, 5 / std::sqrt(n));
    EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2 / n));
  }
  EXPECT_FALSE(equal(inputs.k, inputs.v));
  EXPECT_FALSE(equal(inputs.q, inputs.d_o));
}

TEST(Workload, HasCumulativeLengths) {
  WorkloadSpec spec = spec_of("normal", {3, 0, 2});
  AttentionInputs inputs = generated(spec);
  ASSERT_EQ(inputs.cu_seqlens_q.type(), ElementType::kI32);
  const int32_t* cu = inputs.cu_seqlens_q.as<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(cu, cu + 4), (std::vector<int32_t>{0, 3, 3, 5}));
  EXPECT_TRUE(inputs.cu_seqlens_k.empty());
  spec.key_lengths = {1, 2, 7};
  inputs = generated(spec);
  EXPECT_EQ(inputs.k.shape()[0], 10);
  EXPECT_EQ(inputs.cu_seqlens_k.as<int32_t>()[3], 10);
}

TEST(Workload, NeedsWideLengthsBeyondThirtyOneBits) {
  WorkloadSpec spec = spec_of("normal", {int64_t{1} << 31});
  AttentionInputs inputs;
  ASSERT_TRUE(generate_lengths(spec, &inputs).ok());
  EXPECT_EQ(inputs.cu_seqlens_q.type(), ElementType::kI64);
  EXPECT_EQ(inputs.cu_seqlens_q.as<int64_t>()[1], int64_t{1} << 31);
}

TEST(Workload, DoesNotDependOnThreads) {
  WorkloadSpec spec = spec_of("sinks:4+outliers:3,10+vmean:1+heavy:2", {150, 77});
  spec.threads = 1;
  const AttentionInputs one = generated(spec);
  spec.threads = 7;
  const AttentionInputs seven = generated(spec);
  EXPECT_TRUE(equal(one.q, seven.q) && equal(one.k, seven.k));
  EXPECT_TRUE(equal(one.v, seven.v) && equal(one.d_o, seven.d_o));
}

TEST(Workload, DependsOnTheSeed) {
  WorkloadSpec spec = spec_of("normal", {64});
  const AttentionInputs first = generated(spec);
  spec.seed = 8;
  EXPECT_FALSE(equal(first.q, generated(spec).q));
}

TEST(Workload, DoesNotDependOnWhereDocumentsEnd) {
  EXPECT_TRUE(
      equal(generated(spec_of("normal", {64})).k, generated(spec_of("normal", {20, 44})).k));
}

// Mean over queries of the logits of one key.
double mean_logit(const AttentionInputs& inputs, int64_t key, int64_t head) {
  const int64_t queries = inputs.q.shape()[0];
  double sum = 0;
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t c = 0; c < 64; ++c) {
      sum +=
          value(inputs.q, (i * 4 + head) * 64 + c) * value(inputs.k, (key * 2 + head / 2) * 64 + c);
    }
  }
  return sum / static_cast<double>(queries) / 8;  // scale 1 / sqrt(64)
}

TEST(Workload, SinksRaiseLogitsOfTheFirstFourKeys) {
  constexpr double kDelta = 12;
  const AttentionInputs plain = generated(spec_of("normal", {512, 6, 3}));
  const AttentionInputs sinks = generated(spec_of("sinks:12", {512, 6, 3}));
  double rise = 0;
  double rest = 0;
  for (int64_t head = 0; head < 4; ++head) {
    for (const int64_t key : {0, 1, 2, 3, 512, 513, 514, 515, 518, 519, 520}) {
      rise += (mean_logit(sinks, key, head) - mean_logit(plain, key, head)) / 44;
    }
    for (int64_t key = 4; key < 48; ++key) {
      rest += (mean_logit(sinks, key, head) - mean_logit(plain, key, head)) / 176;
    }
  }
  // a u.k has standard deviation sqrt(12 / sqrt(64)) = 1.2 for each key; 22 (88) of them count,
  // since two query heads share each.
  EXPECT_NEAR(rise, kDelta, 5 * 1.3 / std::sqrt(22));
  EXPECT_NEAR(rest, 0, 5 * 1.3 / std::sqrt(88));
}

TEST(Workload, SinksFollowTheSoftmaxScale) {
  WorkloadSpec spec = spec_of("sinks:12", {256});
  spec.softmax_scale = 0.5;  // 4 / sqrt(64)
  const AttentionInputs sinks = generated(spec);
  double logit = 0;
  for (int64_t key = 0; key < 4; ++key) logit += mean_logit(sinks, key, 0) * 4 / 4;
  // a u.k times the scale has standard deviation sqrt(12 * 0.5) = 2.5 for each of the 4 keys.
  EXPECT_NEAR(logit, 12, 5 * 2.5 / std::sqrt(4));
}

TEST(Workload, OutliersAreChannelsOfK) {
  const AttentionInputs plain = generated(spec_of("normal", {128}));
  const AttentionInputs shaped = generated(spec_of("outliers:5,32", {128}));
  EXPECT_TRUE(equal(plain.q, shaped.q) && equal(plain.v, shaped.v));
  for (int64_t head = 0; head < 2; ++head) {
    int outliers = 0;
    for (int64_t c = 0; c < 64; ++c) {
      const bool grown =
          std::fabs(value(shaped.k, head * 64 + c)) > 2 * std::fabs(value(plain.k, head * 64 + c));
      outliers += grown ? 1 : 0;
      for (int64_t t = 0; t < 128; ++t) {
        const int64_t at = (t * 2 + head) * 64 + c;
        // A power of two: the BF16 rounding is the same.
        EXPECT_EQ(value(shaped.k, at), value(plain.k, at) * (grown ? 32 : 1));
      }
    }
    EXPECT_EQ(outliers, 5);
  }
}

TEST(Workload, ValueMeanShiftsVAndDo) {
  const AttentionInputs plain = generated(spec_of("normal", {512}));
  const AttentionInputs shaped = generated(spec_of("vmean:2", {512}));
  EXPECT_TRUE(equal(plain.q, shaped.q) && equal(plain.k, shaped.k));
  for (const HostTensor* tensor : {&shaped.v, &shaped.d_o}) {
    const auto n = static_cast<double>(tensor->elements());
    EXPECT_NEAR(moments(*tensor).mean, 2, 5 / std::sqrt(n));
    EXPECT_NEAR(moments(*tensor).variance, 1, 5 * std::sqrt(2 / n));
  }
}

TEST(Workload, HeavyRowsAreLogUniform) {
  const AttentionInputs plain = generated(spec_of("normal", {1000}));
  const AttentionInputs shaped = generated(spec_of("heavy:4", {1000}));
  EXPECT_TRUE(equal(plain.q, shaped.q) && equal(plain.k, shaped.k));
  std::vector<double> decades;
  for (int64_t row = 0; row < 2000; ++row) {
    double plain_norm = 0;
    double norm = 0;
    for (int64_t c = 0; c < 64; ++c) {
      plain_norm += std::pow(value(plain.v, row * 64 + c), 2);
      norm += std::pow(value(shaped.v, row * 64 + c), 2);
    }
    decades.push_back(std::log10(norm / plain_norm) / 2);
  }
  std::sort(decades.begin(), decades.end());
  EXPECT_GT(decades.front(), -2.01);
  EXPECT_LT(decades.back(), 2.01);
  // Kolmogorov-Smirnov against the uniform distribution; 1.95 / sqrt(n) is the 0.1 % point.
  double distance = 0;
  for (size_t i = 0; i < decades.size(); ++i) {
    distance = std::fmax(distance,
                         std::fabs((decades[i] + 2) / 4 - (static_cast<double>(i) + 0.5) / 2000));
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(2000));
}

TEST(Workload, MakesOutputGradientsForOtherInputs) {
  const AttentionInputs inputs = generated(spec_of("normal", {33}));
  HostTensor d_o;
  ASSERT_TRUE(generate_output_gradient(inputs.q, 7, 3, &d_o).ok());
  EXPECT_TRUE(equal(d_o, inputs.d_o));
}

TEST(Workload, LeavesOutTheOutputGradientUnlessAsked) {
  AttentionInputs inputs;
  ASSERT_TRUE(generate_inputs(spec_of("normal", {33}), false, &inputs).ok());
  EXPECT_TRUE(inputs.d_o.empty());
}

TEST(Workload, TakesNoTokens) {
  const AttentionInputs inputs = generated(spec_of("sinks:3", {0, 0}));
  EXPECT_EQ(inputs.q.shape()[0], 0);
  EXPECT_FALSE(inputs.q.empty()) << "a tensor without elements is still given";
}

TEST(Workload, RefusesWhatDoesNotFit) {
  AttentionInputs inputs;
  WorkloadSpec spec = spec_of("outliers:65,2", {8});
  EXPECT_EQ(generate_inputs(spec, true, &inputs).message(),
            "outliers must have at most head_dim channels; got 65 of 64");
  spec = spec_of("normal", {8});
  spec.kv_heads = 3;
  EXPECT_EQ(generate_inputs(spec, true, &inputs).message(),
            "heads must be a multiple of kv_heads; got 4 and 3");
  spec = spec_of("normal", {8});
  spec.key_lengths = {1, 2};
  EXPECT_EQ(generate_inputs(spec, true, &inputs).message(),
            "key documents must be as many as query documents; got 2 and 1");
}

}  // namespace
}  // namespace flamia::tools
