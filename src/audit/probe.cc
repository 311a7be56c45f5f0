// A small attention call of its own, copied from a larger one, whose inputs a test may change.
#include "audit/probe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "audit/library_call.h"
#include "base/bits.h"
#include "numerics/bf16.h"
#include "problem/mask.h"
#include "problem/packed_layout.h"

namespace flamia::audit {
namespace {

/// Heads of the copy: leaks do not depend on the head, two key heads show mixing between them.
constexpr int32_t kMaxKeyHeads = 2;
constexpr int32_t kMaxGroup = 4;

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

}  // namespace

Probe::Probe(const Problem& problem, const ForwardTensors& inputs, const TensorView& d_o,
             int64_t max_rows, HostForward forward)
    : host_forward_(std::move(forward)) {
  const Rows rows = longest_square(problem, inputs, max_rows);
  const int32_t group = std::min(problem.heads / problem.kv_heads, kMaxGroup);
  // Query heads of a smaller group would belong to other key heads: then one key head is copied.
  const bool whole_group = group == problem.heads / problem.kv_heads;
  inputs_.tokens = rows.count;
  inputs_.kv_heads = whole_group ? std::min(problem.kv_heads, kMaxKeyHeads) : 1;
  inputs_.heads = inputs_.kv_heads * group;
  inputs_.head_dim = problem.head_dim;
  inputs_.cu_seqlens = {0, static_cast<int32_t>(rows.count)};
  const int64_t dim = problem.head_dim;
  inputs_.q = copy_rows(inputs.q, rows.query_begin, rows.count, inputs_.heads, dim);
  inputs_.k = copy_rows(inputs.k, rows.key_begin, rows.count, inputs_.kv_heads, dim);
  inputs_.v = copy_rows(inputs.v, rows.key_begin, rows.count, inputs_.kv_heads, dim);
  inputs_.d_o = copy_rows(d_o, rows.query_begin, rows.count, inputs_.heads, dim);
  original_ = inputs_;
}

void Probe::scale_token(Operand operand, int64_t token, float factor) {
  std::vector<uint16_t>& values = operand_of(&inputs_, operand);
  const size_t width = values.size() / static_cast<size_t>(rows());
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(width) * token;
  const auto end = begin + static_cast<std::ptrdiff_t>(width);
  const bool zero = std::all_of(begin, end, [](uint16_t x) { return (x & 0x7fffu) == 0; });
  if (zero) {
    std::fill(begin, end, float_to_bf16(factor));
  } else {
    apply({operand, token, factor}, &inputs_);
  }
}

void Probe::restore() { inputs_ = original_; }

double Probe::dq_rounding_bound(double softmax_scale) const {
  // The prescale is 2^r with r > log2(65504 / B) - 2, B = 2 max|dO| max|V| max|K| of quantized rows
  // (numerics/dq_scale.h), so a subnormal step of FP16, 2^-24, is at most B 2^-38 in dQ. Rounding
  // to few bits raises the product of the norms by less than two. The norm of a row of K bounds
  // its entries in any frame, and outweighs what un-rotating dQ gathers of the rounding of other
  // channels. Each key tile adds one partial.
  const double norms = largest_row_norm(inputs_.d_o, head_dim()) *
                       largest_row_norm(inputs_.v, head_dim()) *
                       largest_row_norm(inputs_.k, head_dim());
  const auto partials = static_cast<double>(ceil_div<int64_t>(rows(), kKeyTile));
  return std::abs(softmax_scale) * partials * 2.0 * norms * 0x1p-37;
}

Status Probe::run(const Options& options, Outputs* outputs) const {
  LibraryCall call(inputs_, options, host_forward_);
  if (Status status = call.forward(); !status.ok()) return status;
  if (has_gradient()) {
    if (Status status = call.backward(); !status.ok()) return status;
  }
  outputs->conventions = call.conventions();
  outputs->o = call.o();
  outputs->lse = call.lse();
  outputs->dq = call.dq();
  return {};
}

}  // namespace flamia::audit
