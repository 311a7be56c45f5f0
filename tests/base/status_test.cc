// Names of status codes, and the default status.
#include "flamia/status.h"

#include <gtest/gtest.h>

namespace flamia {
namespace {

TEST(Status, IsASuccessByDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.message(), "");
}

TEST(StatusCodeName, HasANameForEveryCode) {
  EXPECT_STREQ(status_code_name(StatusCode::kOk), "ok");
  EXPECT_STREQ(status_code_name(StatusCode::kInvalidArgument), "invalid_argument");
  EXPECT_STREQ(status_code_name(StatusCode::kUnsupported), "unsupported");
  EXPECT_STREQ(status_code_name(StatusCode::kOutOfMemory), "out_of_memory");
  EXPECT_STREQ(status_code_name(StatusCode::kDeviceError), "device_error");
  EXPECT_STREQ(status_code_name(StatusCode::kInternal), "internal");
  EXPECT_STREQ(status_code_name(static_cast<StatusCode>(99)), "unknown");
}

}  // namespace
}  // namespace flamia
