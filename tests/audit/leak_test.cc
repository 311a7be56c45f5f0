// The causal leak probe on the CPU backend: what each safety level promises is what it does.
#include "audit/leak.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/philox.h"
#include "flamia/attention.h"
#include "numerics/bf16.h"

namespace flamia::audit {
namespace {

/// Packed N(0,1) tensors, [tokens, heads, 64].
struct Call {
  Problem problem;
  std::vector<int32_t> lengths, key_lengths;
  std::vector<uint16_t> q, k, v, d_o;

  Call(std::vector<int32_t> cumulative, int32_t heads, int32_t kv_heads,
       std::vector<int32_t> cumulative_keys = {})
      : lengths(std::move(cumulative)), key_lengths(std::move(cumulative_keys)) {
    const int64_t keys = key_lengths.empty() ? lengths.back() : key_lengths.back();
    problem = {lengths.back(), keys,     0, static_cast<int32_t>(lengths.size()) - 1,
               heads,          kv_heads, 64};
    fill(&q, problem.query_tokens * heads, 1);
    fill(&k, keys * kv_heads, 2);
    fill(&v, keys * kv_heads, 3);
    fill(&d_o, problem.query_tokens * heads, 4);
  }

  static void fill(std::vector<uint16_t>* x, int64_t rows, uint64_t stream) {
    x->resize(static_cast<size_t>(rows * 64));
    for (size_t n = 0; n < x->size(); n += 2) {
      const Philox4 bits = philox(1, stream, n);
      const NormalPair pair = normal_pair(bits.word[0], bits.word[1]);
      (*x)[n] = float_to_bf16(static_cast<float>(pair.first));
      (*x)[n + 1] = float_to_bf16(static_cast<float>(pair.second));
    }
  }

  static TensorView view(std::vector<uint16_t>* x, int64_t tokens, int64_t heads) {
    return {x->data(), DType::kBF16, 3, {tokens, heads, 64}, {heads * 64, 64, 1}};
  }
  static TensorView cumulative(std::vector<int32_t>* x) {
    if (x->empty()) return TensorView{};
    return {x->data(), DType::kI32, 1, {static_cast<int64_t>(x->size())}, {1}};
  }

  LeakVerdict probe(const Options& options, const std::vector<int64_t>& tokens = {},
                    bool gradient = true) {
    ForwardTensors inputs;
    inputs.q = view(&q, problem.query_tokens, problem.heads);
    inputs.k = view(&k, problem.key_tokens, problem.kv_heads);
    inputs.v = view(&v, problem.key_tokens, problem.kv_heads);
    inputs.cu_seqlens_q = cumulative(&lengths);
    inputs.cu_seqlens_k = cumulative(&key_lengths);
    const TensorView upstream =
        gradient ? view(&d_o, problem.query_tokens, problem.heads) : TensorView{};
    LeakVerdict verdict;
    const Status status = causal_leak_at(problem, options, inputs, upstream, tokens, &verdict);
    EXPECT_TRUE(status.ok()) << status.message();
    return verdict;
  }
};

Options causal(Path path) {
  Options options;
  options.path = path;
  options.backend = BackendKind::kCpu;
  options.mask.kind = MaskKind::kCausal;
  return options;
}

/// Tokens at every offset of one 32-token block, the first of which starts a tile.
std::vector<int64_t> every_offset() {
  std::vector<int64_t> tokens(32);
  std::iota(tokens.begin(), tokens.end(), 128);
  return tokens;
}

TEST(CausalLeak, OfExactOptionsIsNothingAtEveryOffset) {
  Call call({0, 170}, 1, 1);
  for (const Family family : {Family::kHopper, Family::kBlackwell}) {
    for (const Path path : {Path::kMxfp8, Path::kNvfp4}) {
      Options options = causal(path);
      options.safety = Safety::kExact;
      options.emulate = family;
      const LeakVerdict verdict = call.probe(options, every_offset());
      EXPECT_TRUE(verdict.tested);
      EXPECT_TRUE(verdict.passed) << verdict.words;
      EXPECT_EQ(verdict.o_reach, 0);
      EXPECT_EQ(verdict.dq_reach, 0);
      EXPECT_EQ(verdict.words, "no earlier row changes");
      EXPECT_EQ(verdict.promise, "no earlier row changes");
    }
  }
}

TEST(CausalLeak, OfBf16IsNothing) {
  Call call({0, 170}, 2, 1);
  const LeakVerdict verdict = call.probe(causal(Path::kBf16));
  EXPECT_TRUE(verdict.passed) << verdict.words;
  EXPECT_EQ(verdict.o_reach, 0);
  EXPECT_EQ(verdict.dq_reach, 0);
}

TEST(CausalLeak, OfDefaultOptionsStaysInsideTheBlockForO) {
  Call call({0, 170}, 1, 1);
  for (const Family family : {Family::kHopper, Family::kBlackwell}) {
    Options options = causal(Path::kMxfp8);
    options.emulate = family;
    const LeakVerdict verdict = call.probe(options, every_offset());
    EXPECT_TRUE(verdict.passed) << verdict.words;
    // The probe can see: a token-block scale does leak inside its block.
    EXPECT_GT(verdict.o_reach, 0) << verdict.words;
    EXPECT_LE(verdict.o_reach, 31) << verdict.words;
    EXPECT_GT(verdict.o_change, 0);
  }
}

TEST(CausalLeak, OfDqWithACausalScaleStaysInsideTheBlock) {
  Call call({0, 170}, 1, 1);
  Options options = causal(Path::kMxfp8);
  options.dq_scale = DqScale::kCausal;
  const LeakVerdict verdict = call.probe(options, every_offset());
  EXPECT_TRUE(verdict.passed) << verdict.words;
  EXPECT_LE(verdict.dq_reach, 31) << verdict.words;
  EXPECT_EQ(verdict.promise, "earlier rows change inside the 32-token block only");
}

TEST(CausalLeak, OfDqWithAScaleOfTheDocumentIsRounding) {
  Call call({0, 170}, 1, 1);
  Options options = causal(Path::kMxfp8);
  options.dq_scale = DqScale::kDocument;
  options.dq_accumulate = DqAccumulate::kFp16;
  const LeakVerdict verdict = call.probe(options, every_offset());
  EXPECT_TRUE(verdict.passed) << verdict.words;
  EXPECT_GT(verdict.dq_reach, 31) << verdict.words;
  EXPECT_NE(verdict.words.find("rounding of the FP16 accumulator"), std::string::npos);
}

TEST(CausalLeak, IsNotTestedWhereTheMaskShowsLaterKeys) {
  Call call({0, 64}, 1, 1);
  Options options = causal(Path::kMxfp8);
  options.mask = {MaskKind::kFull, -1, -1};
  EXPECT_FALSE(call.probe(options).tested);
  options.mask = {MaskKind::kWindow, 16, 1};
  EXPECT_FALSE(call.probe(options).tested);
  options.mask = {MaskKind::kWindow, 16, 0};
  EXPECT_TRUE(call.probe(options, {33, 63}).tested);
}

TEST(CausalLeak, IsNotTestedWithoutADocumentOfTwoTokens) {
  Call call({0, 1, 1, 2}, 1, 1);
  const LeakVerdict verdict = call.probe(causal(Path::kMxfp8));
  EXPECT_FALSE(verdict.tested);
  EXPECT_EQ(verdict.words, "not tested: no document has two tokens");
}

TEST(CausalLeak, ProbesTheLongestDocumentOfManyHeads) {
  Call call({0, 40, 200, 230}, 12, 2);
  const LeakVerdict verdict = call.probe(causal(Path::kMxfp8), {159});
  EXPECT_TRUE(verdict.tested);
  EXPECT_TRUE(verdict.passed) << verdict.words;
}

TEST(CausalLeak, ProbesDocumentsWhoseKeysAreOtherTokens) {
  Call call({0, 50}, 1, 1, {0, 120});
  const LeakVerdict verdict = call.probe(causal(Path::kMxfp8), {49});
  EXPECT_TRUE(verdict.tested);
  EXPECT_TRUE(verdict.passed) << verdict.words;
}

TEST(CausalLeak, WithoutAGradientIsThatOfO) {
  Call call({0, 64}, 1, 1);
  const LeakVerdict verdict = call.probe(causal(Path::kMxfp8), {63}, false);
  EXPECT_TRUE(verdict.tested);
  EXPECT_EQ(verdict.dq_reach, 0);
}

TEST(CausalLeak, RefusesTensorsOfOtherTypes) {
  Call call({0, 64}, 1, 1);
  std::vector<float> wide(call.q.size());
  ForwardTensors inputs;
  inputs.q = {wide.data(), DType::kF32, 3, {64, 1, 64}, {64, 64, 1}};
  inputs.k = Call::view(&call.k, 64, 1);
  inputs.v = Call::view(&call.v, 64, 1);
  inputs.cu_seqlens_q = Call::cumulative(&call.lengths);
  LeakVerdict verdict;
  const Status status =
      causal_leak(call.problem, causal(Path::kMxfp8), inputs, TensorView{}, &verdict);
  EXPECT_EQ(status.message(),
            "causal_leak: q, k, v, d_o must be BF16 of rank 3 or 4; got another tensor");
}

}  // namespace
}  // namespace flamia::audit
