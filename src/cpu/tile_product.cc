// Tile products: Eigen where FP32 sums are asked for, our own loops for the hardware's sums.
#include "cpu/tile_product.h"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "base/bits.h"
#include "numerics/f16.h"
#include "numerics/tensor_core.h"

namespace flamia::cpu {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMap = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
using MutableMap = Eigen::Map<Matrix, 0, Eigen::OuterStride<>>;

ConstMap view(MatrixIn x, int rows, int cols) {
  return ConstMap(x.data, rows, cols, Eigen::OuterStride<>(x.stride));
}

constexpr int kNoExponent = -100000;  // of a zero factor: never the largest
constexpr int kMaxColumns = 128;

int value_exponent(float x, int min_exponent) {
  return x == 0.0f ? kNoExponent : larger(floor_log2(magnitude(x)), min_exponent);
}

/// Truncates a binary64 value to `bits` fraction bits of its own exponent (no subnormal handling).
double truncate_fraction(double x, int bits) {
  const uint64_t mask = ~((uint64_t{1} << (52 - bits)) - 1);
  return bits_double(double_bits(x) & mask);
}

/// 2^e in binary64 for |e| < 1000.
double wide_pow2(int e) { return bits_double(static_cast<uint64_t>(e + 1023) << 52); }

/// One chunk for every column of one row of c. b and exponent_b: [chunk x n], contiguous rows.
/// binary64 holds every aligned term and their sum exactly (at most 35 + 2 + 7 bits).
void accumulate_row(const ProductModel& model, const float* a, const int* exponent_a, int count,
                    const float* b, const int* exponent_b, int stride, int n, float* c) {
  int largest[kMaxColumns];
  double up[kMaxColumns];
  double sum[kMaxColumns];
  const int least = model.half ? kF16MinExponent : -126;
  for (int j = 0; j < n; ++j) {
    // The accumulator is renormalized: its exponent is that of its leading bit.
    const int biased = static_cast<int>((float_bits(c[j]) >> 23) & 0xffu);
    largest[j] = c[j] == 0.0f ? kNoExponent : larger(biased - 127, least);
  }
  for (int p = 0; p < count; ++p) {
    const int row_exponent = exponent_a[p];
    const int* exponent_row = exponent_b + p * stride;
    for (int j = 0; j < n; ++j) largest[j] = larger(largest[j], row_exponent + exponent_row[j]);
  }
  for (int j = 0; j < n; ++j) {
    const int e = larger(smaller(model.fraction_bits - largest[j], 900), -900);
    up[j] = wide_pow2(e);
    sum[j] = __builtin_trunc(static_cast<double>(c[j]) * up[j]);
  }
  for (int p = 0; p < count; ++p) {
    const double x = a[p];
    const float* row = b + p * stride;
    for (int j = 0; j < n; ++j) sum[j] += __builtin_trunc(x * static_cast<double>(row[j]) * up[j]);
  }
  if (model.half) {
    for (int j = 0; j < n; ++j) {
      const int unit = largest[j] == kNoExponent ? 0 : largest[j] - model.fraction_bits;
      c[j] = sum[j] - sum[j] == 0.0  // finite
                 ? tensor_core_detail::round_to_f16(static_cast<int64_t>(sum[j]), unit)
                 : static_cast<float>(sum[j]);
    }
    return;
  }
  for (int j = 0; j < n; ++j) {
    c[j] = static_cast<float>(truncate_fraction(sum[j] / up[j], model.result_bits));
  }
}

/// c += a * b in chunks. a: [m x k], b: [k x n] contiguous with stride kMaxColumns.
void hardware_product(const ProductModel& model, const ProductScratch& scratch, MatrixIn a, int m,
                      int n, int k, float* c, int ldc) {
  for (int p = 0; p < k; ++p) {
    for (int j = 0; j < n; ++j) {
      scratch.exponent_b[p * kMaxColumns + j] =
          value_exponent(scratch.b[p * kMaxColumns + j], model.min_exponent_b);
    }
  }
  int exponent_a[kMaxColumns];
  for (int i = 0; i < m; ++i) {
    const float* row = a.data + i * a.stride;
    for (int p = 0; p < k; ++p) exponent_a[p] = value_exponent(row[p], model.min_exponent_a);
    for (int p = 0; p < k; p += model.chunk) {
      accumulate_row(model, row + p, exponent_a + p, smaller(model.chunk, k - p),
                     scratch.b + p * kMaxColumns, scratch.exponent_b + p * kMaxColumns, kMaxColumns,
                     n, c + i * ldc);
    }
  }
}

void clear(float* c, int ldc, int m, int n) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) c[i * ldc + j] = 0.0f;
  }
}

void copy(MatrixIn from, int rows, int cols, float* to) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) to[i * kMaxColumns + j] = from.data[i * from.stride + j];
  }
}

void copy_transposed(MatrixIn from, int rows, int cols, float* to) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) to[j * kMaxColumns + i] = from.data[i * from.stride + j];
  }
}

}  // namespace

void product_abt(const ProductModel& model, const ProductScratch& scratch, MatrixIn a, MatrixIn b,
                 int m, int n, int k, float* c, int ldc, bool accumulate) {
  if (model.exact) {
    MutableMap result(c, m, n, Eigen::OuterStride<>(ldc));
    if (accumulate) {
      result.noalias() += view(a, m, k) * view(b, n, k).transpose();
    } else {
      result.noalias() = view(a, m, k) * view(b, n, k).transpose();
    }
    return;
  }
  if (!accumulate) clear(c, ldc, m, n);
  copy_transposed(b, n, k, scratch.b);
  hardware_product(model, scratch, a, m, n, k, c, ldc);
}

void product_ab(const ProductModel& model, const ProductScratch& scratch, MatrixIn a, MatrixIn b,
                int m, int n, int k, float* c, int ldc, bool accumulate) {
  if (model.exact) {
    MutableMap result(c, m, n, Eigen::OuterStride<>(ldc));
    if (accumulate) {
      result.noalias() += view(a, m, k) * view(b, k, n);
    } else {
      result.noalias() = view(a, m, k) * view(b, k, n);
    }
    return;
  }
  if (!accumulate) clear(c, ldc, m, n);
  copy(b, k, n, scratch.b);
  hardware_product(model, scratch, a, m, n, k, c, ldc);
}

void product_atb(const ProductModel& model, const ProductScratch& scratch, MatrixIn a, MatrixIn b,
                 int m, int n, int k, float* c, int ldc, bool accumulate) {
  if (model.exact) {
    MutableMap result(c, m, n, Eigen::OuterStride<>(ldc));
    if (accumulate) {
      result.noalias() += view(a, k, m).transpose() * view(b, k, n);
    } else {
      result.noalias() = view(a, k, m).transpose() * view(b, k, n);
    }
    return;
  }
  if (!accumulate) clear(c, ldc, m, n);
  copy_transposed(a, k, m, scratch.a);
  copy(b, k, n, scratch.b);
  hardware_product(model, scratch, MatrixIn{scratch.a, kMaxColumns}, m, n, k, c, ldc);
}

}  // namespace flamia::cpu
