// Float instructions against the arithmetic of the host in all four rounding modes.
// Depends on: <cfenv>; the host's IEEE unit is the independent reference.
#include "emulator/isa/scalar_float.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstdint>

#include "tests/cuda/silicon/case_inputs.h"

namespace flamia::emulator::isa {
namespace {

constexpr uint64_t kOperands = 30000;

/// Sets a rounding mode for its lifetime.
class HostRounding {
 public:
  explicit HostRounding(Rounding rounding) : before_(std::fegetround()) {
    switch (rounding) {
      case Rounding::kZero:
        std::fesetround(FE_TOWARDZERO);
        break;
      case Rounding::kDown:
        std::fesetround(FE_DOWNWARD);
        break;
      case Rounding::kUp:
        std::fesetround(FE_UPWARD);
        break;
      default:
        std::fesetround(FE_TONEAREST);
        break;
    }
  }
  ~HostRounding() { std::fesetround(before_); }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;

 private:
  int before_;
};

template <typename Float, typename Bits>
struct Width {
  static Float value(uint64_t bits) { return __builtin_bit_cast(Float, static_cast<Bits>(bits)); }
  static uint64_t bits(Float value) { return __builtin_bit_cast(Bits, value); }
};

template <typename W, typename Float>
void compare_with_host(const FloatFormat& format, silicon::Kind kind) {
  for (const Rounding rounding :
       {Rounding::kNearestEven, Rounding::kZero, Rounding::kDown, Rounding::kUp}) {
    const FloatMode mode{rounding};
    for (uint64_t i = 0; i < kOperands; ++i) {
      uint64_t operand[3];
      for (uint64_t place = 0; place < 3; ++place) {
        operand[place] = silicon::case_operand(kind, place, i);
      }
      volatile Float a = W::value(operand[0]), b = W::value(operand[1]), c = W::value(operand[2]);
      uint64_t expected[5];
      {
        const HostRounding host(rounding);
        const volatile Float sum = a + b, product = a * b, quotient = a / b;
        const volatile Float root = std::sqrt(a), fused = std::fma(a, b, c);
        expected[0] = W::bits(sum);
        expected[1] = W::bits(product);
        expected[2] = W::bits(quotient);
        expected[3] = W::bits(root);
        expected[4] = W::bits(fused);
      }
      const uint64_t actual[5] = {float_add(format, operand[0], operand[1], mode),
                                  float_mul(format, operand[0], operand[1], mode),
                                  float_div(format, operand[0], operand[1], mode),
                                  float_sqrt(format, operand[0], mode),
                                  float_fma(format, operand[0], operand[1], operand[2], mode)};
      for (int k = 0; k < 5; ++k) {
        if (format.is_nan(expected[k]) && format.is_nan(actual[k])) continue;
        ASSERT_EQ(actual[k], expected[k])
            << "operation " << k << " rounding " << static_cast<int>(rounding) << std::hex << " of "
            << operand[0] << " " << operand[1] << " " << operand[2];
      }
    }
  }
}

TEST(ScalarFloat, Binary32EqualsTheHostInEveryRounding) {
  compare_with_host<Width<float, uint32_t>, float>(kF32Format, silicon::Kind::kF32);
}

TEST(ScalarFloat, Binary64EqualsTheHostInEveryRounding) {
  compare_with_host<Width<double, uint64_t>, double>(kF64Format, silicon::Kind::kF64);
}

TEST(ScalarFloat, PackedBinary32AppliesToBothHalves) {
  const uint64_t a = 0x3f8000007f800000u, b = 0x3f800000ff800000u;
  const uint64_t sum = packed(32, [&](int i) {
    const uint64_t low = 0xffffffffu;
    return float_add(kF32Format, (a >> (32 * i)) & low, (b >> (32 * i)) & low, {});
  });
  EXPECT_EQ(sum, 0x400000007fffffffu);
}

TEST(ScalarFloat, MinAndMaxOrderZerosAndSkipOneNan) {
  const uint64_t zero = 0, minus_zero = 0x80000000u, nan = 0x7fc00001u, one = 0x3f800000u;
  EXPECT_EQ(float_min_max(kF32Format, false, zero, minus_zero, {}), minus_zero);
  EXPECT_EQ(float_min_max(kF32Format, true, minus_zero, zero, {}), zero);
  EXPECT_EQ(float_min_max(kF32Format, true, nan, one, {}), one);
  EXPECT_EQ(float_min_max(kF32Format, true, nan, nan, {}), kF32Format.nan);
  EXPECT_EQ(float_min_max(kF32Format, true, nan, one, {false, true}), kF32Format.nan);
  EXPECT_EQ(float_min_max3(kF32Format, true, nan, one, 0x40000000u, {}), 0x40000000u);
}

TEST(ScalarFloat, XorsignAbsTakesTheSignFromBothOperands) {
  const MinMaxMode mode{false, false, false, true};
  EXPECT_EQ(float_min_max(kF32Format, false, 0xbf800000u, 0x40000000u, mode), 0xbf800000u);
  EXPECT_EQ(float_min_max(kF32Format, true, 0xbf800000u, 0xc0000000u, mode), 0x40000000u);
}

}  // namespace
}  // namespace flamia::emulator::isa
