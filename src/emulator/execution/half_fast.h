// Binary16 and bfloat16 arithmetic of 32 lanes in host binary32, with the definitions of
// isa/scalar_float.h for results that this may not give. min and max of the formats up to 32 bits.
// Depends on: isa/scalar_float.h, numerics/f16.h. Used by: float_steps.cc; fast_half_test.cc and
// execution_half_test.cc prove equality.
//
// Operands widen exactly. A product is exact in binary32 (22 bits at most; of bfloat16 unless it
// is tiny), a sum is rounded to odd there: with its error from a two-sum the lowest bit of an
// inexact sum becomes one. Binary32 has more than two bits more than the result, so rounding that
// to nearest is rounding the exact value. Host code must be built without contraction.
#pragma once

#include <cstdint>

#include "emulator/execution/float_fast.h"
#include "emulator/execution/lanes.h"
#include "emulator/isa/scalar_float.h"
#include "numerics/f16.h"

namespace flamia::emulator::execution {

enum class Half : uint8_t { kF16, kBf16 };

template <Half kHalf>
constexpr const isa::FloatFormat& half_format() {
  return kHalf == Half::kF16 ? isa::kF16Format : isa::kBf16Format;
}

/// The value; NaN stays some NaN. f16_to_float with masks in place of selections, which would keep
/// loops from vectorizing.
template <Half kHalf>
inline float widen_half(uint32_t bits) {
  if constexpr (kHalf == Half::kBf16) return bits_float(bits << 16);
  const uint32_t code = bits & 0x7fffu;
  const uint32_t subnormal = code < 0x0400u ? ~0u : 0u;
  const uint32_t special = code >= 0x7c00u ? 112u << 23 : 0u;
  // A subnormal m * 2^-24 is read as (1 + m/1024) * 2^-14 less 2^-14: no binary32 subnormals.
  const float value = bits_float((code << 13) + (112u << 23) + (subnormal & 1u << 23) + special) -
                      bits_float(subnormal & 113u << 23);
  return bits_float(float_bits(value) | (bits & 0x8000u) << 16);
}

/// Nearest even of a finite value; what overflows gives infinity.
template <Half kHalf>
inline uint32_t narrow_finite(uint32_t bits) {
  if constexpr (kHalf == Half::kF16) {
    return F16Rounding::encode_magnitude(bits_float(bits)) | (bits >> 16 & 0x8000u);
  }
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

/// a + b rounded to odd, as bits; nonsense unless the sum is finite.
inline uint32_t odd_sum(float a, float b) {
  const float sum = a + b;
  const float part = sum - a;
  const float error = (a - (sum - part)) + (b - part);
  const uint32_t bits = float_bits(sum);
  const uint32_t inexact = (float_bits(error) & ~kFloatSignBit) != 0 ? 1u : 0u;
  // An error of the sum's sign lies above it in magnitude: +1, otherwise -1.
  const uint32_t step = 1u - ((float_bits(error) ^ bits) >> 31) * 2u;
  return bits + (inexact & ~bits & 1u) * step;
}

struct HalfResult {
  uint32_t bits;
  uint32_t doubtful;  ///< 1: only the definition knows
};

/// + - * f to nearest. kFtz is for binary16 only.
template <Half kHalf, char kOperation, bool kFtz>
inline HalfResult half_arithmetic(uint32_t a, uint32_t b, uint32_t c) {
  static_assert(!kFtz || kHalf == Half::kF16);
  if constexpr (kFtz) {
    a &= (a & 0x7c00u) == 0 ? 0x8000u : 0xffffu;
    b &= (b & 0x7c00u) == 0 ? 0x8000u : 0xffffu;
    c &= (c & 0x7c00u) == 0 ? 0x8000u : 0xffffu;
  }
  const float x = widen_half<kHalf>(a), y = widen_half<kHalf>(b);
  uint32_t wide = 0, doubtful = 0;
  if constexpr (kOperation == '+') wide = odd_sum(x, y);
  if constexpr (kOperation == '-') wide = odd_sum(x, -y);
  if constexpr (kOperation == '*' || kOperation == 'f') {
    const float product = x * y;
    if constexpr (kHalf == Half::kBf16) {
      const uint32_t tiny = (float_bits(product) & ~kFloatSignBit) < 0x00800000u ? 1u : 0u;
      const uint32_t zero = (a & 0x7fffu) == 0 || (b & 0x7fffu) == 0 ? 1u : 0u;
      doubtful |= tiny & ~zero;
    }
    wide = kOperation == 'f' ? odd_sum(product, widen_half<kHalf>(c)) : float_bits(product);
  }
  // Infinity, NaN, and of bfloat16 what may have overflowed on the way.
  doubtful |= (wide & ~kFloatSignBit) >= 0x7f000000u ? 1u : 0u;
  const uint32_t bits = narrow_finite<kHalf>(wide) & 0xffffu;
  if constexpr (kFtz) {
    const uint32_t low = (bits & 0x7fffu) <= 0x0400u ? 1u : 0u;
    doubtful |= low & ((wide & ~kFloatSignBit) != 0 ? 1u : 0u);
  }
  return {bits, doubtful};
}

/// .sat and .relu of a number.
template <Half kHalf>
inline uint32_t finish_half(uint32_t bits, bool sat, bool relu) {
  constexpr uint32_t kOne = static_cast<uint32_t>(half_format<kHalf>().one());
  const uint32_t positive = (bits & 0x8000u) != 0 ? 0u : bits;
  const uint32_t low = relu ? positive : bits;
  return sat ? (positive > kOne ? kOne : positive) : low;
}

/// kParts halves in each register.
template <Half kHalf, char kOperation, bool kFtz, uint32_t kParts>
Outcome half_lanes(Warp& warp, const Step& step, uint32_t active) {
  const uint64_t* const as = warp.read(step.source[0]);
  const uint64_t* const bs = warp.read(step.source[1]);
  const uint64_t* const cs = warp.read(step.source[2]);
  uint32_t result[kLanes] = {};
  for (uint32_t shift = 0; shift < 16 * kParts; shift += 16) {
    uint32_t bits[kLanes], doubt[kLanes], any = 0;
    for (uint32_t i = 0; i < kLanes; ++i) {
      const HalfResult r =
          half_arithmetic<kHalf, kOperation, kFtz>(static_cast<uint32_t>(as[i]) >> shift & 0xffffu,
                                                   static_cast<uint32_t>(bs[i]) >> shift & 0xffffu,
                                                   static_cast<uint32_t>(cs[i]) >> shift & 0xffffu);
      bits[i] = r.bits;
      doubt[i] = r.doubtful;
      any |= r.doubtful;
    }
    if (step.mode.sat || step.mode.relu) {
      for (uint32_t& one : bits) one = finish_half<kHalf>(one, step.mode.sat, step.mode.relu);
    }
    if (any != 0) [[unlikely]] {
      for (uint32_t i = 0; i < kLanes; ++i) {
        if (doubt[i] == 0) continue;
        bits[i] = static_cast<uint32_t>(exact_arithmetic<kOperation>(
            half_format<kHalf>(), as[i] >> shift & 0xffffu, bs[i] >> shift & 0xffffu,
            cs[i] >> shift & 0xffffu, step.mode));
      }
    }
    for (uint32_t i = 0; i < kLanes; ++i) result[i] |= bits[i] << shift;
  }
  uint64_t* const out = warp.row(step.target);
  for (uint32_t i = 0; i < kLanes; ++i) out[i] = (active >> i & 1u) != 0 ? result[i] : out[i];
  return Outcome::kNext;
}

/// The handler of + - * f; null if only the definition does this.
template <Half kHalf, char kOperation>
Handler half_handler(const isa::FloatMode& mode, bool packed) {
  if constexpr (kOperation == '+' || kOperation == '-' || kOperation == '*' || kOperation == 'f') {
    if (mode.rounding != isa::Rounding::kNearestEven) return nullptr;
    if (!mode.ftz) {
      return packed ? half_lanes<kHalf, kOperation, false, 2>
                    : half_lanes<kHalf, kOperation, false, 1>;
    }
    if constexpr (kHalf == Half::kF16) {
      return packed ? half_lanes<kHalf, kOperation, true, 2>
                    : half_lanes<kHalf, kOperation, true, 1>;
    }
  }
  return nullptr;
}

/// MinMaxMode as masks, so that loops need no selection by it.
struct MinMaxMasks {
  uint32_t flushed;  ///< magnitudes below it become zero
  uint32_t kept;     ///< of the operands
  uint32_t xorsign;  ///< the sign bit with .xorsign
  uint32_t nan;      ///< all ones with .NaN
};
template <const isa::FloatFormat& kFormat>
MinMaxMasks min_max_masks(const isa::MinMaxMode& mode) {
  constexpr uint32_t kSign = static_cast<uint32_t>(kFormat.sign_bit());
  return {mode.ftz ? static_cast<uint32_t>(kFormat.min_normal()) : 0u,
          mode.abs || mode.xorsign_abs ? kSign - 1u : kSign | (kSign - 1u),
          mode.xorsign_abs ? kSign : 0u, mode.nan ? ~0u : 0u};
}

/// min or max of two numbers without branches: float_min_max of the definitions. Numbers are
/// ordered as integers once the magnitude of negative ones is complemented.
template <const isa::FloatFormat& kFormat, bool kMaximum>
inline uint32_t min_max_bits(uint32_t a, uint32_t b, const MinMaxMasks& masks) {
  constexpr uint32_t kSign = static_cast<uint32_t>(kFormat.sign_bit());
  constexpr uint32_t kMagnitude = kSign - 1u;
  constexpr uint32_t kInfinity = static_cast<uint32_t>(kFormat.infinity());
  constexpr uint32_t kNan = static_cast<uint32_t>(kFormat.nan);
  constexpr int kShift = 31 - (kFormat.mantissa_bits + kFormat.exponent_bits);
  a &= (a & kMagnitude) < masks.flushed ? kSign : ~0u;
  b &= (b & kMagnitude) < masks.flushed ? kSign : ~0u;
  const uint32_t sign = (a ^ b) & masks.xorsign;
  a &= masks.kept;
  b &= masks.kept;
  const int32_t x = static_cast<int32_t>(a << kShift), y = static_cast<int32_t>(b << kShift);
  const int32_t place_a = x ^ ((x >> 31) & 0x7fffffff), place_b = y ^ ((y >> 31) & 0x7fffffff);
  const uint32_t nan_a = (a & kMagnitude) > kInfinity ? ~0u : 0u;
  const uint32_t nan_b = (b & kMagnitude) > kInfinity ? ~0u : 0u;
  const uint32_t above = place_a < place_b ? ~0u : 0u;
  const uint32_t take_b = ((kMaximum ? above : ~above) | nan_a) & ~nan_b;
  const uint32_t none = (nan_a & nan_b) | (masks.nan & (nan_a | nan_b));
  // Without .xorsign the result keeps its own sign.
  const uint32_t result = (((take_b & b) | (~take_b & a)) & ~masks.xorsign) | sign;
  return (none & kNan) | (~none & result);
}

/// Two operands, or three if step.choice is set.
template <const isa::FloatFormat& kFormat, bool kMaximum, uint32_t kParts>
Outcome min_max_lanes(Warp& warp, const Step& step, uint32_t active) {
  constexpr uint32_t kMask = kFormat.mantissa_bits == 23 ? ~0u : 0xffffu;
  const uint64_t* const as = warp.read(step.source[0]);
  const uint64_t* const bs = warp.read(step.source[1]);
  const uint64_t* const cs = warp.read(step.source[2]);
  const MinMaxMasks masks = min_max_masks<kFormat>(step.min_max);
  uint32_t result[kLanes] = {};
  for (uint32_t shift = 0; shift < 16 * kParts; shift += 16) {
    uint32_t one[kLanes];
    for (uint32_t i = 0; i < kLanes; ++i) {
      one[i] =
          min_max_bits<kFormat, kMaximum>(static_cast<uint32_t>(as[i]) >> shift & kMask,
                                          static_cast<uint32_t>(bs[i]) >> shift & kMask, masks);
    }
    if (step.choice != 0) {
      for (uint32_t i = 0; i < kLanes; ++i) {
        one[i] = min_max_bits<kFormat, kMaximum>(
            one[i], static_cast<uint32_t>(cs[i]) >> shift & kMask, masks);
      }
    }
    for (uint32_t i = 0; i < kLanes; ++i) result[i] |= one[i] << shift;
  }
  uint64_t* const out = warp.row(step.target);
  for (uint32_t i = 0; i < kLanes; ++i) out[i] = (active >> i & 1u) != 0 ? result[i] : out[i];
  return Outcome::kNext;
}

}  // namespace flamia::emulator::execution
