// Codes of a 4-bit P by cheaper rules than rounding 2^x.

#include "pcast/p_codes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/bits.h"
#include "numerics/e2m1.h"
#include "numerics/exp2.h"
#include "numerics/exp2_bitlevel.h"
#include "numerics/minifloat.h"
#include "numerics/token_block_scale.h"

namespace flamia::pcast {

namespace {

// Where the fits sample t: every code from 0 to 7 occurs, and codes are zero below.
constexpr double kFitLow = -6;
constexpr int kFitSamples = 2048;

struct Sample {
  double t;
  int code;
};

std::vector<Sample> samples() {
  const double high = std::log2(static_cast<double>(kE2m1Max));
  std::vector<Sample> result;
  for (int n = 0; n < kFitSamples; ++n) {
    const double t = kFitLow + (high - kFitLow) * (n + 0.5) / kFitSamples;
    result.push_back({t, encode_e2m1(exp2_exact(static_cast<float>(t)))});
  }
  return result;
}

int classify(const AffineClassifier& line, double t) {
  const double code = std::round(line.slope * t + line.offset);
  return static_cast<int>(std::clamp(code, 0.0, static_cast<double>(kE2m1MaxCode)));
}

// Code 1 starts at 1/4, code 7 at 5; a line reaches a code at half a step below it.
AffineClassifier through_ends() {
  const double low = std::log2(0.25);
  const double high = std::log2(5.0);
  const double slope = (kE2m1MaxCode - 1) / (high - low);
  return {slope, 0.5 - slope * low};
}

AffineClassifier least_squares() {
  double t_mean = 0, code_mean = 0, t_code = 0, t_t = 0;
  const std::vector<Sample> all = samples();
  const auto count = static_cast<double>(all.size());
  for (const Sample& one : all) {
    t_mean += one.t / count;
    code_mean += one.code / count;
  }
  for (const Sample& one : all) {
    t_code += (one.t - t_mean) * (one.code - code_mean);
    t_t += (one.t - t_mean) * (one.t - t_mean);
  }
  const double slope = t_code / t_t;
  return {slope, code_mean - slope * t_mean};
}

// By search: the count of equal codes has no gradient.
AffineClassifier most_equal() {
  constexpr double kSlopeStep = 0.02;
  constexpr double kOffsetStep = 0.02;
  const std::vector<Sample> all = samples();
  AffineClassifier best;
  int best_equal = -1;
  for (double slope = 0.5; slope <= 3; slope += kSlopeStep) {
    for (double offset = 0; offset <= 6; offset += kOffsetStep) {
      const AffineClassifier line = {slope, offset};
      int equal = 0;
      for (const Sample& one : all) equal += classify(line, one.t) == one.code ? 1 : 0;
      if (equal > best_equal) {
        best = line;
        best_equal = equal;
      }
    }
  }
  return best;
}

// Fitted once: the search takes tens of milliseconds.
const std::array<AffineClassifier, 3>& classifiers() {
  static const std::array<AffineClassifier, 3> kFitted = {through_ends(), least_squares(),
                                                          most_equal()};
  return kFitted;
}

bool is_direct(CodeRule rule) { return rule >= CodeRule::kDirectEnds; }

}  // namespace

const char* code_rule_name(CodeRule rule) {
  static constexpr const char* kNames[] = {"exact", "mitchell", "direct-ends", "direct-least",
                                           "direct-most-equal"};
  return kNames[static_cast<int>(rule)];
}

AffineClassifier affine_classifier(CodeRule rule) {
  if (!is_direct(rule)) return {};
  const int index = static_cast<int>(rule) - static_cast<int>(CodeRule::kDirectEnds);
  return classifiers()[static_cast<size_t>(index)];
}

int32_t code_group_exponent(float largest) { return round_up_exponent_e2m1(exp2_exact(largest)); }

uint8_t p_code(CodeRule rule, float x_minus_m, int32_t group_exponent) {
  if (!(x_minus_m > -bits_float(kFloatInfinityBits))) return 0;
  const float t = x_minus_m - static_cast<float>(group_exponent);
  if (is_direct(rule)) {
    return static_cast<uint8_t>(classify(affine_classifier(rule), static_cast<double>(t)));
  }
  return encode_e2m1(rule == CodeRule::kExact ? exp2_exact(t) : mitchell_exp2(t));
}

void p_codes(CodeRule rule, std::span<const float> x, std::span<uint8_t> codes,
             std::span<int32_t> exponents) {
  float m = -bits_float(kFloatInfinityBits);
  for (const float one : x) m = max_number(m, one);
  const auto group = static_cast<size_t>(kCodeGroup);
  for (size_t first = 0; first < x.size(); first += group) {
    const size_t last = std::min(first + group, x.size());
    float largest = -bits_float(kFloatInfinityBits);
    for (size_t j = first; j < last; ++j) largest = max_number(largest, x[j]);
    const int32_t e = code_group_exponent(largest - m);
    exponents[first / group] = e;
    for (size_t j = first; j < last; ++j) codes[j] = p_code(rule, x[j] - m, e);
  }
}

void CodeAgreement::add(std::span<const uint8_t> exact, std::span<const uint8_t> other) {
  for (size_t j = 0; j < exact.size(); ++j) {
    const int64_t same = exact[j] == other[j] ? 1 : 0;
    const int64_t nonzero = (exact[j] | other[j]) != 0 ? 1 : 0;
    ++keys;
    equal += same;
    either += nonzero;
    either_equal += same * nonzero;
  }
}

void CodeAgreement::merge(const CodeAgreement& other) {
  keys += other.keys;
  equal += other.equal;
  either += other.either;
  either_equal += other.either_equal;
}

double CodeAgreement::all_fraction() const {
  return keys == 0 ? 0 : static_cast<double>(equal) / static_cast<double>(keys);
}

double CodeAgreement::nonzero_fraction() const {
  return either == 0 ? 0 : static_cast<double>(either_equal) / static_cast<double>(either);
}

}  // namespace flamia::pcast
