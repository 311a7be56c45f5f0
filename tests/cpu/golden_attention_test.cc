// Whole passes and the packed quantizer against the golden vectors.
#include <gtest/gtest.h>

#include <cmath>

#include "numerics/bf16.h"
#include "tests/support/attention_case.h"
#include "tests/support/call_tensors.h"
#include "tests/support/golden.h"

namespace flamia::test {
namespace {

/// The choices of the model that wrote the vectors: Blackwell's (c, tau), row sums from p.
Options golden_options(Path path, bool causal) {
  Options options = options_of(path, causal ? MaskKind::kCausal : MaskKind::kFull);
  options.emulate = Family::kBlackwell;
  options.row_sum = RowSum::kP;
  options.delta = Delta::kOBf16;
  if (path == Path::kMxfp8) options.p_scale = 16.0f;
  options.tau = 4.0f;
  return options;
}

Case golden_case() {
  Shape shape;
  shape.lengths = {160};
  shape.dim = 128;
  Case call(shape);
  call.q_data = load_golden<uint16_t>("e2e_q_bf16").values;
  call.k_data = load_golden<uint16_t>("e2e_k_bf16").values;
  call.v_data = load_golden<uint16_t>("e2e_v_bf16").values;
  call.d_o_data = load_golden<uint16_t>("e2e_g_bf16").values;
  return call;
}

void expect_golden(const std::vector<uint16_t>& actual, const std::string& name) {
  SCOPED_TRACE(name);
  const std::vector<double> expected = decoded(load_golden<uint16_t>(name).values);
  EXPECT_GE(cosine(actual, expected), 0.9999);
  EXPECT_LE(relative_error(actual, expected), 1e-3);  // a few BF16 ties
}

TEST(GoldenAttention, Mxfp8CausalAndFull) {
  for (const bool causal : {true, false}) {
    Case call = golden_case();
    const Outputs out = call.run(golden_options(Path::kMxfp8, causal));
    const std::string prefix = causal ? "e2e_mxfp8_c1_" : "e2e_mxfp8_c0_";
    expect_golden(out.o, prefix + "O_bf16");
    expect_golden(out.dq, prefix + "dQ_bf16");
    if (causal) {
      expect_golden(out.dk, prefix + "dK_bf16");
      expect_golden(out.dv, prefix + "dV_bf16");
    }
    const auto lse = load_golden<float>(prefix + "LSE_fp32");
    for (size_t i = 0; i < 160; ++i) EXPECT_NEAR(out.lse[i], lse[i], 2e-6f);
  }
}

TEST(GoldenAttention, MixedCausal) {
  Case call = golden_case();
  const Outputs out = call.run(golden_options(Path::kNvfp4, true));
  expect_golden(out.o, "e2e_mixed_c1_O_bf16");
  expect_golden(out.dq, "e2e_mixed_c1_dQ_bf16");
}

struct Quantized {
  std::vector<uint8_t> codes;
  std::vector<int8_t> exp;
  std::vector<uint8_t> scales;
};

/// Quantizes the packed golden rows [128, 128], one head.
Quantized quantize_golden(Path path, Hadamard rotation, Safety safety) {
  std::vector<uint16_t> rows = load_golden<uint16_t>("tok_in_bf16").values;
  const auto lengths = load_golden<int32_t>("tok_doclens").values;
  std::vector<int32_t> cu{0};
  for (const int32_t length : lengths) cu.push_back(cu.back() + length);
  const int64_t tokens = static_cast<int64_t>(rows.size()) / 128;
  EXPECT_EQ(cu.back(), tokens);
  Quantized q{std::vector<uint8_t>(rows.size()), std::vector<int8_t>(static_cast<size_t>(tokens)),
              std::vector<uint8_t>(static_cast<size_t>(tokens * 8))};
  Options options = options_of(path);
  options.hadamard = rotation;
  options.safety = safety;
  QuantizedTensors out;
  out.codes = dense_view(q.codes.data(), DType::kU8, {tokens, 1, 128});
  out.exp = dense_view(q.exp.data(), DType::kI8, {tokens, 1});
  if (path == Path::kNvfp4) out.scales = dense_view(q.scales.data(), DType::kU8, {tokens, 1, 8});
  const Status status =
      quantize(dense_view(rows.data(), DType::kBF16, {tokens, 1, 128}),
               dense_view(cu.data(), DType::kI32, {static_cast<int64_t>(cu.size())}), Role::kQ,
               ContractionAxis::kHeadDim, options, out);
  EXPECT_TRUE(status.ok()) << status.message();
  return q;
}

TEST(GoldenQuantizer, TokenBlocksRestartAtDocumentStarts) {
  const Quantized plain = quantize_golden(Path::kMxfp8, Hadamard::kOff, Safety::kDefault);
  EXPECT_EQ(plain.codes, load_golden<uint8_t>("tok_codes_nohad").values);
  EXPECT_EQ(plain.exp, load_golden<int8_t>("tok_exp_nohad").values);
  const Quantized rotated = quantize_golden(Path::kMxfp8, Hadamard::kOn, Safety::kDefault);
  EXPECT_EQ(rotated.codes, load_golden<uint8_t>("tok_codes_had").values);
  EXPECT_EQ(rotated.exp, load_golden<int8_t>("tok_exp_had").values);
}

TEST(GoldenQuantizer, ExactSafetyGivesEachTokenItsExponent) {
  const Quantized plain = quantize_golden(Path::kMxfp8, Hadamard::kOff, Safety::kExact);
  EXPECT_EQ(plain.codes, load_golden<uint8_t>("pertoken_codes_nohad").values);
  EXPECT_EQ(plain.exp, load_golden<int8_t>("pertoken_exp_nohad").values);
}

TEST(GoldenQuantizer, Nvfp4CodesScalesAndTokenExponents) {
  const Quantized plain = quantize_golden(Path::kNvfp4, Hadamard::kOff, Safety::kDefault);
  EXPECT_EQ(plain.codes, load_golden<uint8_t>("nvfp4_tokpow2_codes_nohad").values);
  EXPECT_EQ(plain.scales, load_golden<uint8_t>("nvfp4_tokpow2_scales_nohad").values);
  EXPECT_EQ(plain.exp, load_golden<int8_t>("nvfp4_tokpow2_e_nohad").values);
  const Quantized rotated = quantize_golden(Path::kNvfp4, Hadamard::kOn, Safety::kDefault);
  EXPECT_EQ(rotated.codes, load_golden<uint8_t>("nvfp4_tokpow2_codes_had").values);
}

}  // namespace
}  // namespace flamia::test
