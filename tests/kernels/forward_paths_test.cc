// The forward kernels of the other paths against the CPU backend with the same conventions, on what
// they do not share with MXFP8: operands in BF16, their multipliers, the softmax and the sums of
// path bf16. Runs on the virtual GPU, or by hand on a real one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/forward_compare.h"
#include "tests/kernels/forward_inputs.h"

namespace flamia::test {
namespace {

/// A path and what separates its kernel from the CPU backend.
class ForwardPath : public testing::TestWithParam<Path> {
 protected:
  Options causal() const { return options_of(GetParam(), MaskKind::kCausal); }
  Options full() const { return options_of(GetParam(), MaskKind::kFull); }
  Options with_window(int64_t left, int64_t right) const {
    Options options = full();
    options.mask = {MaskKind::kWindow, left, right};
    return options;
  }
  ForwardTolerance tolerance() const {
    ForwardTolerance result;
    if (GetParam() == Path::kBf16) {
      // 2^x and 1 / l within 2 ulp, sums in another order; a P on the other side of a rounding
      // boundary moves by 2^-8 of itself.
      result.o = 1e-4;
      result.row = 4e-3;
      result.lse = result.row_lse = 1e-4;
    }
    return result;
  }
  /// set_scores() has queries of 1, the largest of their group: in NVFP4 six times the nearest
  /// scale to 1 / 6.
  float one_as_query() const { return GetParam() == Path::kNvfp4 ? 1.03125f : 1.0f; }
  ForwardResult like_cpu(Case& one, const Options& options, const DeviceLayout& layout = {}) const {
    return expect_like_cpu(one, options, tolerance(), layout);
  }
  /// Likewise, and close to exact attention.
  ForwardResult like_exact(Case& one, const Options& options) const {
    const ForwardResult got = like_cpu(one, options);
    const oracle::Result exact = one.reference(options, false);
    ForwardTolerance close;
    const bool bf16 = GetParam() == Path::kBf16;
    close.o = bf16 ? 5e-3 : 0.2;
    close.cosine = bf16 ? 0.9999 : 0.98;
    close.row = bf16 ? 2e-2 : 1.0;
    close.lse = close.row_lse = bf16 ? 5e-3 : 0.5;
    expect_close(whole_output(got), exact.o, got.lse, exact.lse, one.shape().heads, one.shape().dim,
                 close);
    return got;
  }
};

TEST_P(ForwardPath, LengthsAtTheEdgesOfTiles) {
  Case edges({{1, 0, 31, 32, 33, 64, 65, 0}, {}, 1, 1, 128, 3}, 1);
  Case tiles({{127, 128, 129, 0, 257}, {}, 1, 1, 64, 0}, 2);
  for (const Options& options : {causal(), full(), with_window(100, 30), with_window(5, 0)}) {
    like_exact(edges, options);
    like_exact(tiles, options);
  }
}

TEST_P(ForwardPath, KeysOfTheirOwnLengthsAndGroupedHeads) {
  Case one({{70, 200, 5, 0, 129, 1}, {200, 60, 0, 9, 130, 300}, 2, 1, 64, 2}, 3);
  for (const Options& options : {causal(), full(), with_window(40, 3)}) like_exact(one, options);
  Case odd({{100}, {}, 3, 1, 128, 0}, 7);
  like_exact(odd, causal());
}

/// More key tiles than stages, in both orders; items that start in the middle of their document.
TEST_P(ForwardPath, ManyKeyTiles) {
  for (const int dim : {64, 128}) {
    Case one({{70}, {900}, 1, 1, dim, 0}, 13);
    for (const KvOrder order : kBothOrders) {
      like_exact(one, in_order(causal(), order));
      like_exact(one, in_order(with_window(300, 0), order));
    }
  }
}

TEST_P(ForwardPath, ThresholdsAndSums) {
  Case one({{300, 70}, {}, 1, 1, 64, 0}, 8);
  for (const float tau : {0.0f, 0.5f}) {
    for (const RowSum sum : {RowSum::kPHat, RowSum::kP}) {
      Options options = causal();
      options.tau = tau;
      options.row_sum = sum;
      like_exact(one, options);
    }
  }
}

TEST_P(ForwardPath, LayoutsAndGrids) {
  Case one({{70, 70, 70}, {}, 2, 1, 64, 0}, 10);
  const ForwardResult dense = like_cpu(one, causal());
  DeviceLayout other;
  other.batched = true;
  other.batch_pad = 40;
  other.head_pad = 8;
  other.token_pad = 24;
  other.lse_token_stride = 3;
  other.ctas = 1;
  other.blocks = 40;
  expect_same_bits(device_forward(one, causal(), other), dense);
}

/// Documents of one token: LSE is the score itself, which must be that of the definition.
TEST_P(ForwardPath, ScoresOfSingleKeys) {
  for (const int dim : {64, 128}) {
    Case one({std::vector<int32_t>(40, 1), {}, 2, 1, dim, 0}, 18);
    for (int64_t token = 0; token < 40; ++token) {
      const int power = static_cast<int>(token) % 13 - 6;
      scale_rows(&one.q_data, 2 * dim, token, 1, std::ldexp(1.0f, 6 * power));
      scale_rows(&one.k_data, dim, token, 1, std::ldexp(1.0f, (token % 3 == 0 ? -5 : -6) * power));
    }
    const ForwardResult got = device_forward(one, causal());
    const ForwardResult model = cpu_forward(one, causal());
    for (size_t i = 0; i < got.lse.size(); ++i) {
      // Each side rounds a few times, at the size of the score or of c = 8.
      ASSERT_NEAR(got.lse[i], model.lse[i], 0x1p-22f * (std::fabs(model.lse[i]) + 8)) << i;
    }
  }
}

/// Payloads past 2^31 bytes: heads that lie far apart.
TEST_P(ForwardPath, OffsetsPast32Bits) {
  Case one({{40, 40}, {}, 2, 2, 64, 0}, 12);
  DeviceLayout heads;
  heads.blocks = (int64_t{1} << 20) + 1;
  expect_same_bits(device_forward(one, causal(), heads), like_cpu(one, causal()));
}

TEST_P(ForwardPath, OfOnesIsOne) {
  for (const int dim : {64, 128}) {
    Case one({{1, 33, 200, 129}, {}, 2, 1, dim, 0}, 21);
    one.fill_v(1.0f);
    for (const double o : whole_output(like_cpu(one, causal()))) ASSERT_NEAR(o, 1.0, 2e-3);
  }
}

/// Every channel has its own value: a permuted one shows.
TEST_P(ForwardPath, ValuesThatCountChannels) {
  for (const int dim : {64, 128}) {
    Case one({{200}, {}, 1, 1, dim, 0}, 22);
    const auto value = [](int64_t c) { return static_cast<float>(c % 16 + 1) * (c < 64 ? 1 : -2); };
    set_v(one, [&](int64_t, int c) { return value(c); });
    const ForwardResult got = like_cpu(one, causal());
    for (size_t i = 0; i < got.o.size(); ++i) {
      const float expected = value(static_cast<int64_t>(i) % dim);
      ASSERT_NEAR(bf16_to_float(got.o[i]), expected, 0.01 * std::fabs(expected));
    }
  }
}

/// One key takes all of the probability: O is its V row, for each place of the key.
TEST_P(ForwardPath, OneHotKey) {
  for (const int64_t hot : {0, 9, 31, 32, 77, 127, 128, 199}) {
    SCOPED_TRACE(hot);
    Case one({{200}, {}, 1, 1, 64, 0}, 23);
    set_scores(one, [&](int64_t j) { return j == hot ? 96.0f : 0.0f; });
    set_v(one, [](int64_t j, int c) { return static_cast<float>((j * 7 + c * 5) % 15 + 1); });
    const ForwardResult got = like_cpu(one, plain(full()));
    for (size_t i = 0; i < got.o.size(); ++i) {
      ASSERT_EQ(bf16_to_float(got.o[i]),
                static_cast<float>((hot * 7 + static_cast<int64_t>(i) % 64 * 5) % 15 + 1));
    }
    for (const float lse : got.lse) ASSERT_NEAR(lse, 96.0f * one_as_query(), 1e-3);
  }
}

TEST_P(ForwardPath, MaximaThatRiseAndFall) {
  Case one({{400}, {}, 1, 1, 64, 0}, 24);
  for (const float slope : {0.02f, -0.5f, 8.0f, -8.0f}) {
    for (const KvOrder order : kBothOrders) {
      SCOPED_TRACE(testing::Message() << "slope " << slope << " order " << static_cast<int>(order));
      set_scores(one, [&](int64_t j) { return slope * static_cast<float>(j / 16); });
      like_cpu(one, in_order(plain(full()), order));
    }
  }
}

TEST_P(ForwardPath, EqualScoresFarBelowZero) {
  Case one({{257}, {}, 1, 1, 128, 0}, 25);
  set_scores(one, [](int64_t) { return -384.0f; });
  const ForwardResult got = like_cpu(one, plain(causal()));
  for (size_t i = 0; i < got.lse.size(); ++i) {
    ASSERT_NEAR(got.lse[i], -384.0f * one_as_query() + std::log(static_cast<float>(i + 1)), 1e-3);
  }
}

/// Single tokens far above the others; blocks of Q and K over many decades.
TEST_P(ForwardPath, SpikesAndMagnitudes) {
  for (const float factor : {1e4f, 1e6f}) {
    for (int tensor = 0; tensor < 3; ++tensor) {
      SCOPED_TRACE(testing::Message() << factor << " in tensor " << tensor);
      Case one({{260}, {}, 1, 1, 64, 0}, 51);
      std::vector<uint16_t>* rows = tensor == 0   ? &one.q_data
                                    : tensor == 1 ? &one.k_data
                                                  : &one.v_data;
      for (const int64_t token : {3, 40, 130}) scale_rows(rows, 64, token, 1, factor);
      like_cpu(one, causal());
    }
  }
  for (const int step : {3, 60}) {
    SCOPED_TRACE(step);
    Case one({{260}, {}, 1, 1, 64, 0}, 52);
    for (int64_t token = 0; token < 260; ++token) {
      const int power = static_cast<int>(token % 4) - 2;
      scale_rows(&one.q_data, 64, token, 1, std::ldexp(1.0f, step * power / 2));
      scale_rows(&one.k_data, 64, token, 1, std::ldexp(1.0f, -step * power / 2));
    }
    scale_rows(&one.k_data, 64, 96, 32, 0.0f);
    ForwardTolerance far = tolerance();
    if (GetParam() != Path::kBf16) {  // many keys far below a hot one, summed by the tensor core
      far.o = 5e-3;
      far.lse = far.row_lse = 0x1p-6;
    }
    expect_like_cpu(one, causal(), far);
  }
}

/// A document alone and inside rows of others, at several offsets, beside NaN.
TEST_P(ForwardPath, PlaceInTheRow) {
  for (const int dim : {64, 128}) {
    Case alone({{161}, {}, 2, 1, dim, 0}, 31);
    for (int64_t token = 64; token < 96; ++token) alone.scale_key_token(token, 0x1p-9f);
    for (const Options& options : {causal(), with_window(50, 20)}) {
      const ForwardResult wanted = device_forward(alone, options);
      for (const std::vector<int32_t>& before : {std::vector<int32_t>{1}, {31, 0}, {33, 130}}) {
        Shape shape{before, {}, 2, 1, dim, 7};
        shape.lengths.push_back(161);
        shape.lengths.push_back(45);
        Case row(shape, 32);
        for (auto* tensor : {&row.q_data, &row.k_data, &row.v_data}) {
          std::fill(tensor->begin(), tensor->end(), kNanBf16);
        }
        int64_t at = 0;
        for (const int32_t length : before) at += length;
        copy_rows(alone.q_data, 0, &row.q_data, at, 161, 2 * dim);
        copy_rows(alone.k_data, 0, &row.k_data, at, 161, dim);
        copy_rows(alone.v_data, 0, &row.v_data, at, 161, dim);
        expect_same_bits(rows_of(device_forward(row, options), shape, at, 161), wanted);
      }
    }
  }
}

/// Future keys and values by factors that move every exponent: earlier rows keep their bits; where
/// V has exponents of blocks, those outside its block.
TEST_P(ForwardPath, FutureTokens) {
  const Shape shape{{200}, {}, 1, 1, 64, 0};
  Case clean(shape, 34);
  const ForwardResult wanted = device_forward(clean, causal());
  for (const int64_t changed : {33, 100, 128, 161}) {
    for (const float factor : {1e6f, 0.0f}) {
      SCOPED_TRACE(testing::Message() << "token " << changed << " factor " << factor);
      Case leaky(shape, 34);
      leaky.scale_key_token(changed, factor);
      const int64_t safe = GetParam() == Path::kBf16 ? changed : changed / 32 * 32;
      expect_same_bits(rows_of(device_forward(leaky, causal()), shape, 0, safe),
                       rows_of(wanted, shape, 0, safe));
    }
  }
}

/// NaN and infinities inside the document: whoever sees them gets what the CPU backend gives. Not
/// infinities of Q and K in NVFP4, which are large numbers, here other ones (nvfp4_bf16_scale()).
TEST_P(ForwardPath, NotANumberInside) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float poison : {std::nanf(""), inf, -inf}) {
    for (int tensor = 0; tensor < 3; ++tensor) {
      if (GetParam() == Path::kNvfp4 && tensor < 2 && std::isinf(poison)) continue;
      for (const int64_t token : {5, 150}) {
        SCOPED_TRACE(testing::Message() << poison << " tensor " << tensor << " token " << token);
        Case one({{200}, {}, 1, 1, 64, 0}, 37);
        uint16_t& x = tensor == 0   ? one.q(token, 0, 3)
                      : tensor == 1 ? one.k(token, 0, 3)
                                    : one.v(token, 0, 3);
        x = float_to_bf16(poison);
        like_cpu(one, causal());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ForwardPath, testing::Values(Path::kBf16, Path::kNvfp4),
                         [](const testing::TestParamInfo<Path>& one) {
                           return std::string(path_name(one.param));
                         });

}  // namespace
}  // namespace flamia::test
