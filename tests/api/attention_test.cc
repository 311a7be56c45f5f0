// The public calls end to end on the CPU backend: checks in front, outputs and records behind.
// Accuracy is tested elsewhere.
#include "flamia/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "backend/backend.h"
#include "plan/conventions.h"
#include "problem/names.h"
#include "tests/support/call_tensors.h"

namespace flamia {
namespace {

using test::batched_sizes;
using test::CallSizes;
using test::CallTensors;
using test::dense_view;
using test::packed_sizes;

class Attention : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_backend_available()) GTEST_SKIP() << "this machine lacks AVX2 or FMA";
  }

  static Options causal() {
    Options options;
    options.mask.kind = MaskKind::kCausal;
    options.threads = 2;
    return options;
  }
  static Workspace workspace(CallTensors* call, const Options& options, Pass pass) {
    size_t bytes = 0;
    EXPECT_EQ(workspace_size(call->problem, options, pass, &bytes).message(), "");
    return call->workspace(bytes);
  }
  static Status forward(CallTensors* call, const Options& options, Conventions* conventions) {
    return attention_forward(call->problem, options, call->forward,
                             workspace(call, options, Pass::kForward), nullptr, conventions);
  }
  /// Forward and backward; the backward pass reads what the forward pass wrote.
  static Status both(CallTensors* call, const Options& options) {
    Conventions conventions;
    if (Status status = forward(call, options, &conventions); !status.ok()) return status;
    call->backward.o = call->forward.o;
    call->backward.o_residual = call->forward.o_residual;
    call->backward.lse = call->forward.lse;
    return attention_backward(call->problem, conventions, call->backward,
                              workspace(call, options, Pass::kBackward), nullptr, options.threads);
  }
};

float bf16_value(const TensorView& view, int64_t index) {
  const uint32_t bits = static_cast<uint32_t>(static_cast<const uint16_t*>(view.data)[index]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

TEST_F(Attention, RunsEveryPathForwardAndBackward) {
  for (size_t path = 0; path < spellings<Path>().size(); ++path) {
    for (const CallSizes& sizes : {packed_sizes(), batched_sizes()}) {
      CallTensors call(sizes);
      Options options = causal();
      options.path = static_cast<Path>(path);
      EXPECT_EQ(both(&call, options).message(), "") << name(options.path);
      EXPECT_NE(bf16_value(call.forward.o, 0), 0.0f) << name(options.path);
      EXPECT_NE(bf16_value(call.backward.dv, 0), 0.0f) << name(options.path);
    }
  }
}

TEST_F(Attention, ClearsRowsOfNobody) {
  CallTensors call(packed_sizes());  // the eighth row lies behind the last document
  std::memset(call.forward.o.data, 0xff, 8 * 4 * 64 * 2);
  std::memset(call.backward.dq.data, 0xff, 8 * 4 * 64 * 2);
  std::memset(call.backward.dk.data, 0xff, 8 * 2 * 64 * 2);
  EXPECT_EQ(both(&call, causal()).message(), "");
  for (int64_t c = 0; c < 4 * 64; ++c) {
    ASSERT_EQ(bf16_value(call.forward.o, 7 * 4 * 64 + c), 0.0f);
    ASSERT_EQ(bf16_value(call.backward.dq, 7 * 4 * 64 + c), 0.0f);
  }
  for (int64_t c = 0; c < 2 * 64; ++c) {
    ASSERT_EQ(bf16_value(call.backward.dk, 7 * 2 * 64 + c), 0.0f);
  }
  for (int64_t h = 0; h < 4; ++h) {
    const float lse = static_cast<const float*>(call.forward.lse.data)[h * 8 + 7];
    ASSERT_TRUE(std::isinf(lse) && lse < 0.0f);
  }
}

TEST_F(Attention, AcceptsNoTokensAtAll) {
  CallSizes sizes;
  sizes.cu_seqlens_q = {0};
  CallTensors call(sizes);
  EXPECT_EQ(both(&call, causal()).message(), "");
}

TEST_F(Attention, AcceptsTokensWithoutDocuments) {
  CallSizes sizes = packed_sizes();
  sizes.cu_seqlens_q = {0};
  CallTensors call(sizes);
  std::memset(call.forward.o.data, 0xff, 8 * 4 * 64 * 2);
  EXPECT_EQ(both(&call, causal()).message(), "");
  EXPECT_EQ(bf16_value(call.forward.o, 0), 0.0f);
}

TEST_F(Attention, AcceptsMoreDocumentsThanTokens) {
  CallSizes sizes;
  sizes.query_tokens = sizes.key_tokens = 1;
  sizes.cu_seqlens_q = {0, 0, 0, 1, 1, 1};
  CallTensors call(sizes);
  EXPECT_EQ(both(&call, causal()).message(), "");
  EXPECT_NE(bf16_value(call.forward.o, 0), 0.0f);
}

TEST_F(Attention, GivesSlicesOfAFusedProjectionTheSameNumbers) {
  CallTensors dense(packed_sizes());
  CallTensors fused(packed_sizes());
  const Problem& p = fused.problem;
  const int64_t row = int64_t{p.heads + 2 * p.kv_heads} * p.head_dim;
  auto* data = static_cast<uint16_t*>(fused.memory(p.query_tokens * row * 2));
  int64_t offset = 0;
  for (auto member : {&ForwardTensors::q, &ForwardTensors::k, &ForwardTensors::v}) {
    const TensorView& from = dense.forward.*member;
    const int64_t width = from.shape[1] * from.shape[2];
    for (int64_t t = 0; t < p.query_tokens; ++t) {
      std::memcpy(data + t * row + offset, static_cast<uint16_t*>(from.data) + t * width,
                  static_cast<size_t>(width) * 2);
    }
    TensorView& to = fused.forward.*member;
    to.data = data + offset;
    to.stride[0] = row;
    offset += width;
  }
  Conventions conventions;
  EXPECT_EQ(forward(&dense, causal(), &conventions).message(), "");
  EXPECT_EQ(forward(&fused, causal(), &conventions).message(), "");
  EXPECT_EQ(std::memcmp(dense.forward.o.data, fused.forward.o.data, 8 * 4 * 64 * 2), 0);
  EXPECT_EQ(std::memcmp(dense.forward.lse.data, fused.forward.lse.data, 8 * 4 * 4), 0);
}

TEST_F(Attention, RecordsWhatItUsed) {
  CallTensors call(packed_sizes());
  Conventions written;
  Conventions resolved;
  EXPECT_EQ(forward(&call, causal(), &written).message(), "");
  EXPECT_EQ(resolve_conventions(call.problem, causal(), &resolved).message(), "");
  EXPECT_EQ(std::memcmp(&written, &resolved, offsetof(Conventions, reserved)), 0);
}

TEST_F(Attention, LeavesTheRecordAloneWhenRefusing) {
  CallTensors call(packed_sizes());
  call.forward.q.dtype = DType::kF16;
  Conventions conventions;
  conventions.heads = 99;
  EXPECT_EQ(forward(&call, causal(), &conventions).message(),
            "attention_forward: q.dtype must be BF16; got F16 (convert q to BF16)");
  EXPECT_EQ(conventions.heads, 99);
}

TEST_F(Attention, NeedsNoRecordForInference) {
  CallTensors call(packed_sizes());
  EXPECT_EQ(forward(&call, causal(), nullptr).message(), "");
}

TEST_F(Attention, RefusesAStream) {
  CallTensors call(packed_sizes());
  int stream = 0;
  const Status status =
      attention_forward(call.problem, causal(), call.forward,
                        workspace(&call, causal(), Pass::kForward), &stream, nullptr);
  EXPECT_EQ(status.message(),
            "attention_forward: stream must be null for the cpu backend; got a stream");
}

TEST_F(Attention, RefusesAShortWorkspace) {
  CallTensors call(packed_sizes());
  size_t bytes = 0;
  EXPECT_TRUE(workspace_size(call.problem, causal(), Pass::kForward, &bytes).ok());
  ASSERT_GT(bytes, 0u);
  const Status status = attention_forward(call.problem, causal(), call.forward,
                                          call.workspace(bytes - 1), nullptr, nullptr);
  EXPECT_EQ(status.message(), "attention_forward: workspace.bytes must be at least " +
                                  std::to_string(bytes) + "; got " + std::to_string(bytes - 1));
}

TEST_F(Attention, RefusesRecordsOfOtherCalls) {
  CallTensors call(packed_sizes());
  Conventions conventions;
  EXPECT_TRUE(resolve_conventions(call.problem, causal(), &conventions).ok());
  conventions.kv_heads = 4;
  EXPECT_EQ(attention_backward(call.problem, conventions, call.backward, {}, nullptr).message(),
            "attention_backward: conventions.kv_heads must be 2 as in the problem; got 4");
}

TEST_F(Attention, MeasuresOnlyWhenAsked) {
  CallTensors call(packed_sizes());
  PassStatistics statistics;
  statistics.ds_nonzero = 77;
  EXPECT_EQ(
      attention_forward(call.problem, causal(), call.forward,
                        workspace(&call, causal(), Pass::kForward), nullptr, nullptr, &statistics)
          .message(),
      "");
  EXPECT_EQ(statistics.ds_nonzero, 0);
  EXPECT_GE(statistics.attention_ms, 0.0);
}

TEST_F(Attention, WorkspaceDependsOnShapesAlone) {
  CallSizes sizes = packed_sizes();
  size_t some = 0;
  size_t other = 0;
  EXPECT_TRUE(workspace_size(CallTensors(sizes).problem, causal(), Pass::kBackward, &some).ok());
  sizes.cu_seqlens_q = {0, 1, 2, 3};
  EXPECT_TRUE(workspace_size(CallTensors(sizes).problem, causal(), Pass::kBackward, &other).ok());
  EXPECT_EQ(some, other);
}

TEST_F(Attention, SizesNoBackwardPassForInferenceExponentials) {
  Options options = causal();
  options.exponential = Exponential::kSchraudolph;
  size_t bytes = 0;
  const Problem problem = CallTensors(packed_sizes()).problem;
  EXPECT_EQ(workspace_size(problem, options, Pass::kForward, &bytes).message(), "");
  EXPECT_EQ(workspace_size(problem, options, Pass::kBackward, &bytes).message(),
            "workspace_size: exponential must be exact or polynomial for a backward pass; got "
            "schraudolph (it is for inference only)");
}

TEST_F(Attention, RefusesNullOutputsAndUnknownPasses) {
  const Problem problem = CallTensors(packed_sizes()).problem;
  size_t bytes = 0;
  EXPECT_EQ(workspace_size(problem, {}, Pass::kForward, nullptr).message(),
            "workspace_size: bytes must be given; got null");
  EXPECT_EQ(workspace_size(problem, {}, static_cast<Pass>(5), &bytes).message(),
            "workspace_size: pass must be forward or backward; got 5");
  EXPECT_EQ(resolve_conventions(problem, {}, nullptr).message(),
            "resolve_conventions: conventions must be given; got null");
  EXPECT_EQ(problem_from_tensors({}, nullptr).message(),
            "problem_from_tensors: problem must be given; got null");
}

TEST_F(Attention, ListsEveryReasonAgainstACall) {
  Problem problem = CallTensors(packed_sizes()).problem;
  problem.head_dim = 80;
  Options options;
  options.backend = BackendKind::kHopper;
  options.promote = Promote::kNone;
  const Status status = is_supported(problem, options);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  const std::string start =
      "is_supported: head_dim must be 64 or 128; got 80 (pad q, k, v to 128); ";
  EXPECT_EQ(status.message().rfind(start, 0), 0u) << status.message();
  // Whether there is a GPU or not: its kernels promote every tile.
  EXPECT_NE(status.message().find("promote must be tile for backend hopper; got none"),
            std::string::npos)
      << status.message();
}

TEST(Representations, FollowThePath) {
  EXPECT_TRUE(representations(Path::kBf16, Role::kQ).empty());
  const std::vector<Representation> q8 = representations(Path::kMxfp8, Role::kQ);
  ASSERT_EQ(q8.size(), 1u);
  EXPECT_TRUE(q8[0].serves_both_axes);
  EXPECT_STREQ(q8[0].format, "e4m3");
  const std::vector<Representation> k4 = representations(Path::kNvfp4, Role::kK);
  ASSERT_EQ(k4.size(), 2u);
  EXPECT_EQ(k4[0].axis, ContractionAxis::kHeadDim);
  EXPECT_TRUE(k4[0].has_block_scales);
  EXPECT_STREQ(k4[0].format, "nvfp4");
  EXPECT_EQ(k4[1].axis, ContractionAxis::kTokens);
  EXPECT_STREQ(k4[1].format, "e4m3");
  EXPECT_EQ(representations(Path::kNvfp4, Role::kV).size(), 1u);
  EXPECT_STREQ(representations(Path::kAll4Bit, Role::kV)[1].format, "nvfp4");
  EXPECT_TRUE(representations(static_cast<Path>(9), Role::kQ).empty());
  EXPECT_TRUE(representations(Path::kMxfp8, static_cast<Role>(9)).empty());
}

/// Outputs for one representation of the q of a call, filled with 0x55.
QuantizedTensors outputs_for(CallTensors* call, int64_t scale_columns) {
  const Problem& p = call->problem;
  const auto bytes = [call](DType dtype, const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    void* data = call->memory(count);
    std::memset(data, 0x55, static_cast<size_t>(count));
    return dense_view(data, dtype, shape);
  };
  QuantizedTensors output;
  output.codes = bytes(DType::kU8, {p.query_tokens, p.heads, p.head_dim});
  output.exp = bytes(DType::kI8, {p.query_tokens, p.heads});
  if (scale_columns > 0) {
    output.scales = bytes(DType::kU8, {p.query_tokens, p.heads, scale_columns});
  }
  return output;
}

TEST_F(Attention, QuantizesEveryRepresentation) {
  for (size_t path = 0; path < spellings<Path>().size(); ++path) {
    for (size_t role = 0; role < spellings<Role>().size(); ++role) {
      for (const Safety safety : {Safety::kDefault, Safety::kExact}) {
        const auto which = static_cast<Role>(role);
        Options options;
        options.path = static_cast<Path>(path);
        options.safety = safety;
        for (const Representation& form : representations(options.path, which)) {
          CallTensors call(packed_sizes());
          const bool tokens = form.axis == ContractionAxis::kTokens;
          const std::string format = form.format;
          int64_t columns = 0;
          if (form.has_block_scales) {
            columns = tokens ? 64 : format == "nvfp4" ? 4 : 2;
          }
          const QuantizedTensors output = outputs_for(&call, columns);
          EXPECT_EQ(
              quantize(call.forward.q, call.forward.cu_seqlens_q, which, form.axis, options, output)
                  .message(),
              "")
              << name(options.path) << " " << name(which) << " " << name(form.axis);
          const auto* exp = static_cast<const int8_t*>(output.exp.data);
          for (int64_t i = 0; i < 8 * 4; ++i) ASSERT_NE(exp[i], 0x55) << "not written";
          const auto* scales = static_cast<const uint8_t*>(output.scales.data);
          const int64_t unwritten = std::count(scales, scales + 8 * 4 * columns, 0x55);
          EXPECT_LT(unwritten, 8 * 4 * columns / 2 + 1) << "not written";
        }
      }
    }
  }
}

TEST_F(Attention, QuantizesExactValuesWithUnitScales) {
  CallTensors call(packed_sizes());
  Options options;
  options.path = Path::kAll4Bit;
  options.safety = Safety::kExact;
  const QuantizedTensors output = outputs_for(&call, 64);
  EXPECT_EQ(quantize(call.forward.q, call.forward.cu_seqlens_q, Role::kV, ContractionAxis::kTokens,
                     options, output)
                .message(),
            "");
  const auto* scales = static_cast<const uint8_t*>(output.scales.data);
  EXPECT_EQ(std::count(scales, scales + 8 * 4 * 64, 0x38), 8 * 4 * 64);
}

TEST_F(Attention, QuantizesIgnoringOptionsOfTheProducts) {
  CallTensors call(packed_sizes());
  Options options;
  options.grad_products = GradProducts::kBf16;
  options.promote = Promote::kNone;
  EXPECT_EQ(quantize(call.forward.q, call.forward.cu_seqlens_q, Role::kQ, ContractionAxis::kTokens,
                     options, outputs_for(&call, 0))
                .message(),
            "");
}

TEST_F(Attention, QuantizesNothingInBf16) {
  CallTensors call(packed_sizes());
  Options options;
  options.path = Path::kBf16;
  const Status status = quantize(call.forward.q, call.forward.cu_seqlens_q, Role::kQ,
                                 ContractionAxis::kHeadDim, options, outputs_for(&call, 0));
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(),
            "quantize: path must be mxfp8, nvfp4 or all4bit; got bf16 (bf16 operands are not "
            "quantized)");
}

TEST_F(Attention, RefusesUnknownRolesAndAxes) {
  CallTensors call(packed_sizes());
  const QuantizedTensors output = outputs_for(&call, 0);
  EXPECT_EQ(quantize(call.forward.q, call.forward.cu_seqlens_q, static_cast<Role>(4),
                     ContractionAxis::kHeadDim, {}, output)
                .message(),
            "quantize: role must be q, k, v or do; got 4");
  EXPECT_EQ(quantize(call.forward.q, call.forward.cu_seqlens_q, Role::kQ,
                     static_cast<ContractionAxis>(2), {}, output)
                .message(),
            "quantize: axis must be head_dim or tokens; got 2");
}

/// Value of a line "key: value" of an explanation; "-" without such a line.
std::string line_of(const std::string& text, const std::string& key) {
  const std::string start = "\n" + key + ": ";
  const std::string all = "\n" + text;
  const size_t at = all.find(start);
  if (at == std::string::npos) return "-";
  const size_t value = at + start.size();
  return all.substr(value, all.find('\n', value) - value);
}

TEST_F(Attention, ExplainsACall) {
  const std::string text = explain(CallTensors(packed_sizes()).problem, causal());
  EXPECT_EQ(line_of(text, "supported"), "yes");
  EXPECT_EQ(line_of(text, "backend"), "cpu");
  EXPECT_EQ(line_of(text, "threads"), "2");
  EXPECT_EQ(line_of(text, "path"), "mxfp8");
  EXPECT_EQ(line_of(text, "mask"), "causal");
  EXPECT_EQ(line_of(text, "softmax_scale"), "0.125");
  EXPECT_EQ(line_of(text, "hadamard"), "off");
  EXPECT_EQ(line_of(text, "p_scale"), "256");
  EXPECT_EQ(line_of(text, "dq_scale"), "document");
  EXPECT_EQ(line_of(text, "passes"), "quantize, forward, backward");
  EXPECT_EQ(line_of(text, "kernels"), "cpu: tiled reference");
  EXPECT_NE(line_of(text, "workspace_forward_bytes"), "-");
  EXPECT_NE(line_of(text, "workspace_backward_bytes"), "-");
  EXPECT_EQ(line_of(text, "causal_residue_o"), "rows of the same 32-token block");
  EXPECT_EQ(line_of(text, "refused"), "-");
}

TEST_F(Attention, ExplainsRefusals) {
  Problem problem = CallTensors(packed_sizes()).problem;
  problem.head_dim = 96;
  const std::string text = explain(problem, causal());
  EXPECT_EQ(text,
            "supported: no\nrefused: head_dim must be 64 or 128; got 96 (pad q, k, v to 128)\n");
}

TEST_F(Attention, ExplainsForwardOnlyCalls) {
  Options options = causal();
  options.exponential = Exponential::kSchraudolph;
  const std::string text = explain(CallTensors(packed_sizes()).problem, options);
  EXPECT_EQ(line_of(text, "supported"), "yes");
  EXPECT_EQ(line_of(text, "passes"), "quantize, forward");
  EXPECT_EQ(line_of(text, "backward_refused"),
            "exponential must be exact or polynomial for a backward pass; got schraudolph (it is "
            "for inference only)");
  EXPECT_EQ(line_of(text, "workspace_backward_bytes"), "-");
}

TEST(Version, HasThreeNumbers) {
  int major = -1;
  int minor = -1;
  int patch = -1;
  EXPECT_EQ(std::sscanf(version(), "%d.%d.%d", &major, &minor, &patch), 3);
}

}  // namespace
}  // namespace flamia
