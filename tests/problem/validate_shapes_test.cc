// Every check of shapes, with the whole sentence that a caller reads.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "problem/validate.h"
#include "tests/support/call_tensors.h"

namespace flamia {
namespace {

using test::batched_sizes;
using test::CallSizes;
using test::CallTensors;
using test::packed_sizes;

/// What is done to a valid packed call, and the sentence that follows.
struct Case {
  const char* name;
  std::function<void(CallTensors*)> change;
  const char* message;
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

std::string problem_message(const Problem& problem) {
  Refusals refusals;
  check_problem(problem, &refusals);
  return refusals.status("is_supported").message();
}

Problem valid_problem() { return CallTensors(packed_sizes()).problem; }

TEST(CheckProblem, AcceptsWhatTensorsGive) { EXPECT_EQ(problem_message(valid_problem()), ""); }

TEST(CheckProblem, NamesTheHeadDimThatPaddingGives) {
  Problem problem = valid_problem();
  problem.head_dim = 96;
  EXPECT_EQ(problem_message(problem),
            "is_supported: head_dim must be 64 or 128; got 96 (pad q, k, v to 128)");
  problem.head_dim = 32;
  EXPECT_EQ(problem_message(problem),
            "is_supported: head_dim must be 64 or 128; got 32 (pad q, k, v to 64)");
  problem.head_dim = 256;
  EXPECT_EQ(problem_message(problem), "is_supported: head_dim must be 64 or 128; got 256");
}

TEST(CheckProblem, ListsEveryReason) {
  Problem problem = valid_problem();
  problem.query_tokens = -1;
  problem.heads = 5;
  problem.head_dim = 0;
  EXPECT_EQ(problem_message(problem),
            "is_supported: query_tokens must be between 0 and 2^40; got -1; heads must be a "
            "multiple of kv_heads; got 5 and 2; head_dim must be 64 or 128; got 0");
}

TEST(CheckProblem, RefusesHeadsOutOfRange) {
  Problem problem = valid_problem();
  problem.heads = 0;
  problem.kv_heads = 65537;
  EXPECT_EQ(problem_message(problem),
            "is_supported: heads must be between 1 and 65536; got 0; kv_heads must be between 1 "
            "and 65536; got 65537");
}

TEST(CheckProblem, RefusesABatchThatDoesNotDivide) {
  Problem problem = CallTensors(batched_sizes()).problem;
  problem.key_tokens = 9;
  problem.documents = 3;
  EXPECT_EQ(problem_message(problem),
            "is_supported: key_tokens must be a multiple of batch; got 9 and 2; documents must "
            "equal batch; got 3 != 2");
}

TEST(CheckProblem, RefusesNegativeCounts) {
  Problem problem = valid_problem();
  problem.batch = -2;
  problem.documents = -1;
  EXPECT_EQ(problem_message(problem),
            "is_supported: batch must be >= 0; got -2; documents must be between 0 and 2^31 - 2; "
            "got -1");
}

TEST(CheckProblem, RefusesSizesThatOverflow) {
  Problem problem = valid_problem();
  problem.query_tokens = kMaxTokens;
  EXPECT_EQ(problem_message(problem),
            "is_supported: tokens * heads * head_dim must be at most 2^46; got 1099511627776 * 4 "
            "* 64");
}

std::string problem_from(const CallTensors& call, Problem* problem) {
  return problem_from_views("problem_from_tensors", call.forward, problem).message();
}

TEST(ProblemFromViews, ReadsPackedShapes) {
  CallSizes sizes = packed_sizes();
  sizes.key_tokens = 20;
  const CallTensors call(sizes);
  Problem problem;
  EXPECT_EQ(problem_from(call, &problem), "");
  EXPECT_EQ(problem.query_tokens, 8);
  EXPECT_EQ(problem.key_tokens, 20);
  EXPECT_EQ(problem.batch, 0);
  EXPECT_EQ(problem.documents, 3);
  EXPECT_EQ(problem.heads, 4);
  EXPECT_EQ(problem.kv_heads, 2);
  EXPECT_EQ(problem.head_dim, 64);
}

TEST(ProblemFromViews, ReadsBatchedShapes) {
  const CallTensors call(batched_sizes());
  Problem problem;
  EXPECT_EQ(problem_from(call, &problem), "");
  EXPECT_EQ(problem.query_tokens, 6);
  EXPECT_EQ(problem.key_tokens, 10);
  EXPECT_EQ(problem.batch, 2);
  EXPECT_EQ(problem.documents, 2);
}

class RefusedProblem : public testing::TestWithParam<Case> {};

TEST_P(RefusedProblem, SaysWhatIsWrong) {
  CallTensors call(packed_sizes());
  GetParam().change(&call);
  Problem problem;
  problem.heads = 99;
  EXPECT_EQ(problem_from(call, &problem), GetParam().message);
  EXPECT_EQ(problem.heads, 99) << "a refused call must not write its output";
}

const Case kProblemCases[] = {
    {"RankOfQuery", [](CallTensors* call) { call->forward.q.rank = 2; },
     "problem_from_tensors: q.rank must be 3 or 4; got 2 (packed [T, H, D] or batched "
     "[B, L, H, D])"},
    {"RankOfKey", [](CallTensors* call) { call->forward.k.rank = 4; },
     "problem_from_tensors: k.rank must equal q.rank; got 4 != 3"},
    {"NegativeSize", [](CallTensors* call) { call->forward.q.shape[0] = -8; },
     "problem_from_tensors: q.shape[0] must be between 0 and 2^40; got -8"},
    {"HeadDims", [](CallTensors* call) { call->forward.k.shape[2] = 128; },
     "problem_from_tensors: k.shape[2] must equal q.shape[2]; got 128 != 64"},
    {"HeadRatio", [](CallTensors* call) { call->forward.k.shape[1] = 3; },
     "problem_from_tensors: heads must be a multiple of kv_heads; got 4 and 3"},
    {"TooManyHeads", [](CallTensors* call) { call->forward.q.shape[1] = (int64_t{1} << 32) + 4; },
     "problem_from_tensors: heads must be between 1 and 65536; got 2147483647; heads must be a "
     "multiple of kv_heads; got 2147483647 and 2"},
    {"NoLengths", [](CallTensors* call) { call->forward.cu_seqlens_q = {}; },
     "problem_from_tensors: cu_seqlens_q must be given for packed tensors; got none (a batch "
     "without cumulative lengths has rank 4)"},
    {"RankOfLengths", [](CallTensors* call) { call->forward.cu_seqlens_q.rank = 3; },
     "problem_from_tensors: cu_seqlens_q.rank must be 1; got 3"},
    {"NoEntries", [](CallTensors* call) { call->forward.cu_seqlens_q.shape[0] = 0; },
     "problem_from_tensors: cu_seqlens_q.shape[0] must be between 1 and 2^31 - 1; got 0 "
     "(documents + 1 entries)"},
};

INSTANTIATE_TEST_SUITE_P(ValidateShapes, RefusedProblem, testing::ValuesIn(kProblemCases),
                         case_name);

TEST(ProblemFromViews, RefusesAnEmptyBatch) {
  CallTensors call(batched_sizes());
  call.forward.q.shape[0] = 0;
  Problem problem;
  EXPECT_EQ(problem_from(call, &problem),
            "problem_from_tensors: q.shape[0] must be between 1 and 2^31 - 1; got 0 (entries of "
            "the batch)");
}

TEST(ProblemFromViews, RefusesBatchesOfDifferentSizes) {
  CallTensors call(batched_sizes());
  call.forward.k.shape[0] = 3;
  Problem problem;
  EXPECT_EQ(problem_from(call, &problem),
            "problem_from_tensors: k.shape[0] must equal q.shape[0]; got 3 != 2");
}

}  // namespace
}  // namespace flamia
