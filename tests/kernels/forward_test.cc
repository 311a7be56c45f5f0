// The forward kernel of sm_90a against the CPU backend with the same conventions: lengths, masks,
// heads, options, layouts in memory. Runs on the virtual GPU, or by hand on a real one.
#include "cuda/forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/forward_compare.h"

namespace flamia::test {
namespace {

Options with_window(int64_t left, int64_t right) {
  Options options;
  options.mask = {MaskKind::kWindow, left, right};
  return options;
}
Options causal() { return options_of(Path::kMxfp8, MaskKind::kCausal); }
Options full() { return options_of(Path::kMxfp8, MaskKind::kFull); }

/// The model itself is close to exact attention, so that an error that both share would show.
void expect_near_exact(Case& one, const Options& options, const ForwardResult& got) {
  const oracle::Result exact = one.reference(options, false);
  ForwardTolerance tolerance;
  tolerance.o = 0.08;  // E4M3 of Q, K, P and V: 5 to 6 % of O in all
  tolerance.cosine = 0.997;
  tolerance.row = 0.5;
  tolerance.lse = tolerance.row_lse = 0.2;  // scores of short rows move by the rounding of Q and K
  expect_close(whole_output(got), exact.o, got.lse, exact.lse, one.shape().heads, one.shape().dim,
               tolerance);
}

struct MaskCase {
  const char* name;
  Options options;
};

class ForwardMask : public testing::TestWithParam<int> {
 protected:
  static const std::vector<MaskCase>& masks() {
    static const std::vector<MaskCase> all = {
        {"causal", causal()},
        {"full", full()},
        {"left_only", with_window(40, -1)},
        {"right_only", with_window(-1, 50)},
        {"both", with_window(100, 30)},
        {"inside_a_tile", with_window(5, 0)},
        {"itself", with_window(0, 0)},
        {"across_tiles", with_window(140, 0)},
        {"wide", with_window(int64_t{1} << 41, int64_t{1} << 41)},
    };
    return all;
  }
};

/// Lengths at every edge of blocks and tiles, empty documents, unowned rows.
TEST_P(ForwardMask, LengthsAtTheEdgesOfTiles) {
  const MaskCase& mask = masks()[static_cast<size_t>(GetParam())];
  SCOPED_TRACE(mask.name);
  Case edges({{1, 0, 31, 32, 33, 63, 64, 65, 0}, {}, 1, 1, 128, 3}, 1);
  expect_near_exact(edges, mask.options, expect_like_cpu(edges, mask.options));
  Case tiles({{127, 128, 129, 0, 257}, {}, 1, 1, 64, 0}, 2);
  expect_near_exact(tiles, mask.options, expect_like_cpu(tiles, mask.options));
}

/// Keys of their own length; queries before the first key see nothing.
TEST_P(ForwardMask, OtherKeyLengths) {
  const MaskCase& mask = masks()[static_cast<size_t>(GetParam())];
  SCOPED_TRACE(mask.name);
  Case one({{70, 200, 5, 0, 129, 1}, {200, 60, 0, 9, 130, 300}, 1, 1, 64, 2}, 3);
  expect_near_exact(one, mask.options, expect_like_cpu(one, mask.options));
}

INSTANTIATE_TEST_SUITE_P(All, ForwardMask, testing::Range(0, 9));

TEST(Forward, LongerDocuments) {
  Case one({{255, 513}, {}, 1, 1, 128, 0}, 4);
  expect_near_exact(one, causal(), expect_like_cpu(one, causal()));
  expect_near_exact(one, full(), expect_like_cpu(one, full()));
  // Items that start in the middle of their document.
  for (const Options& options : {with_window(140, 30), with_window(5, 0), with_window(20, 300)}) {
    for (const KvOrder order : {KvOrder::kReverse, KvOrder::kForward}) {
      Options ordered = options;
      ordered.kv_order = order;
      expect_near_exact(one, ordered, expect_like_cpu(one, ordered));
    }
  }
}

TEST(Forward, CapturedLaunches) {
  Case one({{150, 40}, {}, 2, 1, 64, 1}, 16);
  DeviceLayout captured;
  captured.replays = 3;
  expect_same_bits(device_forward(one, causal(), captured), device_forward(one, causal()));
}

TEST(Forward, RowsWithoutKeysAreEmpty) {
  Case one({{130, 10}, {2, 0}, 2, 1, 64, 4}, 5);
  const ForwardResult got = expect_like_cpu(one, causal());
  for (int64_t row = 0; row < one.query_tokens(); ++row) {
    const bool empty = row < 128 || row >= 130;
    for (int64_t head = 0; head < 2; ++head) {
      const float lse = got.lse[static_cast<size_t>(head * one.query_tokens() + row)];
      EXPECT_EQ(lse == -std::numeric_limits<float>::infinity(), empty) << row;
      for (int64_t c = 0; c < 64; ++c) {
        const auto at = static_cast<size_t>((row * 2 + head) * 64 + c);
        if (empty) {
          ASSERT_EQ(got.o[at], 0);
          ASSERT_EQ(got.residual[at], 0);
        }
      }
    }
  }
}

TEST(Forward, NothingToDo) {
  Case none({{}, {}, 1, 1, 128, 5}, 6);
  expect_like_cpu(none, causal());
  Case empty({{0, 0, 0}, {}, 2, 2, 64, 0}, 6);
  expect_like_cpu(empty, full());
  Case keys_only({{0, 0}, {40, 130}, 1, 1, 128, 0}, 6);
  expect_like_cpu(keys_only, causal());
}

TEST(Forward, GroupedQueryHeads) {
  for (const int kv_heads : {1, 2, 4}) {
    Case one({{140, 33}, {}, 4, kv_heads, 64, 0}, 7);
    expect_near_exact(one, causal(), expect_like_cpu(one, causal()));
  }
  Case odd({{100}, {}, 3, 1, 128, 0}, 7);
  expect_like_cpu(odd, causal());
}

TEST(Forward, OrdersThresholdsAndSums) {
  Case one({{300, 70}, {}, 1, 1, 64, 0}, 8);
  for (const KvOrder order : {KvOrder::kReverse, KvOrder::kForward}) {
    for (const float tau : {0.0f, 0.5f}) {
      for (const RowSum sum : {RowSum::kPHat, RowSum::kP}) {
        SCOPED_TRACE(testing::Message() << "order " << static_cast<int>(order) << " tau " << tau
                                        << " sum " << static_cast<int>(sum));
        Options options = causal();
        options.kv_order = order;
        options.tau = tau;
        options.row_sum = sum;
        expect_near_exact(one, options, expect_like_cpu(one, options));
      }
    }
  }
  Options options = full();
  options.p_scale = 16.0f;
  options.tau = 4.0f;
  expect_like_cpu(one, options);
  options.p_scale = 1.0f;
  options.tau = 0.0f;
  expect_like_cpu(one, options);
}

TEST(Forward, HadamardOnAndOff) {
  for (const int dim : {64, 128}) {
    Case one({{130}, {}, 1, 1, dim, 0}, 9);
    for (const Hadamard hadamard : {Hadamard::kOn, Hadamard::kOff}) {
      Options options = causal();
      options.hadamard = hadamard;
      expect_near_exact(one, options, expect_like_cpu(one, options));
    }
  }
}

/// Results do not depend on where rows lie, nor on whether the residual is wanted.
TEST(Forward, LayoutsInMemory) {
  Case one({{70, 70, 70}, {}, 2, 1, 64, 0}, 10);
  const ForwardResult dense = expect_like_cpu(one, causal());
  DeviceLayout padded;
  padded.head_pad = 8;
  padded.token_pad = 24;
  padded.lse_token_stride = 3;
  padded.lse_pad = 5;
  expect_same_bits(device_forward(one, causal(), padded), dense);
  DeviceLayout batched;
  batched.batched = true;
  expect_same_bits(device_forward(one, causal(), batched), dense);
  DeviceLayout gaps = padded;
  gaps.batched = true;
  gaps.batch_pad = 40;
  expect_same_bits(device_forward(one, causal(), gaps), dense);
  gaps.residual = false;
  ForwardResult without = device_forward(one, causal(), gaps);
  EXPECT_TRUE(without.residual.empty());
  without.residual = dense.residual;
  expect_same_bits(without, dense);
}

TEST(Forward, BatchesWithKeysOfTheirOwn) {
  Case one({{40, 40}, {150, 150}, 2, 2, 128, 0}, 11);
  const ForwardResult packed = expect_like_cpu(one, causal());
  DeviceLayout batched;
  batched.batched = true;
  batched.batch_pad = 16;
  expect_same_bits(device_forward(one, causal(), batched), packed);
}

/// More key tiles than stages of the pipeline, several times over.
TEST(Forward, ManyKeyTiles) {
  for (const int dim : {64, 128}) {
    Case one({{70}, {2200}, 1, 1, dim, 0}, 13);
    for (const KvOrder order : {KvOrder::kReverse, KvOrder::kForward}) {
      Options options = causal();
      options.kv_order = order;
      expect_near_exact(one, options, expect_like_cpu(one, options));
    }
  }
}

/// CTAs that take many units of work, some without keys, and CTAs that get none.
TEST(Forward, GridsOfAnySize) {
  Shape shape{{}, {}, 2, 2, 64, 6};
  for (int32_t i = 0; i < 36; ++i) {
    shape.lengths.push_back(i % 5 == 0 ? 40 : i % 4);
    shape.lengths_k.push_back(i % 3 == 0 ? 0 : 3 * i + 1);
  }
  Case one(shape, 14);
  const ForwardResult got = expect_like_cpu(one, causal());
  for (const int ctas : {1, 3}) {
    DeviceLayout layout;
    layout.ctas = ctas;
    expect_same_bits(device_forward(one, causal(), layout), got);
  }
}

/// Lengths that do not start at zero, which only the device sees: rows outside all documents are
/// cleared, the others are those of the same document elsewhere.
TEST(Forward, RowsBeforeTheFirstDocument) {
  Case late({{92, 40}, {}, 2, 1, 64, 4}, 15);
  late.cu_q = late.cu_k = {2, 92, 130};
  const ForwardResult got = device_forward(late, causal());
  Case early({{90, 38}, {}, 2, 1, 64, 8}, 15);
  const auto move = [](const std::vector<uint16_t>& from, std::vector<uint16_t>* to,
                       int64_t width) {
    std::copy(from.begin() + 2 * width, from.begin() + 130 * width, to->begin());
  };
  move(late.q_data, &early.q_data, 128);
  move(late.k_data, &early.k_data, 64);
  move(late.v_data, &early.v_data, 64);
  const ForwardResult wanted = device_forward(early, causal());
  for (int64_t row = 0; row < 136; ++row) {
    const bool owned = row >= 2 && row < 130;
    for (int64_t i = 0; i < 128; ++i) {
      const auto at = static_cast<size_t>(row * 128 + i);
      ASSERT_EQ(got.o[at], owned ? wanted.o[at - 256] : 0) << row;
      ASSERT_EQ(got.residual[at], owned ? wanted.residual[at - 256] : 0) << row;
    }
    for (int64_t head = 0; head < 2; ++head) {
      const auto at = static_cast<size_t>(head * 136 + row);
      ASSERT_EQ(got.lse[at], owned ? wanted.lse[at - 2] : -std::numeric_limits<float>::infinity());
    }
  }
}

/// Elements and codes past 2^31: documents and heads that lie far apart.
TEST(Forward, OffsetsPast32Bits) {
  Case one({{40, 40}, {}, 2, 2, 64, 0}, 12);
  const ForwardResult dense = expect_like_cpu(one, causal());
  DeviceLayout far;
  far.batched = true;
  far.batch_pad = (int64_t{1} << 31) + 64;
  expect_same_bits(device_forward(one, causal(), far), dense);
  DeviceLayout heads;
  heads.blocks = (int64_t{1} << 21) + 1;
  expect_same_bits(device_forward(one, causal(), heads), dense);
}

TEST(Forward, RefusesWhatItCannotDo) {
  EXPECT_EQ(cuda::launch_forward({}, 96, 8, nullptr).message(),
            "launch_forward: head_dim must be 64 or 128; got 96");
  ForwardArgs args{};
  args.score_multiplier = -0.5f;
  EXPECT_EQ(cuda::launch_forward(args, 64, 8, nullptr).message(),
            "launch_forward: score_multiplier must be at least 0; got -0.5");
  EXPECT_EQ(
      cuda::launch_forward({}, 64, 8, nullptr, {Safety::kExact, Exponential::kMitchell}).message(),
      "launch_forward: exponential must have a kernel; got mitchell");
}

}  // namespace
}  // namespace flamia::test
