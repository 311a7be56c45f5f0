// The forms of P-hat, one function each.
#include "cpu/p_hat_row.h"

#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/exp2.h"
#include "numerics/f16.h"
#include "numerics/key_fold.h"
#include "numerics/online_softmax.h"
#include "numerics/p_hat.h"

namespace flamia::cpu {

void KeyFolds::set(const int8_t* key_exponents, int new_reference, int count) {
  if (valid && reference == new_reference) return;
  valid = true;
  reference = new_reference;
  for (int j = 0; j < count; ++j) {
    const int f = key_exponents == nullptr ? 0 : fold_exponent(key_exponents[j], new_reference);
    fold[j] = static_cast<float>(f);
    inverse[j] = pow2(-f);
    decoded[j] = fold_keeps_row_sum(f) ? 1.0f : 0.0f;
  }
}

namespace {

/// Row-sum term of each column: decoded P-hat or the exponential, with the fold undone.
float sum_terms(const PRow& row, const float* e, const float* p_hat) {
  alignas(32) float term[kKeyTile];
  const KeyFolds& folds = *row.folds;
  if (row.row_sum == RowSum::kP) {
    for (int j = 0; j < row.count; ++j) term[j] = e[j] * folds.inverse[j];
  } else {
    for (int j = 0; j < row.count; ++j) {
      term[j] = (folds.decoded[j] != 0.0f ? p_hat[j] : e[j]) * folds.inverse[j];
    }
  }
  mask_row(term, row.visible, row.count, 0.0f);
  return row_sum(term, row.count);
}

void biases(const PRow& row, float* bias) {
  const float base = row.log2_scale - row.row_max;
  for (int j = 0; j < row.count; ++j) bias[j] = base + row.folds->fold[j];
}

float quantize_bf16(const PRow& row, float* p_hat) {
  alignas(32) float bias[kKeyTile] = {};
  alignas(32) float e[kKeyTile];
  biases(row, bias);
  exponentials(row.exponential, row.acc, row.mult, bias, row.count, e);
  for (int j = 0; j < row.count; ++j) p_hat[j] = round_bf16(e[j]);
  return sum_terms(row, e, p_hat);
}

float quantize_e4m3(const PRow& row, float* p_hat) {
  alignas(32) float bias[kKeyTile] = {};
  alignas(32) float e[kKeyTile];
  biases(row, bias);
  exponentials(row.exponential, row.acc, row.mult, bias, row.count, e);
  if (row.half) {
    for (int j = 0; j < row.count; ++j) {
      const bool exact = magnitude(bias[j]) <= kHalfExactLimit;
      const float offset = exact ? round_f16(bias[j]) : bias[j];
      const float argument = round_f16(fma_f32(row.acc[j], row.mult[j], offset));
      p_hat[j] = round_e4m3(round_f16(exp2_exact(argument)));
    }
  } else {
    for (int j = 0; j < row.count; ++j) p_hat[j] = round_e4m3(e[j]);
  }
  return sum_terms(row, e, p_hat);
}

/// x: masked scores. Blackwell NVFP4: the exponent of each 32-key group is found before 2^x.
float quantize_e4m3_groups(const PRow& row, const float* x, float* p_hat) {
  alignas(32) float bias[kKeyTile] = {};
  alignas(32) float e[kKeyTile];
  alignas(32) float scale[kKeyTile];
  for (int g = 0; g < row.count; g += kPHatGroup) {
    const int columns = smaller(kPHatGroup, row.count - g);
    const int exponent = p_hat_group_exponent(row_max(x + g, columns) - row.row_max);
    for (int j = g; j < g + columns; ++j) {
      bias[j] = -row.row_max - static_cast<float>(exponent);
      scale[j] = pow2(exponent);
    }
  }
  exponentials(row.exponential, row.acc, row.mult, bias, row.count, e);
  for (int j = 0; j < row.count; ++j) {
    p_hat[j] = round_e4m3(e[j]) * scale[j];
    e[j] *= scale[j];
  }
  return sum_terms(row, e, p_hat);
}

/// E2M1 with a scale of (group maximum) / 6 per 32 keys: codes from 2^(x - group maximum) * 6.
float quantize_e2m1_groups(const PRow& row, const float* x, float* p_hat) {
  constexpr float kLog2Six = 2.584962500721156f;
  alignas(32) float bias[kKeyTile] = {};
  alignas(32) float e[kKeyTile];
  alignas(32) float scale[kKeyTile];
  alignas(32) float folded[kKeyTile];
  for (int j = 0; j < row.count; ++j) folded[j] = x[j] + row.folds->fold[j];
  for (int g = 0; g < row.count; g += kPHatGroup) {
    const int columns = smaller(kPHatGroup, row.count - g);
    const float group_max = row_max(folded + g, columns);
    const bool none = group_max == -kFloatInfinity;
    const float shift = none ? 0.0f : kLog2Six - group_max;
    const float value = none ? 0.0f : exp2_exact(group_max - row.row_max) / kE2m1Max;
    for (int j = g; j < g + columns; ++j) {
      bias[j] = shift + row.folds->fold[j];
      scale[j] = value;
    }
  }
  if (row.exponential == Exponential::kMitchell) {
    for (int j = 0; j < row.count; ++j) {
      // Masked columns may hold any score; the clamp keeps them inside the function's domain.
      e[j] = mitchell_exp2(smaller(fma_f32(row.acc[j], row.mult[j], bias[j]), 3.0f));
    }
  } else {
    exponentials(row.exponential, row.acc, row.mult, bias, row.count, e);
  }
  for (int j = 0; j < row.count; ++j) {
    p_hat[j] = round_e2m1(e[j]) * scale[j];
    e[j] *= scale[j];
  }
  return sum_terms(row, e, p_hat);
}

}  // namespace

float quantize_p_row(PForm form, const PRow& row, const float* x, float* p_hat) {
  float sum = 0.0f;
  switch (form) {
    case PForm::kBf16:
      sum = quantize_bf16(row, p_hat);
      break;
    case PForm::kE4m3:
      sum = quantize_e4m3(row, p_hat);
      break;
    case PForm::kE4m3Group:
      sum = quantize_e4m3_groups(row, x, p_hat);
      break;
    case PForm::kE2m1Group:
      sum = quantize_e2m1_groups(row, x, p_hat);
      break;
  }
  mask_row(p_hat, row.visible, row.count, 0.0f);
  return sum;
}

}  // namespace flamia::cpu
