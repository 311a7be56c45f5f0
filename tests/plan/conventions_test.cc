// Automatic choices, and records that come back from outside.
#include "plan/conventions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "plan/plan.h"
#include "problem/validate.h"

namespace flamia {
namespace {

Problem problem_of(int32_t head_dim) {
  Problem problem;
  problem.query_tokens = problem.key_tokens = 300;
  problem.documents = 4;
  problem.heads = 8;
  problem.kv_heads = 2;
  problem.head_dim = head_dim;
  return problem;
}

Conventions resolved(const Options& options, int32_t head_dim = 128) {
  return resolve(problem_of(head_dim), options);
}

TEST(Resolve, TakesShapesFromTheProblem) {
  const Conventions c = resolved({});
  EXPECT_EQ(c.version, kConventionsVersion);
  EXPECT_EQ(c.heads, 8);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 128);
}

TEST(Resolve, ScalesScoresByTheRootOfTheHeadDim) {
  EXPECT_EQ(resolved({}).softmax_scale, static_cast<float>(1.0 / std::sqrt(128.0)));
  EXPECT_EQ(resolved({}, 64).softmax_scale, 0.125f);
  Options options;
  options.softmax_scale = -3.0f;
  EXPECT_EQ(resolved(options).softmax_scale, -3.0f);
}

TEST(Resolve, GivesEachFamilyItsPScale) {
  Options options;
  EXPECT_EQ(resolved(options).p_scale, 256.0f);
  EXPECT_EQ(resolved(options).tau, 0.0f);
  options.emulate = Family::kBlackwell;
  EXPECT_EQ(resolved(options).p_scale, 16.0f);
  EXPECT_EQ(resolved(options).tau, 4.0f);
  options.tau = 2.0f;
  EXPECT_EQ(resolved(options).p_scale, 16.0f);
  EXPECT_EQ(resolved(options).tau, 2.0f);
}

TEST(Resolve, GivesFormsWithTheirOwnScalesNoPScale) {
  Options options;
  options.path = Path::kAll4Bit;
  EXPECT_EQ(resolved(options).p_scale, 1.0f);
  options.path = Path::kNvfp4;
  EXPECT_EQ(resolved(options).p_scale, 256.0f);
  options.emulate = Family::kBlackwell;
  EXPECT_EQ(resolved(options).p_scale, 1.0f);
  EXPECT_EQ(resolved(options).tau, 4.0f);
}

TEST(Resolve, NeedsNoPScaleInBf16) {
  for (const Family family : {Family::kHopper, Family::kBlackwell}) {
    Options options;
    options.path = Path::kBf16;
    options.emulate = family;
    EXPECT_EQ(resolved(options).p_scale, 1.0f);
    EXPECT_EQ(resolved(options).tau, 0.0f);
  }
}

TEST(Resolve, RotatesWideHeadsOfTwoPaths) {
  const auto hadamard = [](Path path, int32_t head_dim, Hadamard choice = Hadamard::kAuto) {
    Options options;
    options.path = path;
    options.hadamard = choice;
    return resolved(options, head_dim).hadamard;
  };
  EXPECT_EQ(hadamard(Path::kMxfp8, 128), Hadamard::kOn);
  EXPECT_EQ(hadamard(Path::kNvfp4, 128), Hadamard::kOn);
  EXPECT_EQ(hadamard(Path::kMxfp8, 64), Hadamard::kOff);
  EXPECT_EQ(hadamard(Path::kNvfp4, 64), Hadamard::kOff);
  EXPECT_EQ(hadamard(Path::kAll4Bit, 128), Hadamard::kOff);
  EXPECT_EQ(hadamard(Path::kBf16, 128), Hadamard::kOff);
  EXPECT_EQ(hadamard(Path::kMxfp8, 64, Hadamard::kOn), Hadamard::kOn);
  EXPECT_EQ(hadamard(Path::kMxfp8, 128, Hadamard::kOff), Hadamard::kOff);
}

TEST(Resolve, WritesMasksAsWindows) {
  const auto window = [](MaskKind kind, int64_t left = -1, int64_t right = -1) {
    Options options;
    options.mask = {kind, left, right};
    const Conventions c = resolved(options);
    return std::pair(c.window_left, c.window_right);
  };
  EXPECT_EQ(window(MaskKind::kFull), std::pair(int64_t{-1}, int64_t{-1}));
  EXPECT_EQ(window(MaskKind::kCausal), std::pair(int64_t{-1}, int64_t{0}));
  EXPECT_EQ(window(MaskKind::kWindow, 128, 0), std::pair(int64_t{128}, int64_t{0}));
  const int64_t endless = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(window(MaskKind::kWindow, endless, endless), std::pair(int64_t{-1}, int64_t{-1}));
}

TEST(Resolve, AccumulatesDqInFp16OnQuantizedPaths) {
  Options options;
  EXPECT_EQ(resolved(options).dq_accumulate, DqAccumulate::kFp16);
  EXPECT_EQ(resolved(options).grad_products, GradProducts::kFp8);
  options.path = Path::kBf16;
  EXPECT_EQ(resolved(options).dq_accumulate, DqAccumulate::kFp32);
  EXPECT_EQ(resolved(options).grad_products, GradProducts::kBf16);
}

TEST(Resolve, ScalesDqCausallyOnlyForExactFp16Sums) {
  Options options;
  EXPECT_EQ(resolved(options).dq_scale, DqScale::kDocument);
  options.safety = Safety::kExact;
  EXPECT_EQ(resolved(options).dq_scale, DqScale::kCausal);
  options.dq_accumulate = DqAccumulate::kFp32;
  EXPECT_EQ(resolved(options).dq_scale, DqScale::kDocument);
}

TEST(Resolve, RecordsTheBackendAndItsSums) {
  Options options;
  EXPECT_EQ(resolved(options).backend, BackendKind::kCpu);
  EXPECT_EQ(resolved(options).accumulate, Accumulate::kExact);
  const Conventions hopper = resolve(problem_of(128), options, BackendKind::kHopper);
  EXPECT_EQ(hopper.backend, BackendKind::kHopper);
  EXPECT_EQ(hopper.family, Family::kHopper);
  EXPECT_EQ(hopper.accumulate, Accumulate::kHardware);
  EXPECT_EQ(hopper.promote, Promote::kTile);
  EXPECT_EQ(options_of(hopper).backend, BackendKind::kHopper);
  options.accumulate = Accumulate::kHardware;
  EXPECT_EQ(resolved(options).accumulate, Accumulate::kHardware);
}

bool same_record(const Conventions& a, const Conventions& b) {
  return std::memcmp(&a, &b, offsetof(Conventions, reserved)) == 0;
}

TEST(OptionsOf, ResolveToTheSameRecordAgain) {
  Options window;
  window.path = Path::kNvfp4;
  window.mask = {MaskKind::kWindow, 5, 9};
  window.safety = Safety::kExact;
  window.emulate = Family::kBlackwell;
  Options plain;
  plain.path = Path::kBf16;
  plain.delta = Delta::kOBf16;
  for (const Options& options : {Options(), window, plain}) {
    const Conventions record = resolved(options);
    EXPECT_TRUE(same_record(resolved(options_of(record)), record));
  }
}

std::string check(const Conventions& record) {
  return check_conventions("attention_backward", problem_of(128), record).message();
}

TEST(CheckConventions, AcceptsWhatResolveWrites) { EXPECT_EQ(check(resolved({})), ""); }

TEST(CheckConventions, RefusesOtherVersions) {
  Conventions record = resolved({});
  record.version = 7;
  EXPECT_EQ(check(record),
            "attention_backward: conventions.version must be 1179402499; got 7 (pass the record "
            "that the forward pass returned)");
}

TEST(CheckConventions, RefusesOtherShapes) {
  Conventions record = resolved({}, 64);
  record.heads = 16;
  EXPECT_EQ(check(record),
            "attention_backward: conventions.heads must be 8 as in the problem; got 16; "
            "conventions.head_dim must be 128 as in the problem; got 64");
}

TEST(CheckConventions, RefusesBytesThatAreNoChoice) {
  Conventions record = resolved({});
  record.path = static_cast<Path>(9);
  record.safety = static_cast<Safety>(255);
  EXPECT_EQ(check(record),
            "attention_backward: conventions.path must be bf16, mxfp8, nvfp4 or all4bit; got 9; "
            "conventions.safety must be default or exact; got 255");
}

TEST(CheckConventions, RefusesChoicesLeftOpen) {
  Conventions record = resolved({});
  record.hadamard = Hadamard::kAuto;
  record.dq_scale = DqScale::kAuto;
  record.accumulate = Accumulate::kAuto;
  record.backend = BackendKind::kAuto;
  EXPECT_EQ(check(record),
            "attention_backward: conventions.hadamard must be resolved; got auto; "
            "conventions.accumulate must be resolved; got auto; conventions.dq_scale must be "
            "resolved; got auto; conventions.backend must be resolved; got auto");
}

TEST(CheckConventions, RefusesFieldsOfLaterVersions) {
  Conventions record = resolved({});
  record.reserved = 3;
  EXPECT_EQ(check(record),
            "attention_backward: conventions.reserved must be zero; got 3 (a newer version wrote "
            "this record)");
}

TEST(CheckConventions, RefusesWindowsThatResolveNeverWrites) {
  Conventions record = resolved({});
  record.window_right = kMaxTokens;
  EXPECT_EQ(check(record),
            "attention_backward: conventions.window must be less than 2^40; got -1,1099511627776");
}

}  // namespace
}  // namespace flamia
