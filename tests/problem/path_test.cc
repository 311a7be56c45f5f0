// The table of paths: order, shared payloads, columns of scales.
#include "problem/path.h"

#include <gtest/gtest.h>

#include "problem/names.h"

namespace flamia {
namespace {

TEST(PathTable, HasARowForEveryPathInOrder) {
  for (size_t i = 0; i < spellings<Path>().size(); ++i) {
    EXPECT_EQ(path_spec(static_cast<Path>(i)).path, static_cast<Path>(i));
  }
}

TEST(PathTable, SharesOnlyTokenBlockPayloads) {
  EXPECT_TRUE(path_spec(Path::kMxfp8).k.shared());
  EXPECT_FALSE(path_spec(Path::kNvfp4).k.shared());
  EXPECT_TRUE(path_spec(Path::kNvfp4).v.shared());
  EXPECT_FALSE(path_spec(Path::kAll4Bit).d_o.shared());
  EXPECT_FALSE(path_spec(Path::kBf16).q.shared());
}

TEST(PathTable, ChangesNoValueFormatOfEightBitPathsForExactSafety) {
  for (const Path path : {Path::kBf16, Path::kMxfp8, Path::kNvfp4}) {
    EXPECT_EQ(path_spec(path).v_along_tokens_exact, path_spec(path).v.along_tokens);
  }
}

TEST(ScaleColumns, FollowTheGroups) {
  EXPECT_EQ(scale_columns(OperandFormat::kE4m3, false, 128), 0);
  EXPECT_EQ(scale_columns(OperandFormat::kE2m1, true, 128), 0);
  EXPECT_EQ(scale_columns(OperandFormat::kNvfp4, false, 128), 8);
  EXPECT_EQ(scale_columns(OperandFormat::kNvfp4, true, 128), 128);
  EXPECT_EQ(scale_columns(OperandFormat::kMxfp4, false, 64), 2);
  EXPECT_EQ(scale_columns(OperandFormat::kMxfp4, true, 64), 64);
}

TEST(OperandFormatName, IsThatOfRepresentations) {
  EXPECT_STREQ(operand_format_name(OperandFormat::kBf16), "bf16");
  EXPECT_STREQ(operand_format_name(OperandFormat::kE4m3), "e4m3");
  EXPECT_STREQ(operand_format_name(OperandFormat::kNvfp4), "nvfp4");
  EXPECT_STREQ(operand_format_name(OperandFormat::kMxfp4), "mxfp4");
  EXPECT_STREQ(operand_format_name(OperandFormat::kE2m1), "e2m1");
}

}  // namespace
}  // namespace flamia
