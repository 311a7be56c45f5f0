// Codes of a 4-bit P by cheaper rules than rounding 2^x: Mitchell-P and Direct-P, against exact
// rounding.
// Paper: FLAMIA 3.7, 4.4, C.1. Depends on: numerics/*. Used by: pcast codes, tests.
//
// P of a row and 32 keys is coded as E2M1(2^(x - m) * 2^-e), x in base 2, m the row's maximum and
// e the smallest exponent with which the largest of the 32 does not exceed 6 (MXFP4).
//
// Direct-P is an affine classifier of the scores: code = clamp(round(a * t + b), 0, 7), t = x - m
// - e. The paper gives neither a and b nor the group's scale, so three readings are modelled, each
// with one a and b for all groups: a line through the ends of the codes, the least-squares line of
// the exact codes for t spread evenly, and the line that makes the most of those codes equal.
#pragma once

#include <cstdint>
#include <span>

namespace flamia::pcast {

/// Keys that share an exponent.
inline constexpr int64_t kCodeGroup = 32;

/// How codes of P come about.
enum class CodeRule : uint8_t {
  kExact,
  kMitchell,         ///< 2^t from the bits of a float (numerics/exp2_bitlevel.h)
  kDirectEnds,       ///< code 1 at its lower threshold 2^t = 1/4, code 7 at its own, 5
  kDirectLeast,      ///< least squares
  kDirectMostEqual,  ///< most equal codes
};
inline constexpr CodeRule kCodeRules[] = {CodeRule::kExact, CodeRule::kMitchell,
                                          CodeRule::kDirectEnds, CodeRule::kDirectLeast,
                                          CodeRule::kDirectMostEqual};
const char* code_rule_name(CodeRule rule);

/// code = clamp(round(slope * t + offset), 0, 7), the nearest integer, ties away from zero.
struct AffineClassifier {
  double slope = 0;
  double offset = 0;
};
/// The classifier of a Direct-P rule. Fitted over t in [-6, log2 6]: below, every code is zero.
AffineClassifier affine_classifier(CodeRule rule);

/// e of one group: the largest of t = x - m must be finite.
int32_t code_group_exponent(float largest);

/// E2M1 code of 2^(x - m) * 2^-e; -inf (masked) gives 0.
uint8_t p_code(CodeRule rule, float x_minus_m, int32_t group_exponent);

/// Codes of one row. x: scores in base 2, the visible keys; codes: as many; exponents: one per 32
/// keys.
void p_codes(CodeRule rule, std::span<const float> x, std::span<uint8_t> codes,
             std::span<int32_t> exponents);

/// How many codes of two rows are equal.
struct CodeAgreement {
  int64_t keys = 0;
  int64_t equal = 0;
  int64_t either = 0;        ///< keys whose code is not zero by at least one of the rules
  int64_t either_equal = 0;  ///< of those, the equal ones

  void add(std::span<const uint8_t> exact, std::span<const uint8_t> other);
  void merge(const CodeAgreement& other);
  double all_fraction() const;
  double nonzero_fraction() const;
};

}  // namespace flamia::pcast
