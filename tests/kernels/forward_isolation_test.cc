// What must not change a row of the forward kernel: other documents, their contents, where the
// document lies, future tokens, the order in which the machine runs. All bit for bit.
// Runs on the virtual GPU, or by hand on a real one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <vector>

#include "tests/kernels/forward_compare.h"
#include "tests/kernels/forward_inputs.h"

namespace flamia::test {
namespace {

Options causal() { return options_of(Path::kMxfp8, MaskKind::kCausal); }
Options full() { return options_of(Path::kMxfp8, MaskKind::kFull); }
Options with_window(int64_t left, int64_t right) {
  Options options;
  options.mask = {MaskKind::kWindow, left, right};
  return options;
}

/// A document alone and inside rows of others, at several offsets.
void check_places(int dim, const Options& options) {
  Case alone({{161}, {}, 2, 1, dim, 0}, 31);
  // Magnitudes that send some tiles through the slow paths.
  for (int64_t token = 64; token < 96; ++token) alone.scale_key_token(token, 0x1p-9f);
  const ForwardResult wanted = device_forward(alone, options);
  for (const std::vector<int32_t>& before :
       {std::vector<int32_t>{1}, {31, 0}, {32}, {33, 130}, {127}}) {
    Shape shape{before, {}, 2, 1, dim, 7};
    shape.lengths.push_back(161);
    shape.lengths.push_back(45);
    Case row(shape, 32);
    int64_t at = 0;
    for (const int32_t length : before) at += length;
    copy_rows(alone.q_data, 0, &row.q_data, at, 161, 2 * dim);
    copy_rows(alone.k_data, 0, &row.k_data, at, 161, dim);
    copy_rows(alone.v_data, 0, &row.v_data, at, 161, dim);
    expect_same_bits(rows_of(device_forward(row, options), shape, at, 161), wanted);
  }
}

TEST(ForwardIsolation, PlaceInTheRow) {
  check_places(64, causal());
  check_places(64, full());
  check_places(64, with_window(50, 20));
  check_places(128, causal());
}

/// NaN, infinities and huge values of neighbours.
TEST(ForwardIsolation, NeighboursContents) {
  const Shape shape{{40, 150, 60}, {}, 1, 1, 64, 5};
  for (const Options& options : {causal(), full(), with_window(33, 5)}) {
    Case clean(shape, 33);
    const ForwardResult wanted = rows_of(device_forward(clean, options), shape, 40, 150);
    for (const float poison : {std::nanf(""), std::numeric_limits<float>::infinity(), 3e38f}) {
      Case poisoned(shape, 33);
      for (int64_t token = 0; token < poisoned.query_tokens(); ++token) {
        if (token >= 40 && token < 190) continue;
        for (int c = 0; c < 64; ++c) {
          poisoned.q(token, 0, c) = poisoned.k(token, 0, c) = poisoned.v(token, 0, c) =
              float_to_bf16(poison);
        }
      }
      expect_same_bits(rows_of(device_forward(poisoned, options), shape, 40, 150), wanted);
    }
  }
}

/// Future keys and values, in the tile of the rows and after it, by factors that move every
/// exponent. Earlier rows outside the 32-token block of the change keep their bits.
TEST(ForwardIsolation, FutureTokens) {
  const Shape shape{{200}, {}, 1, 1, 64, 0};
  for (const KvOrder order : {KvOrder::kReverse, KvOrder::kForward}) {
    Options options = causal();
    options.kv_order = order;
    Case clean(shape, 34);
    const ForwardResult wanted = device_forward(clean, options);
    for (const int64_t changed : {33, 100, 127, 128, 161}) {
      for (const float factor : {1024.0f, 1e6f, 0.0f}) {
        SCOPED_TRACE(testing::Message() << "token " << changed << " factor " << factor);
        Case leaky(shape, 34);
        leaky.scale_key_token(changed, factor);
        const int64_t safe = changed / 32 * 32;
        expect_same_bits(rows_of(device_forward(leaky, options), shape, 0, safe),
                         rows_of(wanted, shape, 0, safe));
      }
    }
  }
}

/// Tokens that a window no longer sees, outside the block of the first one it sees.
TEST(ForwardIsolation, TokensLeftOfAWindow) {
  const Shape shape{{300}, {}, 1, 1, 64, 0};
  const Options options = with_window(60, 0);
  Case clean(shape, 35);
  Case changed(shape, 35);
  for (int64_t token = 0; token < 96; ++token) changed.scale_key_token(token, 1e6f);
  const int64_t first = 95 + 61;  // does not see token 95
  expect_same_bits(rows_of(device_forward(changed, options), shape, first, 300 - first),
                   rows_of(device_forward(clean, options), shape, first, 300 - first));
}

/// Shares that are dealt from the start, on grids that divide the work and that do not.
TEST(ForwardIsolation, AlternatingSharesGiveTheSameBits) {
  Case one({{300, 20, 0, 140, 1}, {}, 3, 1, 64, 3}, 36);  // seven query tiles, 21 units
  const ForwardResult wanted = device_forward(one, causal());
  for (const int ctas : {1, 2, 7, 20, 21, 40}) {
    SCOPED_TRACE(ctas);
    DeviceLayout layout;
    layout.alternating = true;
    layout.ctas = ctas;
    expect_same_bits(device_forward(one, causal(), layout), wanted);
  }
}

/// Leaves the bits in the file FLAMIA_FORWARD_BITS, for comparison of whole runs
/// (cmake/tests.cmake).
void keep_bits(const ForwardResult& result, std::ios::openmode mode) {
  const char* path = std::getenv("FLAMIA_FORWARD_BITS");
  if (path == nullptr) return;
  std::ofstream file(path, std::ios::binary | mode);
  const auto write = [&file](const auto& values) {
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(values[0])));
  };
  write(result.o);
  write(result.residual);
  write(result.lse);
  ASSERT_TRUE(file.good()) << path;
}

/// Every launch of the virtual GPU has another order of warps, copies and CTAs.
TEST(ForwardIsolation, SameBitsEveryTime) {
  Case one({{300, 20, 0, 140, 1}, {}, 2, 1, 128, 3}, 36);
  for (int64_t token = 200; token < 232; ++token) one.scale_key_token(token, 0x1p-9f);
  Options exact = causal();
  exact.safety = Safety::kExact;
  for (const Options& options : {causal(), exact}) {
    const ForwardResult first = expect_like_cpu(one, options);
    for (int launch = 0; launch < 4; ++launch) {
      expect_same_bits(device_forward(one, options), first);
    }
    keep_bits(first, options.safety == Safety::kDefault ? std::ios::trunc : std::ios::app);
  }
}

TEST(ForwardIsolation, NotANumberInside) { expect_poison_like_cpu(causal()); }

}  // namespace
}  // namespace flamia::test
