// Which representation each product of a path uses, and how its products are summed.
// Paper: 3.1, 3.4, A.3, A.5. Used by: both passes and quantize().
#pragma once

#include "cpu/operand.h"
#include "cpu/tile_product.h"
#include "flamia/attention.h"

namespace flamia::cpu {

/// The place of an operand in the products of the two passes.
enum class Use : uint8_t {
  kQueryScore,      ///< Q in S = Q K^T
  kKeyScore,        ///< K in S
  kValue,           ///< V in P V
  kValueDiagonal,   ///< V in P V on tiles that the mask cuts
  kValueGrad,       ///< V in dP = dO V^T
  kOutputGrad,      ///< dO in dP
  kOutputGradKeys,  ///< dO in dV = P^T dO
  kQueryGrad,       ///< Q in dK = dS^T Q
  kKeyGrad,         ///< K in dQ = dS K
};

QuantizeSpec operand_spec(const Conventions& conventions, Use use);

/// The use that quantize(role, axis) shows.
Use use_of(Role role, ContractionAxis axis);

inline bool operator==(const QuantizeSpec& a, const QuantizeSpec& b) {
  return a.scheme == b.scheme && a.hadamard == b.hadamard && a.per_token == b.per_token &&
         a.headroom_exponent == b.headroom_exponent;
}

/// Form of P-hat in P V.
enum class PForm : uint8_t {
  kBf16,       ///< BF16 values
  kE4m3,       ///< E4M3 of P * S, exponents of V folded in (Hopper) or none (Blackwell MXFP8)
  kE4m3Group,  ///< E4M3 with an exponent per 32 keys, chosen in the log domain (Blackwell NVFP4)
  kE2m1Group,  ///< E2M1 with a scale per 32 keys, exponents of V folded in (all-4-bit)
};
PForm p_form(const Conventions& conventions);

/// Exponents of V, dO, K, Q stay outside the products and are folded into the other operand
/// (Hopper, and per-key exponents everywhere), or the tensor core applies them (Blackwell).
bool folds_exponents(const Conventions& conventions);

/// Sums of a product whose operands come from FP8 codes, or wider ones (4-bit with scales, BF16).
enum class Narrow : uint8_t { kFp8, kFp8Gradient, kWide };
ProductModel product_model(const Conventions& conventions, Narrow narrow);
/// The model of Q K^T.
ProductModel score_product_model(const Conventions& conventions);
/// Whether arguments of exponentials and exponentials are rounded to binary16: where scores are, on
/// hardware that forms both in pairs.
bool has_half_arguments(const Conventions& conventions);
/// Width class of S = Q K^T and of the other forward and dP products.
Narrow score_width(const Conventions& conventions);
Narrow value_width(const Conventions& conventions);

}  // namespace flamia::cpu
