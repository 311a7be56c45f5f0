// Binary32 and binary64 arithmetic of 32 lanes in host floating point, with the definitions of
// isa/scalar_float.h for results that host arithmetic may not give.
// Depends on: isa/scalar_float.h. Used by: float_steps.cc; execution_float_test.cc proves equality.
// Operations: + - * / f (fma) r (rcp) q (sqrt). Host code must be built without contraction.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "emulator/execution/lanes.h"
#include "emulator/isa/scalar_float.h"

namespace flamia::emulator::execution {

template <char kOperation>
uint64_t exact_arithmetic(const isa::FloatFormat& format, uint64_t a, uint64_t b, uint64_t c,
                          const isa::FloatMode& mode) {
  if constexpr (kOperation == '+') return isa::float_add(format, a, b, mode);
  if constexpr (kOperation == '-') return isa::float_sub(format, a, b, mode);
  if constexpr (kOperation == '*') return isa::float_mul(format, a, b, mode);
  if constexpr (kOperation == '/') return isa::float_div(format, a, b, mode);
  if constexpr (kOperation == 'f') return isa::float_fma(format, a, b, c, mode);
  if constexpr (kOperation == 'r') return isa::float_rcp(format, a, mode);
  if constexpr (kOperation == 'q') return isa::float_sqrt(format, a, mode);
}

template <char kOperation, typename Float>
Float host_arithmetic(Float a, Float b, Float c) {
  if constexpr (kOperation == '+') return a + b;
  if constexpr (kOperation == '-') return a - b;
  if constexpr (kOperation == '*') return a * b;
  if constexpr (kOperation == '/') return a / b;
  if constexpr (kOperation == 'f') return std::fma(a, b, c);
  if constexpr (kOperation == 'r') return Float{1} / a;
  if constexpr (kOperation == 'q') return std::sqrt(a);
}

/// Zero for a subnormal, with its sign.
inline uint32_t flush_f32(uint32_t bits) {
  return (bits & 0x7fffffffu) < 0x00800000u ? bits & 0x80000000u : bits;
}

/// True if host arithmetic may differ: NaN, and with ftz what is not clearly normal.
template <bool kFtz>
bool is_doubtful(uint32_t result) {
  const uint32_t magnitude = result & 0x7fffffffu;
  return magnitude > 0x7f800000u || (kFtz && magnitude - 1u < 0x00800000u);
}

template <char kOperation, bool kFtz, bool kSat>
Outcome f32_lanes(Warp& warp, const Step& step, uint32_t active) {
  const uint64_t* const as = warp.read(step.source[0]);
  const uint64_t* const bs = warp.read(step.source[1]);
  const uint64_t* const cs = warp.read(step.source[2]);
  uint32_t result[kLanes];
  uint32_t doubtful = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    uint32_t a = static_cast<uint32_t>(as[i]), b = static_cast<uint32_t>(bs[i]);
    uint32_t c = static_cast<uint32_t>(cs[i]);
    if constexpr (kFtz) {
      a = flush_f32(a);
      b = flush_f32(b);
      c = flush_f32(c);
    }
    const float r = host_arithmetic<kOperation>(std::bit_cast<float>(a), std::bit_cast<float>(b),
                                                std::bit_cast<float>(c));
    result[i] = std::bit_cast<uint32_t>(r);
    doubtful |= static_cast<uint32_t>(is_doubtful<kFtz>(result[i]));
    if constexpr (kSat) {
      const float low = r > 0.0f ? r : 0.0f;
      result[i] = std::bit_cast<uint32_t>(low < 1.0f ? low : 1.0f);
    }
  }
  if (doubtful != 0) [[unlikely]] {
    for (uint32_t i = 0; i < kLanes; ++i) {
      if (!kSat && !is_doubtful<kFtz>(result[i])) continue;
      result[i] = static_cast<uint32_t>(
          exact_arithmetic<kOperation>(isa::kF32Format, as[i], bs[i], cs[i], step.mode));
    }
  }
  uint64_t* const out = warp.row(step.target);
  if (active == kAllLanes) {
    for (uint32_t i = 0; i < kLanes; ++i) out[i] = result[i];
  } else {
    for (uint32_t i = 0; i < kLanes; ++i) out[i] = (active >> i & 1u) != 0 ? result[i] : out[i];
  }
  return Outcome::kNext;
}

/// One binary32 operation to nearest.
template <char kOperation>
uint32_t fast_arithmetic(uint32_t a, uint32_t b, uint32_t c, const isa::FloatMode& mode) {
  if (mode.rounding == isa::Rounding::kNearestEven && !mode.ftz && !mode.sat && !mode.relu) {
    const uint32_t result = std::bit_cast<uint32_t>(host_arithmetic<kOperation>(
        std::bit_cast<float>(a), std::bit_cast<float>(b), std::bit_cast<float>(c)));
    if (!is_doubtful<false>(result)) return result;
  }
  return static_cast<uint32_t>(exact_arithmetic<kOperation>(isa::kF32Format, a, b, c, mode));
}

/// sum + error is the exact a + b.
struct TwoSum {
  double sum;
  double error;
};
inline TwoSum two_sum(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}

/// binary32 value of sum + error rounded down or up or to zero. False if the rules of zeros, NaN,
/// infinity or subnormals may matter.
inline bool round_directed(const TwoSum& value, isa::Rounding rounding, uint32_t* bits) {
  const float nearest = static_cast<float>(value.sum);
  uint32_t result = std::bit_cast<uint32_t>(nearest);
  const uint32_t magnitude = result & 0x7fffffffu;
  if (magnitude >= 0x7f000000u || magnitude <= 0x01000000u) return false;
  const double difference = static_cast<double>(nearest) - value.sum;  // exact
  const bool above = difference > 0 || (difference == 0 && value.error < 0);
  const bool below = difference < 0 || (difference == 0 && value.error > 0);
  const bool negative = (result >> 31) != 0;
  const bool down =
      rounding == isa::Rounding::kDown || (rounding == isa::Rounding::kZero && !negative);
  if (down && above) result += negative ? 1u : ~0u;
  if (!down && below) result += negative ? ~0u : 1u;
  *bits = result;
  return true;
}

/// + - * f with .rm, .rp or .rz; the others and .sat go to the definitions.
template <char kOperation>
Outcome f32_directed(Warp& warp, const Step& step, uint32_t active) {
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const as = warp.read(step.source[0]);
  const uint64_t* const bs = warp.read(step.source[1]);
  const uint64_t* const cs = warp.read(step.source[2]);
  constexpr bool kSum = kOperation == '+' || kOperation == '-' || kOperation == 'f';
  each_lane(active, [&](uint32_t i) {
    if constexpr (kSum || kOperation == '*') {
      const double a = std::bit_cast<float>(static_cast<uint32_t>(as[i]));
      const double b = std::bit_cast<float>(static_cast<uint32_t>(bs[i]));
      const double c = std::bit_cast<float>(static_cast<uint32_t>(cs[i]));
      TwoSum value{a * b, 0};
      if (kOperation == '+') value = two_sum(a, b);
      if (kOperation == '-') value = two_sum(a, -b);
      if (kOperation == 'f') value = two_sum(a * b, c);
      uint32_t bits = 0;
      if (!step.mode.sat && !step.mode.ftz && round_directed(value, step.mode.rounding, &bits)) {
        out[i] = bits;
        return;
      }
    }
    out[i] = exact_arithmetic<kOperation>(isa::kF32Format, as[i], bs[i], cs[i], step.mode);
  });
  return Outcome::kNext;
}

template <char kOperation>
Outcome f64_lanes(Warp& warp, const Step& step, uint32_t active) {
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const as = warp.read(step.source[0]);
  const uint64_t* const bs = warp.read(step.source[1]);
  const uint64_t* const cs = warp.read(step.source[2]);
  each_lane(active, [&](uint32_t i) {
    const double r = host_arithmetic<kOperation>(
        std::bit_cast<double>(as[i]), std::bit_cast<double>(bs[i]), std::bit_cast<double>(cs[i]));
    out[i] = std::bit_cast<uint64_t>(r);
    if (r != r || step.mode.sat) {
      out[i] = exact_arithmetic<kOperation>(isa::kF64Format, as[i], bs[i], cs[i], step.mode);
    }
  });
  return Outcome::kNext;
}

/// min and max of binary32 without modifiers.
template <bool kMaximum>
Outcome f32_min_max(Warp& warp, const Step& step, uint32_t active) {
  const uint64_t* const as = warp.read(step.source[0]);
  const uint64_t* const bs = warp.read(step.source[1]);
  uint32_t result[kLanes];
  uint32_t doubtful = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint32_t x = static_cast<uint32_t>(as[i]), y = static_cast<uint32_t>(bs[i]);
    const float a = std::bit_cast<float>(x), b = std::bit_cast<float>(y);
    // NaN and zeros of both signs are for the definition.
    doubtful |= static_cast<uint32_t>(!(a < b) && !(a > b) && !(a == b && x == y));
    result[i] = (kMaximum ? a > b : a < b) ? x : y;
  }
  uint64_t* const out = warp.row(step.target);
  if (doubtful != 0) [[unlikely]] {
    for (uint32_t i = 0; i < kLanes; ++i) {
      result[i] = static_cast<uint32_t>(
          isa::float_min_max(isa::kF32Format, kMaximum, as[i], bs[i], step.min_max));
    }
  }
  for (uint32_t i = 0; i < kLanes; ++i) out[i] = (active >> i & 1u) != 0 ? result[i] : out[i];
  return Outcome::kNext;
}

}  // namespace flamia::emulator::execution
