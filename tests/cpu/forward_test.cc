// The forward pass of the CPU backend where the magnitudes of V leave FP32 behind.
#include "cpu/forward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "numerics/bf16.h"
#include "tests/support/attention_case.h"

namespace flamia::test {
namespace {

/// V that falls, to zero too, while the tiles go by: O is the first tile's, and finite.
TEST(CpuForward, ValuesThatFallTileByTile) {
  for (const auto& [early, late] :
       {std::pair{1.0f, 0.0f}, {0x1p40f, 0.0f}, {0x1p60f, 0x1p-60f}, {0x1p100f, 0x1p-80f}}) {
    SCOPED_TRACE(testing::Message() << early << " to " << late);
    Case one({{640}, {}, 1, 1, 64, 0});
    for (int64_t token = 0; token < 640; ++token) {
      for (int c = 0; c < 64; ++c) {
        one.v(token, 0, c) = float_to_bf16(static_cast<float>((token * 7 + c * 5) % 15 + 1) *
                                           (token < 128 ? early : late));
      }
    }
    Options options = options_of(Path::kMxfp8, MaskKind::kFull);
    options.kv_order = KvOrder::kForward;
    const Outputs got = one.run(options, false);
    EXPECT_LE(relative_error(got.o, one.reference(options, false).o), 0.05);
  }
}

}  // namespace
}  // namespace flamia::test
