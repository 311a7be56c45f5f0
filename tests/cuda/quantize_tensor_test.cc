// quantize() on a Hopper gives the bytes of the CPU backend.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "numerics/bf16.h"
#include "tests/kernels/device_buffer.h"
#include "tests/support/attention_case.h"
#include "tests/support/call_tensors.h"

namespace flamia {
namespace {

using test::Case;
using test::dense_view;
using test::DeviceBuffer;

struct Bytes {
  std::vector<uint8_t> codes;
  std::vector<int8_t> exp;
  std::vector<uint8_t> scales;  ///< of NVFP4 along head channels

  bool operator==(const Bytes&) const = default;
};

constexpr uint8_t kUntouched = 0x5a;

bool has_scales(Role role, ContractionAxis axis, const Options& options) {
  const bool score = role == Role::kQ || role == Role::kK;
  return options.path != Path::kMxfp8 && score && axis == ContractionAxis::kHeadDim;
}

/// One tensor [tokens, heads, dim] of a case, and both backends on it.
class QuantizeBoth {
 public:
  explicit QuantizeBoth(Case* host) : host_(host), problem_(host->problem()) {}

  Bytes on_cpu(Role role, ContractionAxis axis, Options options) {
    options.backend = BackendKind::kCpu;
    Bytes result = blank(has_scales(role, axis, options));
    const QuantizedTensors views{dense_view(result.codes.data(), DType::kU8, codes_shape()),
                                 dense_view(result.exp.data(), DType::kI8, exp_shape()),
                                 scales_view(&result, result.scales.data())};
    EXPECT_EQ(quantize(input(host_->q_data.data()), lengths(host_->cu_q.data()), role, axis,
                       options, views)
                  .message(),
              "");
    return result;
  }

  Bytes on_device(Role role, ContractionAxis axis, Options options) {
    options.backend = BackendKind::kHopper;
    const Bytes before = blank(has_scales(role, axis, options));
    DeviceBuffer<uint16_t> values(host_->q_data);
    DeviceBuffer<int32_t> cu(host_->cu_q);
    DeviceBuffer<uint8_t> codes(before.codes);
    DeviceBuffer<int8_t> exp(before.exp);
    DeviceBuffer<uint8_t> scales(before.scales);
    const QuantizedTensors views{dense_view(codes.data(), DType::kU8, codes_shape()),
                                 dense_view(exp.data(), DType::kI8, exp_shape()),
                                 scales_view(&before, scales.data())};
    size_t bytes = 0;
    EXPECT_EQ(quantize_workspace_size(input(values.data()), lengths(cu.data()), role, axis, options,
                                      &bytes)
                  .message(),
              "");
    DeviceBuffer<unsigned char> memory(bytes);
    EXPECT_EQ(quantize(input(values.data()), lengths(cu.data()), role, axis, options, views,
                       {memory.data(), bytes})
                  .message(),
              "");
    return {codes.read(), exp.read(), scales.read()};
  }

  void expect_equal(const Options& options) {
    for (const Role role : {Role::kQ, Role::kV}) {
      for (const ContractionAxis axis : {ContractionAxis::kHeadDim, ContractionAxis::kTokens}) {
        SCOPED_TRACE(testing::Message() << "role " << int(role) << " axis " << int(axis));
        EXPECT_TRUE(on_device(role, axis, options) == on_cpu(role, axis, options));
      }
    }
  }

  int batch = 0;

 private:
  std::vector<int64_t> rows() const {
    if (batch == 0) return {problem_.query_tokens};
    return {batch, problem_.query_tokens / batch};
  }
  std::vector<int64_t> exp_shape() const {
    std::vector<int64_t> shape = rows();
    shape.push_back(problem_.heads);
    return shape;
  }
  std::vector<int64_t> codes_shape() const {
    std::vector<int64_t> shape = exp_shape();
    shape.push_back(problem_.head_dim);
    return shape;
  }
  TensorView input(void* data) const { return dense_view(data, DType::kBF16, codes_shape()); }
  TensorView lengths(void* data) const {
    if (batch > 0) return {};
    return dense_view(data, DType::kI32, {problem_.documents + 1});
  }
  TensorView scales_view(const Bytes* bytes, uint8_t* data) const {
    if (bytes->scales.empty()) return {};
    std::vector<int64_t> shape = codes_shape();
    shape.back() /= 16;
    return dense_view(data, DType::kU8, shape);
  }
  Bytes blank(bool with_scales) const {
    const auto tokens = static_cast<size_t>(problem_.query_tokens * problem_.heads);
    const auto dim = static_cast<size_t>(problem_.head_dim);
    return {std::vector<uint8_t>(tokens * dim, kUntouched),
            std::vector<int8_t>(tokens, static_cast<int8_t>(kUntouched)),
            std::vector<uint8_t>(with_scales ? tokens * dim / 16 : 0, kUntouched)};
  }

  Case* host_;
  Problem problem_;
};

TEST(HopperQuantize, GivesTheBytesOfTheCpu) {
  for (const int dim : {64, 128}) {
    Case host({{1, 31, 0, 32, 33, 100}, {}, 3, 3, dim, 5}, 3);
    for (int c = 0; c < dim; ++c) host.q(40, 1, c) = float_to_bf16(std::ldexp(1.0f, 20));
    for (const Hadamard hadamard : {Hadamard::kOn, Hadamard::kOff}) {
      SCOPED_TRACE(testing::Message() << "dim " << dim << " hadamard " << int(hadamard));
      Options options;
      options.hadamard = hadamard;
      QuantizeBoth(&host).expect_equal(options);
    }
  }
}

TEST(HopperQuantize, ExactSafetyHasAnExponentForEveryToken) {
  for (const int dim : {64, 128}) {
    SCOPED_TRACE(dim);
    Case host({{1, 31, 70}, {}, 2, 2, dim, 3}, 8);
    for (int c = 0; c < dim; ++c) host.q(40, 1, c) = float_to_bf16(std::ldexp(1.0f, 20));
    Options options;
    options.safety = Safety::kExact;
    QuantizeBoth both(&host);
    both.expect_equal(options);
    EXPECT_FALSE(both.on_device(Role::kV, ContractionAxis::kTokens, {}) ==
                 both.on_device(Role::kV, ContractionAxis::kTokens, options));
  }
}

/// NVFP4 of Q and K along head channels; E4M3 of V, dO, and un-rotated copies of Q and K for
/// gradients.
TEST(HopperQuantize, OperandsOfTheMixedPath) {
  Case host({{33, 70}, {}, 2, 2, 128, 3}, 9);
  QuantizeBoth both(&host);
  for (const Safety safety : {Safety::kDefault, Safety::kExact}) {
    Options options;
    options.path = Path::kNvfp4;
    options.safety = safety;
    for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kDo}) {
      for (const ContractionAxis axis : {ContractionAxis::kHeadDim, ContractionAxis::kTokens}) {
        SCOPED_TRACE(testing::Message()
                     << "safety " << int(safety) << " role " << int(role) << " axis " << int(axis));
        EXPECT_TRUE(both.on_device(role, axis, options) == both.on_cpu(role, axis, options));
      }
    }
  }
}

/// NVFP4 codes and scales are those of the CPU on both sides of what a scale can hold.
TEST(HopperQuantize, Nvfp4AlongHeadChannels) {
  for (const int dim : {64, 128}) {
    Case host({{33, 70}, {}, 2, 2, dim, 3}, 10);
    for (int64_t token = 0; token < 30; ++token) {
      for (int c = 0; c < dim; ++c) {
        const int power = c / 16 % 2 == 0 ? static_cast<int>(token) * 8 - 120 : 0;
        host.q(token, 0, c) = float_to_bf16(std::ldexp(bf16_to_float(host.q(token, 0, c)), power));
      }
    }
    for (int c = 0; c < dim; ++c) host.q(31, 1, c) = 0;
    host.q(40, 0, 5) = float_to_bf16(std::nanf(""));
    host.q(41, 0, 5) = float_to_bf16(INFINITY);
    QuantizeBoth both(&host);
    for (const Hadamard hadamard : {Hadamard::kOn, Hadamard::kOff}) {
      SCOPED_TRACE(testing::Message() << "dim " << dim << " hadamard " << int(hadamard));
      Options options;
      options.path = Path::kNvfp4;
      options.hadamard = hadamard;
      const Bytes got = both.on_device(Role::kQ, ContractionAxis::kHeadDim, options);
      const Bytes wanted = both.on_cpu(Role::kQ, ContractionAxis::kHeadDim, options);
      EXPECT_EQ(got.codes, wanted.codes);
      EXPECT_EQ(got.scales, wanted.scales);
      EXPECT_EQ(got.exp, wanted.exp);
    }
  }
}

TEST(HopperQuantize, TakesBatches) {
  Case host({{45, 45}, {}, 2, 2, 64, 0}, 4);
  QuantizeBoth both(&host);
  both.batch = 2;
  both.expect_equal({});
}

TEST(HopperQuantize, TakesMagnitudesOfEveryKind) {
  Case host({{70, 32}, {}, 1, 1, 64, 0}, 5);
  for (int64_t token = 0; token < 102; ++token) {
    for (int c = 0; c < 64; ++c) {
      const float x = bf16_to_float(host.q(token, 0, c));
      host.q(token, 0, c) = float_to_bf16(std::ldexp(x, static_cast<int>(token / 32) * 60 - 120));
    }
  }
  host.q(3, 0, 1) = float_to_bf16(std::nanf(""));
  host.q(33, 0, 2) = float_to_bf16(INFINITY);
  for (int c = 0; c < 64; ++c) host.q(80, 0, c) = 0;
  QuantizeBoth(&host).expect_equal({});
}

TEST(HopperQuantize, IsCapturedIntoAGraph) {
  Case host({{40, 20}, {}, 1, 1, 64, 0}, 6);
  DeviceBuffer<uint16_t> values(host.q_data);
  DeviceBuffer<int32_t> cu(host.cu_q);
  DeviceBuffer<uint8_t> codes(60 * 64);
  DeviceBuffer<int8_t> exp(60);
  Options options;
  options.backend = BackendKind::kHopper;
  const TensorView input = dense_view(values.data(), DType::kBF16, {60, 1, 64});
  const TensorView lengths = dense_view(cu.data(), DType::kI32, {3});
  const QuantizedTensors views{dense_view(codes.data(), DType::kU8, {60, 1, 64}),
                               dense_view(exp.data(), DType::kI8, {60, 1}),
                               {}};
  size_t bytes = 0;
  ASSERT_EQ(
      quantize_workspace_size(input, lengths, Role::kK, ContractionAxis::kHeadDim, options, &bytes)
          .message(),
      "");
  DeviceBuffer<unsigned char> memory(bytes);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(quantize(input, lengths, Role::kK, ContractionAxis::kHeadDim, options, views,
                     {memory.data(), bytes}, stream)
                .message(),
            "");
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  Case other({{13, 47}, {}, 1, 1, 64, 0}, 7);
  values.write(0, other.q_data.data(), other.q_data.size());
  cu.write(0, other.cu_q.data(), other.cu_q.size());
  ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  const Bytes wanted = QuantizeBoth(&other).on_cpu(Role::kK, ContractionAxis::kHeadDim, options);
  EXPECT_EQ(codes.read(), wanted.codes);
  EXPECT_EQ(exp.read(), wanted.exp);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(HopperQuantize, RefusesWhatItCannotReach) {
  Case host({{40}, {}, 1, 1, 64, 0});
  Options options;
  options.backend = BackendKind::kHopper;
  std::vector<uint8_t> codes(40 * 64);
  std::vector<int8_t> exp(40);
  DeviceBuffer<uint16_t> values(host.q_data);
  DeviceBuffer<int32_t> cu(host.cu_q);
  DeviceBuffer<unsigned char> memory(size_t{1} << 20);
  const TensorView input = dense_view(values.data(), DType::kBF16, {40, 1, 64});
  const TensorView lengths = dense_view(cu.data(), DType::kI32, {2});
  const QuantizedTensors views{dense_view(codes.data(), DType::kU8, {40, 1, 64}),
                               dense_view(exp.data(), DType::kI8, {40, 1}),
                               {}};
  const auto refusal = [&](const TensorView& from, Workspace workspace) {
    return quantize(from, lengths, Role::kQ, ContractionAxis::kHeadDim, options, views, workspace)
        .message();
  };
  EXPECT_EQ(refusal(input, {memory.data(), size_t{1} << 20}),
            "quantize: codes.data must be in device memory; got an address of the host (copy codes "
            "to the GPU, or use backend cpu)");
  EXPECT_EQ(refusal(input, {}).substr(0, 63),
            "quantize: workspace.data must be given; got null (quantize_work");
  TensorView odd = input;
  odd.data = static_cast<char*>(odd.data) + 2;
  EXPECT_EQ(refusal(odd, {memory.data(), size_t{1} << 20}),
            "quantize: input.data must be aligned to 16 bytes for backend hopper; got an address 2 "
            "past a multiple");
}

}  // namespace
}  // namespace flamia
