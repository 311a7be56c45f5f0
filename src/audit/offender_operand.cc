// One operand of an offender: its groups, their scales, its codes.

#include "audit/offender_operand.h"

#include <algorithm>
#include <cstddef>

#include "base/bits.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/nvfp4_scale.h"
#include "numerics/token_block_scale.h"

namespace flamia::audit {

namespace {

size_t size(int64_t n) { return static_cast<size_t>(n); }

float largest_code(Element element) { return element == Element::kE2m1 ? kE2m1Max : kE4m3Max; }

int up_exponent(Element element, float amax) {
  return element == Element::kE2m1 ? round_up_exponent_e2m1(amax) : round_up_exponent_e4m3(amax);
}

int floor_exponent(Element element, float amax) {
  if (!(amax > 0)) return kNoScaleExponent;
  const int above = element == Element::kE2m1 ? kE2m1MaxExponent : kE4m3MaxExponent;
  const int e = amax < bits_float(kFloatInfinityBits) ? floor_log2(amax) - above
                                                      : kMaxScaleExponent + 1 - above;
  return larger(smaller(e, kMaxScaleExponent), kNoScaleExponent);
}

// A scale, and its exponent where it is a power of two.
struct Scale {
  float value = 0;
  int exponent = 0;
};

// The second level of NVFP4: what the scale of 16 channels is relative to.
struct SecondLevel {
  int exponent = 0;
  float factor = 1;
};

Scale scale_of(const OperandRule& rule, float amax, const SecondLevel& second) {
  switch (rule.scale) {
    case ScaleRule::kAmax:
      return {amax / largest_code(rule.element), 0};
    case ScaleRule::kPowerOfTwoUp:
    case ScaleRule::kPowerOfTwoFloor: {
      const int e = rule.scale == ScaleRule::kPowerOfTwoUp ? up_exponent(rule.element, amax)
                                                           : floor_exponent(rule.element, amax);
      return {pow2(e), e};
    }
    case ScaleRule::kUe4m3TensorFactor: {
      if (second.factor == 0) return {0, 0};
      const uint8_t code = encode_ue4m3((amax / kE2m1Max) / second.factor);
      return {decode_ue4m3(code) * second.factor, 0};
    }
    case ScaleRule::kUe4m3:
    case ScaleRule::kUe4m3PerToken:
      break;
  }
  return {nvfp4_scale_value(nvfp4_block_scale(amax, second.exponent), second.exponent), 0};
}

class Quantizer {
 public:
  Quantizer(const OperandRule& rule, const OperandSource& source)
      : rule_(rule), source_(source), dim_(source.head_dim) {
    operand_.tokens = source.tokens;
    operand_.head_dim = source.head_dim;
    operand_.values.assign(source.values->size(), 0.0f);
    if (has_exponents()) operand_.exponents.assign(size(source.heads * source.tokens), 0);
    amax_.resize(size(dim_));
    scale_.resize(size(dim_));
  }

  DecodedOperand run() {
    if (needs_tensor_amax()) tensor_amax_ = tensor_amax();
    for (int32_t head = 0; head < source_.heads; ++head) {
      for (size_t b = 0; b + 1 < source_.cu_seqlens.size(); ++b) {
        document(head, source_.cu_seqlens[b], source_.cu_seqlens[b + 1]);
      }
    }
    return std::move(operand_);
  }

 private:
  bool has_exponents() const {
    const bool power =
        rule_.scale == ScaleRule::kPowerOfTwoUp || rule_.scale == ScaleRule::kPowerOfTwoFloor;
    return rule_.element != Element::kFp32 && power &&
           (rule_.scope != ScaleScope::kGroup || rule_.channels == 0);
  }
  bool needs_tensor_amax() const {
    return rule_.scope == ScaleScope::kTensor || rule_.scale == ScaleRule::kUe4m3TensorFactor;
  }
  float tensor_amax() const {
    float amax = 0;
    for (const uint16_t bits : *source_.values) {
      amax = max_number(amax, magnitude(bf16_to_float(bits)));
    }
    return amax;
  }
  float* row(int32_t head, int64_t token) {
    return operand_.values.data() + (head * source_.tokens + token) * dim_;
  }

  void document(int32_t head, int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const uint16_t* from = source_.values->data() + (token * source_.heads + head) * dim_;
      float* to = row(head, token);
      for (int64_t c = 0; c < dim_; ++c) to[c] = bf16_to_float(from[c]);
    }
    if (rule_.element == Element::kFp32) return;
    const int64_t step = rule_.scope == ScaleScope::kGroup ? rule_.tokens : end - begin;
    for (int64_t first = begin; first < end; first += step) {
      tokens(head, first, std::min(first + step, end));
    }
  }

  // One run of tokens whose channel groups each share a scale.
  void tokens(int32_t head, int64_t begin, int64_t end) {
    std::fill(amax_.begin(), amax_.end(), rule_.scope == ScaleScope::kTensor ? tensor_amax_ : 0.f);
    for (int64_t token = begin; token < end; ++token) {
      const float* x = row(head, token);
      for (size_t c = 0; c < amax_.size(); ++c) amax_[c] = max_number(amax_[c], magnitude(x[c]));
    }
    choose_scales(head, begin, end);
    for (int64_t token = begin; token < end; ++token) round_row(row(head, token));
  }

  void choose_scales(int32_t head, int64_t begin, int64_t end) {
    SecondLevel second;
    if (rule_.scale == ScaleRule::kUe4m3PerToken) {
      float amax = 0;
      for (const float one : amax_) amax = max_number(amax, one);
      second.exponent = nvfp4_token_exponent(amax);
    }
    if (rule_.scale == ScaleRule::kUe4m3TensorFactor) {
      second.factor = tensor_amax_ / (kE2m1Max * kE4m3Max);
    }
    const bool all = rule_.scope != ScaleScope::kGroup || rule_.channels == 0;
    const size_t width = all ? amax_.size() : size(rule_.channels);
    for (size_t first = 0; first < amax_.size(); first += width) {
      const size_t last = std::min(first + width, amax_.size());
      float amax = 0;
      for (size_t c = first; c < last; ++c) amax = max_number(amax, amax_[c]);
      const Scale scale = scale_of(rule_, amax, second);
      std::fill(scale_.begin() + static_cast<ptrdiff_t>(first),
                scale_.begin() + static_cast<ptrdiff_t>(last), scale.value);
      if (operand_.exponents.empty()) continue;
      int32_t* exponents = operand_.exponents.data() + head * source_.tokens;
      std::fill(exponents + begin, exponents + end, scale.exponent);
    }
  }

  // Dividing by a power of two is exact, so one form serves every scale.
  template <typename Round>
  void round_row(float* x, const Round& round) const {
    const float* scale = scale_.data();
    for (int64_t c = 0; c < dim_; ++c) {
      const float divisor = scale[c] == 0.0f ? 1.0f : scale[c];
      x[c] = round(x[c] / divisor) * scale[c];
    }
  }
  void round_row(float* x) const {
    if (rule_.element == Element::kE2m1) {
      round_row(x, [](float value) { return round_e2m1(value); });
    } else {
      round_row(x, [](float value) { return round_e4m3(value); });
    }
  }

  OperandRule rule_;
  OperandSource source_;
  int64_t dim_;
  DecodedOperand operand_;
  float tensor_amax_ = 0;
  std::vector<float> amax_, scale_;  // [head_dim], of the tokens at work
};

}  // namespace

DecodedOperand quantize_operand(const OperandRule& rule, const OperandSource& source) {
  return Quantizer(rule, source).run();
}

}  // namespace flamia::audit
