// The quantizer's forms in BF16, NVFP4 codes times scales and the plain tensor, against the
// definitions of numerics/, every byte. Runs on the virtual GPU, or by hand on a real one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "cuda/quantize.h"
#include "numerics/bf16.h"
#include "numerics/hadamard.h"
#include "numerics/nvfp4_scale.h"
#include "tests/kernels/quantize_data.h"
#include "tests/kernels/quantize_model.h"
#include "tests/support/golden.h"

namespace flamia::test {
namespace {

QuantizeCase nvfp4_case(std::vector<int> lengths, int heads = 1, int dim = 128) {
  QuantizeCase one;
  one.form = QuantizeForm::kNvfp4;
  one.lengths = std::move(lengths);
  one.heads = heads;
  one.dim = dim;
  return one;
}

TEST(QuantizeForms, GoldenNvfp4) {
  for (const bool hadamard : {false, true}) {
    QuantizeCase one = nvfp4_case({128});
    one.hadamard = hadamard;
    one.storage = load_golden<uint16_t>("tok_in_bf16").values;
    const QuantizeOutput output = launch({one})[0];
    const std::string suffix = hadamard ? "_had" : "_nohad";
    const Golden<uint8_t> codes = load_golden<uint8_t>("nvfp4_tokpow2_codes" + suffix);
    const Golden<uint8_t> scales = load_golden<uint8_t>("nvfp4_tokpow2_scales" + suffix);
    const Golden<int8_t> exponents = load_golden<int8_t>("nvfp4_tokpow2_e" + suffix);
    for (int token = 0; token < 128; ++token) {
      for (int c = 0; c < 128; ++c) {
        const float value = decode_e2m1(codes.row(token)[c]) *
                            nvfp4_scale_value(scales.row(token)[c / kNvfp4Block],
                                              exponents[static_cast<size_t>(token)]);
        const int element = token / 32 * 4096 + bf16_payload_byte(token % 32, c) / 2;
        ASSERT_EQ(output.bf16[static_cast<size_t>(element)], float_to_bf16(value))
            << "token " << token << " channel " << c << suffix;
      }
    }
  }
}

TEST(QuantizeForms, MixedFormsInOneLaunch) {
  for (const int dim : {128, 64}) {
    QuantizeCase q = nvfp4_case({70, 33, 0, 1}, 3, dim);
    q.hadamard = true;
    QuantizeCase k = nvfp4_case({31, 64}, 2, dim);
    k.spare_blocks = 4;
    QuantizeCase v = k;
    v.form = QuantizeForm::kE4m3;
    expect_exact({filled(q, 1), filled(k, 2), filled(v, 3)});
    v.form = QuantizeForm::kBf16;
    v.token_stride = 3 * dim;
    expect_exact({filled(v, 4), filled(q, 5)});
  }
}

TEST(QuantizeForms, SharesOfHeadsAndRunsOfBlocks) {
  QuantizeCase one = nvfp4_case({40, 33}, 5);
  one.hadamard = true;
  QuantizeCase plain = one;
  plain.form = QuantizeForm::kBf16;
  plain.hadamard = false;
  plain.heads = 3;
  const std::vector<QuantizeCase> cases = {filled(one, 6), filled(plain, 7)};
  const auto runs = static_cast<unsigned>(ceil_div<size_t>(one.blocks().size(), 3));
  expect_exact(cases, dim3(2, 3, 2 * runs));
}

/// Special values alone and among others, in groups of a token that hold none as well.
TEST(QuantizeForms, SpecialValues) {
  for (const bool hadamard : {false, true}) {
    for (const QuantizeForm form : {QuantizeForm::kNvfp4, QuantizeForm::kBf16}) {
      if (hadamard && form == QuantizeForm::kBf16) continue;
      QuantizeCase one = with_special_values(6);
      one.form = form;
      one.hadamard = hadamard;
      SCOPED_TRACE(hadamard ? "rotated" : "plain");
      expect_exact({one});
    }
  }
}

/// Token exponents from clamp to clamp; groups so small beside their token that scales flush.
TEST(QuantizeForms, Nvfp4OverTheWholeRange) {
  for (const bool hadamard : {false, true}) {
    QuantizeCase one = filled(nvfp4_case({8 * 32}), 8, 14);
    one.hadamard = hadamard;
    const int exponents[] = {-140, -132, -126, -118, -101, 90, 105, 114};
    for (size_t i = 0; i < one.storage.size(); ++i) {
      const float x = bf16_to_float(one.storage[i]);
      one.storage[i] = float_to_bf16(std::ldexp(x, exponents[i / 4096]));
    }
    expect_exact({one});
  }
}

/// The kernel multiplies rotated values by scale and 2^-te at once: no code differs, though
/// products with the scale alone may be subnormal.
TEST(QuantizeForms, RotationScaleInTheFactorOfSmallValues) {
  const float scale = hadamard_scale<128>();
  for (int steps = 1; static_cast<float>(steps) * scale < 0x1p7f; ++steps) {
    const float x = static_cast<float>(steps) * 0x1p-133f;
    for (int te = kNoScaleExponent; te < -100; ++te) {
      const float at_once = x * (scale * inverse_scale(te));
      for (uint8_t code = 1; code <= kE4m3MaxCode; ++code) {
        ASSERT_EQ(encode_nvfp4(x * scale, nvfp4_scale_value(code, te)),
                  encode_nvfp4(at_once, decode_ue4m3(code)))
            << steps << " steps, te " << te << ", scale code " << int{code};
      }
    }
  }
}

/// Values at the ties of quotients and next to them: the quotient must be the IEEE one.
TEST(QuantizeForms, Nvfp4Ties) {
  QuantizeCase one = nvfp4_case({16 * 32});
  one.storage.resize(one.extent());
  const float ties[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, 1.0f};
  for (size_t i = 0; i < one.storage.size(); ++i) {
    const auto token = static_cast<int>(i / 128);
    const int group = static_cast<int>(i / 16) % 8;
    // The group's largest value makes its scale m * 2^-3, for every four-bit m.
    const float scale = static_cast<float>(8 + (token + group) % 8) * std::ldexp(1.0f, token % 5);
    const float x = i % 16 == 0 ? 6.0f * scale : ties[i % 8] * scale;
    const int neighbour = static_cast<int>(i / 8) % 3 - 1;
    one.storage[i] =
        static_cast<uint16_t>(float_to_bf16(i % 2 == 0 ? x : -x) + (i % 16 == 0 ? 0 : neighbour));
  }
  expect_exact({one});
}

TEST(QuantizeForms, RefusesRotatedBf16) {
  QuantizeArgs args = {};
  args.count = 1;
  args.tensors[0].form = QuantizeForm::kBf16;
  args.tensors[0].hadamard = 1;
  EXPECT_EQ(cuda::launch_quantize(args, 128, nullptr).message(),
            "launch_quantize: hadamard must be 0 in form bf16; got 1");
}

}  // namespace
}  // namespace flamia::test
