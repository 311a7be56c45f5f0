// The narrow formats as data: one row of facts per format.
// Paper: 2 (microscaling formats), 3.1. Depends on: the format headers, whose constants it repeats
// by name. Used by: paths, planning, the tensor-core model, messages.
#pragma once

#include <cstdint>

#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e5m2.h"
#include "numerics/f16.h"
#include "numerics/scale_codes.h"

namespace flamia {

enum class Format : uint8_t { kF32, kF16, kBF16, kE4M3, kE5M2, kE2M1, kUE8M0, kUE4M3 };

inline constexpr int kFormatCount = 8;

struct FormatTraits {
  const char* name;
  float max;          ///< largest finite value
  int bits;           ///< of one element
  int mantissa_bits;  ///< without the implicit one
  int min_exponent;   ///< of the smallest normal value; the grid below is 2^(this - mantissa_bits)
  int max_exponent;   ///< of the largest finite value
  uint32_t max_fraction;  ///< binary32 mantissa field of the largest finite value
};

/// The row of one format.
FLAMIA_HD constexpr FormatTraits format_traits(Format format) {
  switch (format) {
    case Format::kF32:
      return {"f32", bits_float(0x7f7fffffu), 32, 23, -126, 127, 0x7fffffu};
    case Format::kF16:
      return {"f16", kF16Max, 16, kF16MantissaBits, kF16MinExponent, 15, 0x7fe000u};
    case Format::kBF16:
      return {"bf16", bits_float(0x7f7f0000u), 16, 7, -126, 127, 0x7f0000u};
    case Format::kE4M3:
      return {"e4m3",           kE4m3Max,        8, kE4m3MantissaBits, kE4m3MinExponent,
              kE4m3MaxExponent, kE4m3MaxMantissa};
    case Format::kE5M2:
      return {"e5m2",           kE5m2Max,        8, kE5m2MantissaBits, kE5m2MinExponent,
              kE5m2MaxExponent, kE5m2MaxMantissa};
    case Format::kE2M1:
      return {"e2m1",           kE2m1Max,        4, kE2m1MantissaBits, kE2m1MinExponent,
              kE2m1MaxExponent, kE2m1MaxMantissa};
    case Format::kUE8M0:
      return {"ue8m0", bits_float(0x7f000000u), 8, 0, -127, 127, 0u};
    case Format::kUE4M3:
      return {"ue4m3",          kE4m3Max,        8, kE4m3MantissaBits, kE4m3MinExponent,
              kE4m3MaxExponent, kE4m3MaxMantissa};
  }
  return {"invalid", 0.0f, 0, 0, 0, 0, 0u};
}

static_assert(format_traits(Format::kE4M3).max == 448.0f);
static_assert(format_traits(Format::kE5M2).max == 57344.0f);
static_assert(format_traits(Format::kE2M1).bits == 4 && format_traits(Format::kE2M1).max == 6.0f);
static_assert(format_traits(Format::kF16).max ==
              bits_float(((127u + 15u) << 23) | format_traits(Format::kF16).max_fraction));

}  // namespace flamia
