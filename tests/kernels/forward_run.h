// One forward call on the device, from BF16 tensors to O, its residual and the log-sum-exp:
// schedule, quantizer, attention kernel; and the same call on the CPU backend, which is its model.
// Used by: tests/kernels/forward*_test.cc.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "cuda/forward.h"
#include "cuda/quantize.h"
#include "cuda/schedule.h"
#include "numerics/online_softmax.h"
#include "plan/conventions.h"
#include "tests/kernels/device_buffer.h"
#include "tests/support/attention_case.h"
#include "tests/support/call_tensors.h"

namespace flamia::test {

/// What a forward call returns, in the logical order of ForwardTensors.
struct ForwardResult {
  std::vector<uint16_t> o;         ///< [T, Hq, D]
  std::vector<uint16_t> residual;  ///< likewise; empty if not asked for
  std::vector<float> lse;          ///< [Hq, T]
};

/// How tensors lie in device memory. Elements between rows hold NaN and must stay as they are.
struct DeviceLayout {
  int head_pad = 0;          ///< elements after each head's channels, a multiple of 8
  int token_pad = 0;         ///< after each token's heads, likewise
  int64_t batch_pad = 0;     ///< after each document, with batched
  bool batched = false;      ///< all documents have one length and are given as a batch
  bool residual = true;      ///< whether it is asked for
  bool alternating = false;  ///< shares of the work are dealt from the start
  int lse_token_stride = 1;  ///< elements
  int lse_pad = 0;           ///< after each head's tokens
  int ctas = 0;              ///< of the grid; 0: one for each multiprocessor
  int replays = 0;           ///< of all launches, captured; 0: they are enqueued once
  int64_t blocks = 0;        ///< of a head of the codes that the kernel reads; 0: their capacity
};

inline constexpr uint16_t kNanBf16 = 0x7fff;

/// Strides of a BF16 tensor under a layout.
struct RowStrides {
  RowStrides(const DeviceLayout& layout, int64_t rows, int64_t length, int heads, int dim)
      : head(dim + layout.head_pad),
        token(heads * head + layout.token_pad),
        batch(layout.batched ? length * token + layout.batch_pad : 0),
        batch_length(layout.batched ? length : 0),
        elements(
            static_cast<size_t>(batch_length > 0 ? rows / batch_length * batch : rows * token)) {}
  int64_t head, token, batch, batch_length;
  size_t elements;

  size_t at(int64_t row, int64_t head_index) const {
    const int64_t entry = batch_length > 0 ? row / batch_length : 0;
    const int64_t position = batch_length > 0 ? row % batch_length : row;
    return static_cast<size_t>(entry * batch + position * token + head_index * head);
  }
};

/// A BF16 tensor of the device under its strides.
class DeviceRows {
 public:
  /// Rows of `dense`, or NaN if it is empty; NaN between the rows unless they lie very far apart.
  DeviceRows(const std::vector<uint16_t>& dense, const RowStrides& strides, int64_t rows, int heads,
             int dim)
      : strides_(strides),
        rows_(rows),
        heads_(heads),
        dim_(dim),
        sparse_(strides.elements > (size_t{1} << 26) + 4 * static_cast<size_t>(rows * heads * dim)),
        buffer_(sparse_ ? strides.elements : size_t{1}),
        filled_(sparse_ ? std::vector<uint16_t>() : spread(dense)) {
    const std::vector<uint16_t> nothing(static_cast<size_t>(dim), kNanBf16);
    if (!sparse_) return;
    each_row([&](size_t at, size_t dense_at) {
      buffer_.write(at, dense.empty() ? nothing.data() : dense.data() + dense_at, nothing.size());
    });
  }

  uint16_t* data() const { return sparse_ ? buffer_.data() : filled_.data(); }
  /// The rows, dense; fails the test if what lies between them is no longer NaN.
  std::vector<uint16_t> read() const {
    std::vector<uint16_t> result(static_cast<size_t>(rows_ * heads_ * dim_));
    const auto width = static_cast<size_t>(dim_);
    if (sparse_) {
      each_row([&](size_t at, size_t dense_at) {
        const std::vector<uint16_t> row = buffer_.read(at, width);
        std::copy(row.begin(), row.end(), result.data() + dense_at);
      });
      return result;
    }
    std::vector<uint16_t> stored = filled_.read();
    each_row([&](size_t at, size_t dense_at) {
      std::copy_n(stored.data() + at, width, result.data() + dense_at);
      std::fill_n(stored.data() + at, width, kNanBf16);
    });
    size_t touched = 0;
    for (const uint16_t x : stored) touched += x != kNanBf16 ? 1 : 0;
    EXPECT_EQ(touched, 0u) << "elements between rows were written";
    return result;
  }

 private:
  template <typename Visit>
  void each_row(const Visit& visit) const {
    for (int64_t row = 0; row < rows_; ++row) {
      for (int head = 0; head < heads_; ++head) {
        visit(strides_.at(row, head), static_cast<size_t>((row * heads_ + head) * dim_));
      }
    }
  }
  std::vector<uint16_t> spread(const std::vector<uint16_t>& dense) const {
    std::vector<uint16_t> result(strides_.elements, kNanBf16);
    if (dense.empty()) return result;
    each_row([&](size_t at, size_t dense_at) {
      std::copy_n(dense.data() + dense_at, dim_, result.data() + at);
    });
    return result;
  }

  RowStrides strides_;
  int64_t rows_;
  int heads_;
  int dim_;
  bool sparse_;
  DeviceBuffer<uint16_t> buffer_;
  DeviceBuffer<uint16_t> filled_;
};

/// Device memory of one operand and the quantizer's arguments for it.
class DeviceOperand {
 public:
  DeviceOperand(const std::vector<uint16_t>& dense, const DeviceLayout& layout, int64_t rows,
                int64_t length, int heads, int dim, int64_t blocks, QuantizeForm form,
                Safety safety)
      : strides_(layout, rows, length, heads, dim),
        input_(dense, strides_, rows, heads, dim),
        form_(form),
        block_bytes_(static_cast<size_t>(form == QuantizeForm::kE4m3 ? token_block_bytes(dim)
                                                                     : bf16_block_bytes(dim))),
        per_token_(form == QuantizeForm::kE4m3 && safety == Safety::kExact),
        block_exponents_(per_token_ ? kTokenBlock : 1),
        codes_(static_cast<size_t>(heads * blocks) * block_bytes_),
        exponents_(static_cast<size_t>(heads * blocks) * block_exponents_),
        heads_(heads),
        blocks_(blocks) {}

  QuantizedOperand output(bool transposed) const {
    return {transposed ? nullptr : codes_.data(), transposed ? codes_.data() : nullptr,
            exponents_.data(), blocks_};
  }
  /// The codes as the kernel is given them: heads `blocks` blocks apart.
  QuantizedOperand operand(bool transposed, int64_t blocks) {
    if (blocks == 0) return output(transposed);
    const auto heads = static_cast<size_t>(heads_);
    far_codes_ =
        std::make_unique<DeviceBuffer<uint8_t>>(heads * static_cast<size_t>(blocks) * block_bytes_);
    far_exponents_ = std::make_unique<DeviceBuffer<int8_t>>(heads * static_cast<size_t>(blocks) *
                                                            block_exponents_);
    const auto copy = [&](auto* to, const auto* from, size_t size) {
      for (size_t head = 0; head < heads; ++head) {
        EXPECT_EQ(cudaMemcpy(to + head * static_cast<size_t>(blocks) * size,
                             from + head * static_cast<size_t>(blocks_) * size,
                             static_cast<size_t>(blocks_) * size, cudaMemcpyDeviceToDevice),
                  cudaSuccess);
      }
    };
    copy(far_codes_->data(), codes_.data(), block_bytes_);
    copy(far_exponents_->data(), exponents_.data(), block_exponents_);
    return {transposed ? nullptr : far_codes_->data(), transposed ? far_codes_->data() : nullptr,
            far_exponents_->data(), blocks};
  }
  QuantizeTensor tensor(const TokenBlockRange* ranges, bool hadamard, bool transposed) const {
    QuantizeTensor result{};
    result.input = {input_.data(),
                    strides_.batch,
                    strides_.token,
                    strides_.head,
                    static_cast<int32_t>(strides_.batch_length),
                    heads_};
    result.output = output(transposed);
    result.blocks = ranges;
    result.hadamard = hadamard ? 1 : 0;
    result.order = static_cast<int32_t>(TokenOrder::kAccumulator);
    result.form = form_;
    result.per_token = per_token_ ? 1 : 0;
    if (form_ != QuantizeForm::kE4m3) result.row_bf16 = reinterpret_cast<uint16_t*>(codes_.data());
    return result;
  }

 private:
  RowStrides strides_;
  DeviceRows input_;
  QuantizeForm form_;
  size_t block_bytes_;      ///< of codes
  bool per_token_;          ///< exponents of E4M3 codes
  size_t block_exponents_;  ///< exponents of a block
  DeviceBuffer<uint8_t> codes_;
  DeviceBuffer<int8_t> exponents_;
  std::unique_ptr<DeviceBuffer<uint8_t>> far_codes_;
  std::unique_ptr<DeviceBuffer<int8_t>> far_exponents_;
  int32_t heads_;
  int64_t blocks_;
};

inline void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

/// FLAMIA_TEST_SCORES=f16 runs the tests of the MXFP8 forward with binary16 accumulators of the
/// scores, where there are such kernels.
inline bool half_scores(const Options& options = {}) {
  const char* scores = std::getenv("FLAMIA_TEST_SCORES");
  return scores != nullptr && std::strcmp(scores, "f16") == 0 && options.path == Path::kMxfp8 &&
         options.safety == Safety::kDefault && options.exponential == Exponential::kExact;
}

/// The conventions of a call on the CPU with the numbers of the Hopper kernel.
inline Options hopper_options(Options options) {
  options.backend = BackendKind::kCpu;
  options.emulate = Family::kHopper;
  options.accumulate = Accumulate::kHardware;
  if (half_scores(options)) options.score_accumulator = ScoreAccumulator::kF16;
  return options;
}

/// Ends a capture, runs the graph so often, destroys both.
inline void replay(cudaStream_t stream, int times) {
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t executable = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
  for (int i = 0; i < times; ++i) {
    EXPECT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
  }
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

/// What a path makes of the operands, and its kernel.
struct FormsOf {
  explicit FormsOf(Path path) {
    if (path == Path::kNvfp4) {
      scores = QuantizeForm::kNvfp4;
      kernel = ForwardForm::kNvfp4;
    } else if (path == Path::kBf16) {
      scores = values = QuantizeForm::kBf16;
      kernel = ForwardForm::kBf16;
    }
  }
  QuantizeForm scores = QuantizeForm::kE4m3;
  QuantizeForm values = QuantizeForm::kE4m3;
  ForwardForm kernel = ForwardForm::kMxfp8;
};

/// The device's answer.
inline ForwardResult device_forward(Case& one, const Options& options,
                                    const DeviceLayout& layout = {}) {
  const Shape& shape = one.shape();
  const int64_t rows = one.query_tokens();
  const int64_t keys = one.key_tokens();
  const int dim = shape.dim;
  const auto documents = static_cast<int32_t>(shape.lengths.size());
  const int64_t length = documents > 0 ? shape.lengths[0] : 0;
  const bool one_table = shape.lengths_k.empty() && rows == keys;
  const int64_t key_length = one_table || documents == 0 ? length : shape.lengths_k[0];

  Conventions conventions;
  expect_ok(resolve_conventions(one.problem(), hopper_options(options), &conventions));

  const int64_t query_blocks = token_block_capacity(rows, documents);
  const int64_t key_blocks = token_block_capacity(keys, documents);
  const FormsOf forms(options.path);
  const Safety safety = conventions.safety;
  DeviceOperand q(one.q_data, layout, rows, length, shape.heads, dim, query_blocks, forms.scores,
                  safety);
  DeviceOperand k(one.k_data, layout, keys, key_length, shape.kv_heads, dim, key_blocks,
                  forms.scores, safety);
  DeviceOperand v(one.v_data, layout, keys, key_length, shape.kv_heads, dim, key_blocks,
                  forms.values, safety);
  const bool transposed = forms.values == QuantizeForm::kE4m3;
  // Results: NaN everywhere, so that unwritten entries show.
  const RowStrides out(layout, rows, length, shape.heads, dim);
  const DeviceRows o({}, out, rows, shape.heads, dim);
  const DeviceRows residual({}, out, rows, shape.heads, dim);
  const int64_t lse_rows = layout.batched ? length : rows;
  const int64_t lse_head = lse_rows * layout.lse_token_stride + layout.lse_pad;
  const int64_t lse_batch = lse_head * shape.heads + layout.lse_pad;
  DeviceBuffer<float> lse(std::vector<float>(
      static_cast<size_t>(layout.batched ? lse_batch * documents : lse_head * shape.heads) + 1,
      std::nanf("")));

  DeviceBuffer<uint32_t> next(1);

  // Lengths and the work list.
  DeviceBuffer<int32_t> cu_q(one.cu_q);
  DeviceBuffer<int32_t> cu_k(one.cu_k);
  DeviceBuffer<ScheduleCounts> counts(1);
  DeviceBuffer<TokenBlockRange> query_table(static_cast<size_t>(query_blocks));
  DeviceBuffer<TokenBlockRange> key_table(static_cast<size_t>(key_blocks));
  DeviceBuffer<ForwardItem> items(static_cast<size_t>(forward_item_capacity(rows, documents)) + 1);
  DeviceBuffer<unsigned char> scratch(cuda::schedule_scratch_bytes(rows, keys, documents) + 1);
  ScheduleArgs schedule{};
  schedule.queries = {layout.batched ? nullptr : cu_q.data(),
                      1,
                      0,
                      layout.batched ? static_cast<int32_t>(length) : 0,
                      static_cast<int32_t>(rows),
                      documents};
  schedule.keys = {layout.batched ? nullptr
                   : one_table    ? cu_q.data()
                                  : cu_k.data(),
                   1,
                   0,
                   layout.batched ? static_cast<int32_t>(key_length) : 0,
                   static_cast<int32_t>(keys),
                   documents};
  schedule.window_left = conventions.window_left;
  schedule.window_right = conventions.window_right;
  schedule.schedule = {counts.data(), query_table.data(),
                       one_table ? query_table.data() : key_table.data(), items.data()};
  schedule.scratch = scratch.data();
  int sms = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  cudaStream_t stream = nullptr;
  if (layout.replays > 0) {
    EXPECT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
  }
  expect_ok(cuda::build_schedule(schedule, stream));

  const bool hadamard = conventions.hadamard == Hadamard::kOn;
  QuantizeArgs quantize{};
  quantize.tensors[0] = q.tensor(schedule.schedule.query_blocks, hadamard, false);
  quantize.tensors[1] = k.tensor(schedule.schedule.key_blocks, hadamard, false);
  quantize.tensors[2] = v.tensor(schedule.schedule.key_blocks, false, transposed);
  if (conventions.score_accumulator == ScoreAccumulator::kF16) {
    quantize.tensors[0].headroom_exponent = kHalfAccumulatorHeadroom;
    quantize.tensors[1].headroom_exponent = kHalfAccumulatorHeadroom;
  }
  quantize.count = 3;
  expect_ok(cuda::launch_quantize(quantize, dim, stream));

  ForwardArgs args{};
  args.form = forms.kernel;
  args.q = q.operand(false, layout.blocks);
  args.k = k.operand(false, layout.blocks);
  args.v = v.operand(transposed, layout.blocks);
  args.schedule = schedule.schedule;
  args.next_work = next.data();
  args.o = {o.data(), out.batch, out.token, out.head};
  if (layout.residual) args.o_residual = {residual.data(), out.batch, out.token, out.head};
  args.lse = {lse.data(), layout.batched ? lse_batch : 0, lse_head, layout.lse_token_stride};
  args.window_left = conventions.window_left;
  args.window_right = conventions.window_right;
  args.tokens = static_cast<int32_t>(rows);
  args.batch_length = layout.batched ? static_cast<int32_t>(length) : 0;
  args.heads = shape.heads;
  args.heads_per_kv_head = shape.heads / shape.kv_heads;
  args.alternating = layout.alternating ? 1 : 0;
  args.score_multiplier = score_multiplier_of(conventions);
  args.p_log2 = std::log2(conventions.p_scale);
  args.tau = conventions.tau;
  args.reverse = conventions.kv_order == KvOrder::kReverse ? 1 : 0;
  args.sum_of_p = conventions.row_sum == RowSum::kP ? 1 : 0;
  expect_ok(cuda::launch_forward(args, dim, layout.ctas > 0 ? layout.ctas : sms, stream,
                                 {safety, conventions.exponential, conventions.score_accumulator}));
  if (layout.replays > 0) replay(stream, layout.replays);
  const cudaError_t error = cudaDeviceSynchronize();
  EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);

  ForwardResult result;
  result.o = o.read();
  if (layout.residual) result.residual = residual.read();
  const std::vector<float> stored = lse.read();
  for (int64_t head = 0; head < shape.heads; ++head) {
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t entry = layout.batched ? row / length : 0;
      const int64_t position = layout.batched ? row % length : row;
      result.lse.push_back(
          stored[static_cast<size_t>((layout.batched ? entry * lse_batch : 0) + head * lse_head +
                                     position * layout.lse_token_stride)]);
    }
  }
  return result;
}

/// The CPU backend's answer with the kernel's numbers.
inline ForwardResult cpu_forward(Case& one, const Options& options) {
  const Shape& shape = one.shape();
  const Options model = hopper_options(options);
  ForwardResult result;
  result.o.assign(one.q_data.size(), kNanBf16);
  result.residual.assign(one.q_data.size(), kNanBf16);
  result.lse.assign(static_cast<size_t>(one.query_tokens() * shape.heads), std::nanf(""));
  ForwardTensors tensors = one.forward_tensors();
  const std::vector<int64_t> sizes{one.query_tokens(), shape.heads, shape.dim};
  tensors.o = dense_view(result.o.data(), DType::kBF16, sizes);
  tensors.o_residual = dense_view(result.residual.data(), DType::kBF16, sizes);
  tensors.lse = dense_view(result.lse.data(), DType::kF32, {shape.heads, one.query_tokens()});
  size_t bytes = 0;
  expect_ok(workspace_size(one.problem(), model, Pass::kForward, &bytes));
  const AlignedBytes workspace(bytes);
  Conventions conventions;
  expect_ok(attention_forward(one.problem(), model, tensors, {workspace.as<void>(), bytes}, nullptr,
                              &conventions));
  return result;
}

}  // namespace flamia::test
