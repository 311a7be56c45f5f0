// The product against the sum written out, at row counts around the group of four.
#include "pcast/matrix_product.h"

#include <gtest/gtest.h>

#include <vector>

namespace flamia::pcast {
namespace {

TEST(MatrixProduct, SumsInAscendingOrderForEveryRowCount) {
  constexpr int64_t kDepth = 5, kColumns = 32;
  for (int64_t rows = 1; rows <= 9; ++rows) {
    std::vector<float> a, b, c(static_cast<size_t>(rows * kColumns), -1.0f);
    for (int64_t i = 0; i < rows * kDepth; ++i) a.push_back(1.0f / static_cast<float>(i + 3));
    for (int64_t i = 0; i < kDepth * kColumns; ++i) b.push_back(1.0f / static_cast<float>(i + 7));
    multiply(a.data(), kDepth, b.data(), kColumns, c.data(), kColumns, rows, kDepth, kColumns);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t n = 0; n < kColumns; ++n) {
        float sum = 0;
        for (int64_t k = 0; k < kDepth; ++k) {
          sum += a[static_cast<size_t>(r * kDepth + k)] * b[static_cast<size_t>(k * kColumns + n)];
        }
        EXPECT_EQ(c[static_cast<size_t>(r * kColumns + n)], sum);
      }
    }
  }
}

}  // namespace
}  // namespace flamia::pcast
