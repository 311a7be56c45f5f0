// The quantizer kernel against the definitions of numerics/, every byte: golden tensors, special
// values, document boundaries, strides, batches, exponents per token, headroom.
// Runs on the virtual GPU, or by hand on a real one.
#include "cuda/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "numerics/bf16.h"
#include "numerics/hadamard.h"
#include "numerics/token_block_scale.h"
#include "tests/kernels/quantize_data.h"
#include "tests/kernels/quantize_model.h"
#include "tests/support/golden.h"

namespace flamia::test {
namespace {

constexpr uint16_t kNan = 0x7fc0;

TEST(Quantize, RandomTensorsOfThreeLayoutsInOneLaunch) {
  QuantizeCase q;
  q.lengths = {70, 33};
  q.heads = 3;
  q.hadamard = true;
  q.transposed = false;
  QuantizeCase k = q;
  k.heads = 1;
  k.transposed = true;
  k.order = TokenOrder::kStoredPairs;
  QuantizeCase v = k;
  v.lengths = {129};
  v.hadamard = false;
  v.row = false;
  v.order = TokenOrder::kAccumulator;
  expect_exact({filled(q, 1), filled(k, 2), filled(v, 3)});
}

TEST(Quantize, GoldenTokenBlocks) {
  QuantizeCase one;
  one.lengths = load_golden<int32_t>("tok_doclens").values;
  one.storage = load_golden<uint16_t>("tok_in_bf16").values;
  for (const bool hadamard : {false, true}) {
    one.hadamard = hadamard;
    const QuantizeOutput output = launch({one})[0];
    const Golden<uint8_t> codes =
        load_golden<uint8_t>(hadamard ? "tok_codes_had" : "tok_codes_nohad");
    const Golden<int8_t> exponents =
        load_golden<int8_t>(hadamard ? "tok_exp_had" : "tok_exp_nohad");
    const std::vector<TokenBlockRange> blocks = one.blocks();
    for (size_t b = 0; b < blocks.size(); ++b) {
      for (int t = 0; t < blocks[b].tokens; ++t) {
        const int token = blocks[b].token + t;
        ASSERT_EQ(output.exponents[b], exponents[static_cast<size_t>(token)]) << "token " << token;
        for (int c = 0; c < 128; ++c) {
          const auto byte = static_cast<size_t>(row_payload_byte(t, c, 128));
          ASSERT_EQ(output.row[b * 4096 + byte], codes.row(token)[c])
              << "token " << token << " channel " << c << " rotated " << hadamard;
        }
      }
    }
  }
}

TEST(Quantize, GoldenExponentsPerToken) {
  QuantizeCase one;
  one.lengths = {128};
  one.per_token = true;
  one.storage = load_golden<uint16_t>("tok_in_bf16").values;
  const QuantizeOutput output = launch({one})[0];
  const Golden<uint8_t> codes = load_golden<uint8_t>("pertoken_codes_nohad");
  const Golden<int8_t> exponents = load_golden<int8_t>("pertoken_exp_nohad");
  for (int token = 0; token < 128; ++token) {
    ASSERT_EQ(output.exponents[static_cast<size_t>(token)], exponents[static_cast<size_t>(token)]);
    for (int c = 0; c < 128; ++c) {
      const int byte = token / 32 * 4096 + row_payload_byte(token % 32, c, 128);
      ASSERT_EQ(output.row[static_cast<size_t>(byte)], codes.row(token)[c])
          << "token " << token << " channel " << c;
    }
  }
}

/// Boundaries everywhere, empty documents at both ends and within, capacity to spare.
TEST(Quantize, DocumentsOfEveryTail) {
  for (const int dim : {128, 64}) {
    QuantizeCase one;
    one.lengths = {0, 1, 31, 0, 0, 32, 33, 127, 129, 1, 1, 0};
    one.dim = dim;
    one.heads = 2;
    one.spare_blocks = 9;
    one.hadamard = true;
    expect_exact({filled(one, 4)});
  }
}

TEST(Quantize, NoTokensAtAll) {
  QuantizeCase one;
  one.lengths = {0, 0};
  one.heads = 3;
  one.spare_blocks = 2;
  expect_exact({filled(one, 5)});
}

TEST(Quantize, SpecialValues) {
  for (const bool hadamard : {false, true}) {
    for (const bool per_token : {false, true}) {
      QuantizeCase one = with_special_values(6);
      one.hadamard = hadamard;
      one.per_token = per_token;
      SCOPED_TRACE(hadamard ? "rotated" : "plain");
      expect_exact({one});
    }
  }
}

/// Values so small that the rotation's products are subnormal, and groups near every clamp.
TEST(Quantize, ExponentsOverTheWholeRange) {
  for (const int dim : {128, 64}) {
    QuantizeCase one;
    one.dim = dim;
    one.lengths = {8 * 32};
    one.hadamard = true;
    one = filled(one, 7);
    for (size_t i = 0; i < one.storage.size(); ++i) {
      const int block = static_cast<int>(i) / (32 * dim);
      const float x = bf16_to_float(one.storage[i]);
      const int exponents[] = {-140, -132, -126, -118, -101, 100, 118, 124};
      one.storage[i] = float_to_bf16(std::ldexp(x, exponents[block]));
    }
    QuantizeCase tokens = one;
    tokens.per_token = true;
    QuantizeCase plain = one;
    plain.hadamard = false;
    expect_exact({one, tokens, plain});
  }
}

/// The kernel multiplies rotated values by scale and factor at once. Where the product with the
/// scale alone is subnormal it is rounded once more; no code differs.
TEST(Quantize, RotationScaleInTheFactorOfSmallValues) {
  const float scale = hadamard_scale<128>();
  // Rotated BF16 values that small are sums without rounding.
  for (int steps = 1; static_cast<float>(steps) * scale < 0x1p7f; ++steps) {
    const float x = static_cast<float>(steps) * 0x1p-133f;
    for (int e = kNoScaleExponent; e < -100; ++e) {
      ASSERT_EQ(encode_e4m3(x * scale * inverse_scale(e)),
                encode_e4m3(x * (scale * inverse_scale(e))))
          << steps << " steps, e " << e;
    }
  }
}

/// Two channels whose rotated value tells whether scale and factor 2^-127 were multiplied first.
std::pair<uint16_t, uint16_t> revealing_pair() {
  const float scale = hadamard_scale<128>();
  const float factor = inverse_scale(127);
  for (uint64_t i = 0;; ++i) {
    const Philox4 bits = philox(17, 3, i);
    const auto a = static_cast<uint16_t>(0x7d00 + bits.word[0] % 0x200);
    const auto b = static_cast<uint16_t>(0x7800 + bits.word[1] % 0x600);
    const float sum = bf16_to_float(a) + bf16_to_float(b);
    if (encode_e4m3(sum * scale * factor) != encode_e4m3(sum * (scale * factor))) return {a, b};
  }
}

/// Exponents up to the clamp at 127, where factors are subnormal.
TEST(Quantize, Headroom) {
  QuantizeCase one;
  one.lengths = {96};
  one.headroom = 5;
  one = filled(one, 8);
  std::fill_n(one.storage.begin(), 32 * 128, uint16_t{0});
  for (size_t i = 64 * 128; i < one.storage.size(); i += 3) one.storage[i] = 0x7e80;
  QuantizeCase large = one;
  large.headroom = 60;
  QuantizeCase rotated = large;
  rotated.hadamard = true;
  const std::pair<uint16_t, uint16_t> pair = revealing_pair();
  std::fill_n(rotated.storage.begin(), 32 * 128, uint16_t{0});
  rotated.storage[0] = pair.first;
  rotated.storage[1] = pair.second;
  expect_exact({one, large, rotated});
}

/// q, k, v as slices of one tensor [T, 3, H, D].
TEST(Quantize, StridedSlices) {
  for (const int heads : {1, 3, 16}) {
    std::vector<QuantizeCase> slices;
    for (int slice = 0; slice < 3; ++slice) {
      QuantizeCase one;
      one.lengths = {5, 37};
      one.heads = heads;
      one.token_stride = 3 * heads * 128;
      one.offset = slice * heads * 128;
      one.hadamard = slice < 2;
      slices.push_back(filled(one, 9));
    }
    expect_exact(slices);
  }
}

TEST(Quantize, HeadsFarApartAndBatches) {
  QuantizeCase far;
  far.lengths = {40};
  far.heads = 3;
  far.head_stride = 48 * 128;
  far.token_stride = 136;
  QuantizeCase batch;
  batch.lengths = {45, 45, 45};
  batch.batched = true;
  batch.heads = 2;
  batch.batch_gap = 64;
  QuantizeCase small = batch;
  small.lengths = {32, 32};
  small.hadamard = true;
  expect_exact({filled(far, 10), filled(batch, 11), filled(small, 12)});
}

TEST(Quantize, HalfHeadDimensions) {
  QuantizeCase one;
  one.dim = 64;
  one.heads = 3;
  one.lengths = {33, 70};
  QuantizeCase tokens = one;
  tokens.per_token = true;
  tokens.order = TokenOrder::kStoredPairs;
  QuantizeCase strided = one;
  strided.token_stride = 4 * 64;
  strided.hadamard = true;
  expect_exact({filled(one, 13), filled(tokens, 14), filled(strided, 15)});
}

/// What lies in other documents, other heads and between rows changes nothing.
TEST(Quantize, NeighboursChangeNothing) {
  for (const uint16_t poison : {kNan, float_to_bf16(1e30f)}) {
    QuantizeCase one;
    one.lengths = {33, 50, 34};
    one.heads = 2;
    one.token_stride = 2 * 128 + 8;
    one.hadamard = true;
    QuantizeCase clean = filled(one, 16);
    QuantizeCase poisoned = clean;
    for (int token = 0; token < one.tokens(); ++token) {
      const bool other_document = token < 33 || token >= 83;
      for (int head = 0; head < 2; ++head) {
        for (int c = 0; c < 128; ++c) {
          if (head == 1 && !other_document) continue;
          poisoned.storage[static_cast<size_t>(one.element(token, head, c))] = poison;
        }
      }
      for (int c = 0; c < 8 && token + 1 < one.tokens(); ++c) {
        poisoned
            .storage[static_cast<size_t>(one.element(token, 1, 127)) + 1 + static_cast<size_t>(c)] =
            poison;
      }
    }
    const QuantizeOutput a = launch({clean})[0];
    const QuantizeOutput b = launch({poisoned})[0];
    const size_t blocks = one.blocks().size();
    for (size_t block = 2; block < 4; ++block) {  // head 1, the middle document
      const size_t at = blocks + block;
      EXPECT_EQ(a.exponents[at], b.exponents[at]);
      for (size_t i = at * 4096; i < (at + 1) * 4096; ++i) {
        ASSERT_EQ(a.row[i], b.row[i]) << i;
        ASSERT_EQ(a.transposed[i], b.transposed[i]) << i;
      }
    }
  }
}

/// As large problems are launched: a CTA does several heads in turn, and the blocks of a head are
/// several runs of the grid's y.
TEST(Quantize, SharesOfHeadsAndRunsOfBlocks) {
  for (const int dim : {128, 64}) {
    QuantizeCase one;
    one.dim = dim;
    one.lengths = {40, 33, 64};
    one.heads = 5;
    one.hadamard = true;
    QuantizeCase few = one;
    few.heads = 1;
    few.per_token = true;
    few.hadamard = false;
    QuantizeCase tokens = one;
    tokens.per_token = true;
    ASSERT_EQ(one.blocks().size(), 9u);
    expect_exact({filled(one, 18), filled(few, 19), filled(tokens, 20)}, dim3(2, 3, 3 * 3));
  }
}

/// Offsets of heads and tokens past 2^32 elements in the input, and of heads past 2^32 bytes in the
/// payloads.
TEST(Quantize, OffsetsBeyondThirtyTwoBits) {
  QuantizeCase small;
  small.heads = 2;
  small = filled(small, 21);
  const QuantizeOutput expected = expected_output(small);

  constexpr size_t kFirst = size_t{1} << 25;  // token
  constexpr size_t kHead = (size_t{1} << 32) + 1024;
  constexpr size_t kBlocks = (size_t{1} << 20) + 1;
  constexpr size_t kBlock = 32 * 128;
  DeviceBuffer<uint16_t> storage(kFirst * 128 + kHead + kBlock);
  for (size_t head = 0; head < 2; ++head) {
    for (size_t token = 0; token < 32; ++token) {
      storage.write((kFirst + token) * 128 + head * kHead, &small.storage[(2 * token + head) * 128],
                    128);
    }
  }
  const DeviceBuffer<TokenBlockRange> range(
      std::vector<TokenBlockRange>{{static_cast<int32_t>(kFirst), 32}});
  const DeviceBuffer<uint8_t> row(2 * kBlocks * kBlock);
  const DeviceBuffer<uint8_t> transposed(2 * kBlocks * kBlock);
  const DeviceBuffer<int8_t> exponents(2 * kBlocks);
  QuantizeArgs args = {};
  args.count = 1;
  args.tensors[0].input = {storage.data(), 0, 128, kHead, 0, 2};
  args.tensors[0].output = {row.data(), transposed.data(), exponents.data(), kBlocks};
  args.tensors[0].blocks = range.data();
  launch_grid(args, 128, dim3(2));  // block 0 of both heads
  const size_t small_blocks = small.blocks().size();
  for (size_t head = 0; head < 2; ++head) {
    const auto block = [&](const std::vector<uint8_t>& payload) {
      const auto begin = payload.begin() + static_cast<int64_t>(head * small_blocks * kBlock);
      return std::vector<uint8_t>(begin, begin + kBlock);
    };
    EXPECT_EQ(exponents.read(head * kBlocks, 1)[0], expected.exponents[head * small_blocks]);
    expect_same(row.read(head * kBlocks * kBlock, kBlock), block(expected.row), "row_codes");
    expect_same(transposed.read(head * kBlocks * kBlock, kBlock), block(expected.transposed),
                "transposed_codes");
  }
}

TEST(Quantize, RefusesWhatNoKernelTakes) {
  QuantizeArgs args = {};
  args.count = 1;
  EXPECT_EQ(cuda::launch_quantize(args, 96, nullptr).message(),
            "launch_quantize: head_dim must be 64 or 128; got 96");
  args.count = 4;
  EXPECT_EQ(cuda::launch_quantize(args, 128, nullptr).message(),
            "launch_quantize: count must be 1 to 3; got 4");
}

}  // namespace
}  // namespace flamia::test
