// Assertions about our own mistakes abort with the condition, the place and the values.
#include "base/check.h"

#include <gtest/gtest.h>

namespace flamia {
namespace {

TEST(CheckDeathTest, PrintsConditionAndValues) {
  const int tiles = 3;
  EXPECT_DEATH(FLAMIA_CHECK(tiles == 4, "tiles ", tiles), "tiles == 4 at .*check_test.*: tiles 3");
}

TEST(CheckDeathTest, StopsAtUnreachableCode) {
  EXPECT_DEATH(FLAMIA_UNREACHABLE("path ", 7), "unreachable code at .*check_test.*: path 7");
}

TEST(Check, PassesInSilence) { FLAMIA_CHECK(true); }

}  // namespace
}  // namespace flamia
