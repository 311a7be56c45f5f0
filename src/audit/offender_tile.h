// P-hat of one row and dS-hat of one tile, as a scheme quantizes them.
// Paper: 3.3, 3.4, A.3. Depends on: numerics/*. Used by: offender.cc, tests.
#pragma once

#include <cstdint>

#include "audit/offender.h"

namespace flamia::audit {

/// Rows and columns of a tile, counted from the start of the document.
inline constexpr int64_t kOffenderTile = 128;

/// Exponents of keys that P-hat takes over.
struct KeyFold {
  const int32_t* exponents = nullptr;  ///< one per key; null: nothing is folded
  int32_t reference = 0;               ///< at least the largest exponent of a visible key
};

/// p_hat[j] becomes the value that stands for p[j] = 2^(x_j - m) in P V, folds undone. p: the
/// visible keys of one tile, the first on a boundary of 32. Returns what the row sum adds: P-hat,
/// or p where a fold would leave too little of it (numerics/key_fold.h).
double quantize_probabilities(ProbabilityRule rule, const KeyFold& fold, const float* p,
                              int64_t count, float* p_hat);

/// ds: [rows, kOffenderTile], rows and keys at most a tile, masked entries zero; becomes what its
/// codes stand for. key_factors: [keys] powers of two that dS takes over before its exponent is
/// chosen; null: none.
void quantize_ds(DsScale scale, int64_t rows, int64_t keys, const float* key_factors, float* ds);

}  // namespace flamia::audit
