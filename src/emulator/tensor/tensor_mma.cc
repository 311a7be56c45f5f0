// tcgen05.mma: geometry of one or two CTAs, operands of A in tensor memory, block scales.
// Used by: see mma.h.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bits.h"
#include "base/message.h"
#include "emulator/tensor/elements.h"
#include "emulator/tensor/mma.h"
#include "numerics/f16.h"
#include "numerics/scale_codes.h"

namespace flamia::emulator {
namespace {

constexpr uint32_t kScaleAddressMask = 0x3fffffffu;

Packing packing_of(const InstructionDescriptor& d, ElementFormat format, bool in_tensor_memory) {
  if (d.kind == TensorKind::kMxf4 || d.kind == TensorKind::kMxf4nvf4) return Packing::kNibbles;
  if (format < ElementFormat::kE2M3) return Packing::kPlain;
  return in_tensor_memory ? Packing::kContainer : Packing::kPadded16;
}

uint32_t payload_bytes(ElementFormat format, Packing packing) {
  if (packing != Packing::kPadded16) return 16;
  return format == ElementFormat::kE2M1 ? 8 : 12;
}

Fault misaligned(const char* what, uint32_t multiple, uint32_t address) {
  return make_fault(FaultKind::kMisaligned,
                    concat("tcgen05.mma: column of ", what, " must be a multiple of ", multiple,
                           "; got ", tensor_column(address)),
                    address);
}

/// One instruction with what its steps share.
class Operation {
 public:
  Operation(const TensorMma& op, const TensorSide* sides, MmaTouches* touches)
      : op_(op), sides_(sides), touches_(touches), side_count_(op.form.cta_group) {}

  Fault run() {
    Fault fault = prepare();
    if (!fault.ok()) return fault;
    for (uint32_t side = 0; side < side_count_; ++side) {
      fault = read_b(side);
      if (!fault.ok()) return fault;
    }
    std::vector<float> results[2];
    for (uint32_t side = 0; side < side_count_; ++side) {
      fault = compute(side, &results[side]);
      if (!fault.ok()) return fault;
    }
    for (uint32_t side = 0; side < side_count_; ++side) write(side, results[side]);
    return late_;
  }

 private:
  /// Keeps the first report of unwritten operands; other faults pass.
  Fault postpone(Fault fault) {
    if (fault.kind != FaultKind::kUninitialized) return fault;
    if (late_.ok()) late_ = std::move(fault);
    return {};
  }

  void touch(uint32_t side, uint32_t lane, uint32_t lanes, uint32_t column, uint32_t columns,
             bool write) {
    if (touches_ != nullptr)
      touches_->tensor.push_back({side, lane, lanes, column, columns, write});
  }

  Fault prepare() {
    Fault fault = decode_instruction(op_.idesc, op_.form, &d_);
    if (!fault.ok()) return fault;
    rows_ = d_.m / side_count_;
    split_ = side_count_ == 2 && d_.m == 128;
    half_lanes_ = side_count_ == 1 && d_.m == 64;
    d_columns_ = split_ ? d_.n / 2 : d_.n;
    row_bytes_ = d_.k * storage_bits(d_.a, packing_of(d_, d_.a, false)) / 8;
    lane_base_ = tensor_lane(op_.d_address);
    const bool lane_ok = lane_base_ == 0 || (half_lanes_ && lane_base_ == 16);
    if (!lane_ok) {
      return make_fault(FaultKind::kMisaligned,
                        concat("tcgen05.mma: lane of D must be 0", half_lanes_ ? " or 16" : "",
                               "; got ", lane_base_),
                        op_.d_address);
    }
    if (tensor_column(op_.d_address) % 2 != 0) return misaligned("D", 2, op_.d_address);
    if (op_.form.a_in_tensor_memory) {
      if (tensor_column(op_.a_address) % 4 != 0) return misaligned("A", 4, op_.a_address);
      if (tensor_lane(op_.a_address) != lane_base_) {
        return make_fault(FaultKind::kMisaligned,
                          concat("tcgen05.mma: lane of A must be that of D (", lane_base_,
                                 "); got ", tensor_lane(op_.a_address)),
                          op_.a_address);
      }
    }
    if (d_.scale_block != 0) {
      const uint32_t addresses[] = {op_.sfa_address & kScaleAddressMask,
                                    op_.sfb_address & kScaleAddressMask};
      for (const uint32_t address : addresses) {
        if (tensor_column(address) % 2 != 0) return misaligned("scales", 2, address);
        if (tensor_lane(address) != 0) {
          return make_fault(
              FaultKind::kMisaligned,
              concat("tcgen05.mma: lane of scales must be 0; got ", tensor_lane(address)), address);
        }
      }
    }
    for (uint32_t side = 0; side < side_count_; ++side) {
      fault = sides_[side].tensor->check_columns(sides_[side].owner, tensor_column(op_.d_address),
                                                 d_columns_, "tcgen05.mma D");
      if (!fault.ok()) return fault;
    }
    return {};
  }

  Fault read_shared(uint32_t side, uint64_t descriptor, bool mn_major, ElementFormat format,
                    uint32_t rows, bool negate, Matrix* out, uint32_t first_row) {
    SharedOperand operand;
    Fault fault =
        decode_tcgen05_descriptor(descriptor, op_.form.sm103 && d_.k == 96, &operand.descriptor);
    if (!fault.ok()) return fault;
    const Packing packing = packing_of(d_, format, false);
    operand.mn_major = mn_major;
    operand.element_bits = storage_bits(format, packing);
    operand.payload_bytes = payload_bytes(format, packing);
    if (mn_major) {
      const bool atom32 = operand.descriptor.swizzle == Swizzle::k128BAtom32;
      if (atom32 != (format == ElementFormat::kTF32)) {
        return make_fault(FaultKind::kBadOperand,
                          "tcgen05.mma: transposed tf32, and no other type, needs the 128B "
                          "swizzle with 32-byte atoms");
      }
    }
    std::vector<uint8_t> bytes(size_t{rows} * row_bytes_);
    std::vector<uint32_t>* chunks = touches_ == nullptr ? nullptr : &touches_->shared[side];
    fault = postpone(read_operand(*sides_[side].shared, operand, rows, d_.k, bytes.data(), chunks));
    if (!fault.ok()) return fault;
    for (uint32_t i = 0; i < rows; ++i) {
      decode_elements(format, packing, bytes.data() + size_t{i} * row_bytes_, d_.k, negate,
                      out->row(first_row + i));
    }
    return {};
  }

  /// Each CTA of a pair brings its half of the rows of B.
  Fault read_b(uint32_t side) {
    const uint32_t rows = d_.n / side_count_;
    if (side == 0) b_.resize(d_.n, d_.k);
    b_.min_exponent = min_exponent(d_.b);
    return read_shared(side, op_.b_descriptor, d_.mn_major_b, d_.b, rows, d_.negate_b, &b_,
                       side * rows);
  }

  /// Lane of A row (and, without the column split, of D row) i of this side.
  uint32_t lane_of(uint32_t i) const { return half_lanes_ ? i / 16 * 32 + i % 16 + lane_base_ : i; }

  Fault read_a(uint32_t side, Matrix* a) {
    a->resize(rows_, d_.k);
    a->min_exponent = min_exponent(d_.a);
    if (!op_.form.a_in_tensor_memory) {
      return read_shared(side, op_.a_descriptor, d_.mn_major_a, d_.a, rows_, d_.negate_a, a, 0);
    }
    const TensorMemory& tensor = *sides_[side].tensor;
    const uint32_t column = tensor_column(op_.a_address);
    const uint32_t columns = row_bytes_ / 4;
    Fault fault = tensor.check_columns(sides_[side].owner, column, columns, "tcgen05.mma A");
    if (!fault.ok()) return fault;
    const Packing packing = packing_of(d_, d_.a, true);
    std::vector<uint8_t> bytes(row_bytes_);
    for (uint32_t i = 0; i < rows_; ++i) {
      const uint32_t lane = lane_of(i);
      const uint32_t hole = tensor.first_unwritten(lane, column, columns);
      if (hole != column + columns && late_.ok()) {
        late_ = make_fault(
            FaultKind::kUninitialized,
            concat("tcgen05.mma: A, lane ", lane, " column ", hole, ", was never written"),
            op_.a_address);
      }
      const uint32_t* cells = tensor.row(lane) + column;
      if (split_ && std::memcmp(cells, tensor.row(lane + 64) + column, row_bytes_) != 0) {
        return make_fault(FaultKind::kBadOperand,
                          concat("tcgen05.mma: lanes 64 to 127 of A must repeat lanes 0 to 63; "
                                 "lane ",
                                 lane, " differs"),
                          op_.a_address);
      }
      std::memcpy(bytes.data(), cells, row_bytes_);
      decode_elements(d_.a, packing, bytes.data(), d_.k, d_.negate_a, a->row(i));
    }
    touch(side, half_lanes_ ? lane_base_ : 0, half_lanes_ ? 112 : (split_ ? 128 : rows_), column,
          columns, false);
    return {};
  }

  /// rows scales from `address` on; halves: partitions 2 and 3 hold the second half of the rows.
  Fault read_scales(uint32_t side, uint32_t address, uint32_t rows, uint32_t id, bool halves,
                    const char* what, Scales* out) {
    const TensorMemory& tensor = *sides_[side].tensor;
    const uint32_t per_row = ceil_div(d_.k, d_.scale_block);
    const uint32_t group_columns = 4 * ceil_div(rows, 128u);
    const uint32_t base = tensor_column(address);
    const uint32_t span = halves ? rows / 2 : rows;
    const uint32_t columns = (id + per_row - 1) / 4 * group_columns + ceil_div(span, 32u);
    Fault fault = tensor.check_columns(sides_[side].owner, base, columns, what);
    if (!fault.ok()) return fault;
    out->block = d_.scale_block;
    out->per_row = per_row;
    out->min_exponent = d_.scale_format == ScaleFormat::kUE8M0 ? -kUe8m0Bias : kE4m3MinExponent;
    out->values.resize(size_t{rows} * per_row);
    const uint32_t copies = halves ? 2 : 4;
    for (uint32_t row = 0; row < rows; ++row) {
      const uint32_t first_lane = halves && row >= span ? 64 : 0;
      for (uint32_t v = 0; v < per_row; ++v) {
        const uint32_t s = id + v;
        const uint32_t column = base + s / 4 * group_columns + row % span / 32;
        const uint32_t lane = first_lane + row % span % 32;
        const uint32_t shift = s % 4 * 8;
        const uint8_t code = static_cast<uint8_t>(tensor.row(lane)[column] >> shift);
        for (uint32_t copy = 0; copy < copies; ++copy) {
          const uint32_t at = lane + 32 * copy;
          if (tensor.first_unwritten(at, column, 1) == column && late_.ok()) {
            late_ = make_fault(
                FaultKind::kUninitialized,
                concat(what, ": lane ", at, " column ", column, " was never written"), address);
          }
          if (static_cast<uint8_t>(tensor.row(at)[column] >> shift) != code) {
            return make_fault(FaultKind::kBadOperand,
                              concat(what, ": the copies of row ", row, " must be equal; lanes ",
                                     lane, " and ", at, " of column ", column, " differ"),
                              address);
          }
        }
        out->values[size_t{row} * per_row + v] =
            d_.scale_format == ScaleFormat::kUE8M0 ? decode_ue8m0(code) : decode_ue4m3(code);
      }
    }
    touch(side, 0, 128, base, columns, false);
    return {};
  }

  Fault compute(uint32_t side, std::vector<float>* results) {
    Matrix a;
    Fault fault = read_a(side, &a);
    if (!fault.ok()) return fault;
    Scales sfa, sfb;
    if (d_.scale_block != 0) {
      fault = read_scales(side, op_.sfa_address & kScaleAddressMask, rows_, d_.sfa_id, false,
                          "tcgen05.mma SFA", &sfa);
      if (!fault.ok()) return fault;
      fault = read_scales(side, op_.sfb_address & kScaleAddressMask, d_.n, d_.sfb_id, split_,
                          "tcgen05.mma SFB", &sfb);
      if (!fault.ok()) return fault;
    }
    results->assign(size_t{rows_} * d_.n, 0.0f);
    if (op_.accumulate) read_d(side, results->data());
    ProductRules rules;
    rules.mode = op_.mode;
    rules.f16_result = d_.f16_result;
    rules.exact_groups = d_.kind == TensorKind::kMxf4 || d_.kind == TensorKind::kMxf4nvf4;
    rules.model = rules.exact_groups ? kBlackwellMxf4Accumulator : kBlackwellF8f6f4Accumulator;
    rules.model.chunk = static_cast<int>(d_.k);
    multiply(rules, a, b_, sfa, sfb, results->data());
    return {};
  }

  /// Where columns [first, first + d_columns_) of a row of this side lie, for first a multiple of
  /// d_columns_.
  TensorPlace place(uint32_t i, uint32_t first) const {
    TensorPlace at = accumulator_place(side_count_, d_.m, d_.n, i, first, lane_base_);
    at.column += tensor_column(op_.d_address);
    return at;
  }

  void read_d(uint32_t side, float* c) {
    const TensorMemory& tensor = *sides_[side].tensor;
    const float factor = pow2(-static_cast<int>(op_.d_shift));
    for (uint32_t i = 0; i < rows_; ++i) {
      for (uint32_t first = 0; first < d_.n; first += d_columns_) {
        const TensorPlace at = place(i, first);
        const uint32_t* cells = tensor.row(at.lane) + at.column;
        float* out = c + size_t{i} * d_.n + first;
        for (uint32_t j = 0; j < d_columns_; ++j) {
          const float value =
              d_.f16_result ? f16_to_float(static_cast<uint16_t>(cells[j])) : bits_float(cells[j]);
          out[j] = op_.d_shift == 0 ? value : value * factor;
        }
        if (!late_.ok()) continue;
        const uint32_t hole = tensor.first_unwritten(at.lane, at.column, d_columns_);
        if (hole != at.column + d_columns_) {
          late_ = make_fault(FaultKind::kUninitialized,
                             concat("tcgen05.mma: D is accumulated into, but lane ", at.lane,
                                    " column ", hole, " was never written"),
                             op_.d_address);
        }
      }
    }
    touch_d(side, false);
  }

  void touch_d(uint32_t side, bool write) {
    touch(side, half_lanes_ ? lane_base_ : 0, half_lanes_ ? 112 : 128, tensor_column(op_.d_address),
          d_columns_, write);
  }

  void write(uint32_t side, const std::vector<float>& results) {
    TensorMemory& tensor = *sides_[side].tensor;
    const uint32_t* disabled =
        op_.disabled_lanes == nullptr ? nullptr : op_.disabled_lanes + 4 * side;
    for (uint32_t i = 0; i < rows_; ++i) {
      for (uint32_t first = 0; first < d_.n; first += d_columns_) {
        const TensorPlace at = place(i, first);
        if (disabled != nullptr && (disabled[at.lane / 32] >> (at.lane % 32) & 1u) != 0) continue;
        const float* from = results.data() + size_t{i} * d_.n + first;
        uint32_t* cells = tensor.row(at.lane) + at.column;
        for (uint32_t j = 0; j < d_columns_; ++j) {
          cells[j] = d_.f16_result ? float_to_f16(from[j]) : float_bits(from[j]);
        }
        tensor.mark(at.lane, at.column, d_columns_, true);
      }
    }
    touch_d(side, true);
  }

  const TensorMma& op_;
  const TensorSide* sides_;
  MmaTouches* touches_;
  uint32_t side_count_;
  InstructionDescriptor d_;
  uint32_t rows_ = 0;        ///< of A and D on each side
  bool split_ = false;       ///< pair with M = 128: the second half of N lies in lanes 64 to 127
  bool half_lanes_ = false;  ///< M = 64: 16 of each 32 lanes
  uint32_t d_columns_ = 0;
  uint32_t row_bytes_ = 0;
  uint32_t lane_base_ = 0;
  Matrix b_;
  Fault late_;
};

}  // namespace

TensorPlace accumulator_place(uint32_t cta_group, uint32_t m, uint32_t n, uint32_t row,
                              uint32_t column, uint32_t lane_base) {
  const uint32_t rows = m / cta_group;
  const uint32_t side = row / rows, i = row % rows;
  if (cta_group == 1 && m == 64) return {0, i / 16 * 32 + i % 16 + lane_base, column};
  if (cta_group == 2 && m == 128) {
    const uint32_t half = n / 2;
    return {side, i + 64 * (column / half), column % half};
  }
  return {side, i, column};
}

Fault tensor_mma(const TensorMma& op, const TensorSide sides[2], MmaTouches* touches) {
  return Operation(op, sides, touches).run();
}

}  // namespace flamia::emulator
