// A complete attention call with valid, dense tensors of its own, for tests to vary.
// Used by: tests of validation, planning and the API.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "flamia/attention.h"

namespace flamia::test {

/// Dense view of the given shape over data.
inline TensorView dense_view(void* data, DType dtype, const std::vector<int64_t>& shape) {
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.rank = static_cast<int32_t>(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    view.shape[i] = shape[i];
    view.stride[i] = stride;
    stride *= shape[i];
  }
  return view;
}

/// Zeroed bytes at a multiple of 64.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t bytes)
      : bytes_(bytes), data_(std::aligned_alloc(64, (bytes + 64) / 64 * 64), &std::free) {
    unsigned char* begin = static_cast<unsigned char*>(data_.get());
    for (size_t i = 0; i < bytes; ++i) begin[i] = 0;
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_.get());
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  std::unique_ptr<void, decltype(&std::free)> data_;
};

/// Sizes of a call. lengths_* are those of the documents; without any the call is batched.
struct CallSizes {
  int64_t query_tokens = 0;
  int64_t key_tokens = 0;
  int32_t batch = 0;
  int32_t heads = 1;
  int32_t kv_heads = 1;
  int32_t head_dim = 64;
  std::vector<int32_t> cu_seqlens_q;
  std::vector<int32_t> cu_seqlens_k;  ///< empty: not given
};

class CallTensors {
 public:
  explicit CallTensors(CallSizes call) : sizes(std::move(call)) {
    problem.query_tokens = sizes.query_tokens;
    problem.key_tokens = sizes.key_tokens;
    problem.batch = sizes.batch;
    problem.documents =
        sizes.batch > 0 ? sizes.batch : static_cast<int32_t>(sizes.cu_seqlens_q.size()) - 1;
    problem.heads = sizes.heads;
    problem.kv_heads = sizes.kv_heads;
    problem.head_dim = sizes.head_dim;
    forward.q = backward.q = queries(1);
    forward.k = backward.k = keys(2);
    forward.v = backward.v = keys(3);
    if (sizes.batch == 0) {
      forward.cu_seqlens_q = backward.cu_seqlens_q = lengths(&sizes.cu_seqlens_q);
      if (!sizes.cu_seqlens_k.empty()) {
        forward.cu_seqlens_k = backward.cu_seqlens_k = lengths(&sizes.cu_seqlens_k);
      }
    }
    forward.o = backward.o = queries(0);
    forward.o_residual = backward.o_residual = queries(0);
    forward.lse = backward.lse = row_values();
    backward.d_o = queries(4);
    backward.dq = queries(0);
    backward.dk = keys(0);
    backward.dv = keys(0);
  }

  /// [T, H, D] BF16 (batched [B, L, H, D]); values in [-2, 2) from the seed, zeros for seed 0.
  TensorView queries(uint32_t seed) { return rows(problem.query_tokens, problem.heads, seed); }
  TensorView keys(uint32_t seed) { return rows(problem.key_tokens, problem.kv_heads, seed); }
  /// Shape of LSE, F32, zeros.
  TensorView row_values() {
    const std::vector<int64_t> shape =
        problem.batch == 0 ? std::vector<int64_t>{problem.heads, problem.query_tokens}
                           : std::vector<int64_t>{problem.batch, problem.heads,
                                                  problem.query_tokens / problem.batch};
    return dense_view(memory(problem.heads * problem.query_tokens * 4), DType::kF32, shape);
  }
  /// Memory that lives as long as this object; at least one byte, aligned to 64.
  void* memory(int64_t bytes) {
    storage_.emplace_back(static_cast<size_t>(bytes > 0 ? bytes : 1));
    return storage_.back().as<void>();
  }
  Workspace workspace(size_t bytes) { return {memory(static_cast<int64_t>(bytes)), bytes}; }

  CallSizes sizes;
  Problem problem;
  ForwardTensors forward;
  BackwardTensors backward;

 private:
  TensorView rows(int64_t tokens, int64_t heads, uint32_t seed) {
    const int64_t count = tokens * heads * problem.head_dim;
    auto* values = static_cast<uint16_t*>(memory(count * 2));
    for (int64_t i = 0; seed != 0 && i < count; ++i) {
      seed = seed * 1664525u + 1013904223u;
      // Sign and mantissa from the generator, exponents of [0.5, 2).
      const uint32_t exponent = 126u + ((seed >> 9) & 1u);
      values[i] = static_cast<uint16_t>(((seed >> 16) & 0x8000u) | (exponent << 7) |
                                        ((seed >> 20) & 0x7fu));
    }
    if (problem.batch == 0) {
      return dense_view(values, DType::kBF16, {tokens, heads, problem.head_dim});
    }
    return dense_view(values, DType::kBF16,
                      {problem.batch, tokens / problem.batch, heads, problem.head_dim});
  }
  static TensorView lengths(std::vector<int32_t>* values) {
    return dense_view(values->data(), DType::kI32, {static_cast<int64_t>(values->size())});
  }

  std::vector<AlignedBytes> storage_;
};

/// Three documents of 5, 0 and 2 tokens in 8 rows, 4 query heads, 2 key heads.
inline CallSizes packed_sizes() {
  CallSizes sizes;
  sizes.query_tokens = sizes.key_tokens = 8;
  sizes.heads = 4;
  sizes.kv_heads = 2;
  sizes.cu_seqlens_q = {0, 5, 5, 7};
  return sizes;
}

/// Two sequences of 3 queries and 5 keys.
inline CallSizes batched_sizes() {
  CallSizes sizes;
  sizes.query_tokens = 6;
  sizes.key_tokens = 10;
  sizes.batch = 2;
  sizes.heads = 4;
  sizes.kv_heads = 2;
  return sizes;
}

}  // namespace flamia::test
