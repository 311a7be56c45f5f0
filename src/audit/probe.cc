// A small attention call of its own, copied from a larger one, whose inputs a test may change.
#include "audit/probe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <new>

#include "base/bits.h"
#include "numerics/bf16.h"
#include "problem/mask.h"
#include "problem/packed_layout.h"

namespace flamia::audit {
namespace {

/// Heads of the copy: leaks do not depend on the head, two key heads show mixing between them.
constexpr int32_t kMaxKeyHeads = 2;
constexpr int32_t kMaxGroup = 4;
constexpr float kLargestBf16 = 0x1.fep127f;

/// Workspace memory, aligned for vectors.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes) {
    if (bytes > 0) data_.reset(::operator new(bytes, kAlignment));
  }
  Workspace workspace() const { return {data_.get(), bytes_}; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(void* memory) const { ::operator delete(memory, kAlignment); }
  };
  size_t bytes_;
  std::unique_ptr<void, Free> data_;
};

struct Rows {
  int64_t query_begin = 0;
  int64_t key_begin = 0;
  int64_t count = 0;
};

/// The square part of the longest document: its rows that are both query and key.
Rows longest_square(const Problem& problem, const ForwardTensors& inputs, int64_t max_rows) {
  const PackedLayout layout(problem, inputs.cu_seqlens_q, inputs.cu_seqlens_k);
  Rows rows;
  for (int32_t b = 0; b < layout.documents(); ++b) {
    const DocumentSpan span = layout.span(b);
    const int64_t count = std::min(span.queries(), span.keys());
    if (count <= rows.count) continue;
    rows.count = count;
    rows.query_begin = span.query_begin + span.queries() - count;
    rows.key_begin = span.key_begin + span.keys() - count;
  }
  rows.count = std::min(rows.count, max_rows);
  return rows;
}

/// [count, heads, head_dim] of a packed or batched tensor.
std::vector<uint16_t> copy_rows(const TensorView& view, int64_t begin, int64_t count, int64_t heads,
                                int64_t head_dim) {
  std::vector<uint16_t> copy;
  if (view.data == nullptr) return copy;
  copy.reserve(static_cast<size_t>(count * heads * head_dim));
  const uint16_t* data = static_cast<const uint16_t*>(view.data);
  for (int64_t token = begin; token < begin + count; ++token) {
    const int64_t offset = view.rank == 4 ? token / view.shape[1] * view.stride[0] +
                                                token % view.shape[1] * view.stride[1]
                                          : token * view.stride[0];
    for (int64_t h = 0; h < heads; ++h) {
      const uint16_t* row = data + offset + h * view.stride[view.rank - 2];
      copy.insert(copy.end(), row, row + head_dim);
    }
  }
  return copy;
}

double largest_row_norm(const std::vector<uint16_t>& values, int64_t head_dim) {
  double largest = 0;
  double squares = 0;
  for (size_t n = 0; n < values.size(); ++n) {
    const auto x = static_cast<double>(bf16_to_float(values[n]));
    squares += x * x;
    if ((n + 1) % static_cast<size_t>(head_dim) != 0) continue;
    largest = std::max(largest, std::sqrt(squares));
    squares = 0;
  }
  return largest;
}

TensorView dense(void* data, DType dtype, int64_t rows, int64_t heads, int64_t head_dim) {
  TensorView view{data, dtype, 3, {rows, heads, head_dim}, {heads * head_dim, head_dim, 1}};
  return view;
}

}  // namespace

Probe::Probe(const Problem& problem, const ForwardTensors& inputs, const TensorView& d_o,
             int64_t max_rows) {
  const Rows rows = longest_square(problem, inputs, max_rows);
  const int32_t group = std::min(problem.heads / problem.kv_heads, kMaxGroup);
  problem_.query_tokens = rows.count;
  problem_.key_tokens = rows.count;
  problem_.documents = 1;
  // Query heads of a smaller group would belong to other key heads: then one key head is copied.
  const bool whole_group = group == problem.heads / problem.kv_heads;
  problem_.kv_heads = whole_group ? std::min(problem.kv_heads, kMaxKeyHeads) : 1;
  problem_.heads = problem_.kv_heads * group;
  problem_.head_dim = problem.head_dim;
  lengths_[1] = static_cast<int32_t>(rows.count);
  q_ = copy_rows(inputs.q, rows.query_begin, rows.count, problem_.heads, problem_.head_dim);
  k_ = copy_rows(inputs.k, rows.key_begin, rows.count, problem_.kv_heads, problem_.head_dim);
  v_ = copy_rows(inputs.v, rows.key_begin, rows.count, problem_.kv_heads, problem_.head_dim);
  d_o_ = copy_rows(d_o, rows.query_begin, rows.count, problem_.heads, problem_.head_dim);
  original_q_ = q_;
  original_k_ = k_;
  original_v_ = v_;
  original_d_o_ = d_o_;
}

std::vector<uint16_t>& Probe::tensor(Operand operand) {
  switch (operand) {
    case Operand::kQ:
      return q_;
    case Operand::kK:
      return k_;
    case Operand::kV:
      return v_;
    case Operand::kDo:
      break;
  }
  return d_o_;
}

void Probe::scale_token(Operand operand, int64_t token, float factor) {
  std::vector<uint16_t>& values = tensor(operand);
  const size_t width = values.size() / static_cast<size_t>(rows());
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(width) * token;
  const auto end = begin + static_cast<std::ptrdiff_t>(width);
  const bool zero = std::all_of(begin, end, [](uint16_t x) { return (x & 0x7fffu) == 0; });
  std::transform(begin, end, begin, [&](uint16_t x) {
    const float value = zero ? factor : bf16_to_float(x) * factor;
    return std::isinf(value) ? float_to_bf16(std::copysign(kLargestBf16, value))
                             : float_to_bf16(value);
  });
}

void Probe::restore() {
  q_ = original_q_;
  k_ = original_k_;
  v_ = original_v_;
  d_o_ = original_d_o_;
}

double Probe::dq_rounding_bound(double softmax_scale) const {
  // The prescale is 2^r with r > log2(65504 / B) - 2, B = 2 max|dO| max|V| max|K| of quantized rows
  // (numerics/dq_scale.h), so a subnormal step of FP16, 2^-24, is at most B 2^-38 in dQ. Rounding
  // to few bits raises the product of the norms by less than two. The norm of a row of K bounds
  // its entries in any frame, and outweighs what un-rotating dQ gathers of the rounding of other
  // channels. Each key tile adds one partial.
  const double norms = largest_row_norm(d_o_, problem_.head_dim) *
                       largest_row_norm(v_, problem_.head_dim) *
                       largest_row_norm(k_, problem_.head_dim);
  const auto partials = static_cast<double>(ceil_div<int64_t>(rows(), kKeyTile));
  return std::abs(softmax_scale) * partials * 2.0 * norms * 0x1p-37;
}

Status Probe::run(const Options& options, Outputs* outputs) {
  const int64_t heads = problem_.heads;
  const int64_t kv_heads = problem_.kv_heads;
  const int64_t dim = problem_.head_dim;
  std::vector<uint16_t> residual(q_.size());
  outputs->o.assign(q_.size(), 0);
  outputs->lse.assign(static_cast<size_t>(heads * rows()), 0.0f);
  ForwardTensors tensors;
  tensors.q = dense(q_.data(), DType::kBF16, rows(), heads, dim);
  tensors.k = dense(k_.data(), DType::kBF16, rows(), kv_heads, dim);
  tensors.v = dense(v_.data(), DType::kBF16, rows(), kv_heads, dim);
  tensors.cu_seqlens_q = {lengths_, DType::kI32, 1, {2}, {1}};
  tensors.o = dense(outputs->o.data(), DType::kBF16, rows(), heads, dim);
  tensors.lse = {outputs->lse.data(), DType::kF32, 2, {heads, rows()}, {rows(), 1}};
  tensors.o_residual = dense(residual.data(), DType::kBF16, rows(), heads, dim);

  size_t bytes = 0;
  Status status = workspace_size(problem_, options, Pass::kForward, &bytes);
  if (!status.ok()) return status;
  size_t backward_bytes = 0;
  if (has_gradient()) {
    status = workspace_size(problem_, options, Pass::kBackward, &backward_bytes);
    if (!status.ok()) return status;
  }
  const Scratch scratch(std::max(bytes, backward_bytes));
  status = attention_forward(problem_, options, tensors, scratch.workspace(), nullptr,
                             &outputs->conventions);
  if (!status.ok() || !has_gradient()) return status;

  std::vector<uint16_t> dk(k_.size()), dv(v_.size());
  outputs->dq.assign(q_.size(), 0);
  BackwardTensors gradients;
  gradients.q = tensors.q;
  gradients.k = tensors.k;
  gradients.v = tensors.v;
  gradients.cu_seqlens_q = tensors.cu_seqlens_q;
  gradients.o = tensors.o;
  gradients.o_residual = tensors.o_residual;
  gradients.lse = tensors.lse;
  gradients.d_o = dense(d_o_.data(), DType::kBF16, rows(), heads, dim);
  gradients.dq = dense(outputs->dq.data(), DType::kBF16, rows(), heads, dim);
  gradients.dk = dense(dk.data(), DType::kBF16, rows(), kv_heads, dim);
  gradients.dv = dense(dv.data(), DType::kBF16, rows(), kv_heads, dim);
  return attention_backward(problem_, outputs->conventions, gradients, scratch.workspace(), nullptr,
                            options.threads);
}

}  // namespace flamia::audit
