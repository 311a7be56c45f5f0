// Calls of the kinds that attention libraries are known to trip over, through the public API on a
// Hopper: odd metadata, layouts, head ratios, magnitudes, masks, leaks. Sizes that the virtual GPU
// can hold; the large ones are in large_test.cc.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "numerics/bf16.h"
#include "tests/cuda/device_call.h"

namespace flamia {
namespace {

using test::Case;
using test::DeviceBuffer;
using test::DeviceCall;
using test::DeviceOutputs;
using test::Shape;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Options hopper(MaskKind mask) {
  Options options;
  options.backend = BackendKind::kHopper;
  options.mask.kind = mask;
  return options;
}

DeviceOutputs on_device(Case* host, const Options& options) {
  return DeviceCall(host).run(options);
}

test::Outputs on_cpu(Case* host, Options options) {
  options.backend = BackendKind::kCpu;
  options.accumulate = Accumulate::kHardware;
  options.threads = 2;
  return host->run(options, false);
}

bool is_nan(uint16_t bf16) { return (bf16 & 0x7fff) > 0x7f80; }

/// O and LSE as the CPU gives them, row by row where there are few.
void expect_like_cpu(Case* host, const Options& options) {
  const DeviceOutputs got = on_device(host, options);
  const test::Outputs wanted = on_cpu(host, options);
  ASSERT_EQ(std::count_if(got.o.begin(), got.o.end(), is_nan), 0);
  const std::vector<double> expected = test::decoded(wanted.o);
  const double norm = std::accumulate(expected.begin(), expected.end(), 0.0,
                                      [](double sum, double x) { return sum + x * x; });
  if (norm > 0) {
    EXPECT_LE(test::relative_error(got.o, expected), 1e-2);
  }
  for (size_t i = 0; i < got.o.size(); ++i) {
    if (expected[i] == 0) {
      ASSERT_EQ(got.o[i] & 0x7fff, 0) << i;
    }
  }
  ASSERT_EQ(got.lse.size(), wanted.lse.size());
  for (size_t i = 0; i < got.lse.size(); ++i) {
    if (std::isinf(wanted.lse[i])) {
      ASSERT_EQ(got.lse[i], wanted.lse[i]) << i;
    } else {
      ASSERT_NEAR(got.lse[i], wanted.lse[i], 1e-3f + 1e-6f * std::fabs(wanted.lse[i])) << i;
    }
  }
}

/// Each document holds at most one query; some have no keys.
TEST(HopperRobustness, DocumentsOfOneQueryWithSharedHeads) {
  Case host({{0, 1, 0, 1}, {0, 3, 0, 5}, 9, 3, 64, 0});
  expect_like_cpu(&host, hopper(MaskKind::kCausal));
  Case no_keys({{1, 1, 1}, {0, 2, 0}, 4, 2, 64, 0});
  expect_like_cpu(&no_keys, hopper(MaskKind::kCausal));
}

TEST(HopperRobustness, MoreDocumentsThanTokens) {
  for (const int documents : {4, 12}) {
    Shape shape{std::vector<int32_t>(static_cast<size_t>(documents), 0), {}, 21, 7, 64, 0};
    shape.lengths.back() = 3;
    Case host(shape);
    expect_like_cpu(&host, hopper(MaskKind::kCausal));
  }
}

TEST(HopperRobustness, LeadingAndTrailingEmptyDocuments) {
  Case host({{0, 0, 200, 0, 33, 0, 0, 0}, {}, 2, 1, 64, 7});
  const DeviceOutputs got = on_device(&host, hopper(MaskKind::kCausal));
  Case tight({{200, 33}, {}, 2, 1, 64, 7});
  EXPECT_EQ(got.o, on_device(&tight, hopper(MaskKind::kCausal)).o);
}

/// Nothing is read past cu_seqlens[documents]: what follows there is garbage.
TEST(HopperRobustness, LengthsAtTheEndOfTheirMemory) {
  Case host({{70, 60, 3}, {}, 2, 1, 64, 0});
  const Options options = hopper(MaskKind::kCausal);
  const DeviceOutputs wanted = on_device(&host, options);
  for (const int32_t garbage : {-1, 1 << 30}) {
    std::vector<int32_t> lengths = host.cu_q;
    lengths.resize(lengths.size() + 8, garbage);
    DeviceBuffer<int32_t> memory(lengths);
    DeviceCall call(&host);
    call.tensors.cu_seqlens_q.data = memory.data();
    const DeviceOutputs got = call.run(options);
    EXPECT_EQ(got.o, wanted.o);
    EXPECT_EQ(got.lse, wanted.lse);
  }
}

/// Lengths that no tile divides.
TEST(HopperRobustness, LengthsAroundEveryTileEdge) {
  Case host({{63, 64, 65, 191, 192, 193, 255, 256, 257}, {}, 1, 1, 64, 0});
  expect_like_cpu(&host, hopper(MaskKind::kCausal));
  Case short_ones({{9, 7, 8, 12, 8, 12}, {}, 1, 1, 128, 0});
  expect_like_cpu(&short_ones, hopper(MaskKind::kFull));
}

/// Every ratio of query to key heads, each key head with data of its own.
TEST(HopperRobustness, RatiosOfHeads) {
  const int pairs[][2] = {{2, 1}, {3, 1},  {10, 2}, {6, 1},  {7, 1},
                          {8, 1}, {24, 2}, {16, 1}, {12, 12}};
  for (const auto& [heads, kv_heads] : pairs) {
    SCOPED_TRACE(testing::Message() << heads << ":" << kv_heads);
    Case host({{40, 5}, {}, heads, kv_heads, 64, 0});
    for (int64_t token = 0; token < 45; ++token) {
      for (int head = 0; head < kv_heads; ++head)
        host.v(token, head, 0) = float_to_bf16(head + 1.0f);
    }
    const DeviceOutputs got = on_device(&host, hopper(MaskKind::kCausal));
    for (size_t i = 0; i < got.o.size(); i += 64) {
      const auto head = static_cast<int>(i / 64) % heads;
      ASSERT_NEAR(bf16_to_float(got.o[i]), head * kv_heads / heads + 1.0f, 0.05f * kv_heads) << i;
    }
    expect_like_cpu(&host, hopper(MaskKind::kCausal));
  }
}

/// A contiguous call, a strided one and a contiguous one again: no state between calls.
TEST(HopperRobustness, CallsInTurn) {
  Case host({{50, 20}, {}, 2, 2, 64, 0});
  const Options options = hopper(MaskKind::kCausal);
  const DeviceOutputs wanted = on_device(&host, options);
  const int64_t tokens = host.query_tokens();
  std::vector<uint16_t> transposed(host.q_data.size());
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      std::memcpy(&transposed[static_cast<size_t>((h * tokens + t) * 64)],
                  &host.q_data[static_cast<size_t>((t * 2 + h) * 64)], 128);
    }
  }
  DeviceBuffer<uint16_t> heads_first(transposed);
  DeviceCall strided(&host);
  strided.tensors.q.data = heads_first.data();
  strided.tensors.q.stride[0] = 64;
  strided.tensors.q.stride[1] = tokens * 64;
  EXPECT_EQ(strided.run(options).o, wanted.o);
  EXPECT_EQ(on_device(&host, options).o, wanted.o);
}

TEST(HopperRobustness, RefusesOtherTypes) {
  Case host({{8}, {}, 1, 1, 64, 0});
  DeviceCall call(&host);
  call.prepare(hopper(MaskKind::kCausal));
  call.tensors.q.dtype = DType::kF32;
  EXPECT_EQ(call.enqueue(hopper(MaskKind::kCausal)).message(),
            "attention_forward: q.dtype must be BF16; got F32 (convert q to BF16)");
}

/// V of ones gives ones: what the sum counts, the product has.
TEST(HopperRobustness, OneHotKeyAmongDiffuseOnes) {
  Case host({{300}, {}, 1, 1, 64, 0});
  host.fill_v(1.0f);
  std::fill(host.q_data.begin(), host.q_data.end(), float_to_bf16(0.125f));
  std::fill(host.k_data.begin(), host.k_data.end(), uint16_t{0});
  for (int c = 0; c < 64; ++c) host.k(70, 0, c) = float_to_bf16(1.0f);
  Options options = hopper(MaskKind::kFull);
  options.softmax_scale = 0.9f;  // one key stands 7.2 nats above 299
  const DeviceOutputs got = on_device(&host, options);
  for (const uint16_t o : got.o) ASSERT_NEAR(bf16_to_float(o), 1.0f, 0x1p-7f);
}

/// One query on keys around a tile's edge; maxima that rise from tile to tile.
TEST(HopperRobustness, OneQueryOnKeysAroundATile) {
  for (const int keys : {127, 128, 129, 130}) {
    Case host({{1}, {keys}, 6, 1, 128, 0});
    expect_like_cpu(&host, hopper(MaskKind::kFull));
  }
  for (const KvOrder order : {KvOrder::kForward, KvOrder::kReverse}) {
    Case rising({{1}, {512}, 1, 1, 64, 0});
    for (int64_t key = 0; key < 512; ++key) {
      for (int c = 0; c < 64; ++c) {
        rising.k(key, 0, c) = float_to_bf16(static_cast<float>(key / 128) * 0.25f);
      }
    }
    std::fill(rising.q_data.begin(), rising.q_data.end(), float_to_bf16(1.0f));
    Options options = hopper(MaskKind::kFull);
    options.kv_order = order;
    options.tau = 0.75f;
    expect_like_cpu(&rising, options);
  }
}

/// Scores of some hundreds below zero are scores, not masks; so is a single one of -32768.
TEST(HopperRobustness, VeryNegativeScores) {
  Case host({{140}, {}, 1, 1, 64, 0});
  std::fill(host.q_data.begin(), host.q_data.end(), float_to_bf16(4.0f));
  for (int64_t key = 0; key < 140; ++key) {
    const float k = -6.0f - static_cast<float>(key % 8);
    for (int c = 0; c < 64; ++c) host.k(key, 0, c) = float_to_bf16(k);
  }
  expect_like_cpu(&host, hopper(MaskKind::kCausal));  // -192 to -416 nats

  Case lonely({{1, 34}, {1, 1}, 1, 1, 128, 0});
  std::fill(lonely.q_data.begin(), lonely.q_data.end(), float_to_bf16(64.0f));
  std::fill(lonely.k_data.begin(), lonely.k_data.end(), float_to_bf16(-64.0f));
  const DeviceOutputs got = on_device(&lonely, hopper(MaskKind::kCausal));
  const float score = -64.0f * 64.0f * std::sqrt(128.0f);
  EXPECT_NEAR(got.lse[0] / score, 1.0f, 0.125f);  // two codes, each within 1/16
  float peak = 0;
  for (size_t c = 0; c < 128; ++c) {
    peak = std::max(peak, std::fabs(bf16_to_float(lonely.v_data[c])));
  }
  for (size_t c = 0; c < 128; ++c) {
    EXPECT_NEAR(bf16_to_float(got.o[c]), bf16_to_float(lonely.v_data[c]), 0.07f * peak) << c;
  }
  for (size_t row = 1; row < 34; ++row) {  // 34 queries on one key: only the last sees it
    EXPECT_EQ(got.lse[row], -kInfinity);
    EXPECT_EQ(got.o[row * 128] & 0x7fff, 0);
  }
  EXPECT_TRUE(std::isfinite(got.lse[34]));
}

/// Whatever lies in other documents and in rows of nobody, a document's bits stay.
TEST(HopperRobustness, NotANumberEverywhereElse) {
  const Shape shape{{33, 64, 96, 48}, {}, 2, 1, 64, 11};
  Case clean(shape);
  const DeviceOutputs wanted = on_device(&clean, hopper(MaskKind::kCausal));
  for (const float poison : {std::nanf(""), kInfinity, 1e6f}) {
    Case dirty(shape);
    for (int64_t token = 0; token < dirty.query_tokens(); ++token) {
      if (token >= 97 && token < 193) continue;
      for (int c = 0; c < 64; ++c) {
        for (int head = 0; head < 2; ++head) dirty.q(token, head, c) = float_to_bf16(poison);
        dirty.k(token, 0, c) = dirty.v(token, 0, c) = float_to_bf16(poison);
      }
    }
    const DeviceOutputs got = on_device(&dirty, hopper(MaskKind::kCausal));
    const size_t row = size_t{2} * 64;
    EXPECT_EQ(std::memcmp(&got.o[97 * row], &wanted.o[97 * row], 96 * row * 2), 0) << poison;
    const size_t tokens = got.lse.size() / 2;
    for (size_t head = 0; head < 2; ++head) {
      EXPECT_EQ(std::memcmp(&got.lse[head * tokens + 97], &wanted.lse[head * tokens + 97], 96 * 4),
                0);
    }
    for (size_t i = 241 * row; i < got.o.size(); ++i) ASSERT_EQ(got.o[i], 0);
  }
}

/// Tensors, heads and blocks from the smallest to very large magnitudes.
TEST(HopperRobustness, Magnitudes) {
  for (const float magnitude : {1e-38f, 1e-20f, 1e10f, 1e30f}) {
    SCOPED_TRACE(magnitude);
    Case values({{80}, {}, 2, 2, 64, 0});
    for (int64_t token = 0; token < 80; ++token) {
      for (int c = 0; c < 64; ++c) {  // one head only
        values.v(token, 1, c) = float_to_bf16(bf16_to_float(values.v(token, 1, c)) * magnitude);
      }
    }
    const DeviceOutputs got = on_device(&values, hopper(MaskKind::kCausal));
    EXPECT_EQ(std::count_if(got.o.begin(), got.o.end(), is_nan), 0);
    if (magnitude > 1) expect_like_cpu(&values, hopper(MaskKind::kCausal));
    Case small_scores({{80}, {}, 1, 1, 64, 0});
    for (uint16_t& x : small_scores.q_data) {
      x = float_to_bf16(bf16_to_float(x) * (magnitude < 1 ? magnitude : 1.0f));
    }
    expect_like_cpu(&small_scores, hopper(MaskKind::kCausal));
  }
}

/// A later token, scaled or zeroed, moves nothing before its block, at any place in the block.
TEST(HopperRobustness, LaterTokensDoNotReachBack) {
  const Shape shape{{130}, {}, 1, 1, 64, 0};
  Case clean(shape);
  const DeviceOutputs wanted = on_device(&clean, hopper(MaskKind::kCausal));
  for (const int64_t token : {64, 65, 79, 94, 95, 96, 127, 128}) {
    for (const float factor : {1e4f, 1e6f, 0.0f}) {
      Case changed(shape);
      changed.scale_key_token(token, factor);
      const DeviceOutputs got = on_device(&changed, hopper(MaskKind::kCausal));
      const auto safe = static_cast<size_t>(token / 32 * 32);
      EXPECT_EQ(std::memcmp(got.o.data(), wanted.o.data(), safe * 64 * 2), 0)
          << token << " by " << factor;
      EXPECT_EQ(std::memcmp(got.lse.data(), wanted.lse.data(), safe * 4), 0);
    }
  }
}

}  // namespace
}  // namespace flamia
