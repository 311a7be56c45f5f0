// The forward kernel with exact causal safety, every token with exponents of its own: against the
// CPU backend, and what must not change a row, bit for bit, at every row.
// Runs on the virtual GPU, or by hand on a real one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/forward_compare.h"
#include "tests/kernels/forward_inputs.h"

namespace flamia::test {
namespace {

Options exact(MaskKind mask) {
  Options options = options_of(Path::kMxfp8, mask);
  options.safety = Safety::kExact;
  return options;
}
Options causal() { return exact(MaskKind::kCausal); }
Options full() { return exact(MaskKind::kFull); }
Options with_window(int64_t left, int64_t right) {
  Options options = exact(MaskKind::kWindow);
  options.mask.window_left = left;
  options.mask.window_right = right;
  return options;
}

/// Multiplies every token's row of a tensor [tokens, width] by 2^exponent(token).
void scale_tokens(std::vector<uint16_t>* rows, int64_t width,
                  const std::function<int(int64_t)>& exponent) {
  for (size_t i = 0; i < rows->size(); ++i) {
    const int e = exponent(static_cast<int64_t>(i) / width);
    (*rows)[i] = float_to_bf16(std::ldexp(bf16_to_float((*rows)[i]), e));
  }
}

class ExactMask : public testing::TestWithParam<int> {
 protected:
  static const std::vector<Options>& masks() {
    static const std::vector<Options> all = {
        causal(),           full(), with_window(40, -1), with_window(100, 30), with_window(5, 0),
        with_window(140, 0)};
    return all;
  }
};

TEST_P(ExactMask, LengthsAtTheEdgesOfTiles) {
  const Options& options = masks()[static_cast<size_t>(GetParam())];
  Case edges({{1, 0, 31, 32, 33, 65, 0}, {}, 1, 1, 128, 3}, 1);
  expect_like_cpu(edges, options);
  Case tiles({{127, 128, 129, 257}, {}, 1, 1, 64, 0}, 2);
  expect_like_cpu(tiles, options);
}
TEST_P(ExactMask, OtherKeyLengths) {
  const Options& options = masks()[static_cast<size_t>(GetParam())];
  Case one({{70, 200, 5, 0, 1}, {200, 60, 0, 9, 300}, 2, 1, 64, 2}, 3);
  expect_like_cpu(one, options);
}
INSTANTIATE_TEST_SUITE_P(All, ExactMask, testing::Range(0, 6));

TEST(ForwardExact, LongerDocuments) {
  Case one({{255, 513}, {}, 1, 1, 128, 0}, 4);
  expect_like_cpu(one, causal());
  expect_like_cpu(one, full());
}

TEST(ForwardExact, GroupedHeadsBatchesAndLayouts) {
  Case one({{70, 70, 70}, {}, 4, 2, 64, 0}, 5);
  const ForwardResult dense = expect_like_cpu(one, causal());
  DeviceLayout layout;
  layout.batched = true;
  layout.head_pad = 8;
  layout.batch_pad = 40;
  expect_same_bits(device_forward(one, causal(), layout), dense);
  layout.ctas = 1;
  layout.replays = 2;
  expect_same_bits(device_forward(one, causal(), layout), dense);
  DeviceLayout far;
  far.blocks = (int64_t{1} << 21) + 1;
  expect_same_bits(device_forward(one, causal(), far), dense);
}

TEST(ForwardExact, OrdersThresholdsAndSums) {
  Case one({{300, 70}, {}, 1, 1, 64, 0}, 8);
  for (const KvOrder order : kBothOrders) {
    for (const RowSum sum : {RowSum::kPHat, RowSum::kP}) {
      Options options = in_order(causal(), order);
      options.row_sum = sum;
      expect_like_cpu(one, options);
      options.tau = 0.5f;
      expect_like_cpu(one, options);
    }
  }
}

/// Each token is in its own place: a permuted exponent, channel or key shows.
TEST(ForwardExact, OfOnesIsOne) {
  for (const int dim : {64, 128}) {
    Case one({{1, 33, 200}, {}, 2, 1, dim, 0}, 21);
    one.fill_v(1.0f);
    for (const Options& options : {causal(), full()}) {
      for (const uint16_t o : expect_like_cpu(one, options).o) {
        ASSERT_EQ(o, float_to_bf16(1.0f));
      }
    }
  }
}

/// Magnitudes that differ from token to token.
struct Magnitudes {
  const char* name;
  std::function<int(int64_t)> q, k, v;  ///< exponents
};
class ExactMagnitudes : public testing::TestWithParam<int> {
 protected:
  static const std::vector<Magnitudes>& all() {
    const auto none = [](int64_t) { return 0; };
    static const std::vector<Magnitudes> cases = {
        {"values_near", none, none, [](int64_t j) { return static_cast<int>(j * 5 % 4); }},
        {"values_at_the_limit", none, none, [](int64_t j) { return j % 3 == 0 ? -4 : 0; }},
        {"values_past_the_limit", none, none, [](int64_t j) { return j % 3 == 0 ? -5 : 0; }},
        {"values_spread", none, none, [](int64_t j) { return static_cast<int>(j * 37 % 81) - 40; }},
        {"values_rising", none, none, [](int64_t j) { return static_cast<int>(j / 3) - 50; }},
        {"values_falling", none, none, [](int64_t j) { return 50 - static_cast<int>(j / 3); }},
        {"sink", none, none, [](int64_t j) { return j == 0 ? -300 : 0; }},
        {"sinks_in_every_tile", none, none, [](int64_t j) { return j % 128 == 0 ? -300 : 0; }},
        {"one_large_value", none, none, [](int64_t j) { return j == 140 ? 20 : 0; }},
        {"queries_and_keys", [](int64_t i) { return static_cast<int>(i * 7 % 6) - 4; },
         [](int64_t j) { return static_cast<int>(j * 5 % 5) - 4; }, none},
        {"small_keys_large_queries", [](int64_t) { return 90; }, [](int64_t) { return -91; }, none},
        {"large_keys_small_queries", [](int64_t i) { return -100 - static_cast<int>(i % 2); },
         [](int64_t) { return 100; }, none},
        {"zeros", [](int64_t i) { return i % 5 == 0 ? -300 : 0; },
         [](int64_t j) { return j % 3 == 0 ? -300 : 0; },
         [](int64_t j) { return j % 4 == 0 ? -300 : 0; }},
    };
    return cases;
  }
};

TEST_P(ExactMagnitudes, LikeTheCpu) {
  const Magnitudes& magnitudes = all()[static_cast<size_t>(GetParam())];
  SCOPED_TRACE(magnitudes.name);
  Case one({{290, 40}, {}, 1, 1, 64, 0}, 27);
  scale_tokens(&one.q_data, 64, magnitudes.q);
  scale_tokens(&one.k_data, 64, magnitudes.k);
  scale_tokens(&one.v_data, 64, magnitudes.v);
  for (const KvOrder order : kBothOrders) {
    for (const Options& options : {causal(), full(), with_window(60, 10)}) {
      SCOPED_TRACE(testing::Message() << "order " << static_cast<int>(order) << " mask "
                                      << static_cast<int>(options.mask.kind));
      expect_like_cpu(one, in_order(options, order));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, ExactMagnitudes, testing::Range(0, 13));

/// What replaces the tokens of a document from some token on.
struct Change {
  const char* name;
  float q, k, v;  ///< factors
};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr Change kChanges[] = {
    {"spikes", 1e4f, 1e4f, 1e4f},
    {"large", 1e6f, -1e6f, 1e30f},
    {"zeros", 0, 0, 0},
    {"tiny", 1e-20f, 1e-20f, 1e-20f},
    {"infinite", kInfinite, kInfinite, kInfinite},
    {"NaN scores", kNan, kNan, 1e4f},
};

void change_tokens(Case* one, int64_t begin, int64_t end, const Change& change) {
  const int dim = one->shape().dim;
  const auto scale = [](uint16_t& x, float factor) {
    x = float_to_bf16(bf16_to_float(x) * factor);
  };
  for (int64_t token = begin; token < end; ++token) {
    for (int c = 0; c < dim; ++c) {
      scale(one->q(token, 0, c), change.q);
      scale(one->k(token, 0, c), change.k);
      scale(one->v(token, 0, c), change.v);
    }
  }
}

/// One document many times, each copy with all tokens changed after another row: rows up to that
/// one are as in the document alone.
void expect_no_leak(int dim, int32_t length, const std::vector<int64_t>& last_rows,
                    const Options& options, const Change& change) {
  SCOPED_TRACE(testing::Message() << change.name << " dim " << dim << " order "
                                  << static_cast<int>(options.kv_order));
  Case alone({{length}, {}, 1, 1, dim, 0}, 34);
  // Values of many magnitudes, so that references and sums are of every kind.
  scale_tokens(&alone.v_data, dim, [](int64_t j) { return static_cast<int>(j * 11 % 9) - 4; });
  const ForwardResult wanted = device_forward(alone, options);
  Case copies = alone.repeated(static_cast<int>(last_rows.size()));
  int64_t begin = 0;
  for (const int64_t row : last_rows) {
    change_tokens(&copies, begin + row + 1, begin + length, change);
    begin += length;
  }
  const ForwardResult got = device_forward(copies, options);
  begin = 0;
  for (const int64_t row : last_rows) {
    SCOPED_TRACE(testing::Message() << "tokens after " << row);
    expect_same_bits(rows_of(got, copies.shape(), begin, row + 1),
                     rows_of(wanted, alone.shape(), 0, row + 1));
    begin += length;
  }
}

TEST(ForwardExact, NoRowDependsOnLaterTokens) {
  std::vector<int64_t> all;
  for (int64_t row = 0; row < 40; ++row) all.push_back(row);
  const std::vector<int64_t> edges = {0, 31, 32, 63, 126, 127, 128, 198};
  for (const Change& change : kChanges) expect_no_leak(64, 200, edges, causal(), change);
  for (const KvOrder order : kBothOrders) {
    expect_no_leak(64, 40, all, in_order(causal(), order), kChanges[0]);
  }
  expect_no_leak(128, 200, edges, causal(), kChanges[0]);
}

/// Path nvfp4, whose Q and K have exponents of tokens with either safety.
TEST(ForwardExact, OfNvfp4) {
  for (const int dim : {64, 128}) {
    Case one({{1, 33, 0, 200}, {}, 2, 1, dim, 3}, 38);
    scale_tokens(&one.v_data, dim, [](int64_t j) { return static_cast<int>(j * 11 % 9) - 4; });
    for (Options options : {causal(), full(), with_window(100, 30)}) {
      options.path = Path::kNvfp4;
      expect_like_cpu(one, options);
    }
  }
  Options options = causal();
  options.path = Path::kNvfp4;
  for (const Change& change : kChanges) {
    expect_no_leak(64, 200, {0, 31, 77, 127, 128, 198}, options, change);
  }
}

/// A NaN in V reaches the rows of its key tile, as on the CPU, and none before.
TEST(ForwardExact, NotANumberInLaterValues) {
  const Shape shape{{300}, {}, 1, 1, 64, 0};
  Case clean(shape, 35);
  Case poisoned(shape, 35);
  change_tokens(&poisoned, 150, 300, {"", kNan, kNan, kNan});
  expect_same_bits(rows_of(device_forward(poisoned, causal()), shape, 0, 128),
                   rows_of(device_forward(clean, causal()), shape, 0, 128));
}

/// Tokens that a window does not see, on either side.
TEST(ForwardExact, NoRowDependsOnTokensOutsideItsWindow) {
  const Shape shape{{300}, {}, 1, 1, 64, 0};
  const Options options = with_window(40, 20);
  Case clean(shape, 36);
  scale_tokens(&clean.v_data, 64, [](int64_t j) { return static_cast<int>(j * 11 % 9) - 4; });
  const ForwardResult wanted = device_forward(clean, options);
  for (const int64_t row : {130, 167, 170, 199, 235}) {
    for (const Change& change : kChanges) {
      SCOPED_TRACE(testing::Message() << change.name << " row " << row);
      Case changed = clean;
      change_tokens(&changed, 0, row - 40, change);
      change_tokens(&changed, row + 21, 300, change);
      expect_same_bits(rows_of(device_forward(changed, options), shape, row, 1),
                       rows_of(wanted, shape, row, 1));
    }
  }
}

/// A document alone and inside rows of others, whose values are NaN or huge.
TEST(ForwardExact, ADocumentAloneIsTheSameInsideARow) {
  for (const Options& options : {causal(), full(), with_window(50, 20)}) {
    for (const int dim : {64, 128}) {
      if (dim == 128 && options.mask.kind != MaskKind::kCausal) continue;
      Case alone({{161}, {}, 1, 1, dim, 0}, 31);
      scale_tokens(&alone.v_data, dim, [](int64_t j) { return static_cast<int>(j * 11 % 9) - 4; });
      const ForwardResult wanted = device_forward(alone, options);
      for (const int32_t before : {1, 31, 130}) {
        const Shape shape{{before, 161, 45}, {}, 1, 1, dim, 7};
        for (const Change& change : {kChanges[0], Change{"NaN", kNan, kNan, kNan}}) {
          Case row(shape, 32);
          change_tokens(&row, 0, row.query_tokens(), change);
          copy_rows(alone.q_data, 0, &row.q_data, before, 161, dim);
          copy_rows(alone.k_data, 0, &row.k_data, before, 161, dim);
          copy_rows(alone.v_data, 0, &row.v_data, before, 161, dim);
          SCOPED_TRACE(testing::Message() << change.name << " before " << before);
          expect_same_bits(rows_of(device_forward(row, options), shape, before, 161), wanted);
        }
      }
    }
  }
}

TEST(ForwardExact, NotANumberInside) { expect_poison_like_cpu(causal()); }

}  // namespace
}  // namespace flamia::test
