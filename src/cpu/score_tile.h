// Scores of one tile in base 2, and the exponentials of a row: shared by both passes, so that the
// backward rebuilds exactly what the forward computed.
// Paper: 3.3, 3.5.2. Numbers: numerics/online_softmax.h, exp2.h, exp2_bitlevel.h.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "cpu/operand.h"
#include "cpu/row_reduce.h"
#include "numerics/exp2.h"
#include "numerics/exp2_bitlevel.h"
#include "numerics/f16.h"
#include "problem/mask.h"

namespace flamia::cpu {

/// Columns of a tile row that the row sees: [begin, end), empty if begin >= end.
struct Columns {
  int begin = 0;
  int end = 0;
};

inline Columns visible_columns(const DocumentMask& mask, int64_t row, int64_t first_key, int keys) {
  const KeyRange range = mask.visible_keys(row);
  return {static_cast<int>(larger<int64_t>(0, range.begin - first_key)),
          static_cast<int>(smaller<int64_t>(keys, range.end - first_key))};
}

/// Overwrites the columns outside [visible.begin, visible.end) of row[0, count).
inline void mask_row(float* row, Columns visible, int count, float value) {
  for (int j = 0; j < visible.begin; ++j) row[j] = value;
  for (int j = visible.end; j < count; ++j) row[j] = value;
}

/// mult[j] = base * 2^(row_exponent + key_exponents[j]); null exponents count as 0. The exponent is
/// clamped at 127, where scores overflow anyway, so that a zero accumulator never meets infinity.
inline void score_multipliers(float base, int row_exponent, const int8_t* key_exponents, int count,
                              float* mult) {
  if (key_exponents == nullptr) {
    for (int j = 0; j < count; ++j) mult[j] = base * pow2(smaller(row_exponent, 127));
    return;
  }
  for (int j = 0; j < count; ++j) {
    mult[j] = base * pow2(smaller(row_exponent + key_exponents[j], 127));
  }
}

/// f16 score accumulators: one rounding of every sum (numerics.md, score accumulators).
inline void round_scores_f16(float* s, int64_t count) {
  for (int64_t x = 0; x < count; ++x) s[x] = round_f16(s[x]);
}

/// out[j] = 2^(acc[j] * mult[j] + bias[j]) with one rounding of the argument.
template <Exponential kExponential>
inline void exponentials(const float* __restrict acc, const float* __restrict mult,
                         const float* __restrict bias, int count, float* __restrict out) {
  for (int j = 0; j < count; ++j) {
    const float x = fma_f32(acc[j], mult[j], bias[j]);
    if constexpr (kExponential == Exponential::kPolynomial) {
      const float exact = exp2_exact(x);
      const float polynomial = exp2_polynomial(x);
      out[j] = uses_polynomial(j / 2, kPolynomialPairsOf8) ? polynomial : exact;
    } else if constexpr (kExponential == Exponential::kSchraudolph) {
      const float exact = exp2_exact(x);
      const float schraudolph = schraudolph_exp2(x);
      out[j] = uses_schraudolph(j) ? schraudolph : exact;
    } else {
      out[j] = exp2_exact(x);
    }
  }
}

inline void exponentials(Exponential kind, const float* acc, const float* mult, const float* bias,
                         int count, float* out) {
  switch (kind) {
    case Exponential::kPolynomial:
      return exponentials<Exponential::kPolynomial>(acc, mult, bias, count, out);
    case Exponential::kSchraudolph:
      return exponentials<Exponential::kSchraudolph>(acc, mult, bias, count, out);
    default:
      return exponentials<Exponential::kExact>(acc, mult, bias, count, out);
  }
}

}  // namespace flamia::cpu
