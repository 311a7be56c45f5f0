// Inputs with known answers, and parts of answers, for tests of the forward kernels.
// Used by: tests/kernels/forward*_test.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "numerics/bf16.h"
#include "tests/kernels/forward_run.h"

namespace flamia::test {

inline Options in_order(Options options, KvOrder order) {
  options.kv_order = order;
  return options;
}
/// Scores are then exact products of the inputs' codes.
inline Options plain(Options options) {
  options.hadamard = Hadamard::kOff;
  options.softmax_scale = 1.0f;
  return options;
}
inline constexpr KvOrder kBothOrders[] = {KvOrder::kReverse, KvOrder::kForward};

/// q = e_0 and k_j = score(j) e_0: the score of key j is score(j), as far as E4M3 holds it.
inline void set_scores(Case& one, const std::function<float(int64_t)>& score) {
  std::fill(one.q_data.begin(), one.q_data.end(), uint16_t{0});
  std::fill(one.k_data.begin(), one.k_data.end(), uint16_t{0});
  for (int head = 0; head < one.shape().heads; ++head) {
    for (int64_t i = 0; i < one.query_tokens(); ++i) one.q(i, head, 0) = float_to_bf16(1.0f);
  }
  for (int head = 0; head < one.shape().kv_heads; ++head) {
    for (int64_t j = 0; j < one.key_tokens(); ++j) one.k(j, head, 0) = float_to_bf16(score(j));
  }
}
inline void set_v(Case& one, const std::function<float(int64_t, int)>& value) {
  for (int head = 0; head < one.shape().kv_heads; ++head) {
    for (int64_t j = 0; j < one.key_tokens(); ++j) {
      for (int c = 0; c < one.shape().dim; ++c) one.v(j, head, c) = float_to_bf16(value(j, c));
    }
  }
}
/// Multiplies V by 2^exponent of each 32-token block.
inline void scale_v_blocks(Case& one, const std::function<int(int64_t)>& exponent) {
  for (int head = 0; head < one.shape().kv_heads; ++head) {
    for (int64_t j = 0; j < one.key_tokens(); ++j) {
      for (int c = 0; c < one.shape().dim; ++c) {
        one.v(j, head, c) =
            float_to_bf16(std::ldexp(bf16_to_float(one.v(j, head, c)), exponent(j / 32)));
      }
    }
  }
}

/// Multiplies a token's or a block's row of a tensor.
inline void scale_rows(std::vector<uint16_t>* rows, int dim, int64_t first, int64_t count,
                       float factor) {
  for (int64_t i = first * dim; i < (first + count) * dim; ++i) {
    uint16_t& x = (*rows)[static_cast<size_t>(i)];
    x = float_to_bf16(bf16_to_float(x) * factor);
  }
}

/// Rows [first, first + count) of every head.
inline ForwardResult rows_of(const ForwardResult& all, const Shape& shape, int64_t first,
                             int64_t count) {
  ForwardResult result;
  const int64_t width = int64_t{shape.heads} * shape.dim;
  const auto rows = [&](const std::vector<uint16_t>& from) {
    return std::vector<uint16_t>(from.begin() + first * width,
                                 from.begin() + (first + count) * width);
  };
  result.o = rows(all.o);
  result.residual = rows(all.residual);
  const int64_t tokens = static_cast<int64_t>(all.o.size()) / width;
  for (int64_t head = 0; head < shape.heads; ++head) {
    const auto begin = all.lse.begin() + head * tokens + first;
    result.lse.insert(result.lse.end(), begin, begin + count);
  }
  return result;
}

/// Copies one document's rows of a tensor.
inline void copy_rows(const std::vector<uint16_t>& from, int64_t from_row,
                      std::vector<uint16_t>* to, int64_t to_row, int64_t rows, int64_t width) {
  std::copy_n(from.begin() + from_row * width, rows * width, to->begin() + to_row * width);
}

}  // namespace flamia::test
