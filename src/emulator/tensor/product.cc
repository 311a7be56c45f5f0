// Blocked loops of the tensor-core product; special values take the plain model.
// Used by: see product.h. Four binary64 lanes at a time: every product and every aligned term is
// exact in binary64, so vectors change nothing.
#include "emulator/tensor/product.h"

#include <algorithm>
#include <cmath>

#include "base/bits.h"
#include "base/check.h"

namespace flamia::emulator {
namespace {

namespace detail = tensor_core_detail;

constexpr uint32_t kLanes = 4;
using Double4 = double __attribute__((vector_size(32)));
using Long4 = int64_t __attribute__((vector_size(32)));
using Int4 = int32_t __attribute__((vector_size(16)));

/// Below every exponent, also as a sum of two and with scales; marks zero.
constexpr int32_t kZeroExponent = -100000;

/// A matrix transposed to [k][columns], columns padded to a multiple of kLanes with zeros.
template <typename Value>
struct Columns {
  uint32_t width = 0;
  std::vector<Value> values;
  Columns(uint32_t k, uint32_t rows, Value fill)
      : width(round_up(rows, kLanes)), values(size_t{k} * width, fill) {}
  Value* at(uint32_t k, uint32_t column) { return values.data() + size_t{k} * width + column; }
};

/// Vectors are passed by reference: their calling convention depends on the target.
template <typename Vector, typename Value>
FLAMIA_FORCE_INLINE void load4(const Value* from, Vector* to) {
  __builtin_memcpy(to, from, sizeof(Vector));
}

/// binary64 rounded once to binary16, ties to even.
float double_to_f16(double x) {
  const double a = std::fabs(x);
  if (!(a <= 65536.0))
    return std::isnan(x) ? bits_float(kCanonicalNanBits)
                         : static_cast<float>(x) * bits_float(kFloatInfinityBits);
  if (a == 0.0) return static_cast<float>(x);
  const int binade = std::max(
      a < detail::pow2_double(kF16MinExponent) ? kF16MinExponent : detail::floor_log2_double(a),
      kF16MinExponent);
  const double magic = detail::pow2_double(binade - kF16MantissaBits + 52);
  const double rounded = (a + magic) - magic;
  const float value = rounded > static_cast<double>(kF16Max) ? bits_float(kFloatInfinityBits)
                                                             : static_cast<float>(rounded);
  return x < 0 ? -value : value;
}

float round_result(double x, bool f16_result) {
  if (f16_result) return double_to_f16(x);
  return std::isnan(x) ? bits_float(kCanonicalNanBits) : static_cast<float>(x);
}

bool finite_row(const float* values, uint32_t count) {
  bool finite = true;
  for (uint32_t i = 0; i < count; ++i) finite = finite && detail::is_finite(values[i]);
  return finite;
}

/// Exact mode: sums of exact products in binary64.
void multiply_exact(const ProductRules& rules, const Matrix& a, const Matrix& b,
                    const Scales& a_scales, const Scales& b_scales, float* c) {
  const uint32_t n = b.rows, k = a.k;
  Columns<double> columns(k, n, 0.0);
  for (uint32_t j = 0; j < n; ++j) {
    for (uint32_t x = 0; x < k; ++x) {
      double value = static_cast<double>(b.row(j)[x]);
      if (b_scales.block != 0) value *= static_cast<double>(b_scales.row(j)[x / b_scales.block]);
      *columns.at(x, j) = value;
    }
  }
  constexpr uint32_t kRows = 2, kWidth = 4;
  std::vector<double> rows(size_t{kRows} * k);
  for (uint32_t i = 0; i < a.rows; i += kRows) {
    const uint32_t live = std::min(kRows, a.rows - i);
    for (uint32_t r = 0; r < kRows; ++r) {
      for (uint32_t x = 0; x < k; ++x) {
        double value = r < live ? static_cast<double>(a.row(i + r)[x]) : 0.0;
        if (a_scales.block != 0 && r < live) {
          value *= static_cast<double>(a_scales.row(i + r)[x / a_scales.block]);
        }
        rows[size_t{r} * k + x] = value;
      }
    }
    const auto finish = [&](uint32_t r, uint32_t j, const Double4& sum) {
      for (uint32_t lane = 0; lane < kLanes && j + lane < n; ++lane) {
        float& target = c[size_t{i + r} * n + j + lane];
        target = round_result(static_cast<double>(target) + sum[lane], rules.f16_result);
      }
    };
    uint32_t j = 0;
    for (; j + kWidth * kLanes <= columns.width; j += kWidth * kLanes) {
      Double4 sums[kRows][kWidth] = {};
      for (uint32_t x = 0; x < k; ++x) {
        const double* column = columns.at(x, j);
        const double a0 = rows[x], a1 = rows[size_t{k} + x];
        for (uint32_t w = 0; w < kWidth; ++w) {
          Double4 value;
          load4(column + size_t{w} * kLanes, &value);
          sums[0][w] += a0 * value;
          sums[1][w] += a1 * value;
        }
      }
      for (uint32_t r = 0; r < live; ++r) {
        for (uint32_t w = 0; w < kWidth; ++w) finish(r, j + w * kLanes, sums[r][w]);
      }
    }
    for (; j < n; j += kLanes) {
      Double4 sums[kRows] = {};
      for (uint32_t x = 0; x < k; ++x) {
        Double4 value;
        load4(columns.at(x, j), &value);
        sums[0] += rows[x] * value;
        sums[1] += rows[size_t{k} + x] * value;
      }
      for (uint32_t r = 0; r < live; ++r) finish(r, j, sums[r]);
    }
  }
}

/// One output by the plain model: special values, and the mxf4 kinds.
float plain_output(const ProductRules& rules, const Matrix& a, uint32_t i, const Matrix& b,
                   uint32_t j, uint32_t first, uint32_t count, const Scales& a_scales,
                   const Scales& b_scales, float c) {
  const float* x = a.row(i) + first;
  const float* y = b.row(j) + first;
  if (rules.exact_groups) {
    const uint32_t scale = first / a_scales.block;
    return accumulate_chunk_mxf4(x, y, static_cast<int>(count), a_scales.row(i) + scale,
                                 b_scales.row(j) + scale, static_cast<int>(a_scales.block),
                                 a_scales.min_exponent, c, rules.model);
  }
  int scale_exponent = 0;
  if (a_scales.block != 0) {
    const float sa = a_scales.row(i)[first / a_scales.block];
    const float sb = b_scales.row(j)[first / b_scales.block];
    if (is_nan(sa) || is_nan(sb)) return bits_float(kCanonicalNanBits);
    scale_exponent = floor_log2(sa) + floor_log2(sb);
  }
  if (rules.f16_result) {
    const detail::AlignedSum total =
        detail::aligned_sum(x, y, static_cast<int>(count), c, kF16MinExponent, a.min_exponent,
                            b.min_exponent, scale_exponent, rules.model.product_fraction_bits);
    return total.special != 0u ? bits_float(total.special)
                               : detail::round_to_f16(total.sum, total.unit);
  }
  return accumulate_chunk(x, y, static_cast<int>(count), c, rules.model, a.min_exponent,
                          b.min_exponent, scale_exponent);
}

/// sum * 2^unit as a result. Equals truncate_to_f32 and round_to_f16.
float hardware_result(const ProductRules& rules, double sum, int32_t unit) {
  if (rules.f16_result) return detail::round_to_f16(static_cast<int64_t>(sum), unit);
  const double value = sum * detail::pow2_double(unit);
  const int dropped = 52 - rules.model.result_fraction_bits;
  const double kept = bits_double(double_bits(value) & ~((uint64_t{1} << dropped) - 1));
  const double size = std::fabs(kept);
  if (size >= detail::pow2_double(-126) && size < detail::pow2_double(128)) {
    return static_cast<float>(kept);
  }
  return detail::truncate_to_f32(static_cast<int64_t>(sum), unit, rules.model.result_fraction_bits);
}

/// One chunk of finite operands, alignment and truncation four columns at a time.
class HardwareChunk {
 public:
  HardwareChunk(const ProductRules& rules, const Matrix& a, const Matrix& b, uint32_t first,
                uint32_t count)
      : rules_(rules),
        a_(a),
        first_(first),
        count_(count),
        values_(count, b.rows, 0.0),
        exponents_(count, b.rows, kZeroExponent),
        row_values_(count),
        row_exponents_(count) {
    for (uint32_t j = 0; j < b.rows; ++j) {
      for (uint32_t x = 0; x < count; ++x) {
        const float value = b.row(j)[first + x];
        if (!detail::is_finite(value)) continue;  // the caller takes the plain model there
        *values_.at(x, j) = static_cast<double>(value);
        if (value != 0.0f) *exponents_.at(x, j) = detail::operand_exponent(value, b.min_exponent);
      }
    }
  }

  void select_row(uint32_t i) {
    for (uint32_t x = 0; x < count_; ++x) {
      const float value = a_.row(i)[first_ + x];
      row_values_[x] = static_cast<double>(value);
      row_exponents_[x] =
          value == 0.0f ? kZeroExponent : detail::operand_exponent(value, a_.min_exponent);
    }
  }

  /// Outputs of four columns from j on; scale: sums of the two scale exponents.
  void four(uint32_t j, const float* c, const int32_t* scale, float* out) {
    Int4 largest = {kZeroExponent, kZeroExponent, kZeroExponent, kZeroExponent};
    for (uint32_t x = 0; x < count_; ++x) {
      Int4 exponent;
      load4(exponents_.at(x, j), &exponent);
      exponent += row_exponents_[x];
      largest = exponent > largest ? exponent : largest;
    }
    const int c_min = rules_.f16_result ? kF16MinExponent : detail::kF32MinExponent;
    const int fraction = rules_.model.product_fraction_bits;
    Long4 c_factor, factor;
    Double4 addend;
    int32_t unit[kLanes];
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const int top =
          std::max(largest[lane] + scale[lane], detail::operand_exponent(c[lane], c_min));
      unit[lane] = top - fraction;
      c_factor[lane] = int64_t{1023 - unit[lane]} << 52;
      factor[lane] = int64_t{1023 - unit[lane] + scale[lane]} << 52;
      addend[lane] = static_cast<double>(c[lane]);
    }
    const Double4 scale_c = (Double4)c_factor;
    const Double4 scale_terms = (Double4)factor;
    Double4 sum = __builtin_convertvector(__builtin_convertvector(addend * scale_c, Int4), Double4);
    for (uint32_t x = 0; x < count_; ++x) {
      Double4 term;
      load4(values_.at(x, j), &term);
      term = row_values_[x] * term * scale_terms;
      sum += __builtin_convertvector(__builtin_convertvector(term, Int4), Double4);
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      out[lane] = hardware_result(rules_, sum[lane], unit[lane]);
    }
  }

 private:
  const ProductRules& rules_;
  const Matrix& a_;
  uint32_t first_;
  uint32_t count_;
  Columns<double> values_;
  Columns<int32_t> exponents_;
  std::vector<double> row_values_;
  std::vector<int32_t> row_exponents_;
};

/// The mxf4 kinds with one chunk for all of k: sums of 16 products four columns at a time, the few
/// terms of each output one by one.
void multiply_groups(const ProductRules& rules, const Matrix& a, const Matrix& b,
                     const Scales& a_scales, const Scales& b_scales, float* c) {
  const uint32_t n = b.rows, groups = a.k / kMxf4ExactGroup, block = a_scales.block;
  Columns<double> columns(a.k, n, 0.0);
  for (uint32_t j = 0; j < n; ++j) {
    for (uint32_t x = 0; x < a.k; ++x) *columns.at(x, j) = static_cast<double>(b.row(j)[x]);
  }
  std::vector<Double4> sums(groups);
  for (uint32_t i = 0; i < a.rows; ++i) {
    for (uint32_t j = 0; j < n; j += kLanes) {
      for (uint32_t g = 0; g < groups; ++g) {
        Double4 sum = {};
        for (uint32_t x = g * kMxf4ExactGroup; x < (g + 1) * kMxf4ExactGroup; ++x) {
          Double4 value;
          load4(columns.at(x, j), &value);
          sum += static_cast<double>(a.row(i)[x]) * value;
        }
        sums[g] = sum;
      }
      for (uint32_t lane = 0; lane < kLanes && j + lane < n; ++lane) {
        float& out = c[size_t{i} * n + j + lane];
        const float* sa = a_scales.row(i);
        const float* sb = b_scales.row(j + lane);
        bool plain = !detail::is_finite(out);
        int largest = plain ? 0 : detail::operand_exponent(out, detail::kF32MinExponent);
        for (uint32_t g = 0; g < groups && !plain; ++g) {
          const float x = sa[g * kMxf4ExactGroup / block], y = sb[g * kMxf4ExactGroup / block];
          plain = is_nan(x) || is_nan(y);
          if (plain) break;
          largest = std::max(largest, detail::operand_exponent(x, a_scales.min_exponent) +
                                          detail::operand_exponent(y, b_scales.min_exponent));
        }
        if (plain) {
          out = plain_output(rules, a, i, b, j + lane, 0, a.k, a_scales, b_scales, out);
          continue;
        }
        const int unit = largest - rules.model.product_fraction_bits;
        int64_t sum = detail::aligned_term(static_cast<double>(out), unit);
        for (uint32_t g = 0; g < groups; ++g) {
          const double scale = static_cast<double>(sa[g * kMxf4ExactGroup / block]) *
                               static_cast<double>(sb[g * kMxf4ExactGroup / block]);
          sum += detail::aligned_term(sums[g][lane] * scale, unit);
        }
        out = hardware_result(rules, static_cast<double>(sum), unit);
      }
    }
  }
}

void multiply_hardware(const ProductRules& rules, const Matrix& a, const Matrix& b,
                       const Scales& a_scales, const Scales& b_scales, float* c) {
  const uint32_t n = b.rows;
  const uint32_t chunk = static_cast<uint32_t>(rules.model.chunk);
  const bool scaled = a_scales.block != 0;
  if (rules.exact_groups && chunk >= a.k && a.k % kMxf4ExactGroup == 0) {
    return multiply_groups(rules, a, b, a_scales, b_scales, c);
  }
  // Terms of the vector form fit 32 bits; the mxf4 kinds align to more.
  const bool plain_only = rules.exact_groups || rules.model.product_fraction_bits > 26;
  std::vector<uint8_t> column_finite(n);
  for (uint32_t first = 0; first < a.k; first += chunk) {
    const uint32_t count = std::min(chunk, a.k - first);
    if (plain_only) {
      for (uint32_t i = 0; i < a.rows; ++i) {
        for (uint32_t j = 0; j < n; ++j) {
          float& out = c[size_t{i} * n + j];
          out = plain_output(rules, a, i, b, j, first, count, a_scales, b_scales, out);
        }
      }
      continue;
    }
    const uint32_t scale_index = scaled ? first / a_scales.block : 0;
    std::vector<int32_t> column_scale(round_up(n, kLanes), 0);
    for (uint32_t j = 0; j < n; ++j) {
      column_finite[j] = finite_row(b.row(j) + first, count) ? 1 : 0;
      if (!scaled) continue;
      const float scale = b_scales.row(j)[scale_index];
      if (is_nan(scale)) {
        column_finite[j] = 0;
      } else {
        column_scale[j] = floor_log2(scale);
      }
    }
    HardwareChunk work(rules, a, b, first, count);
    for (uint32_t i = 0; i < a.rows; ++i) {
      float* out = c + size_t{i} * n;
      int32_t row_scale = 0;
      bool row_finite = finite_row(a.row(i) + first, count);
      if (scaled) {
        const float scale = a_scales.row(i)[scale_index];
        if (is_nan(scale)) {
          row_finite = false;
        } else {
          row_scale = floor_log2(scale);
        }
      }
      if (row_finite) work.select_row(i);
      for (uint32_t j = 0; j < n; j += kLanes) {
        const uint32_t live = std::min(kLanes, n - j);
        bool finite = row_finite;
        float before[kLanes] = {};
        int32_t scale[kLanes] = {};
        for (uint32_t lane = 0; lane < live; ++lane) {
          before[lane] = out[j + lane];
          scale[lane] = row_scale + column_scale[j + lane];
          finite = finite && column_finite[j + lane] != 0 && detail::is_finite(before[lane]);
        }
        float after[kLanes];
        if (finite) {
          work.four(j, before, scale, after);
        } else {
          for (uint32_t lane = 0; lane < live; ++lane) {
            after[lane] = plain_output(rules, a, i, b, j + lane, first, count, a_scales, b_scales,
                                       before[lane]);
          }
        }
        for (uint32_t lane = 0; lane < live; ++lane) out[j + lane] = after[lane];
      }
    }
  }
}

}  // namespace

void multiply(const ProductRules& rules, const Matrix& a, const Matrix& b, const Scales& a_scales,
              const Scales& b_scales, float* c) {
  FLAMIA_CHECK(a.k == b.k && a_scales.block == b_scales.block, a.k, " ", b.k);
  if (rules.mode == NumericMode::kExact) {
    multiply_exact(rules, a, b, a_scales, b_scales, c);
  } else {
    multiply_hardware(rules, a, b, a_scales, b_scales, c);
  }
}

}  // namespace flamia::emulator
