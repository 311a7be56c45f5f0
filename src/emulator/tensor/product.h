// The arithmetic of one tensor-core instruction on decoded operands: C + A B^T, as the hardware
// adds it or exactly.
// Depends on: numerics/tensor_core.h, which defines the hardware form and which this must equal bit
// for bit. Used by: mma.h. Layouts, descriptors and memory are not its business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "numerics/tensor_core.h"

namespace flamia::emulator {

enum class NumericMode : uint8_t {
  kHardware,  ///< aligned, truncated sums
  kExact,     ///< binary64 sums, rounded once at the end of the instruction
};

/// A decoded matrix, rows x k, k contiguous.
struct Matrix {
  uint32_t rows = 0;
  uint32_t k = 0;
  std::vector<float> values;
  int min_exponent = -126;
  void resize(uint32_t new_rows, uint32_t new_k) {
    rows = new_rows;
    k = new_k;
    values.resize(std::size_t{rows} * k);
  }
  float* row(uint32_t i) { return values.data() + std::size_t{i} * k; }
  const float* row(uint32_t i) const { return values.data() + std::size_t{i} * k; }
};

/// Decoded scales, rows x ceil(k / block).
struct Scales {
  uint32_t block = 0;  ///< 0: no scales
  uint32_t per_row = 0;
  int min_exponent = -127;
  std::vector<float> values;
  const float* row(uint32_t i) const { return values.data() + std::size_t{i} * per_row; }
};

struct ProductRules {
  NumericMode mode = NumericMode::kHardware;
  AccumulatorModel model = kBlackwellF8f6f4Accumulator;
  bool f16_result = false;
  /// The mxf4 kinds: 16 products are added exactly before scaling.
  bool exact_groups = false;
};

/// c [a.rows][b.rows] += a b^T, with scales if a_scales.block is not zero (one block size for
/// both). c holds binary16 values if f16_result. k is cut into chunks of the model where it is
/// longer.
void multiply(const ProductRules& rules, const Matrix& a, const Matrix& b, const Scales& a_scales,
              const Scales& b_scales, float* c);

}  // namespace flamia::emulator
