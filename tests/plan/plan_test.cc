// Plans of both passes, and what they refuse.
#include "plan/plan.h"

#include <gtest/gtest.h>

#include <limits>

namespace flamia {
namespace {

Problem valid_problem() {
  Problem problem;
  problem.query_tokens = problem.key_tokens = 300;
  problem.documents = 4;
  problem.heads = 8;
  problem.kv_heads = 2;
  problem.head_dim = 128;
  return problem;
}

Conventions record_of(const Options& options) {
  Plan plan;
  EXPECT_EQ(plan_forward("attention_forward", valid_problem(), options, {}, &plan).message(), "");
  return plan.conventions;
}

std::string backward_message(const Conventions& record, int32_t threads = 1) {
  Plan plan;
  return plan_backward("attention_backward", valid_problem(), record, threads, {}, &plan).message();
}

TEST(PlanForward, ResolvesBackendAndThreads) {
  Plan plan;
  Options options;
  EXPECT_TRUE(plan_forward("f", valid_problem(), options, {}, &plan).ok());
  EXPECT_EQ(plan.backend, BackendKind::kCpu);
  EXPECT_GE(plan.threads, 1);
  EXPECT_EQ(plan.problem.query_tokens, 300);
  options.threads = 7;
  EXPECT_TRUE(plan_forward("f", valid_problem(), options, {}, &plan).ok());
  EXPECT_EQ(plan.threads, 7);
}

TEST(PlanForward, NamesTheCallThatRefuses) {
  Problem problem = valid_problem();
  problem.head_dim = 96;
  Plan plan;
  EXPECT_EQ(plan_forward("attention_forward", problem, {}, {}, &plan).message(),
            "attention_forward: head_dim must be 64 or 128; got 96 (pad q, k, v to 128)");
}

TEST(PlanBackward, TakesTheForwardRecord) {
  Options options;
  options.mask.kind = MaskKind::kCausal;
  options.safety = Safety::kExact;
  const Conventions record = record_of(options);
  Plan plan;
  EXPECT_EQ(plan_backward("f", valid_problem(), record, 3, {}, &plan).message(), "");
  EXPECT_EQ(plan.conventions.safety, Safety::kExact);
  EXPECT_EQ(plan.conventions.window_right, 0);
  EXPECT_EQ(plan.threads, 3);
}

TEST(PlanForward, RunsOnTheGpuOfTheMachine) {
  Machine machine;
  machine.gpu = BackendKind::kHopper;
  machine.no_hopper.clear();
  Plan plan;
  EXPECT_EQ(plan_forward("f", valid_problem(), {}, machine, &plan).message(), "");
  EXPECT_EQ(plan.backend, BackendKind::kHopper);
  EXPECT_EQ(plan.conventions.backend, BackendKind::kHopper);
  // The record says where the backward pass runs, whatever the machine.
  const Conventions record = plan.conventions;
  EXPECT_EQ(
      plan_backward("f", valid_problem(), record, 1, machine, &plan).message(),
      "f: backend must be cpu for a backward pass; got hopper (gradients are not there yet on "
      "a GPU)");
  EXPECT_EQ(plan_backward("f", valid_problem(), record_of({}), 1, machine, &plan).message(), "");
  EXPECT_EQ(plan.backend, BackendKind::kCpu);
}

TEST(PlanBackward, RefusesInferenceExponentials) {
  Options options;
  options.exponential = Exponential::kSchraudolph;
  EXPECT_EQ(backward_message(record_of(options)),
            "attention_backward: exponential must be exact or polynomial for a backward pass; got "
            "schraudolph (it is for inference only)");
}

TEST(PlanBackward, RefusesAnEmptyRecord) {
  Conventions record{};
  record.version = 0;
  EXPECT_EQ(backward_message(record),
            "attention_backward: conventions.version must be 1179402499; got 0 (pass the record "
            "that the forward pass returned)");
}

TEST(PlanBackward, RefusesNumbersThatNoForwardPassRecords) {
  Conventions record = record_of({});
  record.softmax_scale = std::numeric_limits<float>::quiet_NaN();
  record.tau = 3.0f;
  EXPECT_EQ(backward_message(record),
            "attention_backward: softmax_scale must be finite; got nan; p_scale must keep "
            "log2(p_scale) + tau <= log2(448); got p_scale=256 tau=3 (larger probabilities would "
            "saturate)");
}

TEST(PlanBackward, RefusesCombinationsThatNoForwardPassRecords) {
  Conventions record = record_of({});
  record.path = Path::kAll4Bit;
  record.p_scale = 1.0f;
  record.ds_format = DsFormat::kE5M2;
  EXPECT_EQ(backward_message(record),
            "attention_backward: ds_format must be e4m3 for path all4bit with grad_products fp8; "
            "got e5m2 (e5m2 needs path mxfp8 or nvfp4 with grad_products fp8)");
}

TEST(PlanBackward, RefusesWindowsBelowMinusOne) {
  Conventions record = record_of({});
  record.window_left = -7;
  EXPECT_EQ(backward_message(record),
            "attention_backward: mask.window_left must be >= -1; got -7 (-1 means unlimited)");
}

TEST(PlanBackward, ChecksThreads) {
  EXPECT_EQ(backward_message(record_of({}), -4),
            "attention_backward: threads must be between 0 and 1024; got -4 (0 means one per "
            "core)");
}

}  // namespace
}  // namespace flamia
