// Reference offenders: exact without quantizers, faithful to the golden quantizers, and leaking as
// far as their description says.
#include "audit/offender.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "audit/leak_table.h"
#include "audit/offender_operand.h"
#include "audit/offender_tile.h"
#include "audit/perturbation.h"
#include "base/philox.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "oracle/oracle.h"
#include "tests/support/golden.h"

namespace flamia::audit {
namespace {

void fill(uint64_t stream, int64_t entries, std::vector<uint16_t>* values) {
  values->resize(static_cast<size_t>(entries));
  for (size_t n = 0; n < values->size(); ++n) {
    const Philox4 words = philox(1, stream, n);
    const NormalPair pair = normal_pair(words.word[0], words.word[1]);
    (*values)[n] = float_to_bf16(static_cast<float>(pair.first));
  }
}

// Packed documents of odd lengths, one of them empty, grouped heads.
AuditInputs packed_inputs(bool causal, int32_t head_dim) {
  AuditInputs inputs;
  inputs.cu_seqlens = {0, 45, 45, 190, 191};
  inputs.tokens = 195;  // the last four belong to nobody
  inputs.heads = 4;
  inputs.kv_heads = 2;
  inputs.head_dim = head_dim;
  inputs.causal = causal;
  inputs.softmax_scale = 1 / std::sqrt(static_cast<float>(head_dim));
  fill(0, inputs.query_entries(), &inputs.q);
  fill(1, inputs.key_entries(), &inputs.k);
  fill(2, inputs.key_entries(), &inputs.v);
  fill(3, inputs.query_entries(), &inputs.d_o);
  return inputs;
}

TensorView view(const std::vector<uint16_t>& values, int64_t tokens, int64_t heads, int64_t dim) {
  TensorView result;
  result.data = const_cast<uint16_t*>(values.data());
  result.dtype = DType::kBF16;
  result.rank = 3;
  const int64_t shape[] = {tokens, heads, dim};
  const int64_t stride[] = {heads * dim, dim, 1};
  std::copy(shape, shape + 3, result.shape);
  std::copy(stride, stride + 3, result.stride);
  return result;
}

oracle::Result exact(const AuditInputs& inputs) {
  Problem problem;
  problem.query_tokens = problem.key_tokens = inputs.tokens;
  problem.documents = static_cast<int32_t>(inputs.cu_seqlens.size()) - 1;
  problem.heads = inputs.heads;
  problem.kv_heads = inputs.kv_heads;
  problem.head_dim = inputs.head_dim;
  Mask mask;
  mask.kind = inputs.causal ? MaskKind::kCausal : MaskKind::kFull;
  ForwardTensors tensors;
  tensors.q = view(inputs.q, inputs.tokens, inputs.heads, inputs.head_dim);
  tensors.k = view(inputs.k, inputs.tokens, inputs.kv_heads, inputs.head_dim);
  tensors.v = view(inputs.v, inputs.tokens, inputs.kv_heads, inputs.head_dim);
  tensors.cu_seqlens_q.data = const_cast<int32_t*>(inputs.cu_seqlens.data());
  tensors.cu_seqlens_q.dtype = DType::kI32;
  tensors.cu_seqlens_q.rank = 1;
  tensors.cu_seqlens_q.shape[0] = static_cast<int64_t>(inputs.cu_seqlens.size());
  tensors.cu_seqlens_q.stride[0] = 1;
  oracle::Result result;
  const Status status = oracle::attention(
      problem, mask, static_cast<double>(inputs.softmax_scale), tensors,
      view(inputs.d_o, inputs.tokens, inputs.heads, inputs.head_dim), {}, &result);
  EXPECT_TRUE(status.ok()) << status.message();
  return result;
}

// FP32 sums of at most 512 terms of size one.
void expect_near(const std::vector<float>& ours, const std::vector<double>& exact,
                 double tolerance) {
  ASSERT_EQ(ours.size(), exact.size());
  for (size_t n = 0; n < ours.size(); ++n) {
    if (std::isinf(exact[n])) {
      ASSERT_EQ(static_cast<double>(ours[n]), exact[n]) << n;
    } else {
      ASSERT_NEAR(static_cast<double>(ours[n]), exact[n], tolerance) << n;
    }
  }
}

TEST(Offender, WithoutQuantizersIsExactAttention) {
  for (const bool causal : {true, false}) {
    for (const int32_t head_dim : {48, 128}) {
      const AuditInputs inputs = packed_inputs(causal, head_dim);
      AuditOutputs outputs;
      ASSERT_TRUE(offender_function(exact_scheme())(inputs, &outputs).ok());
      const oracle::Result reference = exact(inputs);
      expect_near(outputs.o, reference.o, 2e-5);
      expect_near(outputs.lse, reference.lse, 2e-5);
      expect_near(outputs.dq, reference.dq, 5e-5);
      expect_near(outputs.dk, reference.dk, 5e-5);
      expect_near(outputs.dv, reference.dv, 5e-5);
    }
  }
}

TEST(Offender, EverySchemeIsNearExactAttention) {
  const AuditInputs inputs = packed_inputs(true, 128);
  const oracle::Result reference = exact(inputs);
  for (const Offender& offender : offenders()) {
    AuditOutputs outputs;
    ASSERT_TRUE(offender_function(offender.scheme)(inputs, &outputs).ok());
    double dot = 0, ours = 0, theirs = 0;
    for (size_t n = 0; n < outputs.dq.size(); ++n) {
      const double value = static_cast<double>(outputs.dq[n]);
      dot += value * reference.dq[n];
      ours += value * value;
      theirs += reference.dq[n] * reference.dq[n];
    }
    EXPECT_GT(dot / std::sqrt(ours * theirs), 0.94) << offender.name;
  }
}

TEST(Offender, TakesNoTokensAndNoDocuments) {
  AuditInputs inputs = packed_inputs(true, 16);
  inputs.cu_seqlens = {0, 0, 0};
  AuditOutputs outputs;
  ASSERT_TRUE(offender_function({})(inputs, &outputs).ok());
  for (const float o : outputs.o) EXPECT_EQ(o, 0.0f);
  for (const float lse : outputs.lse) EXPECT_EQ(lse, -INFINITY);
  inputs.cu_seqlens = {0};
  EXPECT_TRUE(offender_function({})(inputs, &outputs).ok());
}

TEST(Offender, RefusesSizesThatDoNotFit) {
  AuditInputs inputs = packed_inputs(true, 16);
  AuditOutputs outputs;
  inputs.q.pop_back();
  EXPECT_EQ(run_offender({}, inputs, Gradients::kAll, &outputs).message(),
            "run_offender: q must have tokens * heads * head_dim entries; got 12479");
  inputs = packed_inputs(true, 16);
  inputs.head_dim = 24;
  EXPECT_EQ(run_offender({}, inputs, Gradients::kAll, &outputs).message(),
            "run_offender: head_dim must be a positive multiple of 16; got 24");
  inputs = packed_inputs(true, 16);
  inputs.cu_seqlens = {0, 500};
  EXPECT_FALSE(run_offender({}, inputs, Gradients::kAll, &outputs).ok());
}

TEST(Offender, IsFoundByName) {
  const Offender* offender = nullptr;
  ASSERT_TRUE(find_offender("ds-tile", &offender).ok());
  EXPECT_EQ(offender->scheme.ds, DsScale::kTile64x128);
  EXPECT_EQ(find_offender("none", &offender).code(), StatusCode::kInvalidArgument);
}

TEST(OffenderOperand, TokenBlocksHaveTheGoldenCodes) {
  const auto in = test::load_golden<uint16_t>("tok_in_bf16");
  const auto lengths = test::load_golden<int32_t>("tok_doclens");
  const auto codes = test::load_golden<uint8_t>("tok_codes_nohad");
  const auto exponents = test::load_golden<int8_t>("tok_exp_nohad");
  std::vector<int32_t> bounds = {0};
  for (const int32_t length : lengths.values) bounds.push_back(bounds.back() + length);
  const int64_t tokens = bounds.back();
  const OperandRule rule;
  const DecodedOperand operand =
      quantize_operand(rule, {&in.values, tokens, 1, static_cast<int32_t>(in.row_size()), bounds});
  for (size_t n = 0; n < in.values.size(); ++n) {
    const auto token = static_cast<int64_t>(n) / in.row_size();
    const float scale = pow2(operand.exponents_of(0)[token]);
    ASSERT_EQ(operand.values[n], decode_e4m3(codes[n]) * scale) << n;
  }
}

// A token's rows times 1024: where do earlier rows change?
LeakRow leak(const char* name, const AuditInputs& inputs) {
  const Offender* offender = nullptr;
  EXPECT_TRUE(find_offender(name, &offender).ok());
  LeakRow row;
  EXPECT_TRUE(measure_leak(offender->scheme, inputs, &row).ok());
  return row;
}

TEST(Offender, PerTensorScalesLeakIntoEarlierTiles) {
  const LeakRow row = leak("tensor-amax", heavy_tailed_inputs(0));
  EXPECT_GT(row.measured(LeakColumn::kOEarlier), 0.1);
  EXPECT_GT(row.measured(LeakColumn::kDqEarlier), 0.01);
}

TEST(Offender, TheDefaultLeaksInItsBlockOnly) {
  const LeakRow row = leak("token-block-32-fp32-dq", heavy_tailed_inputs(0));
  EXPECT_GT(row.measured(LeakColumn::kOBlock), 0.0);
  for (const LeakColumn column :
       {LeakColumn::kOTile, LeakColumn::kOEarlier, LeakColumn::kDqTile, LeakColumn::kDqEarlier}) {
    EXPECT_EQ(row.largest(column), 0.0) << column_name(column);
  }
}

TEST(Offender, ExactOptionsChangeNoEarlierBit) {
  const LeakRow row = leak("exact-causal-dq", heavy_tailed_inputs(0));
  for (const LeakColumn column : kLeakColumns) {
    EXPECT_EQ(row.largest(column), 0.0) << column_name(column);
  }
}

TEST(Offender, MaskedNanReachesNoEarlierRow) {
  AuditInputs inputs = heavy_tailed_inputs(0);
  const Offender* offender = nullptr;
  ASSERT_TRUE(find_offender("exact-fp32-dq", &offender).ok());
  AuditOutputs before, after;
  ASSERT_TRUE(run_offender(offender->scheme, inputs, Gradients::kQueries, &before).ok());
  for (const Operand operand : kOperands) apply({operand, 200, NAN}, &inputs);
  ASSERT_TRUE(run_offender(offender->scheme, inputs, Gradients::kQueries, &after).ok());
  const auto entries = static_cast<std::ptrdiff_t>(200) * kLeakHeads * kLeakHeadDim;
  EXPECT_TRUE(std::equal(before.o.begin(), before.o.begin() + entries, after.o.begin()));
  EXPECT_TRUE(std::equal(before.dq.begin(), before.dq.begin() + entries, after.dq.begin()));
}

TEST(OffenderTile, FoldsAreUndone) {
  const float p[] = {1.0f, 0.5f, 0.25f};
  const int32_t exponents[] = {0, -3, 2};
  float p_hat[3];
  const double sum = quantize_probabilities(ProbabilityRule::kE4m3, {exponents, 2}, p, 3, p_hat);
  for (int j = 0; j < 3; ++j) EXPECT_EQ(p_hat[j], p[j]);
  EXPECT_EQ(sum, 1.75);
}

TEST(OffenderTile, ScalesOfDsAreThoseOfTheirGroups) {
  std::vector<float> ds(static_cast<size_t>(kOffenderTile) * 2, 0.0f);
  ds[0] = 1024.0f;
  ds[static_cast<size_t>(kOffenderTile)] = pow2(-10);
  std::vector<float> rows = ds;
  quantize_ds(DsScale::kQueryRow, 2, kOffenderTile, nullptr, rows.data());
  EXPECT_EQ(rows[static_cast<size_t>(kOffenderTile)], pow2(-10));
  quantize_ds(DsScale::kBlock32, 2, kOffenderTile, nullptr, ds.data());
  EXPECT_EQ(ds[static_cast<size_t>(kOffenderTile)], 0.0f);
}

}  // namespace
}  // namespace flamia::audit
