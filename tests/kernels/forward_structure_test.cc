// The forward kernel on inputs whose answer is known or whose magnitudes are extreme: what random
// tensors cannot see. Runs on the virtual GPU, or by hand on a real one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/forward_compare.h"
#include "tests/kernels/forward_inputs.h"

namespace flamia::test {
namespace {

Options causal() { return options_of(Path::kMxfp8, MaskKind::kCausal); }
Options full() { return options_of(Path::kMxfp8, MaskKind::kFull); }
/// Error of an LSE that is exact but for FP32: the softmax scale has 11 bits beside binary16
/// scores, and the largest probability is not a power of two.
double lse_error(double lse) { return half_scores() ? 0.02 + 0x1p-12 * std::fabs(lse) : 1e-3; }

TEST(ForwardStructure, OfOnesIsOne) {
  for (const int dim : {64, 128}) {
    Case one({{1, 33, 200, 129}, {}, 2, 1, dim, 0}, 21);
    one.fill_v(1.0f);
    for (const Options& options : {causal(), full()}) {
      const ForwardResult got = expect_like_cpu(one, options);
      for (const uint16_t o : got.o) ASSERT_EQ(o, float_to_bf16(1.0f));
      for (const double o : whole_output(got)) ASSERT_NEAR(o, 1.0, 2e-3);
    }
  }
}

/// Every channel and every key has its own value: a permuted token or channel shows.
TEST(ForwardStructure, ValuesThatCountChannelsAndKeys) {
  for (const int dim : {64, 128}) {
    Case one({{200}, {}, 1, 1, dim, 0}, 22);
    set_v(one, [](int64_t, int c) { return static_cast<float>(c % 16 + 1) * (c < 64 ? 1 : -2); });
    for (const Options& options : {causal(), full()}) {
      const ForwardResult got = expect_like_cpu(one, options);
      for (size_t i = 0; i < got.o.size(); ++i) {
        const int c = static_cast<int>(i) % dim;
        ASSERT_NEAR(bf16_to_float(got.o[i]), (c % 16 + 1) * (c < 64 ? 1 : -2),
                    0.01 * std::fabs(bf16_to_float(got.o[i])));
      }
    }
  }
}

/// One key takes all of the probability: O is its V row, for each place of the key.
TEST(ForwardStructure, OneHotKey) {
  for (const int64_t hot : {0, 1, 9, 31, 32, 77, 127, 128, 160, 199}) {
    SCOPED_TRACE(hot);
    Case one({{200}, {}, 1, 1, 64, 0}, 23);
    set_scores(one, [&](int64_t j) { return j == hot ? 64.0f : 0.0f; });
    set_v(one, [](int64_t j, int c) { return static_cast<float>((j * 7 + c * 5) % 15 + 1); });
    const ForwardResult got = expect_like_cpu(one, plain(full()));
    for (size_t i = 0; i < got.o.size(); ++i) {
      ASSERT_EQ(bf16_to_float(got.o[i]),
                static_cast<float>((hot * 7 + static_cast<int64_t>(i) % 64 * 5) % 15 + 1));
    }
    for (const float lse : got.lse) ASSERT_NEAR(lse, 64.0f, lse_error(64));
  }
}

TEST(ForwardStructure, MaximaThatRiseAndFall) {
  Case one({{400}, {}, 1, 1, 64, 0}, 24);
  ForwardTolerance tolerance;
  if (half_scores()) tolerance.o = 0.04, tolerance.cosine = 0.999;  // equal scores, equal errors
  for (const float slope : {0.02f, -0.02f, 0.5f, 8.0f, -8.0f}) {
    for (const KvOrder order : kBothOrders) {
      SCOPED_TRACE(testing::Message() << "slope " << slope << " order " << static_cast<int>(order));
      set_scores(one, [&](int64_t j) { return slope * static_cast<float>(j / 16); });
      Options options = in_order(plain(full()), order);
      expect_like_cpu(one, options, tolerance);
      options.tau = 0.75f;
      expect_like_cpu(one, options, tolerance);
    }
  }
}

TEST(ForwardStructure, EqualScoresAverage) {
  Case one({{257}, {}, 1, 1, 128, 0}, 25);
  std::fill(one.q_data.begin(), one.q_data.end(), uint16_t{0});
  one.add_to_v(0.5f);
  expect_like_cpu(one, causal());
  set_scores(one, [](int64_t) { return -416.0f; });  // all equal, all far below zero
  const ForwardResult got = expect_like_cpu(one, plain(causal()));
  for (size_t i = 0; i < got.lse.size(); ++i) {
    ASSERT_NEAR(got.lse[i], -416.0 + std::log(static_cast<double>(i + 1)), lse_error(416));
  }
}

/// A sink: one key with V = 0 and most of the mass beside many diffuse keys with V = 1.
TEST(ForwardStructure, SinkKeepsItsMass) {
  for (const float sink_score : {4.0f, 6.0f}) {
    for (const float sink_v : {0.0f, 0x1p-10f, 0x1p-20f, 0x1p-40f}) {
      for (const KvOrder order : kBothOrders) {
        SCOPED_TRACE(testing::Message()
                     << sink_score << " " << sink_v << " " << static_cast<int>(order));
        Case one({{400}, {}, 1, 1, 64, 0}, 26);
        set_scores(one, [&](int64_t j) { return j == 0 ? sink_score : 0.0f; });
        // Its whole block has small V, so that its exponent is far below the others'.
        set_v(one, [&](int64_t j, int) { return j < 32 ? sink_v : 1.0f; });
        const Options options = in_order(plain(full()), order);
        const ForwardResult got = expect_like_cpu(one, options);
        const double sum = std::exp(static_cast<double>(sink_score)) + 399;
        for (const uint16_t o : got.o) {
          ASSERT_NEAR(bf16_to_float(o) * sum / 368, 1.0, 0.04);
        }
      }
    }
  }
}

/// The sink alone has V = 0, the other keys of its block do not.
TEST(ForwardStructure, SinkInsideABlock) {
  Case one({{600}, {}, 1, 1, 64, 0}, 26);
  set_scores(one, [](int64_t j) { return j == 0 ? 6.0f : 0.0f; });
  set_v(one, [](int64_t j, int) { return j == 0 ? 0.0f : 1.0f; });
  const ForwardResult got = expect_like_cpu(one, plain(full()));
  const double expected = 599 / (std::exp(6.0) + 599);
  for (const uint16_t o : got.o) ASSERT_NEAR(bf16_to_float(o) / expected, 1.0, 0.04);
}

/// Single tokens far above the others: their block's other codes vanish, scores reach 10^6.
TEST(ForwardStructure, Spikes) {
  for (const float factor : {1e4f, 1e6f, 1e12f}) {
    for (int tensor = 0; tensor < 3; ++tensor) {
      SCOPED_TRACE(testing::Message() << factor << " in tensor " << tensor);
      Case one({{260}, {}, 1, 1, 64, 0}, 51);
      std::vector<uint16_t>* rows = tensor == 0   ? &one.q_data
                                    : tensor == 1 ? &one.k_data
                                                  : &one.v_data;
      for (const int64_t token : {3, 40, 130}) scale_rows(rows, 64, token, 1, factor);
      expect_like_cpu(one, causal());
      expect_like_cpu(one, full());
    }
  }
}

/// Blocks of Q and K over many decades: the multipliers of scores differ within a tile.
TEST(ForwardStructure, MagnitudesOfQueriesAndKeys) {
  for (const int step : {1, 3, 20, 60}) {
    SCOPED_TRACE(step);
    Case one({{260}, {}, 1, 1, 64, 0}, 52);
    for (int64_t block = 0; block < 8; ++block) {
      const int power = static_cast<int>(block % 4) - 2;
      scale_rows(&one.q_data, 64, block * 32, 32, std::ldexp(1.0f, step * power / 2));
      scale_rows(&one.k_data, 64, block * 32, 32, std::ldexp(1.0f, -step * power / 2));
    }
    scale_rows(&one.k_data, 64, 96, 32, 0.0f);
    // Many keys far below the largest: see DiffuseKeysBesideAHotOne.
    ForwardTolerance tolerance;
    tolerance.o = 5e-3;
    tolerance.lse = tolerance.row_lse = 0x1p-6;
    expect_like_cpu(one, causal(), tolerance);
    expect_like_cpu(one, full(), tolerance);
  }
}

/// The tensor core drops what lies 2^13 below the largest term of a step. The row sum comes from it
/// too: 127 keys just below that beside a hot one lose their mass, at most 2^-6 of the row. O keeps
/// its size (V = 1 gives 1); LSE is off by that much.
TEST(ForwardStructure, DiffuseKeysBesideAHotOne) {
  for (const float gap : {8.0f, 8.5f, 9.0f, 9.5f, 10.0f}) {
    SCOPED_TRACE(gap);
    Case one({{256}, {}, 1, 1, 64, 0}, 53);
    set_scores(one, [&](int64_t j) { return j == 70 ? gap : 0.0f; });
    one.fill_v(1.0f);
    ForwardTolerance tolerance;
    tolerance.o = tolerance.row = 2e-2;  // the CPU backend's sums are exact, its products are not
    tolerance.lse = tolerance.row_lse = 0x1p-6;
    const ForwardResult got = expect_like_cpu(one, plain(full()), tolerance);
    for (const double o : whole_output(got)) ASSERT_NEAR(o, 1.0, 1e-4);
  }
}

/// V that falls by more than FP32 holds while the tiles go by: O is the first tile's.
TEST(ForwardStructure, ValuesThatFallTileByTile) {
  for (const auto& [early, late] :
       {std::pair{1.0f, 0.0f}, {0x1p40f, 0.0f}, {0x1p60f, 0x1p-60f}, {0x1p100f, 0x1p-80f}}) {
    SCOPED_TRACE(testing::Message() << early << " to " << late);
    Case one({{512}, {}, 1, 1, 64, 0}, 28);
    set_v(one, [&](int64_t j, int c) {
      return static_cast<float>((j * 7 + c * 5) % 15 + 1) * (j < 128 ? early : late);
    });
    const Options options = in_order(full(), KvOrder::kForward);
    const ForwardResult got = expect_like_cpu(one, options);
    const oracle::Result exact = one.reference(options, false);
    EXPECT_LE(relative_error(got.o, exact.o), 0.05);
  }
}

/// The reverse: the row sum keeps what tiny V contributed, however large V becomes.
TEST(ForwardStructure, RowSumsOutliveRisingValues) {
  Case one({{512}, {}, 1, 1, 64, 0}, 29);
  set_v(one, [](int64_t j, int) { return j < 384 ? 0x1p-80f : 0x1p100f; });
  const Options options = in_order(full(), KvOrder::kForward);
  const ForwardResult got = expect_like_cpu(one, options);
  const oracle::Result exact = one.reference(options, false);
  EXPECT_LE(relative_error(got.o, exact.o), 0.05);
}

/// V below 2^-81 counts as zero: exponents below -90 are not kept. The sums do not suffer; they add
/// probabilities that are not rounded, where the CPU backend rounds.
TEST(ForwardStructure, ValuesTooSmallToKeep) {
  Case one({{300}, {}, 1, 1, 64, 0}, 29);
  ForwardTolerance tolerance;
  tolerance.row_lse = tolerance.lse = 0.03;
  tolerance.row = tolerance.o = 1;
  tolerance.o_floor = 0x1p-80;
  for (const float small : {0.0f, 0x1p-100f, 0x1p-120f}) {
    for (const KvOrder order : kBothOrders) {
      SCOPED_TRACE(testing::Message() << small << " order " << static_cast<int>(order));
      set_v(one, [&](int64_t, int) { return small; });
      expect_like_cpu(one, in_order(causal(), order), tolerance);
    }
  }
}

/// Softmax scales from none to so large that only the largest score counts; rows and keys of zeros.
TEST(ForwardStructure, SoftmaxScales) {
  for (const float scale : {0.0f, 1e-37f, 1e-10f, 1.0f, 1e4f}) {
    for (const bool zeros : {false, true}) {
      SCOPED_TRACE(testing::Message() << scale << (zeros ? " with zeros" : ""));
      Case one({{140}, {}, 1, 1, 64, 0}, 30);
      for (int64_t token = 32; zeros && token < 96; ++token) {
        for (int c = 0; c < 64; ++c) one.q(token, 0, c) = one.k(token + 16, 0, c) = 0;
      }
      Options options = causal();
      options.softmax_scale = scale;
      expect_like_cpu(one, options);
    }
  }
}

/// V of every block has its own magnitude.
struct Decades {
  const char* name;
  int step;    ///< powers of two from block to block
  int period;  ///< blocks until it starts again
  int start;
};
class ForwardDecades : public testing::TestWithParam<Decades> {};

TEST_P(ForwardDecades, ValueBlocks) {
  const Decades& decades = GetParam();
  Case one({{290, 70}, {}, 1, 1, 64, 0}, 27);
  scale_v_blocks(one, [&](int64_t block) {
    return decades.start + decades.step * static_cast<int>(block % decades.period);
  });
  for (const KvOrder order : kBothOrders) {
    for (const Options& options : {causal(), full()}) {
      SCOPED_TRACE(testing::Message() << "order " << static_cast<int>(order) << " mask "
                                      << static_cast<int>(options.mask.kind));
      expect_like_cpu(one, in_order(options, order));
    }
  }
  Options options = causal();
  options.row_sum = RowSum::kP;
  expect_like_cpu(one, options);
}

INSTANTIATE_TEST_SUITE_P(
    All, ForwardDecades,
    testing::Values(Decades{"near", 1, 3, 0}, Decades{"limit", 4, 2, 0},
                    Decades{"past_limit", 5, 2, 0}, Decades{"rising", 6, 16, -40},
                    Decades{"falling", -6, 16, 40}, Decades{"spread", 40, 4, -70},
                    Decades{"spread_down", -40, 4, 60}, Decades{"tiles_up", 12, 16, -50},
                    Decades{"tiles_down", -12, 16, 70}, Decades{"small", -4, 5, -60},
                    Decades{"large", 3, 4, 95}),
    [](const testing::TestParamInfo<Decades>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace flamia::test
