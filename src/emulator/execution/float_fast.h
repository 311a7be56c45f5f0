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

/// kOperation of 32 values.
template <char kOperation, bool kFtz, bool kSat>
void f32_values(const isa::FloatMode& mode, const uint64_t* as, const uint64_t* bs,
                const uint64_t* cs, uint32_t (&result)[kLanes]) {
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
          exact_arithmetic<kOperation>(isa::kF32Format, as[i], bs[i], cs[i], mode));
    }
  }
}

inline void write_lanes(uint64_t* out, const uint32_t (&result)[kLanes], uint32_t active) {
  if (active == kAllLanes) {
    for (uint32_t i = 0; i < kLanes; ++i) out[i] = result[i];
  } else {
    for (uint32_t i = 0; i < kLanes; ++i) out[i] = (active >> i & 1u) != 0 ? result[i] : out[i];
  }
}

template <char kOperation, bool kFtz, bool kSat>
Outcome f32_lanes(Warp& warp, const Step& step, uint32_t active) {
  uint32_t result[kLanes];
  f32_values<kOperation, kFtz, kSat>(step.mode, warp.read(step.source[0]),
                                     warp.read(step.source[1]), warp.read(step.source[2]), result);
  write_lanes(warp.row(step.target), result, active);
  return Outcome::kNext;
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

struct Directed {
  uint32_t bits;
  bool doubtful;  ///< the rules of zeros, NaN, infinity or subnormals may matter
};

/// binary32 value of sum + error rounded down or up or to zero.
inline Directed round_directed(const TwoSum& value, isa::Rounding rounding) {
  const float nearest = static_cast<float>(value.sum);
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const bool doubtful = (bits & 0x7fffffffu) - 0x01000001u >= 0x7f000000u - 0x01000001u;
  const double difference = static_cast<double>(nearest) - value.sum;  // exact
  const bool equal = difference == 0;
  const uint32_t above = (difference > 0) | (equal & (value.error < 0)) ? 1u : 0u;
  const uint32_t below = (difference < 0) | (equal & (value.error > 0)) ? 1u : 0u;
  const uint32_t negative = bits >> 31;
  const uint32_t down =
      rounding == isa::Rounding::kZero ? negative ^ 1u : (rounding == isa::Rounding::kDown);
  // One place away from zero or towards it.
  const uint32_t step = down != 0 ? above : below;
  return {bits + (down == negative ? step : 0u - step), doubtful};
}

/// + - * f with .rm, .rp or .rz; the others and .sat go to the definitions.
template <char kOperation>
void directed_values(const isa::FloatMode& mode, const uint64_t* as, const uint64_t* bs,
                     const uint64_t* cs, uint32_t (&result)[kLanes]) {
  constexpr bool kSum = kOperation == '+' || kOperation == '-' || kOperation == 'f';
  uint32_t doubt = kAllLanes;
  if constexpr (kSum || kOperation == '*') {
    if (!mode.sat) {
      doubt = 0;
      for (uint32_t i = 0; i < kLanes; ++i) {
        const uint32_t keep = mode.ftz ? 0x00800000u : 0u;
        const auto value_of = [keep](uint64_t bits) -> double {
          const uint32_t low = static_cast<uint32_t>(bits);
          return std::bit_cast<float>((low & 0x7fffffffu) < keep ? low & 0x80000000u : low);
        };
        const double a = value_of(as[i]), b = value_of(bs[i]), c = value_of(cs[i]);
        TwoSum value{a * b, 0};
        if (kOperation == '+') value = two_sum(a, b);
        if (kOperation == '-') value = two_sum(a, -b);
        if (kOperation == 'f') value = two_sum(a * b, c);
        const Directed rounded = round_directed(value, mode.rounding);
        result[i] = rounded.bits;
        doubt |= static_cast<uint32_t>(rounded.doubtful) << i;
      }
    }
  }
  each_lane(doubt, [&](uint32_t i) {
    result[i] = static_cast<uint32_t>(
        exact_arithmetic<kOperation>(isa::kF32Format, as[i], bs[i], cs[i], mode));
  });
}

template <char kOperation>
Outcome f32_directed(Warp& warp, const Step& step, uint32_t active) {
  uint32_t result[kLanes];
  directed_values<kOperation>(step.mode, warp.read(step.source[0]), warp.read(step.source[1]),
                              warp.read(step.source[2]), result);
  write_lanes(warp.row(step.target), result, active);
  return Outcome::kNext;
}

/// kOperation of 32 values in any mode without .relu.
template <char kOperation>
void f32_any_mode(const isa::FloatMode& mode, const uint64_t* as, const uint64_t* bs,
                  const uint64_t* cs, uint32_t (&result)[kLanes]) {
  if (mode.rounding != isa::Rounding::kNearestEven) {
    directed_values<kOperation>(mode, as, bs, cs, result);
  } else if (mode.ftz) {
    mode.sat ? f32_values<kOperation, true, true>(mode, as, bs, cs, result)
             : f32_values<kOperation, true, false>(mode, as, bs, cs, result);
  } else {
    mode.sat ? f32_values<kOperation, false, true>(mode, as, bs, cs, result)
             : f32_values<kOperation, false, false>(mode, as, bs, cs, result);
  }
}

/// Both halves of .f32x2.
template <char kOperation>
Outcome f32_pair_lanes(Warp& warp, const Step& step, uint32_t active) {
  const uint64_t* const rows[3] = {warp.read(step.source[0]), warp.read(step.source[1]),
                                   warp.read(step.source[2])};
  uint64_t high[3][kLanes];
  for (uint32_t k = 0; k < 3; ++k) {
    for (uint32_t i = 0; i < kLanes; ++i) high[k][i] = rows[k][i] >> 32;
  }
  uint64_t low[3][kLanes];
  for (uint32_t k = 0; k < 3; ++k) {
    for (uint32_t i = 0; i < kLanes; ++i) low[k][i] = rows[k][i] & 0xffffffffu;
  }
  uint32_t lower[kLanes], upper[kLanes];
  f32_any_mode<kOperation>(step.mode, low[0], low[1], low[2], lower);
  f32_any_mode<kOperation>(step.mode, high[0], high[1], high[2], upper);
  uint64_t* const out = warp.row(step.target);
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint64_t both = uint64_t{upper[i]} << 32 | lower[i];
    out[i] = (active >> i & 1u) != 0 ? both : out[i];
  }
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

}  // namespace flamia::emulator::execution
