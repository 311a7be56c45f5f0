// The one matrix product of the simulation: a few rows times a wide matrix, FP32.
// Used by: scores and P V of the simulated kernels. No fused multiply-add and one fixed order of
// sums, so that figures do not depend on the machine.
#pragma once

#include <cstdint>

namespace flamia::pcast {

/// Columns of b and c are handled in groups of this many.
constexpr int64_t kProductColumns = 16;

/// c[r][n] = sum over k of a[r][k] * b[k][n], k ascending; row-major with the given strides.
/// columns must be a multiple of kProductColumns.
void multiply(const float* a, int64_t a_stride, const float* b, int64_t b_stride, float* c,
              int64_t c_stride, int64_t rows, int64_t depth, int64_t columns);

}  // namespace flamia::pcast
