// The base of a row with binary16 scores: its definition against the conversion that the kernel
// uses.
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "numerics/f16.h"
#include "numerics/online_softmax.h"

namespace flamia::test {
namespace {

/// Every binary16 value below the limit, the floats beside it, and the middle to the next one.
TEST(HalfRowBase, IsRoundedDown) {
  for (int code = 0; f16_to_float(static_cast<uint16_t>(code)) < kHalfExactLimit; ++code) {
    const float value = f16_to_float(static_cast<uint16_t>(code));
    const float next = f16_to_float(static_cast<uint16_t>(code + 1));
    const float floats[] = {value, std::nextafter(value, 0.0f), std::nextafter(value, 1e9f),
                            (value + next) * 0.5f};
    for (const float x : floats) {
      for (const float base : {x, -x}) {
        if (std::fabs(base) >= kHalfExactLimit) continue;
        ASSERT_EQ(half_row_base(0.0f, base), __half2float(__float2half_rd(base))) << base;
      }
    }
  }
  EXPECT_EQ(half_row_base(0.0f, 256.3f), 256.3f);
}

}  // namespace
}  // namespace flamia::test
