// The fast paths of 16-bit arithmetic, of min and max, and of conversions, function by function,
// against the definitions in isa/: exhaustive where there are 2^16 operands, otherwise every sign
// and exponent with the mantissas at which rounding turns, and random operands.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "emulator/execution/convert_fast.h"
#include "emulator/execution/half_fast.h"

namespace flamia::emulator::execution {
namespace {

using isa::FloatMode;
using isa::Narrow;
using isa::Rounding;

constexpr FloatMode kPlain{}, kFlushing{Rounding::kNearestEven, true, false, false};

/// Every sign and exponent of a 16-bit format with these mantissas.
template <Half kHalf>
std::vector<uint32_t> edges(const std::vector<uint32_t>& mantissas) {
  const isa::FloatFormat& format = half_format<kHalf>();
  std::vector<uint32_t> values;
  for (uint32_t top = 0; top < 1u << (1 + format.exponent_bits); ++top) {
    for (const uint32_t mantissa : mantissas) {
      values.push_back(top << format.mantissa_bits |
                       (mantissa & static_cast<uint32_t>(format.mantissa_mask())));
    }
  }
  return values;
}

/// Counts what only the definition knows.
template <Half kHalf, char kOperation, bool kFtz>
uint32_t check_one(uint32_t a, uint32_t b, uint32_t c) {
  const HalfResult r = half_arithmetic<kHalf, kOperation, kFtz>(a, b, c);
  if (r.doubtful != 0) return 1;
  const uint64_t expected =
      exact_arithmetic<kOperation>(half_format<kHalf>(), a, b, c, kFtz ? kFlushing : kPlain);
  if (r.bits != expected) {
    ADD_FAILURE() << kOperation << std::hex << " " << a << " " << b << " " << c << ": " << r.bits
                  << ", not " << expected;
  }
  return 0;
}

template <Half kHalf, bool kFtz>
void check_pairs(const std::vector<uint32_t>& values) {
  for (const uint32_t a : values) {
    for (const uint32_t b : values) {
      check_one<kHalf, '+', kFtz>(a, b, 0);
      check_one<kHalf, '-', kFtz>(a, b, 0);
      check_one<kHalf, '*', kFtz>(a, b, 0);
      if (testing::Test::HasFailure()) return;
    }
  }
}

template <Half kHalf, bool kFtz>
void check_triples(const std::vector<uint32_t>& values, uint32_t random_count) {
  for (const uint32_t a : values) {
    for (const uint32_t b : values) {
      for (const uint32_t c : values) check_one<kHalf, 'f', kFtz>(a, b, c);
    }
    if (testing::Test::HasFailure()) return;
  }
  std::mt19937 random(5);
  for (uint32_t i = 0; i < random_count && !testing::Test::HasFailure(); ++i) {
    const uint32_t bits = static_cast<uint32_t>(random());
    uint32_t a = bits & 0xffffu, b = bits >> 16, c = random() & 0xffffu;
    if (i % 4 == 1) {  // the product nearly cancels c
      c = static_cast<uint32_t>(exact_arithmetic<'*'>(half_format<kHalf>(), a, b, 0, kPlain)) ^
          0x8000u;
      c = (c + random() % 3 - 1) & 0xffffu;
    }
    if (i % 4 == 2) {  // or is far below it, where only the side of a tie matters
      const uint32_t down = random() % 24 << half_format<kHalf>().mantissa_bits;
      c = static_cast<uint32_t>(exact_arithmetic<'*'>(half_format<kHalf>(), a, b, 0, kPlain));
      c = (c & 0x7fffu) + down < 0x7c00u ? c + down : c;
    }
    check_one<kHalf, 'f', kFtz>(a, b, c);
  }
}

TEST(FastHalf, SumsAndProductsEqualTheDefinitions) {
  check_pairs<Half::kF16, false>(edges<Half::kF16>({0, 1, 2, 0x155, 0x1ff, 0x200, 0x2ab, 0x3ff}));
  check_pairs<Half::kF16, true>(edges<Half::kF16>({0, 1, 0x155, 0x200, 0x3ff}));
  check_pairs<Half::kBf16, false>(edges<Half::kBf16>({0, 1, 0x7f}));
}

TEST(FastHalf, FusedSumsEqualTheDefinitions) {
  check_triples<Half::kF16, false>(edges<Half::kF16>({0, 0x3ff}), 2'000'000);
  check_triples<Half::kF16, true>(edges<Half::kF16>({1}), 500'000);
  std::vector<uint32_t> some;
  for (const uint32_t value : edges<Half::kBf16>({1})) {
    const uint32_t exponent = value >> 7 & 0xffu;
    if (exponent < 4 || exponent > 251 || exponent % 16 >= 14) some.push_back(value);
  }
  check_triples<Half::kBf16, false>(some, 2'000'000);
}

TEST(FastHalf, OrdinaryNumbersNeedNoDefinition) {
  std::mt19937 random(6);
  uint32_t doubtful = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint32_t a = 0x3000u + random() % 0x1800u, b = 0xb000u + random() % 0x1800u;
    doubtful +=
        check_one<Half::kF16, 'f', true>(a, b, 0) + check_one<Half::kF16, '+', true>(a, b, 0);
    doubtful +=
        check_one<Half::kBf16, 'f', false>(a, b, a) + check_one<Half::kBf16, '*', false>(a, b, 0);
    doubtful += check_one<Half::kBf16, 'f', false>(0, b, 0x8000u);
  }
  EXPECT_EQ(doubtful, 0u);
}

TEST(FastHalf, SaturationAndReluEqualTheDefinitions) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    for (const bool relu : {false, true}) {
      const FloatMode mode{Rounding::kNearestEven, false, !relu, relu};
      if (!isa::kF16Format.is_nan(bits)) {
        ASSERT_EQ(finish_half<Half::kF16>(bits, !relu, relu),
                  isa::detail::finish(isa::kF16Format, bits, mode));
      }
      if (!isa::kBf16Format.is_nan(bits)) {
        ASSERT_EQ(finish_half<Half::kBf16>(bits, !relu, relu),
                  isa::detail::finish(isa::kBf16Format, bits, mode));
      }
    }
  }
}

template <const isa::FloatFormat& kFormat>
void check_min_max(const std::vector<uint32_t>& values) {
  for (uint32_t flags = 0; flags < 16; ++flags) {
    const isa::MinMaxMode mode{(flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0,
                               (flags & 8) != 0};
    const MinMaxMasks masks = min_max_masks<kFormat>(mode);
    for (const uint32_t a : values) {
      for (const uint32_t b : values) {
        ASSERT_EQ((min_max_bits<kFormat, true>(a, b, masks)),
                  isa::float_min_max(kFormat, true, a, b, mode))
            << std::hex << a << " " << b << " " << flags;
        ASSERT_EQ((min_max_bits<kFormat, false>(a, b, masks)),
                  isa::float_min_max(kFormat, false, a, b, mode))
            << std::hex << a << " " << b << " " << flags;
      }
    }
  }
}

TEST(FastHalf, MinimaAndMaximaEqualTheDefinitionsInEveryMode) {
  check_min_max<isa::kF16Format>(edges<Half::kF16>({0, 1, 0x200, 0x3ff}));
  std::vector<uint32_t> wide, narrow;
  for (const uint32_t value : edges<Half::kBf16>({0, 1, 0x40})) {
    const uint32_t exponent = value >> 7 & 0xffu;
    if (exponent > 2 && exponent < 253 && exponent % 32 != 31) continue;
    narrow.push_back(value);
    wide.push_back(value << 16);
    wide.push_back(value << 16 | 1u);
  }
  check_min_max<isa::kBf16Format>(narrow);
  check_min_max<isa::kF32Format>(wide);
}

/// All upper halves with the lower ones at which some rounding turns, or every few of these.
template <typename Check>
void each_f32(Check check, size_t every = 1) {
  std::vector<uint32_t> lower = {0x5555u, 0xaaaau, 0x7a35u, 0xc0deu};
  for (uint32_t k = 0; k < 16; ++k) {
    for (uint32_t near = 0; near < 3; ++near) lower.push_back(((1u << k) + near - 1u) & 0xffffu);
  }
  for (uint32_t upper = 0; upper < 65536; ++upper) {
    for (size_t i = upper % every; i < lower.size(); i += every) {
      if (!check(upper << 16 | lower[i])) {
        ADD_FAILURE() << "of " << std::hex << (upper << 16 | lower[i]);
        return;
      }
    }
  }
}

TEST(FastConvert, HalvesOfF32EqualTheDefinition) {
  isa::ConvertMode relu;
  relu.relu = true;
  each_f32([&](uint32_t x) {
    return half_of_f32<Half::kF16>(x, 0) ==
               isa::convert_float(isa::kF16Format, isa::kF32Format, x, {}) &&
           half_of_f32<Half::kBf16>(x, 0) ==
               isa::convert_float(isa::kBf16Format, isa::kF32Format, x, {}) &&
           half_of_f32<Half::kF16>(x, ~0u) ==
               isa::convert_float(isa::kF16Format, isa::kF32Format, x, relu) &&
           half_of_f32<Half::kBf16>(x, ~0u) ==
               isa::convert_float(isa::kBf16Format, isa::kF32Format, x, relu);
  });
}

TEST(FastConvert, NarrowCodesOfF32EqualTheDefinition) {
  each_f32([](uint32_t x) {
    const float value = bits_float(x);
    bool equal = true;
    for (const bool relu : {false, true}) {
      const uint32_t mask = relu ? ~0u : 0u;
      equal &=
          narrow_of_f32<Narrow::kE4m3>(x, mask) == isa::encode_narrow(Narrow::kE4m3, value, relu);
      equal &=
          narrow_of_f32<Narrow::kE5m2>(x, mask) == isa::encode_narrow(Narrow::kE5m2, value, relu);
      equal &=
          narrow_of_f32<Narrow::kE2m1>(x, mask) == isa::encode_narrow(Narrow::kE2m1, value, relu);
      equal &=
          narrow_of_f32<Narrow::kE2m3>(x, mask) == isa::encode_narrow(Narrow::kE2m3, value, relu);
      equal &=
          narrow_of_f32<Narrow::kE3m2>(x, mask) == isa::encode_narrow(Narrow::kE3m2, value, relu);
    }
    return equal;
  });
}

TEST(FastConvert, WideningAndNarrowHalvesEqualTheDefinitionForAllBits) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    ASSERT_EQ(f32_of_f16(bits), isa::convert_float(isa::kF32Format, isa::kF16Format, bits, {}));
    const uint16_t pair = static_cast<uint16_t>(bits);
    const auto decoded = [&]<Narrow kFormat>() {
      EXPECT_EQ((halves_of_narrow<kFormat, false>(bits)),
                isa::decode_narrow_pair(kFormat, pair, false));
      EXPECT_EQ((halves_of_narrow<kFormat, true>(bits)),
                isa::decode_narrow_pair(kFormat, pair, true));
      // The half is widened without making NaN canonical, which the encoder does not see.
      const uint32_t wide = float_bits(widen_half<Half::kF16>(bits));
      EXPECT_EQ(narrow_of_f32<kFormat>(wide, 0), isa::encode_narrow_f16x2(kFormat, bits, false) &
                                                     (kFormat == Narrow::kE2m1 ? 0xfu : 0xffu));
    };
    decoded.operator()<Narrow::kE4m3>();
    decoded.operator()<Narrow::kE5m2>();
    decoded.operator()<Narrow::kE2m1>();
    decoded.operator()<Narrow::kE2m3>();
    decoded.operator()<Narrow::kE3m2>();
    ASSERT_FALSE(testing::Test::HasFailure()) << std::hex << bits;
  }
}

template <Rounding kRounding>
void check_whole() {
  const isa::IntegerType types[] = {isa::kU8, isa::kS8, isa::kU16, isa::kS16, isa::kU32, isa::kS32};
  each_f32(
      [&](uint32_t x) {
        bool equal = true;
        for (const bool flag : {false, true}) {
          isa::ConvertMode mode{kRounding, flag, flag, false, false};
          equal &= whole_f32<kRounding>(x, flag, flag) ==
                   isa::convert_float(isa::kF32Format, isa::kF32Format, x, mode, true);
          mode.sat = false;
          for (const isa::IntegerType& type : types) {
            const double low = type.is_signed ? -std::ldexp(1.0, type.bits - 1) : 0.0;
            const double high = std::ldexp(1.0, type.bits - (type.is_signed ? 1 : 0)) - 1.0;
            equal &= integer_of_f32<kRounding>(x, flag, low, high) ==
                     isa::convert_to_integer(type, isa::kF32Format, x, mode);
          }
        }
        return equal;
      },
      7);
}

TEST(FastConvert, WholeNumbersEqualTheDefinition) {
  check_whole<Rounding::kNearestEven>();
  check_whole<Rounding::kZero>();
  check_whole<Rounding::kDown>();
  check_whole<Rounding::kUp>();
}

}  // namespace
}  // namespace flamia::emulator::execution
