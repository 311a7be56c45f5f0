// Rounds binary32 to a narrow binary format: nearest even, saturating, and stochastic.
// Paper: 3.1, A.5. Depends on: binary32 adds that round to nearest even.
// Used by: e4m3.h, e5m2.h, e2m1.h, scale_codes.h, f16.h, which name the formats.
//
// The trick: adding M = 2^(e + 23 - mantissa bits) to a value of exponent e leaves exactly the
// grid points of the format as the bits of the sum; an exponent clamped from below at the smallest
// normal one gives the fixed grid of the subnormals. The bits of the sum minus those of M count
// the grid steps, and codes of one sign are consecutive over binades, so no case is special.
#pragma once

#include <cstdint>

#include "base/bits.h"

namespace flamia {

inline constexpr uint32_t kFloatSignBit = 0x80000000u;
inline constexpr uint32_t kFloatInfinityBits = 0x7f800000u;
/// The NaN that PTX conversions and tensor cores return.
inline constexpr uint32_t kCanonicalNanBits = 0x7fffffffu;

/// True for NaN, from the bits (a comparison that no compiler mode can fold away).
/// Where a result needs a NaN case the formats select masks, not results: a select between a
/// constant and a floating-point result becomes a branch that keeps loops from vectorizing.
FLAMIA_HD constexpr FLAMIA_FORCE_INLINE bool is_nan(float x) {
  return (float_bits(x) & ~kFloatSignBit) > kFloatInfinityBits;
}

/// kMinExponent: exponent of the smallest normal value. kLimitBits: binary32 bits of the value to
/// which larger magnitudes are clamped before rounding.
template <int kMantissaBits, int kMinExponent, uint32_t kLimitBits>
struct Minifloat {
  static constexpr uint32_t kMinBinade = static_cast<uint32_t>(kMinExponent + 127) << 23;
  static constexpr uint32_t kMagicShift = static_cast<uint32_t>(23 - kMantissaBits) << 23;

  /// Bits of the power of two that starts the binade of a non-negative finite value, clamped.
  static FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint32_t binade(uint32_t magnitude_bits) {
    return larger(magnitude_bits & kFloatInfinityBits, kMinBinade);
  }

  /// Nearest-even value, saturated at the limit; NaN stays NaN, the sign is kept.
  static FLAMIA_HD constexpr FLAMIA_FORCE_INLINE float round(float x) {
    const uint32_t sign = float_bits(x) & kFloatSignBit;
    const uint32_t clamped = smaller(float_bits(x) & ~kFloatSignBit, kLimitBits);
    const float magic = bits_float(binade(clamped) + kMagicShift);
    const float rounded = (bits_float(clamped) + magic) - magic;
    const uint32_t nan = is_nan(x) ? kCanonicalNanBits : 0u;
    return bits_float(float_bits(rounded) | sign | nan);
  }

  /// Nearest-even code of |x| without sign, saturated at the limit. For NaN: the limit's code.
  static FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint32_t encode_magnitude(float x) {
    const uint32_t clamped = smaller(float_bits(x) & ~kFloatSignBit, kLimitBits);
    const uint32_t start = binade(clamped);
    const uint32_t magic = start + kMagicShift;
    const uint32_t steps = float_bits(bits_float(clamped) + bits_float(magic)) - magic;
    return steps + ((start - kMinBinade) >> (23 - kMantissaBits));
  }

  /// Code of |x| without sign, rounded up with the probability of the discarded fraction: 32 random
  /// bits are added below the kept mantissa, then the sum is truncated. Saturates at the limit.
  static FLAMIA_HD constexpr FLAMIA_FORCE_INLINE uint32_t
  encode_magnitude_stochastic(float x, uint32_t random) {
    const uint32_t clamped = smaller(float_bits(x) & ~kFloatSignBit, kLimitBits);
    const uint32_t start = binade(clamped);
    const uint32_t normal = clamped >= 0x00800000u ? 0x00800000u : 0u;
    const uint64_t significand = (clamped & 0x007fffffu) | normal;
    const uint32_t own_exponent = larger(clamped >> 23, 1u);
    // Steps in fixed point with 32 fraction bits; what a shift beyond 63 would lose is below 2^-32.
    const uint32_t shift = (start >> 23) - own_exponent + static_cast<uint32_t>(23 - kMantissaBits);
    const uint64_t steps_32 = (significand << 32) >> smaller(shift, 63u);
    const uint32_t steps = static_cast<uint32_t>((steps_32 + random) >> 32);
    return steps + ((start - kMinBinade) >> (23 - kMantissaBits));
  }
};

}  // namespace flamia
