// What the API refuses on a Hopper before anything is launched, and what it says about itself.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>

#include "audit/leak.h"
#include "tests/cuda/device_call.h"

namespace flamia {
namespace {

using test::Case;
using test::DeviceCall;

Options hopper() {
  Options options;
  options.backend = BackendKind::kHopper;
  options.mask.kind = MaskKind::kCausal;
  return options;
}

class HopperRefusals : public testing::Test {
 protected:
  HopperRefusals() : host_({{40, 7}, {}, 4, 2, 64, 0}), call_(&host_) {}
  void SetUp() override { call_.prepare(hopper()); }
  std::string refusal() {
    const Status status = call_.enqueue(hopper());
    EXPECT_FALSE(status.ok());
    code_ = status.code();
    return status.message();
  }

  Case host_;
  DeviceCall call_;
  StatusCode code_ = StatusCode::kOk;
};

TEST_F(HopperRefusals, Workspaces) {
  const Workspace good = call_.workspace;
  call_.workspace.data = nullptr;
  EXPECT_EQ(refusal(),
            "attention_forward: workspace.data must be given; got null "
            "(workspace_size() is " +
                std::to_string(good.bytes) + ")");
  EXPECT_EQ(code_, StatusCode::kInvalidArgument);
  call_.workspace = {good.data, good.bytes - 1};
  EXPECT_EQ(refusal(), "attention_forward: workspace.bytes must be at least " +
                           std::to_string(good.bytes) + "; got " + std::to_string(good.bytes - 1));
  call_.workspace = {static_cast<char*>(good.data) + 32, good.bytes};
  EXPECT_EQ(refusal(),
            "attention_forward: workspace.data must be aligned to 64 bytes; got an address 32 past "
            "a multiple");
  call_.workspace = {call_.tensors.q.data, good.bytes};
  EXPECT_NE(refusal().find("workspace must not overlap q"), std::string::npos);
}

TEST_F(HopperRefusals, RowsThatVectorsCannotLoad) {
  const ForwardTensors good = call_.tensors;
  call_.tensors.q.data = static_cast<char*>(good.q.data) + 8;
  call_.tensors.o_residual = {};
  call_.tensors.v.stride[0] = 2 * 64 + 4;
  call_.tensors.o.stride[1] = 68;
  call_.tensors.o.stride[0] = 4 * 68;
  EXPECT_EQ(refusal(),
            "attention_forward: q.data must be aligned to 16 bytes for backend hopper; got an "
            "address 8 past a multiple; v.stride[0] must be a multiple of 8 elements for backend "
            "hopper; got 132 (copy v to a contiguous layout); o.stride[1] must be a multiple of 8 "
            "elements for backend hopper; got 68 (copy o to a contiguous layout)");
  EXPECT_EQ(code_, StatusCode::kUnsupported);
}

TEST_F(HopperRefusals, HostMemory) {
  const TensorView k = call_.tensors.k;
  call_.tensors.k.data = host_.k_data.data();
  EXPECT_EQ(
      refusal(),
      "attention_forward: k.data must be in device memory; got an address of the host (copy k "
      "to the GPU, or use backend cpu)");
  EXPECT_EQ(code_, StatusCode::kInvalidArgument);
  call_.tensors.k = k;
  call_.tensors.cu_seqlens_q.data = host_.cu_q.data();
  EXPECT_NE(refusal().find("cu_seqlens_q.data must be in device memory"), std::string::npos);
}

TEST_F(HopperRefusals, EveryBadOptionAtOnce) {
  Options options = hopper();
  options.path = Path::kAll4Bit;
  options.safety = Safety::kExact;
  options.exponential = Exponential::kPolynomial;
  options.accumulate = Accumulate::kExact;
  options.softmax_scale = -1.0f;
  const Status status = call_.enqueue(options);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(
      status.message(),
      "attention_forward: path must be mxfp8, nvfp4 or bf16 for backend hopper; got all4bit; "
      "exponential must be exact with path all4bit for backend hopper; got polynomial; "
      "accumulate must be auto or hw for backend hopper; got exact; softmax_scale must be > 0 "
      "for backend hopper; got -1");
}

TEST_F(HopperRefusals, SaysWhatTheRuntimeSaysOfALaunch) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_NE(cudaStreamSynchronize(stream), cudaSuccess);  // spoils the capture
  const Status status = call_.enqueue(hopper(), stream);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_EQ(status.message(), std::string("attention_forward: build_schedule: launch of "
                                          "flamia_shared_schedule_documents: ") +
                                  cudaGetErrorString(cudaErrorStreamCaptureInvalidated));
  cudaGraph_t graph = nullptr;
  EXPECT_NE(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  (void)cudaGetLastError();
  EXPECT_EQ(call_.enqueue(hopper()).message(), "");
}

TEST_F(HopperRefusals, PassesThatAreNotThereYet) {
  ASSERT_EQ(call_.enqueue(hopper()).message(), "");
  call_.read();
  // The record of a GPU: its tensors are not the CPU's to touch.
  BackwardTensors gradients;
  EXPECT_EQ(
      attention_backward(call_.problem, call_.conventions, gradients, {}, nullptr).message(),
      "attention_backward: backend must be cpu for a backward pass; got hopper (gradients are "
      "not there yet on a GPU)");
  size_t bytes = 0;
  EXPECT_EQ(workspace_size(call_.problem, hopper(), Pass::kBackward, &bytes).code(),
            StatusCode::kUnsupported);
}

TEST_F(HopperRefusals, AuditsOfHostMemory) {
  audit::LeakVerdict verdict;
  EXPECT_EQ(audit::causal_leak(host_.problem(), hopper(), host_.forward_tensors(), {}, &verdict)
                .message(),
            "audit: backend must be cpu; got hopper (the tensors of an audit are in host memory)");
}

std::string line_of(const std::string& text, const std::string& key) {
  const size_t at = ("\n" + text).find("\n" + key + ": ");
  if (at == std::string::npos) return "-";
  const size_t value = at + key.size() + 2;
  return text.substr(value, text.find('\n', value) - value);
}

TEST_F(HopperRefusals, ExplainNamesDeviceKernelsAndMemory) {
  const std::string text = explain(call_.problem, hopper());
  EXPECT_EQ(line_of(text, "supported"), "yes");
  EXPECT_EQ(line_of(text, "backend"), "hopper");
  EXPECT_NE(line_of(text, "device").find(" multiprocessors"), std::string::npos) << text;
  EXPECT_EQ(line_of(text, "saved_lse_bytes"), std::to_string(47 * 4 * 4));
  EXPECT_EQ(line_of(text, "saved_o_residual_bytes"), std::to_string(47 * 4 * 64 * 2));
  EXPECT_EQ(line_of(text, "accumulate"), "hw");
  EXPECT_EQ(line_of(text, "passes"), "quantize, forward");
  EXPECT_NE(line_of(text, "kernels").find("flamia_sm90a_forward_mxfp8_d64"), std::string::npos);
  EXPECT_NE(line_of(text, "kernels").find("quantize"), std::string::npos);
  EXPECT_EQ(line_of(text, "workspace_forward_bytes"), std::to_string(call_.workspace.bytes));
  EXPECT_NE(line_of(text, "backward_refused"), "-");
  Options bf16 = hopper();
  bf16.path = Path::kBf16;
  const std::string kernels = line_of(explain(call_.problem, bf16), "kernels");
  EXPECT_NE(kernels.find("flamia_shared_quantize_forms_d64"), std::string::npos) << kernels;
  EXPECT_NE(kernels.find("flamia_sm90a_forward_bf16_d64"), std::string::npos) << kernels;
}

TEST_F(HopperRefusals, ExplainCountsTheWorkspaceOfEveryPath) {
  std::string mxfp8;
  for (const Path path : {Path::kMxfp8, Path::kNvfp4, Path::kBf16}) {
    Options options = hopper();
    options.path = path;
    call_.prepare(options);
    const std::string bytes = line_of(explain(call_.problem, options), "workspace_forward_bytes");
    EXPECT_EQ(bytes, std::to_string(call_.workspace.bytes));
    if (path == Path::kMxfp8) mxfp8 = bytes;
    EXPECT_EQ(bytes == mxfp8, path == Path::kMxfp8);
    EXPECT_EQ(call_.enqueue(options).message(), "");
  }
}

TEST_F(HopperRefusals, ExplainNamesTheKernelOfEveryVariant) {
  Options options = hopper();
  options.safety = Safety::kExact;
  std::string text = explain(call_.problem, options);
  EXPECT_NE(line_of(text, "kernels").find("flamia_sm90a_forward_mxfp8_exact_d64"),
            std::string::npos)
      << text;
  call_.prepare(options);
  EXPECT_EQ(line_of(text, "workspace_forward_bytes"), std::to_string(call_.workspace.bytes));
  options.exponential = Exponential::kSchraudolph;
  text = explain(call_.problem, options);
  EXPECT_NE(line_of(text, "kernels").find("flamia_sm90a_forward_mxfp8_exact_schraudolph_d64"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace flamia
