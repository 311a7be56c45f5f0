// Enumeration of the E4M3 line.

#include "pcast/quantization_step.h"

#include <cmath>

#include "base/bits.h"
#include "numerics/e4m3.h"

namespace flamia::pcast {

namespace {

// The step of the binade that starts at a positive code with mantissa 0 (code 1: the subnormals).
double step_above(int code) {
  return static_cast<double>(decode_e4m3(static_cast<uint8_t>(code + 1))) -
         static_cast<double>(decode_e4m3(static_cast<uint8_t>(code)));
}

}  // namespace

int positive_values() {
  int count = 0;
  for (int code = 1; code <= kE4m3MaxCode; ++code) {
    if (decode_e4m3(static_cast<uint8_t>(code)) > 0.0f) ++count;
  }
  return count;
}

double quantization_step(double scale, Endpoint endpoint) {
  constexpr double kLimit = static_cast<double>(kE4m3Max);
  double largest = 0;
  // The gap that starts at each value, counted where the value lies inside the range.
  for (int code = 0; code < kE4m3MaxCode; ++code) {
    const double value = static_cast<double>(decode_e4m3(static_cast<uint8_t>(code)));
    if (value < scale || (endpoint == Endpoint::kIncluded && value == scale)) {
      largest = larger(largest, step_above(code));
    }
  }
  const double step = largest / scale;
  return scale <= kLimit ? step : larger(step, 2.0 * (1.0 - kLimit / scale));
}

double largest_cast_error(float scale) {
  // Ties of every binade that matters are multiples of S / 2^k; 2^20 points contain them for S =
  // 2^k and come within 1e-6 of them for other scales.
  constexpr int kPoints = 1 << 20;
  double largest = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const float p = static_cast<float>(i) / static_cast<float>(kPoints);
    const double cast = static_cast<double>(round_e4m3(p * scale)) / static_cast<double>(scale);
    largest = larger(largest, std::fabs(cast - static_cast<double>(p)));
  }
  return largest;
}

Coverage coverage(double scale) {
  Coverage result;
  result.normal = static_cast<double>(pow2(kE4m3MinExponent)) / scale;
  result.subnormal = static_cast<double>(pow2(kE4m3MinExponent - kE4m3MantissaBits)) / scale;
  result.zeroed = static_cast<double>(pow2(kZeroedLog2)) / scale;
  return result;
}

UnderflowCheck check_underflow_rule() {
  const uint32_t tie = float_bits(pow2(kZeroedLog2));
  const uint32_t begin = float_bits(pow2(kZeroedLog2 - 2));
  const uint32_t end = float_bits(pow2(kZeroedLog2 + 2));
  UnderflowCheck check;
  for (uint32_t bits = begin; bits < end; ++bits) {
    const bool zeroed = round_e4m3(bits_float(bits)) == 0.0f;
    if (bits != tie && zeroed != (bits < tie)) ++check.contradictions;
  }
  check.values = end - begin;
  check.tie_is_zeroed = round_e4m3(bits_float(tie)) == 0.0f;
  return check;
}

ExactnessCheck check_scaling(float scale) {
  constexpr uint32_t kFractions = 1u << 23;
  const float inverse = 1.0f / scale;
  ExactnessCheck check;
  check.values = kFractions;
  for (uint32_t fraction = 0; fraction < kFractions; ++fraction) {
    const float x = bits_float(float_bits(0.5f) | fraction);
    const float product = x * scale;
    const double exact = static_cast<double>(x) * static_cast<double>(scale);
    if (static_cast<double>(product) != exact) ++check.rounded;
    if (product * inverse != x) ++check.not_undone;
  }
  return check;
}

int64_t scales_at_or_below_envelope() {
  const double envelope = static_cast<double>(pow2(-kE4m3MantissaBits - 1));
  constexpr int kParts = 8;
  constexpr int kLargest = 1024;
  int64_t found = 0;
  for (int i = kParts; i <= kLargest * kParts; ++i) {
    const double scale = static_cast<double>(i) / kParts;
    const bool power = std::log2(scale) == std::floor(std::log2(scale));
    if (power && scale <= static_cast<double>(kE4m3Max)) continue;
    if (quantization_step(scale) <= envelope) ++found;
  }
  return found;
}

}  // namespace flamia::pcast
