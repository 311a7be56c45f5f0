// The table of formats agrees with the encoders and with itself.
// Depends on: GoogleTest only.
#include "numerics/formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace flamia::test {
namespace {

TEST(Formats, EveryRowDescribesItsLargestValue) {
  for (int i = 0; i < kFormatCount; ++i) {
    const FormatTraits traits = format_traits(static_cast<Format>(i));
    const double fraction = 1.0 + traits.max_fraction / 8388608.0;
    EXPECT_EQ(traits.max, std::ldexp(fraction, traits.max_exponent)) << traits.name;
  }
}

TEST(Formats, NamesAreUnique) {
  std::set<std::string> names;
  for (int i = 0; i < kFormatCount; ++i) {
    names.insert(format_traits(static_cast<Format>(i)).name);
  }
  EXPECT_EQ(names.size(), size_t{kFormatCount});
}

TEST(Formats, SmallestValueIsTheFirstCode) {
  const auto smallest = [](Format format) {
    const FormatTraits traits = format_traits(format);
    return std::ldexp(1.0f, traits.min_exponent - traits.mantissa_bits);
  };
  EXPECT_EQ(smallest(Format::kE4M3), decode_e4m3(1));
  EXPECT_EQ(smallest(Format::kE5M2), decode_e5m2(1));
  EXPECT_EQ(smallest(Format::kE2M1), decode_e2m1(1));
  EXPECT_EQ(smallest(Format::kF16), f16_to_float(1));
  EXPECT_EQ(smallest(Format::kUE8M0), decode_ue8m0(0));
}

}  // namespace
}  // namespace flamia::test
