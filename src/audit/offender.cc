// Forward and backward of an offender: FP32 arithmetic, row by row and tile by tile.
// A row reads nothing but what it may see, so that no product carries a masked infinity or NaN
// back: what leaks, leaks through a quantizer.

#include "audit/offender.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "audit/offender_operand.h"
#include "audit/offender_tile.h"
#include "base/bits.h"
#include "base/message.h"
#include "numerics/dq_scale.h"
#include "numerics/e4m3.h"
#include "numerics/exp2.h"
#include "numerics/f16.h"
#include "numerics/key_fold.h"
#include "numerics/online_softmax.h"
#include "numerics/p_hat.h"
#include "numerics/token_block_scale.h"

namespace flamia::audit {

namespace {

constexpr int64_t kTile = kOffenderTile;
constexpr OperandRule kPerKeyE2m1 = {Element::kE2m1, ScaleScope::kGroup, 1, 0,
                                     ScaleRule::kPowerOfTwoUp};

size_t size(int64_t n) { return static_cast<size_t>(n); }

// Rows of a matrix, `stride` floats apart.
struct Rows {
  const float* data;
  int64_t stride;
};

// y[0, width) += sum over k of a[k] * row k of b, in the order of k whatever the width, so that a
// score has the same bits in both passes.
void add_products(const float* __restrict a, int64_t terms, Rows b, int64_t width,
                  float* __restrict y) {
  int64_t k = 0;
  for (; k + 4 <= terms; k += 4) {
    const float* __restrict b0 = b.data + k * b.stride;
    const float* __restrict b1 = b0 + b.stride;
    const float* __restrict b2 = b1 + b.stride;
    const float* __restrict b3 = b2 + b.stride;
    const float a0 = a[k], a1 = a[k + 1], a2 = a[k + 2], a3 = a[k + 3];
    for (int64_t j = 0; j < width; ++j) {
      const float sum = fma_f32(a1, b1[j], fma_f32(a0, b0[j], y[j]));
      y[j] = fma_f32(a3, b3[j], fma_f32(a2, b2[j], sum));
    }
  }
  for (; k < terms; ++k) {
    const float* __restrict row = b.data + k * b.stride;
    for (int64_t j = 0; j < width; ++j) y[j] = fma_f32(a[k], row[j], y[j]);
  }
}

struct Operands {
  DecodedOperand q, k, v_pv, v_diagonal, v_dp, k_dq, d_o;
};

Operands quantize(const Scheme& scheme, const AuditInputs& inputs, bool gradients) {
  const OperandSource queries = {&inputs.q, inputs.tokens, inputs.heads, inputs.head_dim,
                                 inputs.cu_seqlens};
  OperandSource keys = {&inputs.k, inputs.tokens, inputs.kv_heads, inputs.head_dim,
                        inputs.cu_seqlens};
  Operands result;
  result.q = quantize_operand(scheme.q, queries);
  result.k = quantize_operand(scheme.k, keys);
  if (gradients) result.k_dq = quantize_operand(scheme.k_dq, keys);
  keys.values = &inputs.v;
  result.v_pv = quantize_operand(scheme.v_pv, keys);
  if (scheme.per_key_v_on_diagonal) result.v_diagonal = quantize_operand(kPerKeyE2m1, keys);
  if (!gradients) return result;
  result.v_dp = quantize_operand(scheme.v_dp, keys);
  OperandSource gradient = queries;
  gradient.values = &inputs.d_o;
  result.d_o = quantize_operand(scheme.d_o, gradient);
  return result;
}

// One document of one query head.
struct Span {
  int32_t head = 0;
  int32_t kv_head = 0;
  int64_t begin = 0;
  int64_t tokens = 0;
};

class HeadPass {
 public:
  HeadPass(const Scheme& scheme, const AuditInputs& inputs, const Operands& operands,
           const Span& span, AuditOutputs* outputs)
      : scheme_(scheme),
        inputs_(inputs),
        operands_(operands),
        span_(span),
        outputs_(outputs),
        dim_(inputs.head_dim),
        multiplier_(score_multiplier(inputs.softmax_scale)),
        lse2_(size(span.tokens)) {
    transpose(operands.k, &k_t_);
  }

  void forward() {
    x_.resize(size(span_.tokens));
    p_hat_.resize(size(span_.tokens));
    o_.resize(size(dim_));
    for (int64_t i = 0; i < span_.tokens; ++i) forward_row(i);
  }

  void backward(Gradients gradients) {
    transpose(operands_.v_dp, &v_t_);
    choose_prescales();
    row_deltas();
    for (std::vector<float>* tile : {&p_, &ds_, &ds_t_, &p_t_}) tile->resize(size(kTile * kTile));
    dq_.resize(size(kTile * dim_));
    partial_.resize(size(dim_));
    for (int64_t row0 = 0; row0 < span_.tokens; row0 += kTile) {
      std::fill(dq_.begin(), dq_.end(), 0.0f);
      const int64_t last_key = inputs_.causal ? row0 : span_.tokens - 1;
      for (int64_t key0 = 0; key0 <= last_key; key0 += kTile) {
        backward_tile(row0, key0);
        add_query_gradients(row0, key0);
        if (gradients == Gradients::kAll) add_key_gradients(row0, key0);
      }
      store_query_gradients(row0);
    }
  }

 private:
  const float* query(const DecodedOperand& operand, int64_t i) const {
    return operand.row(span_.head, span_.begin + i);
  }
  Rows keys(const DecodedOperand& operand, int64_t j) const {
    return {operand.row(span_.kv_head, span_.begin + j), dim_};
  }
  Rows columns(const std::vector<float>& transposed, int64_t j) const {
    return {transposed.data() + j, span_.tokens};
  }
  int64_t output_entry(int64_t i) const {
    return ((span_.begin + i) * inputs_.heads + span_.head) * dim_;
  }
  // Keys of [key0, key0 + 128) that row i sees.
  int64_t visible(int64_t i, int64_t key0) const {
    const int64_t end = std::min(key0 + kTile, inputs_.causal ? i + 1 : span_.tokens);
    return std::max<int64_t>(std::min(end, span_.tokens) - key0, 0);
  }

  void transpose(const DecodedOperand& operand, std::vector<float>* result) const {
    result->resize(size(dim_ * span_.tokens));
    for (int64_t j = 0; j < span_.tokens; ++j) {
      const float* row = keys(operand, j).data;
      for (int64_t c = 0; c < dim_; ++c) (*result)[size(c * span_.tokens + j)] = row[c];
    }
  }

  // x of row i, base 2, for `count` keys from key0.
  void scores(int64_t i, int64_t key0, int64_t count, float* x) const {
    std::fill(x, x + count, 0.0f);
    add_products(query(operands_.q, i), dim_, columns(k_t_, key0), count, x);
    for (int64_t j = 0; j < count; ++j) x[j] *= multiplier_;
  }

  int32_t fold_reference(FoldReference rule, const int32_t* exponents, int64_t i,
                         int64_t key0) const {
    int64_t count = visible(i, key0);
    const int64_t tile_keys = std::min(kTile, span_.tokens - key0);
    if (rule == FoldReference::kTile) count = tile_keys;
    if (rule == FoldReference::kVisibleBlocks && inputs_.causal) {
      count = std::min(tile_keys, round_up<int64_t>(i + 1, kTokenBlock) - key0);
    }
    return *std::max_element(exponents, exponents + count);
  }

  KeyFold fold_of(int64_t i, int64_t key0, bool diagonal) const {
    const bool per_key = diagonal && scheme_.per_key_v_on_diagonal;
    const FoldReference rule = per_key ? FoldReference::kVisibleKeys : scheme_.v_fold;
    const DecodedOperand& v = per_key ? operands_.v_diagonal : operands_.v_pv;
    if (rule == FoldReference::kNone || v.exponents.empty()) return {};
    const int32_t* exponents = v.exponents_of(span_.kv_head) + span_.begin + key0;
    return {exponents, fold_reference(rule, exponents, i, key0)};
  }

  void forward_row(int64_t i) {
    const int64_t count = inputs_.causal ? i + 1 : span_.tokens;
    float* x = x_.data();
    scores(i, 0, count, x);
    float m = -kFloatInfinity;
    for (int64_t j = 0; j < count; ++j) m = max_number(m, x[j]);
    for (int64_t j = 0; j < count; ++j) x[j] = exp2_exact(x[j] - m);
    std::fill(o_.begin(), o_.end(), 0.0f);
    double sum = 0;
    for (int64_t key0 = 0; key0 < count; key0 += kTile) {
      const bool diagonal = inputs_.causal && key0 + kTile > i;
      const int64_t seen = visible(i, key0);
      float* p_hat = p_hat_.data() + key0;
      sum += quantize_probabilities(scheme_.p, fold_of(i, key0, diagonal), x + key0, seen, p_hat);
      const bool per_key = diagonal && scheme_.per_key_v_on_diagonal;
      const DecodedOperand& v = per_key ? operands_.v_diagonal : operands_.v_pv;
      add_products(p_hat, seen, keys(v, key0), dim_, o_.data());
    }
    const float l = static_cast<float>(sum);
    float* o = outputs_->o.data() + output_entry(i);
    for (int64_t c = 0; c < dim_; ++c) o[c] = o_[size(c)] / l;
    lse2_[size(i)] = m + log2_f32(l);
    outputs_->lse[size(span_.head * inputs_.tokens + span_.begin + i)] = log_sum_exp(m, l);
  }

  float norm(const float* row) const {
    double squares = 0;
    for (int64_t c = 0; c < dim_; ++c) {
      const double value = static_cast<double>(row[c]);
      squares += value * value;
    }
    return static_cast<float>(std::sqrt(squares));
  }

  void choose_prescales() {
    r_.assign(size(span_.tokens), 0);
    if (scheme_.dq == DqSum::kFp32) return;
    const bool causal = scheme_.dq == DqSum::kFp16CausalScale && inputs_.causal;
    std::vector<float> norm_v(size(span_.tokens)), max_k(size(span_.tokens));
    float v = 0, k = 0, d_o = 0;
    for (int64_t j = 0; j < span_.tokens; ++j) {
      const float* key = keys(operands_.k_dq, j).data;
      for (int64_t c = 0; c < dim_; ++c) k = max_number(k, magnitude(key[c]));
      v = max_number(v, norm(keys(operands_.v_dp, j).data));
      d_o = max_number(d_o, norm(query(operands_.d_o, j)));
      norm_v[size(j)] = v;
      max_k[size(j)] = k;
    }
    for (int64_t i = 0; i < span_.tokens; ++i) {
      const float bound =
          causal ? norm_bound(norm(query(operands_.d_o, i)), norm_v[size(i)], max_k[size(i)])
                 : norm_bound(d_o, v, k);
      r_[size(i)] = dq_prescale_exponent(bound);
    }
  }

  void row_deltas() {
    delta_.resize(size(span_.tokens));
    for (int64_t i = 0; i < span_.tokens; ++i) {
      const float* d_o = query(operands_.d_o, i);
      const float* o = outputs_->o.data() + output_entry(i);
      double sum = 0;
      for (int64_t c = 0; c < dim_; ++c) {
        sum += static_cast<double>(d_o[c]) * static_cast<double>(o[c]);
      }
      delta_[size(i)] = static_cast<float>(sum);
    }
  }

  // P and dS-hat of one tile; what is masked is zero.
  void backward_tile(int64_t row0, int64_t key0) {
    const int64_t rows = std::min(kTile, span_.tokens - row0);
    std::fill(p_.begin(), p_.end(), 0.0f);
    std::fill(ds_.begin(), ds_.end(), 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = row0 + r;
      const int64_t count = visible(i, key0);
      float* p = p_.data() + r * kTile;
      float* ds = ds_.data() + r * kTile;
      scores(i, key0, count, p);
      add_products(query(operands_.d_o, i), dim_, columns(v_t_, key0), count, ds);
      const float lse2 = lse2_[size(i)];
      const float delta = delta_[size(i)];
      for (int64_t j = 0; j < count; ++j) {
        p[j] = exp2_exact(p[j] - lse2);
        ds[j] = p[j] * (ds[j] - delta);
      }
    }
    const int64_t key_count = std::min(kTile, span_.tokens - key0);
    float factors[kTile];
    const bool fold = scheme_.k_fold && !operands_.k_dq.exponents.empty();
    for (int64_t j = 0; fold && j < key_count; ++j) {
      const int32_t e = operands_.k_dq.exponents_of(span_.kv_head)[span_.begin + key0 + j];
      factors[j] = fold_factor(fold_exponent(e, 0));
    }
    quantize_ds(scheme_.ds, rows, key_count, fold ? factors : nullptr, ds_.data());
  }

  void add_query_gradients(int64_t row0, int64_t key0) {
    const int64_t rows = std::min(kTile, span_.tokens - row0);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t i = row0 + row;
      std::fill(partial_.begin(), partial_.end(), 0.0f);
      add_products(ds_.data() + row * kTile, visible(i, key0), keys(operands_.k_dq, key0), dim_,
                   partial_.data());
      float* sum = dq_.data() + row * dim_;
      if (scheme_.dq == DqSum::kFp32) {
        for (int64_t c = 0; c < dim_; ++c) sum[c] += partial_[size(c)];
        continue;
      }
      const float prescale = pow2(r_[size(i)]);
      for (int64_t c = 0; c < dim_; ++c) {
        sum[c] = round_f16(sum[c] + round_f16(partial_[size(c)] * prescale));
      }
    }
  }

  void store_query_gradients(int64_t row0) {
    const int64_t rows = std::min(kTile, span_.tokens - row0);
    for (int64_t row = 0; row < rows; ++row) {
      const float factor = pow2(-r_[size(row0 + row)]);
      float* dq = outputs_->dq.data() + output_entry(row0 + row);
      const float* sum = dq_.data() + row * dim_;
      for (int64_t c = 0; c < dim_; ++c) dq[c] = (sum[c] * factor) * inputs_.softmax_scale;
    }
  }

  // dK takes the dS-hat of dQ; dV takes P-hat = E4M3(P * 2^8) where P is quantized at all.
  void add_key_gradients(int64_t row0, int64_t key0) {
    const int64_t rows = std::min(kTile, span_.tokens - row0);
    const int64_t key_count = std::min(kTile, span_.tokens - key0);
    const float multiplier = pow2(kBackwardPLog2);
    const bool exact = scheme_.p == ProbabilityRule::kFp32;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < key_count; ++j) {
        const float p = p_[size(i * kTile + j)];
        p_t_[size(j * kTile + i)] = exact ? p : round_e4m3(p * multiplier) / multiplier;
        ds_t_[size(j * kTile + i)] = ds_[size(i * kTile + j)];
      }
    }
    for (int64_t j = 0; j < key_count; ++j) {
      const int64_t first = inputs_.causal ? std::max<int64_t>(key0 + j - row0, 0) : 0;
      if (first >= rows) continue;
      const int64_t entry = ((span_.begin + key0 + j) * inputs_.kv_heads + span_.kv_head) * dim_;
      const Rows d_o = {query(operands_.d_o, row0 + first), dim_};
      const Rows q = {query(operands_.q, row0 + first), dim_};
      add_products(p_t_.data() + j * kTile + first, rows - first, d_o, dim_,
                   outputs_->dv.data() + entry);
      add_products(ds_t_.data() + j * kTile + first, rows - first, q, dim_,
                   outputs_->dk.data() + entry);
    }
  }

  const Scheme& scheme_;
  const AuditInputs& inputs_;
  const Operands& operands_;
  Span span_;
  AuditOutputs* outputs_;
  int64_t dim_;
  float multiplier_;
  std::vector<float> k_t_, v_t_;            // [head_dim, tokens of the document]
  std::vector<float> lse2_, delta_;         // [tokens of the document]
  std::vector<int> r_;                      // exponent of the FP16 sums of each row
  std::vector<float> x_, p_hat_, o_;        // one row
  std::vector<float> p_, ds_, p_t_, ds_t_;  // one tile
  std::vector<float> dq_, partial_;         // one tile of rows, one row
};

Status refuse(const char* argument, const char* rule, int64_t got) {
  return Status(StatusCode::kInvalidArgument,
                "run_offender: " + refusal(argument, rule, concat(got)));
}

Status check(const AuditInputs& inputs, Gradients gradients) {
  if (inputs.tokens < 0) return refuse("tokens", "be at least 0", inputs.tokens);
  if (inputs.head_dim <= 0 || inputs.head_dim % 16 != 0) {
    return refuse("head_dim", "be a positive multiple of 16", inputs.head_dim);
  }
  if (inputs.kv_heads <= 0 || inputs.heads <= 0 || inputs.heads % inputs.kv_heads != 0) {
    return refuse("heads", "be a multiple of kv_heads", inputs.heads);
  }
  const auto entries = [](const std::vector<uint16_t>& values) {
    return static_cast<int64_t>(values.size());
  };
  if (entries(inputs.q) != inputs.query_entries()) {
    return refuse("q", "have tokens * heads * head_dim entries", entries(inputs.q));
  }
  for (const std::vector<uint16_t>* values : {&inputs.k, &inputs.v}) {
    if (entries(*values) != inputs.key_entries()) {
      return refuse(values == &inputs.k ? "k" : "v", "have tokens * kv_heads * head_dim entries",
                    entries(*values));
    }
  }
  if (gradients != Gradients::kNone && entries(inputs.d_o) != inputs.query_entries()) {
    return refuse("d_o", "have tokens * heads * head_dim entries", entries(inputs.d_o));
  }
  int64_t before = 0;
  for (const int32_t offset : inputs.cu_seqlens) {
    if (offset < before || offset > inputs.tokens) {
      return refuse("cu_seqlens", "not decrease or pass the last token", offset);
    }
    before = offset;
  }
  return Status();
}

void allocate(const AuditInputs& inputs, Gradients gradients, AuditOutputs* outputs) {
  *outputs = AuditOutputs();
  outputs->o.assign(size(inputs.query_entries()), 0.0f);
  outputs->lse.assign(size(inputs.heads * inputs.tokens), kEmptyLse);
  if (gradients == Gradients::kNone) return;
  outputs->dq.assign(size(inputs.query_entries()), 0.0f);
  if (gradients == Gradients::kQueries) return;
  outputs->dk.assign(size(inputs.key_entries()), 0.0f);
  outputs->dv.assign(size(inputs.key_entries()), 0.0f);
}

}  // namespace

Status run_offender(const Scheme& scheme, const AuditInputs& inputs, Gradients gradients,
                    AuditOutputs* outputs) {
  if (Status status = check(inputs, gradients); !status.ok()) return status;
  allocate(inputs, gradients, outputs);
  const Operands operands = quantize(scheme, inputs, gradients != Gradients::kNone);
  const int32_t group = inputs.heads / inputs.kv_heads;
  for (size_t b = 0; b + 1 < inputs.cu_seqlens.size(); ++b) {
    const int64_t tokens = inputs.cu_seqlens[b + 1] - inputs.cu_seqlens[b];
    if (tokens == 0) continue;
    for (int32_t head = 0; head < inputs.heads; ++head) {
      HeadPass pass(scheme, inputs, operands, {head, head / group, inputs.cu_seqlens[b], tokens},
                    outputs);
      pass.forward();
      if (gradients != Gradients::kNone) pass.backward(gradients);
    }
  }
  for (float& value : outputs->dk) value *= inputs.softmax_scale;
  return Status();
}

AttentionFunction offender_function(const Scheme& scheme) {
  return [scheme](const AuditInputs& inputs, AuditOutputs* outputs) {
    return run_offender(scheme, inputs, inputs.d_o.empty() ? Gradients::kNone : Gradients::kAll,
                        outputs);
  };
}

}  // namespace flamia::audit
