// Mitchell-P and Schraudolph: 2^x built directly in the bits of a float, for inference only.
// Paper: 3.7, C.1, C.2. Depends on: fma_f32. Used by: the forward of the 4-bit P-hat route
// (Mitchell) and of the 8-bit one (Schraudolph); row sums add the same values.
#pragma once

#include <cstdint>

#include "base/bits.h"

namespace flamia {

/// Base-2 window of Mitchell-P: arguments from -124 (86 nats) up to 4, exclusive, are exact.
inline constexpr int kMitchellWindow = 124;
/// delta = log2(1.25) - 0.25: centres the error and makes the E2M1 ties 1.25, 2.5 and 5 exact.
inline constexpr double kMitchellDelta = 0.0719280948873623;

/// 2^floor(y) * (1 + {y}) with y = x - delta: error -4.86 % .. +0.99 % of 2^x inside the window
/// [-124, 4) of y. Below it the result is 2^-124, which every code rounds to zero, also for -inf.
/// Requires x < 4 and not NaN.
FLAMIA_HD FLAMIA_FORCE_INLINE float mitchell_exp2(float x) {
  constexpr float magic = 8388608.0f + kMitchellWindow * 65536.0f;
  // (x - delta) * 2^16 + M in one rounding: the sum has ulp 1, that is 16 fraction bits of y.
  constexpr float addend = static_cast<float>(double{magic} - kMitchellDelta * 65536.0);
  constexpr uint32_t floor_bits = 0x4b000000u;  // bits of 2^23
  constexpr uint32_t rebias = (127u << 23) - (float_bits(magic) << 7);
  const int32_t t = static_cast<int32_t>(float_bits(fma_f32(x, 65536.0f, addend)));
  const int32_t clamped = larger(t, static_cast<int32_t>(floor_bits));
  return bits_float((static_cast<uint32_t>(clamped) << 7) + rebias);
}

/// The sigma of the paper. One binary32 addend holds bias, magic and sigma; it rounds to 12599161,
/// so the sigma in effect is 0.0547 and the error band -3.98 % .. +2.48 % (mean ratio 1.002).
inline constexpr double kSchraudolphSigma = 0.0573;
/// Any argument at or below -127 gives 0; clamping here keeps the 16-bit field from wrapping, which
/// it would below -383. Kernels may leave the clamp out where scores cannot get there.
inline constexpr float kSchraudolphClamp = -256.0f;

/// 2^x as a BF16 pattern from one fused multiply-add: 7 fraction bits, piecewise linear. 0 for
/// x <= -127, also for -inf. Requires x < 128 and not NaN.
FLAMIA_HD FLAMIA_FORCE_INLINE float schraudolph_exp2(float x) {
  constexpr float addend =
      static_cast<float>(1.5 * 8388608.0 + 128.0 * (127.0 - kSchraudolphSigma));
  static_assert(addend == 12599161.0f);
  const float clamped = x < kSchraudolphClamp ? kSchraudolphClamp : x;
  const uint32_t t = float_bits(fma_f32(clamped, 128.0f, addend));
  const int32_t pattern = static_cast<int32_t>(t << 16);
  return bits_float(static_cast<uint32_t>(larger(pattern, 0)));
}

/// Whether a column uses Schraudolph's exponential: five of every eight column pairs, spread
/// evenly; the other three stay exact.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE bool uses_schraudolph(int column) {
  const int pair = (column >> 1) & 7;
  return ((pair + 1) * 5) / 8 > (pair * 5) / 8;
}

static_assert(!uses_schraudolph(0) && uses_schraudolph(2) && uses_schraudolph(3));
static_assert(uses_schraudolph(14) && uses_schraudolph(15) && !uses_schraudolph(16));

}  // namespace flamia
