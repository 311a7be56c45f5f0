// The checks that every narrow format must pass, written once; the format is described by a struct.
// Depends on: sweep.h, GoogleTest. Used by: e4m3_test.cc, e5m2_test.cc, e2m1_test.cc.
//
// A description `F` has: kMantissaBits, kMinExponent, kCodes (non-negative finite ones), kSign (the
// sign bit of a code), kNanCode (what NaN encodes to), and encode, decode, round, stochastic.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "base/bits.h"
#include "tests/numerics/sweep.h"

namespace flamia::test {

template <typename F>
std::vector<double> values_of() {
  return format_values(F::kMantissaBits, F::kMinExponent, F::kCodes);
}

template <typename F>
void expect_decode_follows_definition() {
  const std::vector<double> values = values_of<F>();
  for (int code = 0; code < F::kCodes; ++code) {
    EXPECT_EQ(F::decode(static_cast<uint8_t>(code)), values[code]) << code;
    const float negative = F::decode(static_cast<uint8_t>(code | F::kSign));
    EXPECT_EQ(negative, -values[code]) << code;
    EXPECT_TRUE(std::signbit(negative)) << code;
  }
}

/// Every float but NaN, both signs: code, and value with its sign, from the table of midpoints.
template <typename F>
void expect_nearest_even_everywhere() {
  // Differences are collected in one word, which lets the loop vectorize; their number is of no
  // use.
  const auto count = [](uint32_t first, uint32_t last, const CodeRange& range) {
    const uint32_t code = range.code;
    const uint32_t value = float_bits(range.value);
    uint32_t difference = 0;
    for (uint32_t u = first; u < last; ++u) {
      const float x = bits_float(u);
      const float y = bits_float(u | kSignBit);
      difference |= (F::encode(x) ^ code) | (F::encode(y) ^ (code | F::kSign)) |
                    (float_bits(F::round(x)) ^ value) |
                    (float_bits(F::round(y)) ^ (value | kSignBit));
    }
    return difference != 0 ? 1u : 0u;
  };
  EXPECT_EQ(sweep_ranges(nearest_even_ranges(values_of<F>()), count), 0u);
}

template <typename F>
void expect_nan_is_kept_everywhere() {
  const auto count = [](uint32_t u) {
    const bool code = F::encode(bits_float(u)) == F::kNanCode;
    const bool stochastic = F::stochastic(bits_float(u), u) == F::kNanCode;
    const bool value = (float_bits(F::round(bits_float(u))) & ~kSignBit) > kInfinityBits;
    return code && stochastic && value ? 0 : 1;
  };
  EXPECT_EQ(sweep_nans(count), 0u);
}

/// The number of the 2^32 random words that round `x` away from zero, found by bisection: the code
/// must not decrease with the word.
template <typename F>
uint64_t words_that_round_up(float x, uint8_t lower) {
  uint64_t first_up = uint64_t{1} << 32;
  for (uint64_t step = uint64_t{1} << 31; step != 0; step /= 2) {
    const uint64_t word = first_up - step;
    if (F::stochastic(x, static_cast<uint32_t>(word)) != lower) first_up = word;
  }
  if (F::stochastic(x, 0) != lower) first_up = 0;
  return (uint64_t{1} << 32) - first_up;
}

/// The probability of the upper neighbour must be the position between the two, to 2^-32: then the
/// expectation is x itself (unbiased), with no statistics. Both signs, all binades, saturation.
template <typename F>
void expect_stochastic_is_unbiased() {
  const std::vector<double> values = values_of<F>();
  std::mt19937 generator(7);
  for (int i = 0; i < 200000; ++i) {
    const int lower = static_cast<int>(generator() % (F::kCodes - 1));
    const double span = values[lower + 1] - values[lower];
    const double position = (generator() >> 8) * (1.0 / (1 << 24));
    const float x = static_cast<float>(values[lower] + span * position);
    if (x >= values[lower + 1]) continue;
    const double probability = (x - values[lower]) / span;
    const float signed_x = i % 2 == 0 ? x : -x;
    const uint8_t code = static_cast<uint8_t>(lower | (i % 2 == 0 ? 0 : F::kSign));
    const uint64_t up = words_that_round_up<F>(signed_x, code);
    ASSERT_LE(std::fabs(static_cast<double>(up) * 0x1p-32 - probability), 0x1p-32) << signed_x;
    if (up > 0) {
      ASSERT_EQ(F::stochastic(signed_x, 0xffffffffu), code + 1) << signed_x;
    }
  }
}

template <typename F>
void expect_stochastic_edges() {
  const std::vector<double> values = values_of<F>();
  for (int code = 0; code < F::kCodes; ++code) {
    // A value of the format stays what it is for every word.
    const float x = static_cast<float>(values[code]);
    EXPECT_EQ(F::stochastic(x, 0), code);
    EXPECT_EQ(F::stochastic(x, 0xffffffffu), code);
    EXPECT_EQ(F::stochastic(-x, 0xffffffffu), code | F::kSign);
  }
  const float above = static_cast<float>(values.back()) * 1.01f;
  EXPECT_EQ(F::stochastic(above, 0xffffffffu), F::kCodes - 1);
  EXPECT_EQ(F::stochastic(bits_float(kInfinityBits), 0xffffffffu), F::kCodes - 1);
  EXPECT_EQ(F::stochastic(bits_float(1), 0), 0);
  EXPECT_EQ(F::stochastic(bits_float(kSignBit | 1), 0), F::kSign);
}

/// Compares with another encoder: every float in the binades where codes change, from half of the
/// smallest value to twice the largest, both signs, and every 4099th of all patterns.
template <typename F, typename Other>
void expect_same_codes(Other other) {
  const std::vector<double> values = values_of<F>();
  const uint32_t lowest = float_bits(static_cast<float>(values[1] / 4));
  const uint32_t highest = float_bits(static_cast<float>(values.back() * 2));
  const auto differs = [&](uint32_t u) { return F::encode(bits_float(u)) != other(bits_float(u)); };
  const auto dense = [&](uint64_t first, uint64_t last) {
    uint32_t wrong = 0;
    for (uint64_t u = first; u < last; ++u) {
      wrong += differs(static_cast<uint32_t>(u)) + differs(static_cast<uint32_t>(u) | kSignBit);
    }
    return wrong;
  };
  EXPECT_EQ(sweep(lowest, highest, dense), 0u);
  uint64_t wrong = 0;
  for (uint64_t u = 0; u < uint64_t{1} << 32; u += 4099) wrong += differs(static_cast<uint32_t>(u));
  EXPECT_EQ(wrong, 0u);
}

}  // namespace flamia::test
