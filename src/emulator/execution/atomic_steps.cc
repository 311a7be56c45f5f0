// atom and red: read-modify-write, lane after lane.
// Depends on: isa/scalar_float.h for float operations, memory_access.h.
// Global f32 additions flush subnormals, those in shared memory do not (PTX ISA, atom).
#include <cstring>

#include "emulator/execution/atomics.h"
#include "emulator/execution/counting.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/spaces.h"

namespace flamia::emulator::execution {
namespace {

template <typename T>
uint64_t integer_operation(AtomicOp op, uint64_t old_bits, uint64_t operand) {
  using U = std::make_unsigned_t<T>;
  const T old = static_cast<T>(old_bits), value = static_cast<T>(operand);
  switch (op) {
    case AtomicOp::kAdd:
      return static_cast<U>(static_cast<uint64_t>(old) + static_cast<uint64_t>(value));
    case AtomicOp::kMin:
      return static_cast<U>(value < old ? value : old);
    case AtomicOp::kMax:
      return static_cast<U>(old < value ? value : old);
    case AtomicOp::kInc:
      return static_cast<U>(static_cast<U>(old) >= static_cast<U>(value) ? 0
                                                                         : static_cast<U>(old) + 1);
    case AtomicOp::kDec:
      return static_cast<U>(static_cast<U>(old) == 0 || static_cast<U>(old) > static_cast<U>(value)
                                ? static_cast<U>(value)
                                : static_cast<U>(static_cast<U>(old) - 1));
    case AtomicOp::kAnd:
      return static_cast<U>(old & value);
    case AtomicOp::kOr:
      return static_cast<U>(old | value);
    case AtomicOp::kXor:
      return static_cast<U>(old ^ value);
    default:
      return static_cast<U>(value);
  }
}

bool is_nan64(uint64_t bits) { return (bits & ~(uint64_t{1} << 63)) > uint64_t{0x7ff} << 52; }

/// Of two NaN, an H200 gives in binary64: in global memory the operand as it is, before the old
/// value; in shared memory the old value, made quiet.
uint64_t add_f64(uint64_t old, uint64_t value, bool global) {
  if (global && is_nan64(value)) return value;
  if (global && is_nan64(old)) return old;
  return isa::float_add(isa::kF64Format, value, old, {});
}

uint64_t float_part(const isa::FloatFormat& format, AtomicOp op, uint64_t old, uint64_t value,
                    bool flush) {
  if (op == AtomicOp::kAdd) {
    isa::FloatMode mode;
    mode.ftz = flush;
    return isa::float_add(format, old, value, mode);
  }
  return isa::float_min_max(format, op == AtomicOp::kMax, old, value, {});
}

}  // namespace

uint64_t atomic_result(AtomicOp op, ScalarType type, uint64_t old, uint64_t value, bool global) {
  if (op == AtomicOp::kExchange) return value;
  if (op == AtomicOp::kAdd && type == ScalarType::kF64) return add_f64(old, value, global);
  if (const isa::FloatFormat* const format = float_format(type); format != nullptr) {
    if (type != ScalarType::kF16x2 && type != ScalarType::kBf16x2) {
      return float_part(*format, op, old, value, global && type == ScalarType::kF32);
    }
    return isa::packed(16, [&](int half) {
      const int shift = 16 * half;
      return float_part(*format, op, old >> shift & 0xffffu, value >> shift & 0xffffu, false);
    });
  }
  switch (type) {
    case ScalarType::kU16:
    case ScalarType::kB16:
      return integer_operation<uint16_t>(op, old, value);
    case ScalarType::kS32:
      return integer_operation<int32_t>(op, old, value);
    case ScalarType::kU32:
    case ScalarType::kB32:
      return integer_operation<uint32_t>(op, old, value);
    case ScalarType::kS64:
      return integer_operation<int64_t>(op, old, value);
    default:
      return integer_operation<uint64_t>(op, old, value);
  }
}

AtomicOp take_atomic_op(Decoder& d) {
  const int op =
      d.take_one({Modifier::kAdd, Modifier::kMin, Modifier::kMax, Modifier::kInc, Modifier::kDec,
                  Modifier::kAnd, Modifier::kOr, Modifier::kXor, Modifier::kExch, Modifier::kCas});
  if (op < 0) d.refuse("an operation is missing");
  return static_cast<AtomicOp>(op);
}

namespace {

constexpr uint32_t kMostElements = 8;

struct AtomicDetail : Detail {
  Space space = Space::kGeneric;
  AtomicOp op = AtomicOp::kAdd;
  ScalarType type{};
  AccessOrder order;
  uint32_t element_bytes = 4;
  uint32_t count = 1;
  bool wide = false;     ///< b128: two words of 64 bits
  bool returns = false;  ///< atom, not red
  uint32_t slots[kMostElements] = {};
  Source values[kMostElements];
  Source swaps[2];  ///< of cas: the new value
};

uint64_t load(const uint8_t* data, uint32_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, data, bytes);
  return value;
}

/// cas and exch of 128 bits.
void wide_lane(Warp& warp, const AtomicDetail& d, uint32_t i, uint8_t* data) {
  const uint64_t old[2] = {load(data, 8), load(data + 8, 8)};
  const uint64_t first[2] = {warp.read(d.values[0])[i], warp.read(d.values[1])[i]};
  if (d.op == AtomicOp::kExchange) {
    std::memcpy(data, first, sizeof first);
  } else if (old[0] == first[0] && old[1] == first[1]) {
    const uint64_t swap[2] = {warp.read(d.swaps[0])[i], warp.read(d.swaps[1])[i]};
    std::memcpy(data, swap, sizeof swap);
  }
  if (!d.returns) return;
  warp.row(d.slots[0])[i] = old[0];
  warp.row(d.slots[1])[i] = old[1];
}

Outcome atomic_lanes(Warp& warp, const Step& step, uint32_t active) {
  const auto& d = static_cast<const AtomicDetail&>(*step.detail);
  uint64_t addresses[kLanes];
  const bool narrow = d.space != Space::kGeneric && d.space != Space::kGlobal;
  effective_addresses(warp.read(step.source[0]), step.number, narrow, addresses);
  const uint32_t bytes = d.element_bytes * d.count;
  LaneAccess access;
  locate_lanes(warp, d.space, addresses, active, bytes, bytes, &access);
  if (d.op != AtomicOp::kExchange) before_read(warp, step, access, {true, false, false, d.returns});
  before_write(warp, step, access, d.order);
  count_access(warp, access, model::AccessKind::kAtomic);
  each_lane(active, [&](uint32_t i) {
    uint8_t* data = access.at[i].data;
    if (d.wide) return wide_lane(warp, d, i, data);
    const bool global = access.at[i].space == Space::kGlobal;
    for (uint32_t r = 0; r < d.count; ++r, data += d.element_bytes) {
      const uint64_t old = load(data, d.element_bytes);
      uint64_t value = warp.read(d.values[r])[i];
      if (d.op == AtomicOp::kCas) {
        const uint64_t expected = value & width_mask(8 * d.element_bytes);
        value = old == expected ? warp.read(d.swaps[0])[i] : old;
      } else {
        value = atomic_result(d.op, d.type, old, value, global);
      }
      std::memcpy(data, &value, d.element_bytes);
      if (d.returns) warp.row(d.slots[r])[i] = old;
    }
  });
  // Spinning on an atomic lets the others run.
  return d.op == AtomicOp::kCas || d.op == AtomicOp::kExchange ? Outcome::kYield : Outcome::kNext;
}

void decode_wide(Decoder& d, AtomicDetail* detail, uint32_t first) {
  if (detail->op != AtomicOp::kCas && detail->op != AtomicOp::kExchange) {
    d.refuse("the operation is not handled for 128 bits");
  }
  detail->wide = true;
  detail->element_bytes = 16;
  if (detail->returns) {
    detail->slots[0] = d.target(0u);
    detail->slots[1] = detail->slots[0] + (detail->slots[0] == d.scratch() ? 0 : 1);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    detail->values[i] = d.source(first, ScalarType::kB128);
    detail->values[i].slot += i;
    if (detail->op != AtomicOp::kCas) continue;
    detail->swaps[i] = d.source(first + 1, ScalarType::kB128);
    detail->swaps[i].slot += i;
  }
}

void decode_atomic(Decoder& d) {
  AtomicDetail* const detail = d.detail<AtomicDetail>();
  detail->returns = d.in.opcode == Opcode::kAtom;
  detail->type = d.in.type();
  detail->op = take_atomic_op(d);
  detail->space = take_space(d);
  detail->order = take_order(d);
  detail->order.strong = true;
  const bool cached = d.take(Modifier::kL2CacheHint);
  d.take(Modifier::kNoftz);
  const int vector = d.take_one({Modifier::kV2, Modifier::kV4, Modifier::kV8});
  const uint32_t place = detail->returns ? 1 : 0;
  const uint32_t count = place + 2 + (detail->op == AtomicOp::kCas ? 1 : 0) + (cached ? 1 : 0);
  d.expect(count, count);
  d.step.source[0] = d.address(d.operand(place), &d.step.number);
  d.step.run = atomic_lanes;
  if (detail->type == ScalarType::kB128) return decode_wide(d, detail, place + 1);
  detail->element_bytes = ptx::type_bits(detail->type) / 8;
  if (detail->element_bytes < 2 || detail->element_bytes > 8) d.refuse("the type is not handled");
  if (vector < 0) {
    if (detail->returns) detail->slots[0] = d.target(0u);
    detail->values[0] = d.source(place + 1, detail->type);
    if (detail->op == AtomicOp::kCas) detail->swaps[0] = d.source(place + 2, detail->type);
    return;
  }
  const auto values = d.elements(d.operand(place + 1));
  if (values.size() != (2u << vector)) d.refuse("the vector has a wrong length");
  detail->count = static_cast<uint32_t>(values.size());
  const bool vector_result = detail->returns && d.operand(0).kind == ptx::OperandKind::kVector;
  if (vector_result && d.operand(0).count != values.size()) {
    d.refuse("the vectors must have one length");
  }
  for (uint32_t r = 0; r < detail->count; ++r) {
    detail->values[r] = d.source(values[r], detail->type);
    if (!detail->returns) continue;
    const ptx::Operand& to = d.operand(0);
    detail->slots[r] = vector_result ? d.target(d.elements(to)[r]) : d.target(to);
  }
}

}  // namespace

DecodeFunction atomic_decoder(Opcode opcode) {
  return opcode == Opcode::kAtom || opcode == Opcode::kRed ? decode_atomic : nullptr;
}

}  // namespace flamia::emulator::execution
