// Quantization of one row of P on one key tile: P-hat as the product takes it, and the terms of the
// row sum. Paper: 3.4, 3.5.2, 3.7, B.1. Numbers: numerics/p_hat.h, key_fold.h.
// Used by: the forward pass, and the all-4-bit backward, which rebuilds P-hat.
#pragma once

#include "cpu/path_operands.h"
#include "cpu/score_tile.h"

namespace flamia::cpu {

/// Folded exponents of the keys of a tile relative to a reference, for one row or many.
struct KeyFolds {
  int reference = 0;
  bool valid = false;
  float fold[kKeyTile];     ///< fold exponents as floats, added to the exponential's argument
  float inverse[kKeyTile];  ///< 2^-fold: undoes the fold in the row sum
  float decoded[kKeyTile];  ///< 1 where the row sum adds decoded P-hat, 0 where it adds p

  /// key_exponents == nullptr: nothing is folded.
  void set(const int8_t* key_exponents, int new_reference, int count);
};

/// One row of one tile.
struct PRow {
  const float* acc;   ///< raw scores
  const float* mult;  ///< multipliers
  Columns visible;
  int count;         ///< columns, rounded up to the vector width
  float row_max;     ///< m, finite or -inf
  float log2_scale;  ///< c = log2 S
  Exponential exponential;
  RowSum row_sum;
  const KeyFolds* folds;
  bool half = false;  ///< arguments and exponentials are rounded to binary16 before the cast
};

/// Writes P-hat (decoded, scaled as the product needs it) and returns the row-sum term of the tile,
/// in units of S. Columns outside row.visible become 0.
float quantize_p_row(PForm form, const PRow& row, const float* x, float* p_hat);

}  // namespace flamia::cpu
