// Changing one token of a call, and measuring what changed in the outputs.
#include "audit/perturbation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "numerics/bf16.h"

namespace flamia::audit {
namespace {

constexpr float kLargestBf16 = 0x1.fep127f;

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

double difference(float a, float b) {
  if (same_bits(a, b)) return 0;
  if (a == b) return 0;  // 0 and -0
  const double size = std::abs(static_cast<double>(a) - static_cast<double>(b));
  return std::isnan(size) ? std::numeric_limits<double>::infinity() : size;
}

}  // namespace

const char* operand_name(Operand operand) {
  static constexpr const char* kNames[] = {"q", "k", "v", "d_o", "all"};
  return kNames[static_cast<int>(operand)];
}

std::vector<uint16_t>& operand_of(AuditInputs* inputs, Operand operand) {
  switch (operand) {
    case Operand::kQ:
      return inputs->q;
    case Operand::kK:
      return inputs->k;
    case Operand::kV:
      return inputs->v;
    case Operand::kDo:
    case Operand::kAll:
      break;
  }
  return inputs->d_o;
}

void apply(const Perturbation& perturbation, AuditInputs* inputs) {
  for (const Operand operand : kOperands) {
    if (perturbation.operand != Operand::kAll && perturbation.operand != operand) continue;
    std::vector<uint16_t>& values = operand_of(inputs, operand);
    const auto width = static_cast<std::ptrdiff_t>(values.size()) / inputs->tokens;
    const auto begin = values.begin() + width * perturbation.token;
    const float factor = perturbation.factor;
    std::transform(begin, begin + width, begin, [factor](uint16_t bits) {
      if (!std::isfinite(factor)) return float_to_bf16(factor);
      const float product = bf16_to_float(bits) * factor;
      return float_to_bf16(std::clamp(product, -kLargestBf16, kLargestBf16));
    });
  }
}

std::vector<float> row_changes(const std::vector<float>& before, const std::vector<float>& after,
                               const RowLayout& layout, RowNorm norm) {
  const auto rows = static_cast<size_t>(layout.rows);
  const auto inner = static_cast<size_t>(layout.inner);
  std::vector<double> change(rows, 0), size(rows, 0);
  std::vector<char> bits_differ(rows, 0);
  double largest = 0;
  for (size_t n = 0; n < before.size(); ++n) {
    const size_t row = layout.row_major ? n / inner : n % rows;
    const double delta = difference(before[n], after[n]);
    const double value = std::abs(static_cast<double>(before[n]));
    if (!same_bits(before[n], after[n])) bits_differ[row] = 1;
    if (norm == RowNorm::kRow) {
      change[row] += delta * delta;
      if (std::isfinite(value)) size[row] += value * value;
    } else {
      change[row] = std::max(change[row], delta);
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
  }
  std::vector<float> result(rows, 0);
  for (size_t row = 0; row < rows; ++row) {
    if (bits_differ[row] == 0) continue;
    const double unit = norm == RowNorm::kRow ? std::sqrt(size[row]) : largest;
    const double absolute = norm == RowNorm::kRow ? std::sqrt(change[row]) : change[row];
    const double relative = absolute == 0 ? 0 : absolute / unit;
    // Never zero: zero means equal bits.
    result[row] = std::max(static_cast<float>(relative), std::numeric_limits<float>::denorm_min());
  }
  return result;
}

RowLayout layout_of(const OutputView& view, const AuditInputs& inputs) {
  RowLayout layout;
  layout.rows = inputs.tokens;
  const std::string_view name = view.name;
  layout.row_major = name != "lse";
  const bool of_keys = name == "dk" || name == "dv";
  layout.inner = name == "lse" ? 1
                               : static_cast<int64_t>(of_keys ? inputs.kv_heads : inputs.heads) *
                                     inputs.head_dim;
  return layout;
}

}  // namespace flamia::audit
