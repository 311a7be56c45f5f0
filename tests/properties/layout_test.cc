// The same numbers through every layout, order of work and spelling of a mask, bitwise.
#include <gtest/gtest.h>

#include <cstring>

#include "numerics/bf16.h"
#include "tests/support/attention_case.h"
#include "tests/support/call_tensors.h"

namespace flamia::test {
namespace {

void expect_same(const Outputs& a, const Outputs& b) {
  EXPECT_EQ(a.o, b.o);
  EXPECT_EQ(a.dq, b.dq);
  EXPECT_EQ(a.dk, b.dk);
  EXPECT_EQ(a.dv, b.dv);
  EXPECT_EQ(std::memcmp(a.lse.data(), b.lse.data(), a.lse.size() * sizeof(float)), 0);
}

TEST(Determinism, NoNumberDependsOnTheNumberOfThreads) {
  Shape shape;
  shape.lengths = {300, 0, 17, 513, 1, 1, 130};
  shape.heads = 4;
  shape.kv_heads = 2;
  for (const Path path : all_paths()) {
    Options options = options_of(path);
    options.threads = 1;
    const Outputs one = Case(shape).run(options);
    for (const int threads : {2, 3, 8}) {
      options.threads = threads;
      expect_same(one, Case(shape).run(options));
    }
  }
}

TEST(Masks, SpellingsOfTheSameMaskAgree) {
  Shape shape;
  shape.lengths = {200, 77};
  for (const Path path : all_paths()) {
    const Outputs causal = Case(shape).run(options_of(path, MaskKind::kCausal));
    Options window = options_of(path, MaskKind::kWindow);
    window.mask.window_left = -1;
    window.mask.window_right = 0;
    expect_same(causal, Case(shape).run(window));
    window.mask.window_left = 5000;
    expect_same(causal, Case(shape).run(window));
    const Outputs full = Case(shape).run(options_of(path, MaskKind::kFull));
    window.mask.window_left = 1000;
    window.mask.window_right = 1000;
    expect_same(full, Case(shape).run(window));
  }
}

TEST(Documents, EmptyOnesChangeNothing) {
  Shape shape;
  shape.lengths = {40, 100};
  Shape sparse;
  sparse.lengths = {0, 0, 40, 0, 100, 0, 0};
  for (const Path path : all_paths()) {
    expect_same(Case(shape).run(options_of(path)), Case(sparse).run(options_of(path)));
  }
}

TEST(Documents, MoreDocumentsThanTokens) {
  Shape shape;
  shape.lengths.assign(400, 0);
  for (const size_t at : {3u, 4u, 90u, 399u}) shape.lengths[at] = 1;
  shape.heads = 6;
  shape.kv_heads = 2;
  for (const Path path : all_paths()) {
    Case call(shape);
    const Options options = options_of(path);
    const Outputs out = call.run(options);
    // A one-token document returns its V.
    const oracle::Result expected = call.reference(options);
    EXPECT_GE(cosine(out.o, expected.o), path == Path::kAll4Bit ? 0.98 : 0.999) << path_name(path);
  }
}

/// Inputs as slices of one [T, Hq + 2 Hkv, D] projection: strides differ, bits may not.
TEST(Strides, SlicesOfOneProjectionGiveTheSameBits) {
  Shape shape;
  shape.lengths = {90, 41};
  shape.heads = 4;
  shape.kv_heads = 2;
  Case call(shape);
  const Options options = options_of(Path::kMxfp8);
  const Outputs expected = call.run(options, false);
  const int64_t tokens = call.query_tokens();
  constexpr int kDim = 64;
  std::vector<uint16_t> fused(static_cast<size_t>(tokens * 8 * kDim));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int c = 0; c < kDim; ++c) {
      for (int h = 0; h < 4; ++h)
        fused[static_cast<size_t>((t * 8 + h) * kDim + c)] = call.q(t, h, c);
      for (int h = 0; h < 2; ++h) {
        fused[static_cast<size_t>((t * 8 + 4 + h) * kDim + c)] = call.k(t, h, c);
        fused[static_cast<size_t>((t * 8 + 6 + h) * kDim + c)] = call.v(t, h, c);
      }
    }
  }
  ForwardTensors tensors = call.forward_tensors();
  const auto slice = [&](TensorView* view, int first_head) {
    view->data = fused.data() + first_head * kDim;
    view->stride[0] = 8 * kDim;
  };
  slice(&tensors.q, 0);
  slice(&tensors.k, 4);
  slice(&tensors.v, 6);
  std::vector<int64_t> wide_cu(call.cu_q.begin(), call.cu_q.end());
  tensors.cu_seqlens_q =
      dense_view(wide_cu.data(), DType::kI64, {static_cast<int64_t>(wide_cu.size())});
  tensors.cu_seqlens_k = TensorView{};
  std::vector<uint16_t> o(call.q_data.size());
  std::vector<float> lse(expected.lse.size());
  tensors.o = dense_view(o.data(), DType::kBF16, {tokens, 4, kDim});
  tensors.lse = dense_view(lse.data(), DType::kF32, {4, tokens});
  std::vector<uint16_t> residual(o.size());
  tensors.o_residual = dense_view(residual.data(), DType::kBF16, {tokens, 4, kDim});
  size_t bytes = 0;
  ASSERT_TRUE(workspace_size(call.problem(), options, Pass::kForward, &bytes).ok());
  AlignedBytes workspace(bytes);
  Conventions conventions;
  const Status status = attention_forward(call.problem(), options, tensors,
                                          {workspace.as<void>(), bytes}, nullptr, &conventions);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(o, expected.o);
  EXPECT_EQ(lse, expected.lse);
}

TEST(Batches, EqualPackedRowsOfTheSameLength) {
  Shape shape;
  shape.lengths = {150, 150, 150};
  shape.heads = 2;
  shape.kv_heads = 1;
  Case call(shape);
  for (const Path path : all_paths()) {
    const Options options = options_of(path);
    const Outputs packed = call.run(options, false);
    Problem problem = call.problem();
    problem.batch = 3;
    ForwardTensors tensors;
    tensors.q = dense_view(call.q_data.data(), DType::kBF16, {3, 150, 2, 64});
    tensors.k = dense_view(call.k_data.data(), DType::kBF16, {3, 150, 1, 64});
    tensors.v = dense_view(call.v_data.data(), DType::kBF16, {3, 150, 1, 64});
    std::vector<uint16_t> o(call.q_data.size()), residual(call.q_data.size());
    std::vector<float> lse(packed.lse.size());
    tensors.o = dense_view(o.data(), DType::kBF16, {3, 150, 2, 64});
    tensors.o_residual = dense_view(residual.data(), DType::kBF16, {3, 150, 2, 64});
    tensors.lse = dense_view(lse.data(), DType::kF32, {3, 2, 150});
    size_t bytes = 0;
    ASSERT_TRUE(workspace_size(problem, options, Pass::kForward, &bytes).ok());
    AlignedBytes workspace(bytes);
    Conventions conventions;
    const Status status = attention_forward(problem, options, tensors,
                                            {workspace.as<void>(), bytes}, nullptr, &conventions);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(o, packed.o) << path_name(path);
    EXPECT_EQ(lse[150 + 7], packed.lse[450 + 7]);  // batch 0, head 1, row 7
  }
}

}  // namespace
}  // namespace flamia::test
