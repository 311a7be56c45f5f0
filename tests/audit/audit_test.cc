// The audit: functions with one flaw each are caught by the probe that is there for it, and exact
// attention and our own pass.
#include "flamia/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "audit/audit.h"
#include "numerics/e4m3.h"
#include "tests/audit/flawed_attention.h"

namespace flamia::audit {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

AuditOptions small(std::vector<std::string> probes) {
  AuditOptions options;
  options.tokens = 160;
  options.context = 512;
  options.heads = 1;
  options.kv_heads = 1;
  options.head_dim = 64;
  options.probes = std::move(probes);
  return options;
}

AuditReport run(const AttentionFunction& function, const AuditOptions& options) {
  AuditReport report;
  const Status status = audit_attention(function, options, &report);
  EXPECT_TRUE(status.ok()) << status.message();
  return report;
}

const AuditFinding& finding(const AuditReport& report, const std::string& probe,
                            const std::string& tensor) {
  static const AuditFinding missing = {};
  for (const AuditFinding& one : report.findings) {
    if (one.probe == probe && one.tensor == tensor) return one;
  }
  ADD_FAILURE() << "no finding of " << probe << " on " << tensor;
  return missing;
}

std::string failures(const AuditReport& report) {
  std::string text;
  for (const AuditFinding& one : report.findings) {
    if (one.outcome == AuditOutcome::kFailed) text += one.probe + " " + one.words + "\n";
  }
  return text;
}

TEST(Audit, ExactAttentionPassesEveryProbe) {
  AuditOptions options = small({});
  options.at = 150;
  const AuditReport report = run(exact_function, options);
  EXPECT_TRUE(report.passed) << failures(report);
  EXPECT_EQ(finding(report, "causal_leak", "o").outcome, AuditOutcome::kPassed);
  EXPECT_EQ(finding(report, "causal_leak", "dk").outcome, AuditOutcome::kPassed);
  EXPECT_EQ(report.protocol.size(), audit_probes().size() + 1);
}

TEST(Audit, OurDefaultKeepsItsPromiseAndOurExactOptionsLeaveNothing) {
  for (const Path path : {Path::kMxfp8, Path::kNvfp4}) {
    Options options;
    options.threads = 1;
    options.path = path;
    AuditOptions audit = small({"causal_leak", "document_leak", "packing", "tails"});
    audit.promise = audit_promise(options);
    const AuditReport by_default = run(audited_attention(options), audit);
    EXPECT_TRUE(by_default.passed) << failures(by_default);
    EXPECT_EQ(finding(by_default, "causal_leak", "o").outcome, AuditOutcome::kPromised);
    EXPECT_EQ(finding(by_default, "causal_leak", "o").reach, 31);

    options.safety = Safety::kExact;
    audit.promise = audit_promise(options);
    const AuditReport exact = run(audited_attention(options), audit);
    EXPECT_TRUE(exact.passed) << failures(exact);
    for (const char* tensor : {"o", "lse", "dq", "dk", "dv"}) {
      EXPECT_EQ(finding(exact, "causal_leak", tensor).outcome, AuditOutcome::kPassed) << tensor;
    }
  }
}

TEST(Audit, DefaultFailsWhereNothingIsPromised) {
  AuditOptions audit = small({"causal_leak"});
  const AuditReport report = run(audited_attention(Options()), audit);
  EXPECT_FALSE(report.passed);
  const AuditFinding& o = finding(report, "causal_leak", "o");
  EXPECT_EQ(o.outcome, AuditOutcome::kFailed);
  EXPECT_THAT(o.cause, HasSubstr("shared by 32 tokens"));
}

/// The line that a failing probe prints repeats the worst case.
TEST(Audit, ReproducesTheWorstCaseAlone) {
  AuditOptions audit = small({"causal_leak"});
  const AuditReport all = run(audited_attention(Options()), audit);
  const AuditFinding& worst = finding(all, "causal_leak", "o");
  const std::string& line = worst.reproduce;
  const auto option = [&](const std::string& name) {
    const size_t begin = line.find(name) + name.size() + 1;
    return line.substr(begin, line.find(' ', begin) - begin);
  };
  audit.at = std::stoll(option("--at"));
  audit.operand = option("--operand");
  audit.factor = std::stof(option("--factor"));
  const AuditReport again = run(audited_attention(Options()), audit);
  EXPECT_EQ(finding(again, "causal_leak", "o").change, worst.change);
  EXPECT_LT(again.calls, 10);
}

/// V in E4M3 with one scale for the whole tensor.
Status per_tensor_v(const AuditInputs& inputs, AuditOutputs* outputs) {
  AuditInputs rounded = inputs;
  float amax = 0;
  for (const uint16_t x : inputs.v) {
    const float size = std::abs(bf16_to_float(x));
    if (std::isfinite(size)) amax = std::max(amax, size);
  }
  const float scale = amax / 448.0f;
  for (uint16_t& x : rounded.v) {
    x = float_to_bf16(round_e4m3(bf16_to_float(x) / scale) * scale);
  }
  return exact_function(rounded, outputs);
}

TEST(Audit, PerTensorScaleReachesEverything) {
  const AuditReport report = run(per_tensor_v, small({"causal_leak", "document_leak", "packing"}));
  EXPECT_FALSE(report.passed);
  const AuditFinding& leak = finding(report, "causal_leak", "o");
  EXPECT_EQ(leak.outcome, AuditOutcome::kFailed);
  EXPECT_GE(leak.reach, 158);
  EXPECT_THAT(leak.cause, HasSubstr("whole tensor"));
  EXPECT_EQ(finding(report, "document_leak", "o").outcome, AuditOutcome::kFailed);
  EXPECT_EQ(finding(report, "packing", "o").outcome, AuditOutcome::kFailed);
  ASSERT_FALSE(report.leak_maps.empty());
  const LeakMap& map = report.leak_maps.front();
  EXPECT_EQ(map.tensor, "o");
  EXPECT_EQ(map.change.size(), map.tokens.size() * static_cast<size_t>(map.rows));
  EXPECT_GT(*std::max_element(map.change.begin(), map.change.end()), 0.1f);
}

TEST(Audit, FullAttentionIsNotCausal) {
  const auto full = [](const AuditInputs& inputs, AuditOutputs* outputs) {
    AuditInputs changed = inputs;
    changed.causal = false;
    return exact_function(changed, outputs);
  };
  AuditOptions options = small({"accuracy", "causal_leak"});
  options.gradients = false;
  const AuditReport report = run(full, options);
  EXPECT_FALSE(report.passed);
  EXPECT_THAT(finding(report, "causal_leak", "o").cause, HasSubstr("no causal mask"));
  EXPECT_THAT(finding(report, "accuracy", "o").cause, HasSubstr("mask"));
}

TEST(Audit, NamesAMaskThatIsOffByOne) {
  DirectAttention shifted;
  shifted.sees = [](int64_t i, int64_t j) { return j <= i + 1; };
  AuditOptions options = small({"causal_leak"});
  options.gradients = false;
  options.tokens = 96;
  const AuditReport report = run(shifted, options);
  const AuditFinding& leak = finding(report, "causal_leak", "o");
  EXPECT_EQ(leak.outcome, AuditOutcome::kFailed);
  EXPECT_EQ(leak.reach, 1);
  EXPECT_THAT(leak.cause, HasSubstr("off by 1 token"));
  EXPECT_EQ(finding(report, "causal_leak", "dq").outcome, AuditOutcome::kNotTested);
}

TEST(Audit, SeesADeltaMadeOfAnotherDo) {
  AuditOptions options = small({"consistency"});
  options.tokens = 96;
  const AuditReport good = run(DirectAttention(), options);
  EXPECT_TRUE(good.passed) << failures(good);
  DirectAttention mismatched;
  mismatched.round_do = [](double x) {
    return static_cast<double>(round_e4m3(static_cast<float>(x)));
  };
  const AuditReport report = run(mismatched, options);
  EXPECT_FALSE(report.passed);
  EXPECT_THAT(finding(report, "consistency", "dq").cause, HasSubstr("D = rowsum"));
}

/// Right in direction, wrong in size: cosines do not see it.
TEST(Audit, SeesGradientsOfAnotherSize) {
  const auto unscaled = [](const AuditInputs& inputs, AuditOutputs* outputs) {
    const Status status = exact_function(inputs, outputs);
    for (float& x : outputs->dq) x *= 8;
    return status;
  };
  const AuditReport report = run(unscaled, small({"accuracy"}));
  EXPECT_FALSE(report.passed);
  EXPECT_THAT(finding(report, "accuracy", "dq").cause, HasSubstr("8 times as large"));
}

TEST(Audit, SeesAnLseThatIsOffByAConstant) {
  const auto shifted = [](const AuditInputs& inputs, AuditOutputs* outputs) {
    const Status status = exact_function(inputs, outputs);
    for (float& x : outputs->lse) x += 0.5f;
    return status;
  };
  EXPECT_EQ(finding(run(shifted, small({"accuracy"})), "accuracy", "lse").outcome,
            AuditOutcome::kFailed);
}

/// Single rows: the last query of documents of 32 n + 1 tokens has no dQ, the first key no dK.
TEST(Audit, SeesSingleRowsThatAreMissing) {
  const auto broken = [](const AuditInputs& inputs, AuditOutputs* outputs) {
    const Status status = exact_function(inputs, outputs);
    const auto zero = [&](std::vector<float>* x, int64_t row) {
      const auto width = static_cast<int64_t>(x->size()) / inputs.tokens;
      std::fill_n(x->begin() + row * width, width, 0.0f);
    };
    for (size_t b = 0; b + 1 < inputs.cu_seqlens.size(); ++b) {
      const int64_t begin = inputs.cu_seqlens[b];
      const int64_t end = inputs.cu_seqlens[b + 1];
      if (end - begin > 1 && (end - begin) % 32 == 1) zero(&outputs->dq, end - 1);
      if (end - begin > 1) zero(&outputs->dk, begin);
    }
    return status;
  };
  const AuditReport report = run(broken, small({"tails"}));
  EXPECT_EQ(finding(report, "tails", "o").outcome, AuditOutcome::kPassed);
  EXPECT_EQ(finding(report, "tails", "dq").outcome, AuditOutcome::kFailed);
  EXPECT_EQ(finding(report, "tails", "dk").outcome, AuditOutcome::kFailed);
}

/// A neighbour that shows only where documents start at multiples of 32.
TEST(Audit, SeesLeaksBetweenAlignedDocuments) {
  const auto leaking = [](const AuditInputs& inputs, AuditOutputs* outputs) {
    const Status status = exact_function(inputs, outputs);
    const int64_t width = inputs.heads * inputs.head_dim;
    for (size_t b = 1; b + 1 < inputs.cu_seqlens.size(); ++b) {
      const int64_t begin = inputs.cu_seqlens[b];
      if (begin % 32 != 0 || begin == 0 || begin == inputs.tokens) continue;
      for (int64_t c = 0; c < width; ++c) {
        const size_t at = static_cast<size_t>(begin * width + c);
        outputs->o[at] += 0.01f * bf16_to_float(inputs.v[at - static_cast<size_t>(width)]);
      }
    }
    return status;
  };
  const AuditReport report = run(leaking, small({"document_leak", "packing"}));
  EXPECT_EQ(finding(report, "document_leak", "o").outcome, AuditOutcome::kFailed);
  EXPECT_EQ(finding(report, "packing", "o").outcome, AuditOutcome::kFailed);
}

/// Leaks in the first tile, across one boundary, and in a last tile that is cut short.
TEST(Audit, SeesLeaksInTheFirstAndTheLastTile) {
  for (const int64_t token : {int64_t{64}, int64_t{480}}) {
    const auto leaking = [token](const AuditInputs& inputs, AuditOutputs* outputs) {
      const Status status = exact_function(inputs, outputs);
      if (inputs.tokens <= token) return status;
      const int64_t width = inputs.heads * inputs.head_dim;
      for (int64_t c = 0; c < width; ++c) {
        const size_t at = static_cast<size_t>(token * width + c);
        outputs->o[at - static_cast<size_t>(width)] += 0.01f * bf16_to_float(inputs.v[at]);
      }
      return status;
    };
    AuditOptions options = small({"causal_leak"});
    options.tokens = 512;
    options.gradients = false;
    options.operand.push_back('v');
    const AuditReport report = run(leaking, options);
    EXPECT_EQ(finding(report, "causal_leak", "o").outcome, AuditOutcome::kFailed) << token;
  }
}

TEST(Audit, NothingTestedIsAnError) {
  AuditOptions options = small({"causal_leak"});
  options.causal = false;
  AuditReport report;
  const Status status = audit_attention(exact_function, options, &report);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("nothing could be tested"));
  options.causal = true;
  options.factor = 1.0f;
  EXPECT_THAT(audit_attention(exact_function, options, &report).message(),
              HasSubstr("factor must be finite"));
}

TEST(Audit, SeesSmallProbabilitiesVanish) {
  DirectAttention flushed;
  flushed.cast_p = [](double p) { return static_cast<double>(round_e4m3(static_cast<float>(p))); };
  AuditOptions options = small({"underflow"});
  const AuditReport report = run(flushed, options);
  EXPECT_FALSE(report.passed);
  EXPECT_THAT(finding(report, "underflow", "o").cause, HasSubstr("cast to zero"));
  flushed.cast_p = [](double p) {
    return static_cast<double>(round_e4m3(static_cast<float>(p * 256))) / 256;
  };
  EXPECT_TRUE(run(flushed, options).passed);
}

TEST(Audit, SeesClampedProbabilities) {
  DirectAttention clamped;
  clamped.cast_p = [](double p) { return std::min(p, 0.25); };
  const AuditReport report = run(clamped, small({"saturation"}));
  EXPECT_FALSE(report.passed);
}

TEST(Audit, NoiseIsNotALeakButNotDeterministicEither) {
  int call = 0;
  const auto noisy = [&](const AuditInputs& inputs, AuditOutputs* outputs) {
    const Status status = exact_function(inputs, outputs);
    ++call;
    for (size_t n = 0; n < outputs->o.size(); ++n) {
      outputs->o[n] *= 1.0f + 1e-4f * static_cast<float>((n + static_cast<size_t>(call)) % 3);
    }
    return status;
  };
  AuditOptions options = small({"determinism", "causal_leak"});
  options.gradients = false;
  const AuditReport strict = run(noisy, options);
  EXPECT_EQ(finding(strict, "determinism", "o").outcome, AuditOutcome::kFailed);
  EXPECT_EQ(finding(strict, "causal_leak", "o").outcome, AuditOutcome::kPassed);
  EXPECT_THAT(finding(strict, "causal_leak", "o").words, HasSubstr("run-to-run"));
  options.promise.deterministic = false;
  EXPECT_TRUE(run(noisy, options).passed);
}

/// Sums whose order is left to chance differ in one run of many: no leak, if that is not promised
/// away.
TEST(Audit, RareNoiseIsNotALeak) {
  int call = 0;
  const auto rare = [&](const AuditInputs& inputs, AuditOutputs* outputs) {
    const Status status = exact_function(inputs, outputs);
    if (++call % 17 == 0) outputs->o[0] += 1e-3f;
    return status;
  };
  AuditOptions options = small({"causal_leak"});
  options.gradients = false;
  options.promise.deterministic = false;
  const AuditReport report = run(rare, options);
  EXPECT_TRUE(report.passed) << failures(report);
  const auto leaks = [&](const AuditInputs& inputs, AuditOutputs* outputs) {
    const Status status = per_tensor_v(inputs, outputs);
    if (++call % 17 == 0) outputs->o[0] += 1e-3f;
    return status;
  };
  EXPECT_FALSE(run(leaks, options).passed);
}

TEST(Audit, NanOutputsAreAVerdict) {
  const auto nan = [](const AuditInputs& inputs, AuditOutputs* outputs) {
    outputs->o.assign(inputs.q.size(), std::numeric_limits<float>::quiet_NaN());
    return Status();
  };
  const AuditReport report = run(nan, small({}));
  EXPECT_FALSE(report.passed);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_THAT(report.findings[0].words, HasSubstr("NaN"));
}

TEST(Audit, ZerosDoNotPass) {
  const auto zeros = [](const AuditInputs& inputs, AuditOutputs* outputs) {
    outputs->o.assign(inputs.q.size(), 0.0f);
    return Status();
  };
  EXPECT_FALSE(run(zeros, small({})).passed);
}

TEST(Audit, OddInputsThatFailAreFindings) {
  const auto no_empty_documents = [](const AuditInputs& inputs, AuditOutputs* outputs) {
    for (size_t b = 0; b + 1 < inputs.cu_seqlens.size(); ++b) {
      if (inputs.cu_seqlens[b] == inputs.cu_seqlens[b + 1]) {
        return Status(StatusCode::kInternal, "empty document");
      }
    }
    return exact_function(inputs, outputs);
  };
  const AuditReport report = run(no_empty_documents, small({"document_leak", "tails"}));
  EXPECT_FALSE(report.passed);
  EXPECT_THAT(finding(report, "tails", "").words, HasSubstr("empty document"));
}

TEST(Audit, RefusesWhatIsNotAttention) {
  AuditReport report;
  const auto short_output = [](const AuditInputs&, AuditOutputs* outputs) {
    outputs->o.assign(3, 0.0f);
    return Status();
  };
  Status status = audit_attention(short_output, small({}), &report);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("must return o of 10240 entries; got 3"));
  const auto throws = [](const AuditInputs&, AuditOutputs*) -> Status {
    throw std::runtime_error("no such kernel");
  };
  status = audit_attention(throws, small({}), &report);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("no such kernel"));
  EXPECT_FALSE(audit_attention(nullptr, small({}), &report).ok());
}

TEST(Audit, RefusesBadOptions) {
  AuditReport report;
  const auto refused = [&](const AuditOptions& options) {
    return audit_attention(exact_function, options, &report).message();
  };
  EXPECT_THAT(refused(small({"leaks"})), HasSubstr("probe must be one of accuracy"));
  AuditOptions options = small({});
  options.tokens = 12;
  EXPECT_THAT(refused(options), HasSubstr("tokens must be from 96"));
  options = small({});
  options.heads = 3;
  options.kv_heads = 2;
  EXPECT_THAT(refused(options), HasSubstr("multiple of kv_heads"));
  options = small({});
  options.operand = "w";
  EXPECT_THAT(refused(options), HasSubstr("operand must be"));
  options = small({});
  options.at = 160;
  EXPECT_THAT(refused(options), HasSubstr("at must be less than tokens"));
  options = small({});
  options.activations.tokens = 4;
  EXPECT_THAT(refused(options), HasSubstr("activations"));
}

TEST(Audit, ReportIsJson) {
  AuditOptions options = small({"accuracy", "causal_leak"});
  options.at = 40;
  options.name = "bad \xff name";
  const AuditReport report = run(exact_function, options);
  const auto json = nlohmann::json::parse(audit_json(report));
  EXPECT_EQ(json["kind"], "audit");
  EXPECT_EQ(json["tokens"], 160);
  EXPECT_TRUE(json["passed"].get<bool>());
  EXPECT_EQ(json["findings"].size(), report.findings.size());
  EXPECT_EQ(json["leak_maps"][0]["rows"], 160);
  EXPECT_EQ(json["promise"]["shared_tokens"], 0);
}

TEST(Audit, RecordsOfConventionsAreRefusedWhenChanged) {
  for (const Path path : {Path::kBf16, Path::kMxfp8, Path::kNvfp4, Path::kAll4Bit}) {
    Options options;
    options.path = path;
    const Status status = audited_conventions(options);
    EXPECT_TRUE(status.ok()) << status.message();
  }
}

}  // namespace
}  // namespace flamia::audit
