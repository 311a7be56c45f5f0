// D of one query row: the dot product of dO and O that the softmax gradient subtracts.
// Paper: 3.3 (the same quantized dO as dP, the output of the same V). Depends on: tree_sum.h.
// Used by: the dO quantizer. Whether O carries a residual is a convention of forward and backward.
#pragma once

#include "numerics/tree_sum.h"

namespace flamia {

/// D = sum_c dO[c] * O[c]; do_values: decoded dO-hat with its scale applied [dim], o_values: the
/// returned BF16 output [dim]; dim a power of two up to 256. Products and tree sums in binary32.
FLAMIA_HD constexpr float row_delta(const float* do_values, const float* o_values, int dim) {
  float products[kMaxTreeTerms] = {};
  for (int c = 0; c < dim; ++c) products[c] = do_values[c] * o_values[c];
  return tree_sum(products, dim);
}

/// The same with O restored first: o_values + o_residual, added in binary32, where the residual is
/// the BF16 rounding of (fp32 O - BF16 O).
FLAMIA_HD constexpr float row_delta_with_residual(const float* do_values, const float* o_values,
                                                  const float* o_residual, int dim) {
  float products[kMaxTreeTerms] = {};
  for (int c = 0; c < dim; ++c) products[c] = do_values[c] * (o_values[c] + o_residual[c]);
  return tree_sum(products, dim);
}

}  // namespace flamia
