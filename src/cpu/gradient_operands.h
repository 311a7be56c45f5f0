// P-hat and dS-hat of one backward tile, in the form that each gradient product takes.
// Paper: 3.3 (dS scales), 3.4, A.3 (exact options), A.5 (stochastic rounding), B.1.
// Numbers: numerics/ds_block_scale.h, p_hat.h, key_fold.h. Used by: backward.cc.
#pragma once

#include <cstdint>

#include "flamia/conventions.h"
#include "problem/mask.h"

namespace flamia::cpu {

/// A tile of P or dS: [rows][kKeyTile], row i a query, column j a key.
struct GradientTile {
  const float* values;
  int rows;
  int columns;  ///< keys, rounded up to the vector width; masked entries are 0
};

/// Exponents that turn a product back into real units: product row x times 2^exponent[x].
struct ProductExponents {
  int exponent[kKeyTile];
};

/// Entries that were not zero, and those of them that became zero codes.
struct FlushCount {
  int64_t nonzero = 0;
  int64_t flushed = 0;
};

/// How the operand of a gradient product is scaled.
enum class GradientScale : uint8_t {
  kBf16,           ///< BF16 values, no scale
  kFixed,          ///< E4M3 of values * 2^8 (P for dV on Blackwell)
  kLine,           ///< E4M3 or E5M2, one exponent per line of the contraction, folds first (Hopper)
  kBlock,          ///< E4M3 or E5M2, 32x32 blocks (Blackwell)
  kLineGroup,      ///< as kBlock but per line and 32 entries (Blackwell, exact safety)
  kFp4Group,       ///< E2M1, power-of-two scale per line and 32 entries (all-4-bit dS)
  kFp4Stochastic,  ///< the same with stochastic rounding (all-4-bit dK operand)
  kFp4Sixth,       ///< E2M1, scale maximum / 6 per line and 32 entries (all-4-bit P)
};

/// Contraction over queries (dV, dK): lines are keys (columns). Over keys (dQ): lines are queries.
enum class Contraction : uint8_t { kQueries, kKeys };

struct GradientSpec {
  GradientScale scale;
  Contraction contraction;
  bool e5m2 = false;
  /// Exponents of the other operand along the contraction, folded in; null for none.
  const int8_t* fold = nullptr;
  uint64_t random_stream = 0;  ///< stochastic rounding: one stream per tile
};

/// Writes the operand (decoded) and the exponents of the product's rows. flush may be null.
void quantize_gradient(const GradientSpec& spec, const GradientTile& tile, float* operand,
                       ProductExponents* exponents, FlushCount* flush);

/// The scheme of each gradient product.
GradientScale value_gradient_scale(const Conventions& conventions);  ///< P in dV
GradientScale key_gradient_scale(const Conventions& conventions);    ///< dS in dK
GradientScale query_gradient_scale(const Conventions& conventions);  ///< dS in dQ

}  // namespace flamia::cpu
