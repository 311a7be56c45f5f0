// A forward call of the public API on copies of a case's tensors in device memory.
// Used by: tests/cuda, on the virtual GPU or a real one.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "flamia/attention.h"
#include "tests/kernels/device_buffer.h"
#include "tests/support/attention_case.h"
#include "tests/support/call_tensors.h"

namespace flamia::test {

struct DeviceOutputs {
  std::vector<uint16_t> o, o_residual;
  std::vector<float> lse;
};

/// Tensors of a packed call; tests may change views and problem before run().
class DeviceCall {
 public:
  explicit DeviceCall(Case* host)
      : problem(host->problem()),
        q_(host->q_data),
        k_(host->k_data),
        v_(host->v_data),
        cu_q_(host->cu_q),
        cu_k_(host->cu_k),
        o_(std::vector<uint16_t>(host->q_data.size(), kNan)),
        o_residual_(std::vector<uint16_t>(host->q_data.size(), kNan)),
        lse_(std::vector<float>(host->q_data.size() / static_cast<size_t>(problem.head_dim),
                                std::nanf(""))) {
    const Shape& shape = host->shape();
    const std::vector<int64_t> queries{problem.query_tokens, shape.heads, shape.dim};
    const std::vector<int64_t> keys{problem.key_tokens, shape.kv_heads, shape.dim};
    const std::vector<int64_t> lengths{static_cast<int64_t>(host->cu_q.size())};
    tensors.q = dense_view(q_.data(), DType::kBF16, queries);
    tensors.k = dense_view(k_.data(), DType::kBF16, keys);
    tensors.v = dense_view(v_.data(), DType::kBF16, keys);
    tensors.cu_seqlens_q = dense_view(cu_q_.data(), DType::kI32, lengths);
    if (!shape.lengths_k.empty()) {
      tensors.cu_seqlens_k = dense_view(cu_k_.data(), DType::kI32, lengths);
    }
    tensors.o = dense_view(o_.data(), DType::kBF16, queries);
    tensors.o_residual = dense_view(o_residual_.data(), DType::kBF16, queries);
    tensors.lse = dense_view(lse_.data(), DType::kF32, {shape.heads, problem.query_tokens});
  }

  /// Allocates the workspace for these options.
  void prepare(const Options& options) {
    ASSERT_EQ(workspace_size(problem, options, Pass::kForward, &workspace.bytes).message(), "");
    memory_ = std::make_unique<DeviceBuffer<unsigned char>>(workspace.bytes);
    workspace.data = memory_->data();
  }

  Status enqueue(const Options& options, void* stream = nullptr) {
    return attention_forward(problem, options, tensors, workspace, stream, &conventions);
  }

  DeviceOutputs read() { return {o_.read(), o_residual_.read(), lse_.read()}; }

  DeviceOutputs run(const Options& options) {
    prepare(options);
    EXPECT_EQ(enqueue(options).message(), "");
    return read();
  }

  void set_lengths(const std::vector<int32_t>& cu_seqlens) {
    cu_q_.write(0, cu_seqlens.data(), cu_seqlens.size());
  }
  void poison_outputs() {
    const DeviceOutputs old = read();
    const std::vector<uint16_t> nan(old.o.size(), kNan);
    const std::vector<float> float_nan(old.lse.size(), std::nanf(""));
    o_.write(0, nan.data(), nan.size());
    o_residual_.write(0, nan.data(), nan.size());
    lse_.write(0, float_nan.data(), float_nan.size());
  }

  Problem problem;
  ForwardTensors tensors;
  Workspace workspace;
  Conventions conventions;

 private:
  static constexpr uint16_t kNan = 0x7fff;
  DeviceBuffer<uint16_t> q_, k_, v_;
  DeviceBuffer<int32_t> cu_q_, cu_k_;
  DeviceBuffer<uint16_t> o_, o_residual_;
  DeviceBuffer<float> lse_;
  std::unique_ptr<DeviceBuffer<unsigned char>> memory_;
};

}  // namespace flamia::test
