// Allocation of tensor memory and the register layouts of tcgen05.ld and st.
// Used by: see tensor_memory.h. Alignment rules of columns are those measured on a GB300.
#include "emulator/machine/tensor_memory.h"

#include <algorithm>
#include <bit>

#include "base/bits.h"
#include "base/message.h"
#include "emulator/machine/byte_flags.h"
#include "numerics/minifloat.h"

namespace flamia::emulator {
namespace {

/// 32-bit columns that one thread's registers cover, per repeat.
uint32_t registers_per_repeat(TensorShape shape) {
  switch (shape) {
    case TensorShape::k32x32b:
    case TensorShape::k16x64b:
    case TensorShape::k16x32bx2:
      return 1;
    case TensorShape::k16x128b:
      return 2;
    case TensorShape::k16x256b:
      return 4;
  }
  return 1;
}

/// Columns, before unpacking, of one repeat.
uint32_t columns_per_repeat(TensorShape shape) {
  switch (shape) {
    case TensorShape::k32x32b:
    case TensorShape::k16x32bx2:
      return 1;
    case TensorShape::k16x64b:
      return 2;
    case TensorShape::k16x128b:
      return 4;
    case TensorShape::k16x256b:
      return 8;
  }
  return 1;
}

uint32_t column_alignment(const TensorAccess& access, bool reduce) {
  switch (access.shape) {
    case TensorShape::k32x32b:
      return reduce ? 2 : 1;
    case TensorShape::k16x32bx2:
      return access.packed || reduce ? 2 : 1;
    case TensorShape::k16x64b:
    case TensorShape::k16x128b:
      return 2;
    case TensorShape::k16x256b:
      return 4;  // not measured: the strictest of the others
  }
  return 1;
}

Fault bad_operand(std::string text) { return make_fault(FaultKind::kBadOperand, std::move(text)); }

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

uint32_t tensor_register_count(const TensorAccess& access) {
  const uint32_t per = registers_per_repeat(access.shape);
  const bool power = std::has_single_bit(access.count);
  return power && access.count * per <= 128 ? access.count * per : 0;
}

uint32_t tensor_column_span(const TensorAccess& access) {
  const uint32_t own = access.count * columns_per_repeat(access.shape) * (access.packed ? 2u : 1u);
  return access.shape == TensorShape::k16x32bx2 ? own + access.second_half_columns : own;
}

TensorCell tensor_cell(const TensorAccess& access, uint32_t t, uint32_t r) {
  TensorCell cell = {t, r};
  switch (access.shape) {
    case TensorShape::k32x32b:
      break;
    case TensorShape::k16x64b:
      cell = {(t >> 2) + 8 * (t & 1u), 2 * r + ((t >> 1) & 1u)};
      break;
    case TensorShape::k16x128b:
      cell = {(t >> 2) + 8 * (r & 1u), (t & 3u) + 4 * (r >> 1)};
      break;
    case TensorShape::k16x256b:
      cell = {(t >> 2) + 8 * ((r >> 1) & 1u), 2 * (t & 3u) + (r & 1u) + 8 * (r >> 2)};
      break;
    case TensorShape::k16x32bx2:
      cell = {t % 16, r};
      break;
  }
  if (access.packed) cell.column *= 2;
  if (access.shape == TensorShape::k16x32bx2 && t >= 16) cell.column += access.second_half_columns;
  return cell;
}

TensorMemory::TensorMemory(bool lingering)
    : cells_(kTensorLanes * kTensorColumns, 0),
      written_(kTensorLanes * kTensorColumns / 64, 0),
      lingering_(lingering) {
  owners_.fill(kNobody);
  last_owners_.fill(kNobody);
  starts_.fill(0);
}

TensorMemory::Tenant* TensorMemory::tenant(uint32_t owner) {
  for (Tenant& known : tenants_) {
    if (known.owner == owner) return &known;
  }
  tenants_.push_back({owner, kTensorColumns, false});
  return &tenants_.back();
}

TensorAllocation TensorMemory::allocate(uint32_t owner, uint32_t columns, uint64_t placement_seed) {
  TensorAllocation result;
  if (!std::has_single_bit(columns) || columns < kTensorBlock || columns > kTensorColumns) {
    result.fault = bad_operand(
        concat("tcgen05.alloc: columns must be a power of two from 32 to 512; got ", columns));
    return result;
  }
  Tenant* who = tenant(owner);
  if (who->relinquished) {
    result.fault = bad_operand("tcgen05.alloc after tcgen05.relinquish_alloc_permit");
    return result;
  }
  if (columns > who->last_columns) {
    result.fault =
        bad_operand(concat("tcgen05.alloc: columns must not exceed those of the CTA's previous "
                           "allocation (",
                           who->last_columns, "); got ", columns));
    return result;
  }
  const uint32_t need = columns / kTensorBlock;
  std::array<uint32_t, kBlocks> places;
  uint32_t found = 0;
  for (uint32_t first = 0; first + need <= kBlocks; ++first) {
    bool free = true;
    for (uint32_t b = first; b < first + need; ++b) free = free && owners_[b] == kNobody;
    if (free) places[found++] = first;
  }
  if (found == 0) {
    result.blocked = true;
    return result;
  }
  const uint32_t first = places[placement_seed == 0 ? 0 : mix(placement_seed) % found];
  for (uint32_t b = first; b < first + need; ++b) {
    owners_[b] = owner;
    last_owners_[b] = kNobody;
    starts_[b] = first;
  }
  for (uint32_t lane = 0; lane < kTensorLanes; ++lane) {
    mark(lane, first * kTensorBlock, columns, false);
  }
  who->last_columns = columns;
  result.address = tensor_address(0, first * kTensorBlock);
  return result;
}

Fault TensorMemory::deallocate(uint32_t owner, uint32_t address, uint32_t columns) {
  const uint32_t column = tensor_column(address);
  const uint32_t first = column / kTensorBlock;
  if (tensor_lane(address) != 0 || column % kTensorBlock != 0 || column >= kTensorColumns ||
      owners_[first] != owner || starts_[first] != first) {
    return make_fault(FaultKind::kUseAfterFree,
                      concat("tcgen05.dealloc: address must be that of a live allocation of this "
                             "CTA; got ",
                             hex(address)),
                      address);
  }
  uint32_t size = 0;
  for (uint32_t b = first; b < kBlocks && owners_[b] == owner && starts_[b] == first; ++b) ++size;
  if (columns != size * kTensorBlock) {
    return make_fault(FaultKind::kBadOperand,
                      concat("tcgen05.dealloc: columns must be the ", size * kTensorBlock,
                             " that were allocated; got ", columns),
                      address);
  }
  for (uint32_t b = first; b < first + size; ++b) {
    owners_[b] = kNobody;
    if (lingering_) last_owners_[b] = owner;
  }
  return {};
}

Fault TensorMemory::relinquish(uint32_t owner) {
  tenant(owner)->relinquished = true;
  return {};
}

uint32_t TensorMemory::leave(uint32_t owner) {
  uint32_t leaked = 0;
  for (uint32_t& who : owners_) {
    if (who != owner) continue;
    who = kNobody;
    leaked += kTensorBlock;
  }
  std::replace(last_owners_.begin(), last_owners_.end(), owner, kNobody);
  std::erase_if(tenants_, [&](const Tenant& known) { return known.owner == owner; });
  return leaked;
}

uint32_t TensorMemory::free_columns() const {
  return static_cast<uint32_t>(std::count(owners_.begin(), owners_.end(), kNobody)) * kTensorBlock;
}

Fault TensorMemory::check_columns(uint32_t owner, uint32_t column, uint32_t count,
                                  const char* what) const {
  if (column > kTensorColumns || count > kTensorColumns - column) {
    return make_fault(
        FaultKind::kOutOfBounds,
        concat(what, ": columns must end at ", kTensorColumns, "; got ", column, " + ", count),
        column);
  }
  for (uint32_t at = column; at < column + count; at = (at / kTensorBlock + 1) * kTensorBlock) {
    const uint32_t who = owners_[at / kTensorBlock];
    if (who == owner || last_owners_[at / kTensorBlock] == owner) continue;
    return make_fault(FaultKind::kUseAfterFree,
                      concat(what, ": column ", at,
                             who == kNobody ? " is not allocated" : " belongs to another CTA"),
                      column);
  }
  return {};
}

void TensorMemory::mark(uint32_t lane, uint32_t column, uint32_t count, bool written) {
  ByteFlags(written_.data()).fill(lane * kTensorColumns + column, count, written);
}

uint32_t TensorMemory::first_unwritten(uint32_t lane, uint32_t column, uint32_t count) const {
  // ByteFlags only reads here.
  const ByteFlags flags(const_cast<uint64_t*>(written_.data()));
  return column + static_cast<uint32_t>(flags.first_clear(lane * kTensorColumns + column, count));
}

Fault TensorMemory::check_access(uint32_t owner, uint32_t quarter, const TensorAccess& access,
                                 uint32_t address, bool reduce) const {
  const char* what = "tcgen05.ld/st";
  if (tensor_register_count(access) == 0) {
    return bad_operand(concat(what, ": the shape has no .x", access.count));
  }
  const bool whole = access.shape == TensorShape::k32x32b;
  const uint32_t lane = tensor_lane(address);
  const uint32_t base = 32 * quarter;
  if (lane != base && (whole || lane != base + 16)) {
    return make_fault(FaultKind::kMisaligned,
                      concat(what, ": lane of the address must be ", base,
                             whole ? "" : " or 16 more", ", the quarter of the warp; got ", lane),
                      address);
  }
  const uint32_t alignment = column_alignment(access, reduce);
  if (tensor_column(address) % alignment != 0) {
    return make_fault(FaultKind::kMisaligned,
                      concat(what, ": column must be a multiple of ", alignment, "; got ",
                             tensor_column(address)),
                      address);
  }
  if (access.shape != TensorShape::k16x32bx2) {
    return check_columns(owner, tensor_column(address), tensor_column_span(access), what);
  }
  TensorAccess half = access;
  half.second_half_columns = 0;
  const uint32_t span = tensor_column_span(half);
  Fault fault = check_columns(owner, tensor_column(address), span, what);
  if (!fault.ok()) return fault;
  return check_columns(owner, tensor_column(address) + access.second_half_columns, span, what);
}

Fault TensorMemory::load(uint32_t owner, uint32_t quarter, const TensorAccess& access,
                         uint32_t address, uint32_t (*registers)[32]) const {
  Fault fault = check_access(owner, quarter, access, address, false);
  if (!fault.ok()) return fault;
  const uint32_t count = tensor_register_count(access);
  const uint32_t width = access.packed ? 2 : 1;
  for (uint32_t t = 0; t < 32; ++t) {
    for (uint32_t r = 0; r < count; ++r) {
      const TensorCell cell = tensor_cell(access, t, r);
      const uint32_t lane = tensor_lane(address) + cell.lane;
      const uint32_t column = tensor_column(address) + cell.column;
      const uint32_t* from = row(lane) + column;
      registers[r][t] = access.packed ? (from[0] & 0xffffu) | from[1] << 16 : from[0];
      const uint32_t hole = first_unwritten(lane, column, width);
      if (hole == column + width || !fault.ok()) continue;
      fault = make_fault(FaultKind::kUninitialized,
                         concat("tcgen05.ld: lane ", lane, " column ", hole, " was never written"),
                         address);
      fault.lane = static_cast<uint8_t>(t);
    }
  }
  return fault;
}

Fault TensorMemory::store(uint32_t owner, uint32_t quarter, const TensorAccess& access,
                          uint32_t address, const uint32_t (*registers)[32]) {
  Fault fault = check_access(owner, quarter, access, address, false);
  if (!fault.ok()) return fault;
  const uint32_t count = tensor_register_count(access);
  for (uint32_t t = 0; t < 32; ++t) {
    for (uint32_t r = 0; r < count; ++r) {
      const TensorCell cell = tensor_cell(access, t, r);
      const uint32_t lane = tensor_lane(address) + cell.lane;
      const uint32_t column = tensor_column(address) + cell.column;
      uint32_t* to = row(lane) + column;
      const uint32_t value = registers[r][t];
      to[0] = access.packed ? value & 0xffffu : value;
      if (access.packed) to[1] = value >> 16;  // the upper halves become zero
      mark(lane, column, access.packed ? 2 : 1, true);
    }
  }
  return {};
}

namespace {

uint32_t reduce_f32(uint32_t a, uint32_t b, const TensorReduce& how) {
  const float x = bits_float(a), y = bits_float(b);
  if (is_nan(x) || is_nan(y)) {
    if (how.propagate_nan || (is_nan(x) && is_nan(y))) return kCanonicalNanBits;
    return is_nan(x) ? b : a;
  }
  if (x == y) {  // -0 is below +0
    const bool a_negative = (a & kFloatSignBit) != 0;
    return a_negative == how.maximum ? b : a;
  }
  return (x > y) == how.maximum ? a : b;
}

uint32_t reduce_pair(uint32_t a, uint32_t b, const TensorReduce& how) {
  if (how.type == TensorReduceType::kF32) return reduce_f32(a, b, how);
  const bool greater = how.type == TensorReduceType::kU32
                           ? a > b
                           : static_cast<int32_t>(a) > static_cast<int32_t>(b);
  return greater == how.maximum ? a : b;
}

}  // namespace

Fault TensorMemory::load_reduce(uint32_t owner, uint32_t quarter, const TensorAccess& access,
                                uint32_t address, const TensorReduce& reduce,
                                uint32_t (*registers)[32], uint32_t reduced[32]) const {
  const bool shape = access.shape == TensorShape::k32x32b || access.shape == TensorShape::k16x32bx2;
  if (!shape || access.packed || access.count < 2) {
    return bad_operand("tcgen05.ld.red: shape must be 32x32b or 16x32bx2 with .x2 to .x128");
  }
  Fault fault = check_access(owner, quarter, access, address, true);
  if (!fault.ok()) return fault;
  fault = load(owner, quarter, access, address, registers);
  const uint32_t clear =
      reduce.type == TensorReduceType::kF32 && reduce.absolute ? kFloatSignBit : 0u;
  for (uint32_t t = 0; t < 32; ++t) {
    uint32_t value = registers[0][t] & ~clear;
    for (uint32_t r = 1; r < access.count; ++r) {
      value = reduce_pair(value, registers[r][t] & ~clear, reduce);
    }
    reduced[t] = value;
  }
  return fault;
}

Fault TensorMemory::shift_down(uint32_t owner, uint32_t address) {
  constexpr uint32_t kShiftColumns = 8;
  if (tensor_lane(address) % 32 != 0 || tensor_lane(address) >= kTensorLanes) {
    return make_fault(
        FaultKind::kMisaligned,
        concat("tcgen05.shift: lane must be a multiple of 32; got ", tensor_lane(address)),
        address);
  }
  const uint32_t column = tensor_column(address);
  Fault fault = check_columns(owner, column, kShiftColumns, "tcgen05.shift");
  if (!fault.ok()) return fault;
  for (uint32_t lane = tensor_lane(address) + 31; lane > tensor_lane(address); --lane) {
    std::copy_n(row(lane - 1) + column, kShiftColumns, row(lane) + column);
    for (uint32_t c = column; c < column + kShiftColumns; ++c) {
      mark(lane, c, 1, first_unwritten(lane - 1, c, 1) != c);
    }
  }
  return {};
}

}  // namespace flamia::emulator
