// Result rows of the CPU backend.
#include "cpu/row_output.h"

#include "cpu/operand.h"
#include "numerics/bf16.h"
#include "numerics/online_softmax.h"

namespace flamia::cpu {

float* lse_entry(const TensorView& lse, int head, int64_t token) {
  auto* base = static_cast<float*>(lse.data);
  if (lse.rank == 3) {
    const int64_t length = lse.shape[2];
    return base + token / length * lse.stride[0] + head * lse.stride[1] +
           token % length * lse.stride[2];
  }
  return base + head * lse.stride[0] + token * lse.stride[1];
}

void store_bf16(const TensorView& tensor, int head, int64_t token, int dim, const float* values) {
  uint16_t* row = tensor_row(tensor, head, token);
  for (int c = 0; c < dim; ++c) row[c] = float_to_bf16(values[c]);
}

void store_output(const ForwardTensors& tensors, int head, int64_t token, int dim,
                  const float* values) {
  store_bf16(tensors.o, head, token, dim, values);
  if (tensors.o_residual.data == nullptr) return;
  uint16_t* row = tensor_row(tensors.o_residual, head, token);
  for (int c = 0; c < dim; ++c) row[c] = float_to_bf16(values[c] - round_bf16(values[c]));
}

namespace {

void clear_rows(const TensorView& tensor, int64_t first, int64_t end, int heads, int dim) {
  if (tensor.data == nullptr) return;
  for (int64_t token = first; token < end; ++token) {
    for (int head = 0; head < heads; ++head) {
      uint16_t* row = tensor_row(tensor, head, token);
      for (int c = 0; c < dim; ++c) row[c] = 0;
    }
  }
}

/// Documents are contiguous, so the rows that nobody owns come first (bad offsets) and last.
template <typename Clear>
void for_unowned(const PackedLayout& layout, int64_t tokens, bool queries, const Clear& clear) {
  int64_t begin = tokens;
  int64_t end = tokens;
  if (layout.documents() > 0) {
    const DocumentSpan first = layout.span(0);
    const DocumentSpan last = layout.span(layout.documents() - 1);
    begin = queries ? first.query_begin : first.key_begin;
    end = queries ? last.query_end : last.key_end;
  }
  clear(int64_t{0}, begin);
  clear(end, tokens);
}

}  // namespace

void clear_unowned_rows(const Problem& problem, const PackedLayout& layout,
                        const ForwardTensors& tensors) {
  for_unowned(layout, problem.query_tokens, true, [&](int64_t first, int64_t end) {
    clear_rows(tensors.o, first, end, problem.heads, problem.head_dim);
    clear_rows(tensors.o_residual, first, end, problem.heads, problem.head_dim);
    for (int head = 0; head < problem.heads; ++head) {
      for (int64_t token = first; token < end; ++token) {
        *lse_entry(tensors.lse, head, token) = kEmptyLse;
      }
    }
  });
}

void clear_unowned_rows(const Problem& problem, const PackedLayout& layout,
                        const BackwardTensors& tensors) {
  for_unowned(layout, problem.query_tokens, true, [&](int64_t first, int64_t end) {
    clear_rows(tensors.dq, first, end, problem.heads, problem.head_dim);
  });
  for_unowned(layout, problem.key_tokens, false, [&](int64_t first, int64_t end) {
    clear_rows(tensors.dk, first, end, problem.kv_heads, problem.head_dim);
    clear_rows(tensors.dv, first, end, problem.kv_heads, problem.head_dim);
  });
}

}  // namespace flamia::cpu
