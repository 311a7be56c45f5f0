// The table answers for every record, and promises nothing that a choice does not keep.
#include "plan/causal_safety.h"

#include <gtest/gtest.h>

#include "plan/conventions.h"
#include "problem/names.h"

namespace flamia {
namespace {

CausalSafety safety_of(const Options& options) {
  Problem problem;
  problem.heads = problem.kv_heads = 1;
  problem.head_dim = 128;
  return causal_safety(resolve(problem, options));
}

Options causal() {
  Options options;
  options.mask.kind = MaskKind::kCausal;
  return options;
}

TEST(CausalSafety, AnswersForEveryPath) {
  for (size_t path = 0; path < spellings<Path>().size(); ++path) {
    for (const Safety safety : {Safety::kDefault, Safety::kExact}) {
      Options options = causal();
      options.path = static_cast<Path>(path);
      options.safety = safety;
      EXPECT_STRNE(safety_of(options).operand_exponents, "");
      EXPECT_STRNE(safety_of(options).dq_sums, "");
    }
  }
}

TEST(CausalSafety, ExactLeavesNothing) {
  for (size_t path = 0; path < spellings<Path>().size(); ++path) {
    Options options = causal();
    options.path = static_cast<Path>(path);
    options.safety = Safety::kExact;
    EXPECT_STREQ(safety_of(options).o_residue, "none");
    EXPECT_STREQ(safety_of(options).dq_residue, "none");
    EXPECT_STREQ(safety_of(options).dq_sum_residue, "none");
  }
}

TEST(CausalSafety, DefaultLeavesTheBlockAndTheRoundingOfDq) {
  const CausalSafety safety = safety_of(causal());
  EXPECT_STREQ(safety.o_residue, "rows of the same 32-token block");
  EXPECT_STREQ(safety.dq_residue, "rows of the same 32-token block");
  EXPECT_STREQ(safety.dq_sum_residue,
               "all earlier rows of the document, about 1e-3 of the largest entry");
}

TEST(CausalSafety, CausalDqScaleTakesTheRoundingAway) {
  Options options = causal();
  options.dq_scale = DqScale::kCausal;
  EXPECT_STREQ(safety_of(options).dq_sum_residue, "none");
  options.dq_scale = DqScale::kAuto;
  options.dq_accumulate = DqAccumulate::kFp32;
  EXPECT_STREQ(safety_of(options).dq_sum_residue, "none");
}

TEST(CausalSafety, PromisesNothingWithoutACausalMask) {
  EXPECT_STREQ(safety_of({}).o_residue, "not promised: rows see later tokens");
  Options window;
  window.mask = {MaskKind::kWindow, 4, 1};
  EXPECT_STREQ(safety_of(window).dq_sum_residue, "not promised: rows see later tokens");
}

TEST(CausalSafety, NamesTheExponentsOfDs) {
  Options options = causal();
  EXPECT_STREQ(safety_of(options).ds_exponents, "one per query row and key tile");
  options.emulate = Family::kBlackwell;
  EXPECT_STREQ(safety_of(options).ds_exponents, "one per 32 x 32 block");
  options.safety = Safety::kExact;
  EXPECT_STREQ(safety_of(options).ds_exponents, "one per query row and key tile");
  options.grad_products = GradProducts::kBf16;
  EXPECT_STREQ(safety_of(options).ds_exponents, "no scales");
}

}  // namespace
}  // namespace flamia
