// Quantized probabilities: the multiplier 2^c, the threshold tau, their bound, and group exponents.
// Paper: 3.4 (bound), 3.5.2 (log domain), B.1; P-Cast for S = 2^c. Depends on: E4M3's largest
// value. Used by: forward softmax, the P-hat of dV, planning (which asserts the bound).
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "numerics/e4m3.h"
#include "numerics/token_block_scale.h"

namespace flamia {

/// log2(448): a probability may reach 2^(c + tau), and no more than this fits E4M3.
inline constexpr double kMaxPHatLog2Double = 8.807354922057604;
inline constexpr float kMaxPHatLog2 = 8.807354922057604f;

/// c and tau of the fixed multiplier: P-hat = E4M3(2^(x - m + c)), m renewed when exceeded by tau.
struct PHatScale {
  float log2;        ///< c
  float multiplier;  ///< S = 2^c
  float tau;
};

/// Whether c + tau <= log2 448: beyond it the largest P-hat saturate with no visible error.
FLAMIA_HD constexpr bool p_hat_fits(double log2_s, double tau) {
  return log2_s + tau <= kMaxPHatLog2Double;
}

/// Hopper merges the rescale of O with its promotion to FP32, so renewing m always is free.
inline constexpr PHatScale kHopperPHat = {8.0f, 256.0f, 0.0f};
/// With binary16 scores a renewed maximum costs more than the rescale: 448 leaves 2^0.8 to grow.
inline constexpr PHatScale kHopperHalfPHat = {8.0f, 256.0f, 0.75f};
/// Blackwell skips rescales of O in tensor memory.
inline constexpr PHatScale kBlackwellPHat = {4.0f, 16.0f, 4.0f};

/// The fixed c of the P-hat that dV multiplies: P <= 1, so 2^8 <= 448. Long rows need a measured
/// exponent per key group instead: average probabilities sink below the smallest code.
inline constexpr int kBackwardPLog2 = 8;

/// Keys that share an exponent in the log-domain form.
inline constexpr int kPHatGroup = 32;

/// Log-domain form: e_g = ceil(d - log2 448) in [-127, 127] for d = (largest x of the group) - m,
/// then P-hat = E4M3(2^(x - m - e_g)). A fully masked group (d = -inf) gives -127 and codes 0.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE int p_hat_group_exponent(float group_max_minus_row_max) {
  const float y = group_max_minus_row_max - kMaxPHatLog2;
  const float above = y > -127.0f ? y : -127.0f;  // NaN (no row maximum either) becomes -127
  const float clamped = above < 127.0f ? above : 127.0f;
  const int truncated = static_cast<int>(clamped);
  return truncated + (static_cast<float>(truncated) < clamped ? 1 : 0);
}

static_assert(kHopperPHat.multiplier == pow2(8) && kBlackwellPHat.multiplier == pow2(4));
static_assert(p_hat_fits(kHopperPHat.log2, kHopperPHat.tau));
static_assert(p_hat_fits(kHopperHalfPHat.log2, kHopperHalfPHat.tau));
static_assert(p_hat_fits(kBlackwellPHat.log2, kBlackwellPHat.tau));
static_assert(p_hat_fits(4, 4) && p_hat_fits(8, 0));
static_assert(!p_hat_fits(8, 2) && !p_hat_fits(9, 0) && !p_hat_fits(8, 0.81));
static_assert(p_hat_fits(kBackwardPLog2, 0));
static_assert(p_hat_group_exponent(0.0f) == -8 && p_hat_group_exponent(-0.5f) == -9);
static_assert(p_hat_group_exponent(0.8f) == -8 && p_hat_group_exponent(0.81f) == -7);
static_assert(p_hat_group_exponent(9.0f) == 1 && p_hat_group_exponent(8.0f) == 0);
static_assert(p_hat_group_exponent(-bits_float(kFloatInfinityBits)) == kNoScaleExponent);
static_assert(p_hat_group_exponent(1e9f) == 127);

}  // namespace flamia
