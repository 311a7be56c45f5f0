// dp(S): the largest step of E4M3 over [0, S], seen from P = x / S, by enumeration of the codes.
// Paper: P-Cast 5.1 (Proposition 5), 5.2 (Definition 1, Theorem 6, Remark 3), 5.3 (coverage), 5.4
// (Theorem 7), appendix A. Used by: the pcast command.
#pragma once

#include <cstdint>

#include "pcast/closed_form.h"

namespace flamia::pcast {

/// Whether S itself belongs to the range. The paper's text takes the maximum over [0, S], but its
/// values hold for [0, S): a power of two starts the next binade, whose step is twice as large.
/// Only 1 = P itself would meet that step, and it is exact.
enum class Endpoint : uint8_t { kExcluded, kIncluded };

/// Positive codes of E4M3.
int positive_values();

/// dp(S) for S in (0, 448] by enumeration; beyond, the larger of the last binade's step and the
/// step that equals the saturation error, 2 (1 - 448 / S) (Remark 3; the endpoint plays no part).
double quantization_step(double scale, Endpoint endpoint = Endpoint::kExcluded);

/// Largest |E4M3(p S) / S - p| over a grid of p in [0, 1] that contains the ties: dp / 2.
double largest_cast_error(float scale);

/// Smallest P with a normal code, with any non-zero code, and the largest P that becomes zero.
struct Coverage {
  double normal = 0;
  double subnormal = 0;
  double zeroed = 0;
};
Coverage coverage(double scale);

/// Proposition 1: over every FP32 value of [2^-12, 2^-8), p = x / S is zeroed where x < 2^-10. The
/// one value where the strict rule and the cast differ is the tie x = 2^-10 itself, which E4M3
/// rounds to even, to zero.
struct UnderflowCheck {
  int64_t values = 0;
  int64_t contradictions = 0;  ///< apart from the tie
  bool tie_is_zeroed = false;
};
UnderflowCheck check_underflow_rule();

/// Proposition 5: products of P in (0, 1] with S, and back with 1 / S, that were rounded. All 2^23
/// fractions of one binade are multiplied; other binades differ by their exponent only.
struct ExactnessCheck {
  int64_t values = 0;
  int64_t rounded = 0;     ///< x * S is not the exact product
  int64_t not_undone = 0;  ///< (x * S) * (1 / S) is not x
};
ExactnessCheck check_scaling(float scale);

/// Theorem 6 (ii), (iii) on every multiple of 1 / 8 in [1, 1024]: scales, other than the powers of
/// two up to 256, whose dp does not exceed 2^-4. None are expected.
int64_t scales_at_or_below_envelope();

}  // namespace flamia::pcast
