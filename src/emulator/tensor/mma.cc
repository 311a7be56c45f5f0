// mma.sync and wgmma: registers and shared memory to registers.
// Used by: see mma.h. tcgen05.mma is in tensor_mma.cc.
#include "emulator/tensor/mma.h"

#include "base/bits.h"
#include "base/message.h"
#include "emulator/tensor/elements.h"
#include "emulator/tensor/fragments.h"
#include "numerics/f16.h"

namespace flamia::emulator {
namespace {

constexpr uint32_t kStepBytes = 32;

uint32_t element_bytes(ElementFormat format) { return storage_bits(format, Packing::kPlain) / 8; }

bool is_8bit(ElementFormat format) {
  return format == ElementFormat::kE4M3 || format == ElementFormat::kE5M2;
}

bool same_width_types(ElementFormat a, ElementFormat b) {
  return a == b || (is_8bit(a) && is_8bit(b));
}

/// A or B registers of one warp as rows of bytes.
template <typename Place>
void fragment_bytes(uint32_t bytes, uint32_t registers, uint32_t row_bytes,
                    const uint32_t (*values)[32], Place place, uint8_t* out) {
  for (uint32_t r = 0; r < registers; ++r) {
    for (uint32_t t = 0; t < 32; ++t) {
      for (uint32_t e = 0; e < 4 / bytes; ++e) {
        const FragmentElement at = place(bytes, t, r, e);
        for (uint32_t i = 0; i < bytes; ++i) {
          out[at.row * row_bytes + at.column * bytes + i] =
              static_cast<uint8_t>(values[r][t] >> (8 * (e * bytes + i)));
        }
      }
    }
  }
}

void decode_matrix(ElementFormat format, const std::vector<uint8_t>& bytes, uint32_t rows,
                   uint32_t k, bool negate, Matrix* out) {
  out->resize(rows, k);
  out->min_exponent = min_exponent(format);
  const uint32_t row_bytes = k * element_bytes(format);
  for (uint32_t i = 0; i < rows; ++i) {
    decode_elements(format, Packing::kPlain, bytes.data() + size_t{i} * row_bytes, k, negate,
                    out->row(i));
  }
}

/// 16 x n of one warp from and to its accumulator registers.
void load_accumulator(bool f16, uint32_t n, const uint32_t (*d)[32], float* c) {
  for (uint32_t r = 0; r < (f16 ? n / 4 : n / 2); ++r) {
    for (uint32_t t = 0; t < 32; ++t) {
      if (!f16) {
        const FragmentElement at = accumulator_f32(t, r);
        c[at.row * n + at.column] = bits_float(d[r][t]);
        continue;
      }
      for (uint32_t e = 0; e < 2; ++e) {
        const FragmentElement at = accumulator_f16(t, r, e);
        c[at.row * n + at.column] = f16_to_float(static_cast<uint16_t>(d[r][t] >> (16 * e)));
      }
    }
  }
}

void store_accumulator(bool f16, uint32_t n, const float* c, uint32_t (*d)[32]) {
  for (uint32_t r = 0; r < (f16 ? n / 4 : n / 2); ++r) {
    for (uint32_t t = 0; t < 32; ++t) {
      if (!f16) {
        const FragmentElement at = accumulator_f32(t, r);
        d[r][t] = float_bits(c[at.row * n + at.column]);
        continue;
      }
      uint32_t value = 0;
      for (uint32_t e = 0; e < 2; ++e) {
        const FragmentElement at = accumulator_f16(t, r, e);
        value |= static_cast<uint32_t>(float_to_f16(c[at.row * n + at.column])) << (16 * e);
      }
      d[r][t] = value;
    }
  }
}

/// What an H200 does with 8-bit mma.sync: two steps of 16 products from zero, the first with the
/// lower half of every four K indices, then C is added in binary32 (bitwise on 65 536 outputs).
/// With binary16 accumulators both steps and the last sum round to binary16 (4096 outputs).
void multiply_8bit(const Matrix& a, const Matrix& b, bool f16_accumulator, float* c) {
  Matrix halves[2];
  const uint32_t middle = a.k / 2;
  const auto reorder = [&](const Matrix& from, Matrix* to) {
    to->resize(from.rows, from.k);
    to->min_exponent = from.min_exponent;
    for (uint32_t i = 0; i < from.rows; ++i) {
      for (uint32_t x = 0; x < from.k; ++x) {
        to->row(i)[x / 4 * 2 + x % 2 + (x % 4 < 2 ? 0 : middle)] = from.row(i)[x];
      }
    }
  };
  reorder(a, &halves[0]);
  reorder(b, &halves[1]);
  ProductRules rules;
  rules.model = kHopperF16Accumulator;
  rules.model.chunk = static_cast<int>(middle);
  rules.f16_result = f16_accumulator;
  std::vector<float> sums(size_t{a.rows} * b.rows, 0.0f);
  multiply(rules, halves[0], halves[1], {}, {}, sums.data());
  for (size_t i = 0; i < sums.size(); ++i) {
    const float value = sums[i] + c[i];
    c[i] = is_nan(value) ? bits_float(kCanonicalNanBits) : value;
  }
}

}  // namespace

uint32_t instruction_k(ElementFormat format) { return kStepBytes / element_bytes(format); }

Fault mma_sync(const MmaSync& spec, const uint32_t (*a)[32], const uint32_t (*b)[32],
               const uint32_t (*c)[32], uint32_t (*d)[32]) {
  const uint32_t bytes = element_bytes(spec.a);
  const uint32_t row_bytes = spec.k * bytes;
  if ((row_bytes != 16 && row_bytes != kStepBytes) || !same_width_types(spec.a, spec.b) ||
      spec.a > ElementFormat::kE5M2 ||
      (spec.f16_accumulator && bytes != 1 && spec.a != ElementFormat::kF16)) {
    return make_fault(FaultKind::kUnsupported,
                      concat("mma.sync: m16n8k", spec.k, " of these types is not modelled"));
  }
  std::vector<uint8_t> a_bytes(size_t{16} * row_bytes), b_bytes(size_t{8} * row_bytes);
  fragment_bytes(bytes, row_bytes / 8, row_bytes, a, a_fragment, a_bytes.data());
  fragment_bytes(bytes, row_bytes / 16, row_bytes, b, b_fragment, b_bytes.data());
  Matrix a_values, b_values;
  decode_matrix(spec.a, a_bytes, 16, spec.k, false, &a_values);
  decode_matrix(spec.b, b_bytes, 8, spec.k, false, &b_values);
  float sums[16 * 8];
  load_accumulator(spec.f16_accumulator, 8, c, sums);
  if (is_8bit(spec.a) && spec.mode == NumericMode::kHardware) {
    multiply_8bit(a_values, b_values, spec.f16_accumulator, sums);
  } else {
    ProductRules rules;
    rules.mode = spec.mode;
    rules.f16_result = spec.f16_accumulator;
    rules.model = kHopperF16Accumulator;
    rules.model.chunk = static_cast<int>(spec.k);
    multiply(rules, a_values, b_values, {}, {}, sums);
  }
  store_accumulator(spec.f16_accumulator, 8, sums, d);
  return {};
}

Fault wgmma(const Wgmma& spec, const SharedMemory& shared, const WgmmaA& a, uint64_t b_descriptor,
            uint32_t (*const d[4])[32], std::vector<uint32_t>* chunks) {
  const uint32_t bytes = element_bytes(spec.a);
  const uint32_t k = kStepBytes / bytes;
  const bool f16_ok = spec.a == ElementFormat::kF16 || is_8bit(spec.a);
  if (spec.n < 8 || spec.n > 256 || spec.n % 8 != 0 || !same_width_types(spec.a, spec.b) ||
      spec.a > ElementFormat::kE5M2 || (spec.f16_accumulator && !f16_ok)) {
    return make_fault(FaultKind::kBadOperand,
                      concat("wgmma: no m64n", spec.n, "k", k, " of these types"));
  }
  if (bytes != 2 && (spec.mn_major_a || spec.mn_major_b)) {
    return make_fault(FaultKind::kBadOperand, "wgmma: only 16-bit operands can be transposed");
  }
  std::vector<uint8_t> a_bytes(64 * kStepBytes), b_bytes(size_t{spec.n} * kStepBytes);
  Fault late;
  if (a.registers != nullptr) {
    for (uint32_t warp = 0; warp < 4; ++warp) {
      fragment_bytes(bytes, 4, kStepBytes, a.registers[warp], a_fragment,
                     a_bytes.data() + size_t{warp} * 16 * kStepBytes);
    }
  } else {
    SharedOperand operand;
    Fault fault = decode_wgmma_descriptor(a.descriptor, &operand.descriptor);
    if (!fault.ok()) return fault;
    operand.mn_major = spec.mn_major_a;
    operand.element_bits = bytes * 8;
    late = read_operand(shared, operand, 64, k, a_bytes.data(), chunks);
    if (!late.ok() && late.kind != FaultKind::kUninitialized) return late;
  }
  SharedOperand operand;
  Fault fault = decode_wgmma_descriptor(b_descriptor, &operand.descriptor);
  if (!fault.ok()) return fault;
  operand.mn_major = spec.mn_major_b;
  operand.element_bits = bytes * 8;
  fault = read_operand(shared, operand, spec.n, k, b_bytes.data(), chunks);
  if (!fault.ok() && fault.kind != FaultKind::kUninitialized) return fault;
  if (late.ok()) late = fault;

  Matrix a_values, b_values;
  decode_matrix(spec.a, a_bytes, 64, k, spec.negate_a, &a_values);
  decode_matrix(spec.b, b_bytes, spec.n, k, spec.negate_b, &b_values);
  std::vector<float> sums(size_t{64} * spec.n, 0.0f);
  for (uint32_t warp = 0; warp < 4 && spec.accumulate; ++warp) {
    load_accumulator(spec.f16_accumulator, spec.n, d[warp], sums.data() + warp * 16 * spec.n);
  }
  ProductRules rules;
  rules.mode = spec.mode;
  rules.f16_result = spec.f16_accumulator;
  rules.model = is_8bit(spec.a) ? kHopperFp8Accumulator : kHopperF16Accumulator;
  rules.model.chunk = static_cast<int>(k);
  multiply(rules, a_values, b_values, {}, {}, sums.data());
  for (uint32_t warp = 0; warp < 4; ++warp) {
    store_accumulator(spec.f16_accumulator, spec.n, sums.data() + warp * 16 * spec.n, d[warp]);
  }
  return late;
}

}  // namespace flamia::emulator
