// FP32 matrix product in registers.

#include "pcast/matrix_product.h"

#include <cstring>

#include "base/check.h"

namespace flamia::pcast {

namespace {

constexpr int kLanes = 8;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

template <int kRows>
void multiply_rows(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c,
                   int64_t c_stride, int64_t depth) {
  Lanes sum[kRows][2] = {};
  for (int64_t k = 0; k < depth; ++k) {
    Lanes low, high;
    std::memcpy(&low, b + k * b_stride, sizeof(low));
    std::memcpy(&high, b + k * b_stride + kLanes, sizeof(high));
    for (int r = 0; r < kRows; ++r) {
      const float factor = a[r * a_stride + k];
      sum[r][0] += factor * low;
      sum[r][1] += factor * high;
    }
  }
  for (int r = 0; r < kRows; ++r) std::memcpy(c + r * c_stride, sum[r], sizeof(sum[r]));
}

}  // namespace

void multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c,
              int64_t c_stride, int64_t rows, int64_t depth, int64_t columns) {
  FLAMIA_CHECK(columns % kProductColumns == 0, columns);
  constexpr int kRows = 4;
  for (int64_t n = 0; n < columns; n += kProductColumns) {
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows) {
      multiply_rows<kRows>(a + r * a_stride, a_stride, b + n, b_stride, c + r * c_stride + n,
                           c_stride, depth);
    }
    for (; r < rows; ++r) {
      multiply_rows<1>(a + r * a_stride, a_stride, b + n, b_stride, c + r * c_stride + n, c_stride,
                       depth);
    }
  }
}

}  // namespace flamia::pcast
