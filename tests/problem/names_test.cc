// Spellings are those of the command line, each value has one, and reading inverts writing.
#include "problem/names.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "plan/role_names.h"

namespace flamia {
namespace {

template <typename Enum>
class Names : public testing::Test {};

using Enums =
    testing::Types<Path, BackendKind, Family, MaskKind, Safety, Hadamard, KvOrder, Exponential,
                   RowSum, Delta, Accumulate, Promote, ScoreAccumulator, DsFormat, GradProducts,
                   DqAccumulate, DqScale, Determinism, DType, Role, ContractionAxis, Pass>;
TYPED_TEST_SUITE(Names, Enums);

TYPED_TEST(Names, ReadWhatTheyWrite) {
  std::set<std::string> seen;
  for (size_t i = 0; i < spellings<TypeParam>().size(); ++i) {
    const auto value = static_cast<TypeParam>(i);
    EXPECT_TRUE(is_valid(value));
    EXPECT_TRUE(seen.insert(name(value)).second) << name(value);
    TypeParam parsed = static_cast<TypeParam>(i + 1);
    EXPECT_TRUE(parse(name(value), &parsed));
    EXPECT_EQ(parsed, value);
  }
}

TYPED_TEST(Names, RefuseWhatIsNone) {
  const auto beyond = static_cast<TypeParam>(spellings<TypeParam>().size());
  EXPECT_FALSE(is_valid(beyond));
  EXPECT_STREQ(name(beyond), "invalid");
  EXPECT_EQ(shown(static_cast<TypeParam>(200)), "200");
  auto untouched = static_cast<TypeParam>(1);
  EXPECT_FALSE(parse("", &untouched));
  EXPECT_FALSE(parse("invalid", &untouched));
  EXPECT_EQ(untouched, static_cast<TypeParam>(1));
}

TEST(NamesOfValues, AreThoseOfTheCommandLine) {
  EXPECT_STREQ(name(Path::kBf16), "bf16");
  EXPECT_STREQ(name(Path::kMxfp8), "mxfp8");
  EXPECT_STREQ(name(Path::kNvfp4), "nvfp4");
  EXPECT_STREQ(name(Path::kAll4Bit), "all4bit");
  EXPECT_STREQ(name(BackendKind::kBlackwell), "blackwell");
  EXPECT_STREQ(name(Family::kBlackwell), "blackwell");
  EXPECT_STREQ(name(MaskKind::kWindow), "window");
  EXPECT_STREQ(name(Safety::kExact), "exact");
  EXPECT_STREQ(name(Hadamard::kOff), "off");
  EXPECT_STREQ(name(KvOrder::kForward), "forward");
  EXPECT_STREQ(name(Exponential::kMitchell), "mitchell");
  EXPECT_STREQ(name(RowSum::kP), "p");
  EXPECT_STREQ(name(Delta::kOBf16), "o_bf16");
  EXPECT_STREQ(name(Accumulate::kHardware), "hw");
  EXPECT_STREQ(name(Promote::kNone), "none");
  EXPECT_STREQ(name(ScoreAccumulator::kF16), "f16");
  EXPECT_STREQ(name(DsFormat::kE5M2), "e5m2");
  EXPECT_STREQ(name(GradProducts::kBf16), "bf16");
  EXPECT_STREQ(name(DqAccumulate::kFp32), "fp32");
  EXPECT_STREQ(name(DqScale::kCausal), "causal");
  EXPECT_STREQ(name(Determinism::kDeterministic), "deterministic");
  EXPECT_STREQ(name(DType::kI8), "I8");
  EXPECT_STREQ(name(Role::kDo), "do");
  EXPECT_STREQ(name(ContractionAxis::kTokens), "tokens");
  EXPECT_STREQ(name(Pass::kBackward), "backward");
}

TEST(NamesOfValues, AreListedInASentence) {
  EXPECT_EQ(choices<Path>(), "bf16, mxfp8, nvfp4 or all4bit");
  EXPECT_EQ(choices<Family>(), "hopper or blackwell");
}

TEST(MaskText, ReadsWhatItWrites) {
  for (const char* text : {"causal", "full", "window:128,0", "window:-1,7", "window:0,0"}) {
    Mask mask;
    EXPECT_TRUE(parse(text, &mask)) << text;
    EXPECT_EQ(mask_text(mask), text);
  }
}

TEST(MaskText, RefusesWhatIsNoMask) {
  for (const char* text :
       {"", "window", "window:", "window:1", "window:1,", "window:,1", "window:1,2,3",
        "window:-2,0", "window:0,-2", "window:1.5,0", "window: 1,0", "window:1,0 ", "Causal",
        "window:99999999999999999999,0", "window:+1,0"}) {
    Mask mask{MaskKind::kWindow, 3, 4};
    EXPECT_FALSE(parse(text, &mask)) << text;
    EXPECT_EQ(mask.window_left, 3) << text;
  }
}

}  // namespace
}  // namespace flamia
