// Matrix products of one tile, in FP32 or in the tensor core's aligned truncated sums.
// Paper: 3.1; accumulation: numerics/tensor_core.h. Used by: both passes of the CPU backend.
#pragma once

namespace flamia::cpu {

/// kFp32: FP32 multiply-adds in the order of the GEMM library. Others: chunks of `chunk` products
/// are aligned with the accumulator to the largest exponent, truncated to `fraction_bits`, summed,
/// and the result is truncated to `result_bits` (numerics/tensor_core.h holds the rows).
struct ProductModel {
  bool exact = true;
  int chunk = 32;
  int fraction_bits = 13;
  int result_bits = 13;
  bool half = false;        ///< the accumulator is binary16, rounded to nearest after each chunk
  int min_exponent_a = -6;  ///< exponent of the format's subnormals, per operand
  int min_exponent_b = -6;
};

/// Scratch of one worker for the transposed copies and exponents of the hardware model.
struct ProductScratch {
  float* a = nullptr;         ///< 128 x 128
  float* b = nullptr;         ///< 128 x 128
  int* exponent_b = nullptr;  ///< 128 x 128
};

/// Row-major matrices with leading dimensions.
struct MatrixIn {
  const float* data;
  int stride;
};

/// c[m x n] = a[m x k] * b[n x k]^T (+ c if accumulate). Leading dimension of c: ldc.
void product_abt(const ProductModel& model, const ProductScratch& scratch, MatrixIn a, MatrixIn b,
                 int m, int n, int k, float* c, int ldc, bool accumulate);
/// c[m x n] = a[m x k] * b[k x n].
void product_ab(const ProductModel& model, const ProductScratch& scratch, MatrixIn a, MatrixIn b,
                int m, int n, int k, float* c, int ldc, bool accumulate);
/// c[m x n] = a[k x m]^T * b[k x n].
void product_atb(const ProductModel& model, const ProductScratch& scratch, MatrixIn a, MatrixIn b,
                 int m, int n, int k, float* c, int ldc, bool accumulate);

}  // namespace flamia::cpu
