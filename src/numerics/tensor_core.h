// What one tensor-core step computes: an exact model of its fused, truncating sum.
// Paper: 3.1 (block scales), 3.5.3 (FP16 partials); the model is that of MMA-Sim (arXiv
// 2511.10909), confirmed bitwise on an H200 for wgmma. Depends on: the formats' smallest exponents.
// Used by: the emulator and the tests of every faster form. Plain, not fast.
//
// All products of a step and the accumulator are aligned to the largest exponent among them, each
// is truncated toward zero to `product_fraction_bits`, the truncated terms are added exactly, and
// the sum is truncated (binary32) or rounded to nearest (binary16). The exponent of a product is
// the sum of its operands' exponents; significands are not normalized, neither those of products
// (below 4) nor those of subnormal operands, which keep the smallest exponent of their format.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "numerics/f16.h"
#include "numerics/formats.h"
#include "numerics/minifloat.h"

namespace flamia {

struct AccumulatorModel {
  int product_fraction_bits;  ///< kept of each aligned term
  int result_fraction_bits;   ///< kept of a binary32 result
  int chunk;                  ///< products per step, the K of one instruction
};

inline constexpr AccumulatorModel kHopperFp8Accumulator = {13, 13, 32};
inline constexpr AccumulatorModel kHopperF16Accumulator = {25, 23, 16};
inline constexpr AccumulatorModel kBlackwellF16Accumulator = {25, 23, 16};
inline constexpr AccumulatorModel kBlackwellF8f6f4Accumulator = {25, 23, 32};
inline constexpr AccumulatorModel kBlackwellMxf4Accumulator = {35, 23, 64};

/// Products that the mxf4 kinds add exactly before scale and alignment.
inline constexpr int kMxf4ExactGroup = 16;

namespace tensor_core_detail {

inline constexpr int kF32MinExponent = -126;

/// 2^e in binary64, e in [-1022, 1023].
FLAMIA_HD constexpr double pow2_double(int e) {
  return bits_double(static_cast<uint64_t>(e + 1023) << 52);
}

FLAMIA_HD constexpr bool is_finite(float x) {
  return (float_bits(x) & ~kFloatSignBit) < kFloatInfinityBits;
}

/// Exponent of a finite operand: floor(log2|x|), not below min_exponent; zero gives -126.
FLAMIA_HD constexpr int operand_exponent(float x, int min_exponent) {
  return x == 0.0f ? kF32MinExponent : larger(floor_log2(magnitude(x)), min_exponent);
}

/// floor(log2 a) of a positive normal binary64.
FLAMIA_HD constexpr int floor_log2_double(double a) {
  return static_cast<int>((double_bits(a) >> 52) & 0x7ffu) - 1023;
}

/// sum * 2^unit truncated toward zero to fraction_bits (on the subnormal grid below 2^-126);
/// infinity from 2^128.
FLAMIA_HD constexpr float truncate_to_f32(int64_t sum, int unit, int fraction_bits) {
  if (sum == 0) return 0.0f;
  const uint64_t a = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  int top = 0;
  while (top < 63 && (a >> (top + 1)) != 0) ++top;
  const int exponent = top + unit;
  const int grid = larger(exponent, kF32MinExponent) - fraction_bits;
  const int drop = grid - unit;
  const uint64_t kept = drop <= 0 ? a : (drop > 63 ? 0u : (a >> drop) << drop);
  if (exponent > 127) return bits_float(kFloatInfinityBits | (sum < 0 ? kFloatSignBit : 0u));
  const float value = static_cast<float>(static_cast<double>(kept) * pow2_double(unit));
  return sum < 0 ? -value : value;
}

/// sum * 2^unit rounded once to the nearest binary16 value; |sum| < 2^53. What rounds to zero is
/// +0, as measured on an H200.
FLAMIA_HD constexpr float round_to_f16(int64_t sum, int unit) {
  if (sum == 0) return 0.0f;
  const double a = static_cast<double>(sum < 0 ? -sum : sum) * pow2_double(unit);
  const int binade = larger(floor_log2_double(a), kF16MinExponent);
  const double magic = pow2_double(binade - kF16MantissaBits + 52);
  const double rounded = (a + magic) - magic;
  const float value = rounded > static_cast<double>(kF16Max) ? bits_float(kFloatInfinityBits)
                                                             : static_cast<float>(rounded);
  return sum < 0 && value != 0.0f ? -value : value;
}

/// The aligned sum in units of 2^unit; or, if `special` is not zero, the bits of the NaN or
/// infinity that the step returns.
struct AlignedSum {
  int64_t sum;
  int unit;
  uint32_t special;
};

/// A value as an addend: aligned by `exponent`, which need not be the value's own.
FLAMIA_HD constexpr int64_t aligned_term(double value, int unit) {
  return static_cast<int64_t>(value * pow2_double(-unit));  // the cast truncates toward zero
}

/// NaN and infinity follow the exact sum: +-infinity, or NaN for NaN, 0 * inf and inf - inf.
FLAMIA_HD constexpr uint32_t special_result(const float* a, const float* b, int n, float c) {
  bool plus = false, minus = false, nan = is_nan(c);
  if (!nan && !is_finite(c)) (c > 0.0f ? plus : minus) = true;
  for (int k = 0; k < n; ++k) {
    if (is_finite(a[k]) && is_finite(b[k])) continue;
    const bool invalid =
        is_nan(a[k]) || is_nan(b[k]) || magnitude(a[k]) == 0.0f || magnitude(b[k]) == 0.0f;
    if (invalid) {
      nan = true;
    } else {
      (((float_bits(a[k]) ^ float_bits(b[k])) & kFloatSignBit) == 0u ? plus : minus) = true;
    }
  }
  if (nan || (plus && minus)) return kCanonicalNanBits;
  if (plus) return kFloatInfinityBits;
  return minus ? kFloatInfinityBits | kFloatSignBit : 0u;
}

FLAMIA_HD constexpr AlignedSum aligned_sum(const float* a, const float* b, int n, float c,
                                           int c_min_exponent, int a_min_exponent,
                                           int b_min_exponent, int scale_exponent,
                                           int fraction_bits) {
  const uint32_t special = special_result(a, b, n, c);
  if (special != 0u) return {0, 0, special};
  int largest = operand_exponent(c, c_min_exponent);
  for (int k = 0; k < n; ++k) {
    // A zero addend aligns nothing. (MMA-Sim aligns 0 * b at 2^-126 times the binade of b: the same
    // unless every other term is that small too.)
    if (a[k] == 0.0f || b[k] == 0.0f) continue;
    largest = larger(largest, operand_exponent(a[k], a_min_exponent) +
                                  operand_exponent(b[k], b_min_exponent) + scale_exponent);
  }
  const int unit = largest - fraction_bits;
  int64_t sum = aligned_term(static_cast<double>(c), unit);
  for (int k = 0; k < n; ++k) {
    const double product = static_cast<double>(a[k]) * static_cast<double>(b[k]);  // exact
    sum += aligned_term(product, unit - scale_exponent);
  }
  return {sum, unit, 0u};
}

}  // namespace tensor_core_detail

/// One step with a binary32 accumulator: c + sum_k a[k] * b[k] * 2^scale_exponent over n <= chunk
/// decoded operands, under `model`. min exponents: those of the operands' formats (FormatTraits).
/// scale_exponent: sum of the two UE8M0 exponents of the block-scaled 8-bit kind, else 0.
FLAMIA_HD constexpr float accumulate_chunk(const float* a, const float* b, int n, float c,
                                           AccumulatorModel model, int a_min_exponent,
                                           int b_min_exponent, int scale_exponent) {
  namespace detail = tensor_core_detail;
  const detail::AlignedSum total =
      detail::aligned_sum(a, b, n, c, detail::kF32MinExponent, a_min_exponent, b_min_exponent,
                          scale_exponent, model.product_fraction_bits);
  if (total.special != 0u) return bits_float(total.special);
  return detail::truncate_to_f32(total.sum, total.unit, model.result_fraction_bits);
}

/// The same without block scales, both operands of one format.
FLAMIA_HD constexpr float accumulate_chunk(const float* a, const float* b, int n, float c,
                                           AccumulatorModel model, int min_exponent) {
  return accumulate_chunk(a, b, n, c, model, min_exponent, min_exponent, 0);
}

/// One step with a binary16 accumulator: c and the result are binary16 values.
FLAMIA_HD constexpr float accumulate_chunk_f16(const float* a, const float* b, int n, float c,
                                               AccumulatorModel model, int min_exponent) {
  namespace detail = tensor_core_detail;
  const detail::AlignedSum total = detail::aligned_sum(
      a, b, n, c, kF16MinExponent, min_exponent, min_exponent, 0, model.product_fraction_bits);
  if (total.special != 0u) return bits_float(total.special);
  return detail::round_to_f16(total.sum, total.unit);
}

/// One step of the mxf4 kinds: a, b [n] decoded E2M1, scales decoded (UE8M0 or UE4M3) one per
/// `block` elements (16 or 32). Each group of 16 products is added exactly and multiplied by the
/// two scale significands; its exponent is the sum of the scale exponents, also when it adds to
/// zero.
FLAMIA_HD constexpr float accumulate_chunk_mxf4(const float* a, const float* b, int n,
                                                const float* a_scales, const float* b_scales,
                                                int block, int scale_min_exponent, float c,
                                                AccumulatorModel model) {
  namespace detail = tensor_core_detail;
  bool nan = is_nan(c);
  int largest = detail::is_finite(c) ? detail::operand_exponent(c, detail::kF32MinExponent) : 0;
  for (int k = 0; k < n; k += kMxf4ExactGroup) {
    const float scale_a = a_scales[k / block];
    const float scale_b = b_scales[k / block];
    nan = nan || is_nan(scale_a) || is_nan(scale_b);
    if (nan) continue;
    largest = larger(largest, detail::operand_exponent(scale_a, scale_min_exponent) +
                                  detail::operand_exponent(scale_b, scale_min_exponent));
  }
  if (nan) return bits_float(kCanonicalNanBits);
  if (!detail::is_finite(c)) return c;
  const int unit = largest - model.product_fraction_bits;
  int64_t sum = detail::aligned_term(static_cast<double>(c), unit);
  for (int k = 0; k < n; k += kMxf4ExactGroup) {
    double group = 0.0;
    for (int i = k; i < k + kMxf4ExactGroup; ++i) {
      group += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    const double scale =
        static_cast<double>(a_scales[k / block]) * static_cast<double>(b_scales[k / block]);
    sum += detail::aligned_term(group * scale, unit);
  }
  return detail::truncate_to_f32(sum, unit, model.result_fraction_bits);
}

namespace tensor_core_detail {

/// A step of Hopper FP8 with `ones` products 1 * 1, for the landmarks.
FLAMIA_HD constexpr float landmark(float c, int ones) {
  float operand[32] = {};
  for (int k = 0; k < ones; ++k) operand[k] = 1.0f;
  return accumulate_chunk(operand, operand, 32, c, kHopperFp8Accumulator,
                          format_traits(Format::kE4M3).min_exponent);
}

}  // namespace tensor_core_detail

static_assert(tensor_core_detail::landmark(8192.0f, 32) == 8224.0f);
static_assert(tensor_core_detail::landmark(16384.0f, 32) == 16384.0f, "the sum stagnates");
static_assert(tensor_core_detail::landmark(1.0f + pow2(-14), 0) == 1.0f, "13 bits of C are read");
static_assert(tensor_core_detail::landmark(-1.0f - pow2(-14), 0) == -1.0f);

}  // namespace flamia
