// Every check of tensors, with the whole sentence that a caller reads.
#include "problem/validate.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/call_tensors.h"

namespace flamia {
namespace {

using test::batched_sizes;
using test::CallSizes;
using test::CallTensors;
using test::dense_view;
using test::packed_sizes;

/// What is done to a valid packed call, and the sentence that follows.
struct Case {
  const char* name;
  std::function<void(CallTensors*)> change;
  const char* message;
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

std::string case_name(const testing::TestParamInfo<Case>& info) { return info.param.name; }

void shift(TensorView* view, int64_t bytes) { view->data = static_cast<char*>(view->data) + bytes; }

class RefusedForward : public testing::TestWithParam<Case> {};

TEST_P(RefusedForward, SaysWhatIsWrong) {
  CallTensors call(packed_sizes());
  GetParam().change(&call);
  const Status status =
      validate_forward("attention_forward", call.problem, call.forward, {}, Residence::kHost);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), GetParam().message);
}

const Case kForwardCases[] = {
    {"F16Query", [](CallTensors* call) { call->forward.q.dtype = DType::kF16; },
     "attention_forward: q.dtype must be BF16; got F16 (convert q to BF16)"},
    {"F32Value", [](CallTensors* call) { call->forward.v.dtype = DType::kF32; },
     "attention_forward: v.dtype must be BF16; got F32 (convert v to BF16)"},
    {"ByteKey", [](CallTensors* call) { call->forward.k.dtype = DType::kU8; },
     "attention_forward: k.dtype must be BF16; got U8"},
    {"UnknownDType", [](CallTensors* call) { call->forward.k.dtype = static_cast<DType>(77); },
     "attention_forward: k.dtype must be BF16; got 77"},
    {"F32Output", [](CallTensors* call) { call->forward.o.dtype = DType::kF32; },
     "attention_forward: o.dtype must be BF16; got F32 (allocate o as BF16)"},
    {"Bf16Lse", [](CallTensors* call) { call->forward.lse.dtype = DType::kBF16; },
     "attention_forward: lse.dtype must be F32; got BF16 (allocate lse as F32)"},
    {"RankOfKey", [](CallTensors* call) { call->forward.k.rank = 4; },
     "attention_forward: k.rank must be 3; got 4"},
    {"NegativeRank", [](CallTensors* call) { call->forward.q.rank = -1; },
     "attention_forward: q.rank must be 3; got -1"},
    {"ShapeOfValue", [](CallTensors* call) { call->forward.v.shape[1] = 4; },
     "attention_forward: v.shape must be [8, 2, 64]; got [8, 4, 64]"},
    {"ShapeOfLse", [](CallTensors* call) { call->forward.lse.shape[0] = 8; },
     "attention_forward: lse.shape must be [4, 8]; got [8, 8]"},
    {"LastStride", [](CallTensors* call) { call->forward.q.stride[2] = 2; },
     "attention_forward: q.stride[2] must be 1; got 2 (copy q to a contiguous layout)"},
    {"ExpandedLastStride", [](CallTensors* call) { call->forward.q.stride[2] = 0; },
     "attention_forward: q.stride[2] must be 1; got 0 (copy q to a contiguous layout)"},
    {"NullData", [](CallTensors* call) { call->forward.q.data = nullptr; },
     "attention_forward: q.data must be given; got null"},
    {"MissingOutput", [](CallTensors* call) { call->forward.o = {}; },
     "attention_forward: o must be given; got none"},
    {"MissingLse", [](CallTensors* call) { call->forward.lse = {}; },
     "attention_forward: lse must be given; got none"},
    {"OddAddress", [](CallTensors* call) { shift(&call->forward.q, 1); },
     "attention_forward: q.data must be aligned to 2 bytes; got an address 1 past a multiple"},
    {"MisalignedLse", [](CallTensors* call) { shift(&call->forward.lse, 2); },
     "attention_forward: lse.data must be aligned to 4 bytes; got an address 2 past a multiple"},
    {"HugeStride",
     [](CallTensors* call) { call->forward.q.stride[0] = std::numeric_limits<int64_t>::max(); },
     "attention_forward: q.stride must stay inside the address space; got "
     "[9223372036854775807, 64, 1]"},
    {"StrideBelowZero",
     [](CallTensors* call) { call->forward.q.stride[0] = std::numeric_limits<int64_t>::min(); },
     "attention_forward: q.stride must stay inside the address space; got "
     "[-9223372036854775808, 64, 1]"},
    {"ExpandedOutput", [](CallTensors* call) { call->forward.o.stride[0] = 0; },
     "attention_forward: o must not overlap itself; got strides [0, 64, 1]"},
    {"OutputHeadsOverlap", [](CallTensors* call) { call->forward.o.stride[1] = 32; },
     "attention_forward: o must not overlap itself; got strides [256, 32, 1]"},
    {"OutputIsInput", [](CallTensors* call) { call->forward.o.data = call->forward.q.data; },
     "attention_forward: o must not overlap q; got 4096 shared bytes"},
    {"OutputMeetsInput",
     [](CallTensors* call) {
       call->forward.o.data = static_cast<char*>(call->forward.q.data) + 4094;
     },
     "attention_forward: o must not overlap q; got 2 shared bytes"},
    {"ResidualIsOutput",
     [](CallTensors* call) { call->forward.o_residual.data = call->forward.o.data; },
     "attention_forward: o_residual must not overlap o; got 4096 shared bytes"},
    {"LseOnLengths",
     [](CallTensors* call) { call->forward.lse.data = call->forward.cu_seqlens_q.data; },
     "attention_forward: lse must not overlap cu_seqlens_q; got 16 shared bytes"},
    {"NoLengths", [](CallTensors* call) { call->forward.cu_seqlens_q = {}; },
     "attention_forward: cu_seqlens_q must be given for packed tensors; got none (a batch without "
     "cumulative lengths has rank 4)"},
    {"FloatLengths", [](CallTensors* call) { call->forward.cu_seqlens_q.dtype = DType::kF32; },
     "attention_forward: cu_seqlens_q.dtype must be I32 or I64; got F32"},
    {"RankOfLengths", [](CallTensors* call) { call->forward.cu_seqlens_q.rank = 2; },
     "attention_forward: cu_seqlens_q.rank must be 1; got 2"},
    {"CountOfLengths", [](CallTensors* call) { call->forward.cu_seqlens_q.shape[0] = 3; },
     "attention_forward: cu_seqlens_q.shape must be [4]; got [3]"},
    {"StrideOfLengths", [](CallTensors* call) { call->forward.cu_seqlens_q.stride[0] = 2; },
     "attention_forward: cu_seqlens_q.stride[0] must be 1; got 2 (copy cu_seqlens_q to a "
     "contiguous layout)"},
    {"LengthsStartLate", [](CallTensors* call) { call->sizes.cu_seqlens_q[0] = 1; },
     "attention_forward: cu_seqlens_q[0] must be 0; got 1"},
    {"LengthsStartBelowZero", [](CallTensors* call) { call->sizes.cu_seqlens_q[0] = -3; },
     "attention_forward: cu_seqlens_q[0] must be 0; got -3"},
    {"LengthsDecrease", [](CallTensors* call) { call->sizes.cu_seqlens_q[2] = 4; },
     "attention_forward: cu_seqlens_q[2] must be >= cu_seqlens_q[1]; got 4 < 5"},
    {"LengthsEndPastTokens", [](CallTensors* call) { call->sizes.cu_seqlens_q[3] = 9; },
     "attention_forward: cu_seqlens_q[3] must be <= 8, the tokens of q; got 9"},
};

INSTANTIATE_TEST_SUITE_P(Validate, RefusedForward, testing::ValuesIn(kForwardCases), case_name);

class RefusedBackward : public testing::TestWithParam<Case> {};

TEST_P(RefusedBackward, SaysWhatIsWrong) {
  CallTensors call(packed_sizes());
  GetParam().change(&call);
  const Status status = validate_backward("attention_backward", call.problem, Delta::kOResidual,
                                          call.backward, {}, Residence::kHost);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), GetParam().message);
}

const Case kBackwardCases[] = {
    {"F16Gradient", [](CallTensors* call) { call->backward.d_o.dtype = DType::kF16; },
     "attention_backward: d_o.dtype must be BF16; got F16 (convert d_o to BF16)"},
    {"F32Gradient", [](CallTensors* call) { call->backward.dk.dtype = DType::kF32; },
     "attention_backward: dk.dtype must be BF16; got F32 (allocate dk as BF16)"},
    {"ExpandedGradient", [](CallTensors* call) { call->backward.d_o.stride[2] = 0; },
     "attention_backward: d_o.stride[2] must be 1; got 0 (copy d_o to a contiguous layout)"},
    {"NoResidual", [](CallTensors* call) { call->backward.o_residual = {}; },
     "attention_backward: o_residual must be given; got none (the forward pass writes it, unless "
     "its delta is o_bf16)"},
    {"ShapeOfLseGradient",
     [](CallTensors* call) {
       call->backward.d_lse = call->row_values();
       call->backward.d_lse.shape[1] = 7;
     },
     "attention_backward: d_lse.shape must be [4, 8]; got [4, 7]"},
    {"InPlace", [](CallTensors* call) { call->backward.dq.data = call->backward.d_o.data; },
     "attention_backward: dq must not overlap d_o; got 4096 shared bytes"},
    {"SharedGradients", [](CallTensors* call) { call->backward.dv.data = call->backward.dk.data; },
     "attention_backward: dv must not overlap dk; got 2048 shared bytes"},
};

INSTANTIATE_TEST_SUITE_P(Validate, RefusedBackward, testing::ValuesIn(kBackwardCases), case_name);

Status forward_status(const CallTensors& call) {
  return validate_forward("attention_forward", call.problem, call.forward, {}, Residence::kHost);
}
Status backward_status(const CallTensors& call, Delta delta = Delta::kOResidual) {
  return validate_backward("attention_backward", call.problem, delta, call.backward, {},
                           Residence::kHost);
}

TEST(ValidateForward, AcceptsPackedTensors) {
  EXPECT_EQ(forward_status(CallTensors(packed_sizes())).message(), "");
}

TEST(ValidateForward, AcceptsABatch) {
  EXPECT_EQ(forward_status(CallTensors(batched_sizes())).message(), "");
}

TEST(ValidateForward, RefusesLengthsOfABatch) {
  CallTensors call(batched_sizes());
  call.sizes.cu_seqlens_q = {0, 3, 6};
  call.forward.cu_seqlens_q = dense_view(call.sizes.cu_seqlens_q.data(), DType::kI32, {3});
  EXPECT_EQ(forward_status(call).message(),
            "attention_forward: cu_seqlens_q must not be given for a batch; got cumulative lengths "
            "(entries of a batch are equally long)");
}

TEST(ValidateForward, AcceptsNoTokensWithoutData) {
  CallSizes sizes;
  sizes.cu_seqlens_q = {0};
  CallTensors call(sizes);
  for (TensorView* view : {&call.forward.q, &call.forward.k, &call.forward.v, &call.forward.o,
                           &call.forward.lse, &call.forward.o_residual}) {
    view->data = nullptr;
  }
  EXPECT_EQ(forward_status(call).message(), "");
}

TEST(ValidateForward, AcceptsTokensWithoutDocuments) {
  CallSizes sizes = packed_sizes();
  sizes.cu_seqlens_q = {0};
  EXPECT_EQ(forward_status(CallTensors(sizes)).message(), "");
}

TEST(ValidateForward, AcceptsMoreDocumentsThanTokens) {
  CallSizes sizes;
  sizes.query_tokens = sizes.key_tokens = 1;
  sizes.cu_seqlens_q = {0, 0, 0, 0, 1, 1};
  EXPECT_EQ(forward_status(CallTensors(sizes)).message(), "");
}

TEST(ValidateForward, AcceptsInt64Lengths) {
  CallTensors call(packed_sizes());
  std::vector<int64_t> lengths = {0, 5, 5, 7};
  call.forward.cu_seqlens_q = dense_view(lengths.data(), DType::kI64, {4});
  EXPECT_EQ(forward_status(call).message(), "");
}

TEST(ValidateForward, RefusesInt64LengthsPastTheTokens) {
  CallTensors call(packed_sizes());
  std::vector<int64_t> lengths = {0, 5, 5, (int64_t{1} << 32) + 7};
  call.forward.cu_seqlens_q = dense_view(lengths.data(), DType::kI64, {4});
  EXPECT_EQ(forward_status(call).message(),
            "attention_forward: cu_seqlens_q[3] must be <= 8, the tokens of q; got 4294967303");
}

TEST(ValidateForward, LeavesDeviceMemoryUnread) {
  CallTensors call(packed_sizes());
  call.forward.cu_seqlens_q.data = reinterpret_cast<void*>(uintptr_t{64});
  const Status status =
      validate_forward("attention_forward", call.problem, call.forward, {}, Residence::kDevice);
  EXPECT_EQ(status.message(), "");
}

TEST(ValidateForward, AcceptsKeyLengthsOfTheirOwn) {
  CallSizes sizes = packed_sizes();
  sizes.key_tokens = 20;
  sizes.cu_seqlens_k = {0, 9, 9, 20};
  EXPECT_EQ(forward_status(CallTensors(sizes)).message(), "");
}

TEST(ValidateForward, RefusesOtherNumbersOfKeyDocuments) {
  CallSizes sizes = packed_sizes();
  sizes.cu_seqlens_k = {0, 8};
  EXPECT_EQ(forward_status(CallTensors(sizes)).message(),
            "attention_forward: cu_seqlens_k.shape must be [4]; got [2]");
}

TEST(ValidateForward, RefusesKeyLengthsPastTheKeys) {
  CallSizes sizes = packed_sizes();
  sizes.cu_seqlens_k = {0, 1, 2, 9};
  EXPECT_EQ(forward_status(CallTensors(sizes)).message(),
            "attention_forward: cu_seqlens_k[3] must be <= 8, the tokens of k; got 9");
}

TEST(ValidateForward, NeedsKeyLengthsWhereTokensDiffer) {
  CallSizes sizes = packed_sizes();
  sizes.key_tokens = 9;
  EXPECT_EQ(forward_status(CallTensors(sizes)).message(),
            "attention_forward: cu_seqlens_k must be given when q and k differ in tokens; got none "
            "for 8 and 9");
}

TEST(ValidateForward, AcceptsNoResidual) {
  CallTensors call(packed_sizes());
  call.forward.o_residual = {};
  EXPECT_EQ(forward_status(call).message(), "");
}

TEST(ValidateForward, AcceptsExpandedInputs) {
  CallTensors call(packed_sizes());
  call.forward.q.stride[0] = 0;
  call.forward.k.stride[1] = 0;
  EXPECT_EQ(forward_status(call).message(), "");
}

TEST(ValidateForward, IgnoresStridesOfSingleEntries) {
  CallSizes sizes = packed_sizes();
  sizes.heads = sizes.kv_heads = 1;
  CallTensors call(sizes);
  call.forward.q.stride[1] = -12345;
  call.forward.o.stride[1] = 0;
  call.forward.lse.stride[0] = 7;
  EXPECT_EQ(forward_status(call).message(), "");
}

/// q, k, v as slices of a fused projection [T, Hq + 2 Hkv, D].
void slice_projection(CallTensors* call, TensorView* q, TensorView* k, TensorView* v) {
  const Problem& p = call->problem;
  const int64_t row = int64_t{p.heads + 2 * p.kv_heads} * p.head_dim;
  char* data = static_cast<char*>(call->memory(p.query_tokens * row * 2));
  q->data = data;
  k->data = data + int64_t{p.heads} * p.head_dim * 2;
  v->data = data + int64_t{p.heads + p.kv_heads} * p.head_dim * 2;
  q->stride[0] = k->stride[0] = v->stride[0] = row;
}

TEST(ValidateForward, AcceptsSlicesOfAFusedProjection) {
  CallTensors call(packed_sizes());
  slice_projection(&call, &call.forward.q, &call.forward.k, &call.forward.v);
  EXPECT_EQ(forward_status(call).message(), "");
}

TEST(ValidateBackward, AcceptsGradientsAsSlicesOfAFusedProjection) {
  CallTensors call(packed_sizes());
  slice_projection(&call, &call.backward.q, &call.backward.k, &call.backward.v);
  slice_projection(&call, &call.backward.dq, &call.backward.dk, &call.backward.dv);
  EXPECT_EQ(backward_status(call).message(), "");
}

TEST(ValidateBackward, AcceptsGradientsBetweenTheirInputs) {
  // One buffer [T, H, 2, D]: inputs in the even rows, gradients in the odd ones.
  CallTensors call(packed_sizes());
  const Problem& p = call.problem;
  char* data = static_cast<char*>(call.memory(p.query_tokens * p.heads * p.head_dim * 4));
  call.backward.q.data = data;
  call.backward.dq.data = data + int64_t{p.head_dim} * 2;
  for (TensorView* view : {&call.backward.q, &call.backward.dq}) {
    view->stride[0] *= 2;
    view->stride[1] *= 2;
  }
  EXPECT_EQ(backward_status(call).message(), "");
}

TEST(ValidateBackward, RefusesGradientsThatCutTheirInputs) {
  CallTensors call(packed_sizes());
  slice_projection(&call, &call.backward.q, &call.backward.k, &call.backward.v);
  // One head too early: the first head of dv would be the last one of k.
  call.backward.dv.data = static_cast<char*>(call.backward.k.data) + 64 * 2;
  call.backward.dv.stride[0] = call.backward.k.stride[0];
  EXPECT_EQ(backward_status(call).message(),
            "attention_backward: dv must not overlap k; got 7296 shared bytes");
}

TEST(ValidateBackward, AcceptsTransposedGradients) {
  CallTensors call(packed_sizes());
  const Problem& p = call.problem;
  for (TensorView* view : {&call.backward.d_o, &call.backward.dq}) {  // [H, T, D] in memory
    view->stride[0] = p.head_dim;
    view->stride[1] = p.query_tokens * p.head_dim;
  }
  EXPECT_EQ(backward_status(call).message(), "");
}

TEST(ValidateBackward, NeedsNoResidualForBf16Delta) {
  CallTensors call(packed_sizes());
  call.backward.o_residual = {};
  EXPECT_EQ(backward_status(call, Delta::kOBf16).message(), "");
}

TEST(ValidateBackward, AcceptsLseGradients) {
  CallTensors call(batched_sizes());
  call.backward.d_lse = call.row_values();
  EXPECT_EQ(backward_status(call).message(), "");
}

std::string workspace_message(const CallTensors& call, Workspace workspace) {
  return validate_forward("attention_forward", call.problem, call.forward, {workspace, 128},
                          Residence::kHost)
      .message();
}

TEST(ValidateWorkspace, AcceptsEnough) {
  CallTensors call(packed_sizes());
  EXPECT_EQ(workspace_message(call, call.workspace(200)), "");
}

TEST(ValidateWorkspace, RefusesNone) {
  EXPECT_EQ(workspace_message(CallTensors(packed_sizes()), {}),
            "attention_forward: workspace.data must be given; got null (workspace_size() is 128)");
}

TEST(ValidateWorkspace, RefusesTooLittle) {
  CallTensors call(packed_sizes());
  EXPECT_EQ(workspace_message(call, call.workspace(127)),
            "attention_forward: workspace.bytes must be at least 128; got 127");
}

TEST(ValidateWorkspace, RefusesMisalignment) {
  CallTensors call(packed_sizes());
  Workspace workspace = call.workspace(256);
  workspace.data = static_cast<char*>(workspace.data) + 8;
  EXPECT_EQ(workspace_message(call, workspace),
            "attention_forward: workspace.data must be aligned to 64 bytes; got an address 8 past "
            "a multiple");
}

TEST(ValidateWorkspace, RefusesTheMemoryOfATensor) {
  CallTensors call(packed_sizes());
  EXPECT_EQ(workspace_message(call, {call.forward.k.data, 128}),
            "attention_forward: workspace must not overlap k; got 128 shared bytes");
  EXPECT_EQ(workspace_message(call, {call.forward.o.data, 128}),
            "attention_forward: workspace must not overlap o; got 128 shared bytes");
}

/// Views of a packed quantize() call over the q of a valid call.
QuantizeViews quantize_views(CallTensors* call, int32_t scale_columns) {
  const Problem& p = call->problem;
  QuantizeViews views;
  views.input = call->forward.q;
  views.cu_seqlens = call->forward.cu_seqlens_q;
  views.codes = dense_view(call->memory(p.query_tokens * p.heads * p.head_dim), DType::kU8,
                           {p.query_tokens, p.heads, p.head_dim});
  views.exp =
      dense_view(call->memory(p.query_tokens * p.heads), DType::kI8, {p.query_tokens, p.heads});
  views.scale_columns = scale_columns;
  if (scale_columns > 0) {
    views.scales = dense_view(call->memory(p.query_tokens * p.heads * scale_columns), DType::kU8,
                              {p.query_tokens, p.heads, scale_columns});
  }
  return views;
}

std::string quantize_message(const CallTensors& call, const QuantizeViews& views) {
  Problem problem;
  if (Status status = problem_from_input("quantize", views.input, views.cu_seqlens, &problem);
      !status.ok()) {
    return status.message();
  }
  EXPECT_EQ(problem.query_tokens, call.problem.query_tokens);
  return validate_quantize("quantize", problem, views, Residence::kHost).message();
}

TEST(ValidateQuantize, AcceptsCodesAndExponents) {
  CallTensors call(packed_sizes());
  EXPECT_EQ(quantize_message(call, quantize_views(&call, 0)), "");
}

TEST(ValidateQuantize, AcceptsScalesWhereTheyBelong) {
  CallTensors call(packed_sizes());
  EXPECT_EQ(quantize_message(call, quantize_views(&call, 4)), "");
}

TEST(ValidateQuantize, NeedsScales) {
  CallTensors call(packed_sizes());
  QuantizeViews views = quantize_views(&call, 4);
  views.scales = {};
  EXPECT_EQ(quantize_message(call, views), "quantize: scales must be given; got none");
}

TEST(ValidateQuantize, RefusesScalesThatNothingWrites) {
  CallTensors call(packed_sizes());
  QuantizeViews views = quantize_views(&call, 4);
  views.scale_columns = 0;
  EXPECT_EQ(quantize_message(call, views),
            "quantize: scales must not be given; got scales (this representation has only "
            "exponents)");
}

TEST(ValidateQuantize, RefusesWrongColumns) {
  CallTensors call(packed_sizes());
  QuantizeViews views = quantize_views(&call, 4);
  views.scale_columns = 64;
  EXPECT_EQ(quantize_message(call, views),
            "quantize: scales.shape must be [8, 4, 64]; got [8, 4, 4]");
}

TEST(ValidateQuantize, RefusesFloatInput) {
  CallTensors call(packed_sizes());
  QuantizeViews views = quantize_views(&call, 0);
  views.input.dtype = DType::kF32;
  EXPECT_EQ(quantize_message(call, views),
            "quantize: input.dtype must be BF16; got F32 (convert input to BF16)");
}

TEST(ValidateQuantize, RefusesCodesInPlace) {
  CallTensors call(packed_sizes());
  QuantizeViews views = quantize_views(&call, 0);
  views.codes.data = views.input.data;
  EXPECT_EQ(quantize_message(call, views),
            "quantize: codes must not overlap input; got 2048 shared bytes");
}

TEST(ValidateQuantize, AcceptsOutputsOfABatchInBothShapes) {
  CallTensors call(batched_sizes());
  QuantizeViews views = quantize_views(&call, 0);
  EXPECT_EQ(quantize_message(call, views), "");
  views.codes = dense_view(views.codes.data, DType::kU8, {2, 3, 4, 64});
  EXPECT_EQ(quantize_message(call, views), "quantize: exp.rank must be 3; got 2");
  views.exp = dense_view(views.exp.data, DType::kI8, {2, 3, 4});
  EXPECT_EQ(quantize_message(call, views), "");
}

}  // namespace
}  // namespace flamia
