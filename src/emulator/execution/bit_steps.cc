// Logic, shifts and bit fields: and, lop3, shf, bfe, prmt, popc and their like.
// Depends on: isa/scalar_integer.h for all semantics.
#include "emulator/execution/decoder.h"
#include "emulator/execution/lanes.h"
#include "emulator/isa/scalar_integer.h"

namespace flamia::emulator::execution {
namespace {

using namespace isa;  // NOLINT: the functions of this family

constexpr uint32_t low32(uint64_t value) { return static_cast<uint32_t>(value); }

template <char kOperation>
constexpr uint64_t logic(uint64_t a, uint64_t b) {
  if constexpr (kOperation == '&') return a & b;
  if constexpr (kOperation == '|') return a | b;
  return a ^ b;
}

template <char kOperation>
Outcome predicate_logic(Warp& warp, const Step& step, uint32_t active) {
  const uint64_t bits =
      logic<kOperation>(warp.read(step.source[0])[0], warp.read(step.source[1])[0]);
  write_predicate(warp, step.target, active, low32(bits));
  return Outcome::kNext;
}

template <char kOperation>
void decode_logic(Decoder& d) {
  d.operands(d.in.type(), 2);
  if (d.in.type() == ScalarType::kPred) {
    d.step.run = predicate_logic<kOperation>;
    return;
  }
  d.step.run = lanes2<[](const Step&, uint64_t a, uint64_t b) { return logic<kOperation>(a, b); }>;
}

void decode_not(Decoder& d) {
  d.operands(d.in.type(), 1);
  if (d.in.type() == ScalarType::kPred) {
    d.step.run = [](Warp& warp, const Step& step, uint32_t active) {
      write_predicate(warp, step.target, active, ~read_predicate(warp, step.source[0]));
      return Outcome::kNext;
    };
    return;
  }
  if (d.in.opcode == Opcode::kCnot) {
    d.step.run = lanes1<[](const Step&, uint64_t a) -> uint64_t { return a == 0 ? 1 : 0; }>;
    return;
  }
  d.step.run = lanes1<[](const Step& s, uint64_t a) { return ~a & s.width_mask; }>;
}

template <typename T, bool kLeft>
constexpr auto kShift = [](const Step&, uint64_t a, uint64_t b) {
  const T value = static_cast<T>(a);
  return raw_bits(kLeft ? shift_left(value, low32(b)) : shift_right(value, low32(b)));
};

template <bool kLeft>
Handler shift_handler(ScalarType type) {
  switch (type) {
    case ScalarType::kU16:
    case ScalarType::kB16:
      return lanes2<kShift<uint16_t, kLeft>>;
    case ScalarType::kS16:
      return lanes2<kShift<int16_t, kLeft>>;
    case ScalarType::kU32:
    case ScalarType::kB32:
      return lanes2<kShift<uint32_t, kLeft>>;
    case ScalarType::kS32:
      return lanes2<kShift<int32_t, kLeft>>;
    case ScalarType::kU64:
    case ScalarType::kB64:
      return lanes2<kShift<uint64_t, kLeft>>;
    case ScalarType::kS64:
      return lanes2<kShift<int64_t, kLeft>>;
    default:
      return nullptr;
  }
}

void decode_shift(Decoder& d) {
  d.operands(d.in.type(), 2);
  d.step.source[1] = d.source(2, ScalarType::kU32);
  d.step.run = d.in.opcode == Opcode::kShl ? shift_handler<true>(d.in.type())
                                           : shift_handler<false>(d.in.type());
  if (d.step.run == nullptr) d.refuse("the type is not handled");
}

void decode_funnel(Decoder& d) {
  d.operands(ScalarType::kB32, 3);
  d.step.choice = static_cast<uint8_t>(d.take_one({Modifier::kWrap, Modifier::kClamp}, 1));
  if (d.in.opcode == Opcode::kShfL) {
    d.step.run = lanes3<[](const Step& s, uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
      return funnel_left(low32(a), low32(b), low32(c), static_cast<FunnelMode>(s.choice));
    }>;
  } else {
    d.step.run = lanes3<[](const Step& s, uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
      return funnel_right(low32(a), low32(b), low32(c), static_cast<FunnelMode>(s.choice));
    }>;
  }
}

template <typename T>
constexpr auto kExtract = [](const Step&, uint64_t a, uint64_t b, uint64_t c) {
  return raw_bits(bit_field_extract(static_cast<T>(a), low32(b), low32(c)));
};

void decode_bfe(Decoder& d) {
  d.operands(d.in.type(), 3);
  d.step.source[1] = d.source(2, ScalarType::kU32);
  d.step.source[2] = d.source(3, ScalarType::kU32);
  switch (d.in.type()) {
    case ScalarType::kU32:
      d.step.run = lanes3<kExtract<uint32_t>>;
      break;
    case ScalarType::kS32:
      d.step.run = lanes3<kExtract<int32_t>>;
      break;
    case ScalarType::kU64:
      d.step.run = lanes3<kExtract<uint64_t>>;
      break;
    case ScalarType::kS64:
      d.step.run = lanes3<kExtract<int64_t>>;
      break;
    default:
      d.refuse("the type is not handled");
  }
}

void decode_bfi(Decoder& d) {
  d.operands(d.in.type(), 4);
  d.step.source[2] = d.source(3, ScalarType::kU32);
  d.step.source[3] = d.source(4, ScalarType::kU32);
  if (d.in.type() == ScalarType::kB64) {
    d.step.run = lanes4<[](const Step&, uint64_t a, uint64_t b, uint64_t c, uint64_t e) {
      return bit_field_insert(a, b, low32(c), low32(e));
    }>;
  } else {
    d.step.run = lanes4<[](const Step&, uint64_t a, uint64_t b, uint64_t c, uint64_t e) {
      return uint64_t{bit_field_insert(low32(a), low32(b), low32(c), low32(e))};
    }>;
  }
}

void decode_permute(Decoder& d) {
  d.operands(ScalarType::kB32, 3);
  d.step.choice =
      static_cast<uint8_t>(1 + d.take_one({Modifier::kF4e, Modifier::kB4e, Modifier::kRc8,
                                           Modifier::kEcl, Modifier::kEcr, Modifier::kRc16}));
  d.step.run = lanes3<[](const Step& s, uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    return permute(low32(a), low32(b), low32(c), static_cast<PermuteMode>(s.choice));
  }>;
}

/// lop3 by its terms of the truth table: sums of products without branches.
Outcome lop3_lanes(Warp& warp, const Step& step, uint32_t active) {
  uint32_t terms[8];
  for (uint32_t i = 0; i < 8; ++i) terms[i] = (step.choice >> i & 1u) != 0 ? ~0u : 0u;
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const as = warp.read(step.source[0]);
  const uint64_t* const bs = warp.read(step.source[1]);
  const uint64_t* const cs = warp.read(step.source[2]);
  uint32_t result[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint32_t a = low32(as[i]), b = low32(bs[i]), c = low32(cs[i]);
    const uint32_t low =
        (~b & ((~c & terms[0]) | (c & terms[1]))) | (b & ((~c & terms[2]) | (c & terms[3])));
    const uint32_t high =
        (~b & ((~c & terms[4]) | (c & terms[5]))) | (b & ((~c & terms[6]) | (c & terms[7])));
    result[i] = (~a & low) | (a & high);
  }
  each_lane(active, [&](uint32_t i) { out[i] = result[i]; });
  if (step.number != 0) {
    // The predicate form: p = (result != 0) op q.
    uint32_t bits = 0;
    for (uint32_t i = 0; i < kLanes; ++i) bits |= static_cast<uint32_t>(result[i] != 0) << i;
    const uint32_t q = read_predicate(warp, step.source[3]);
    write_predicate(warp, step.target2, active, step.number == 1 ? bits & q : bits | q);
  }
  return Outcome::kNext;
}

void decode_lop3(Decoder& d) {
  const int combine = d.take_one({Modifier::kAnd, Modifier::kOr});
  d.expect(combine >= 0 ? 6 : 5, combine >= 0 ? 6 : 5);
  const ptx::Operand& first = d.operand(0);
  if (first.kind == ptx::OperandKind::kPair) {
    d.step.target = d.target(d.elements(first)[0]);
    d.step.target2 = d.target(d.elements(first)[1]);
  } else {
    d.step.target = d.target(first);
  }
  for (uint32_t i = 0; i < 3; ++i) d.step.source[i] = d.source(i + 1, ScalarType::kB32);
  if (d.operand(4).kind != ptx::OperandKind::kImmediate) d.refuse("immLut must be a constant");
  d.step.choice = static_cast<uint8_t>(d.operand(4).value);
  d.step.number = combine + 1;
  if (combine >= 0) d.step.source[3] = d.source(5, ScalarType::kPred);
  d.step.run = lop3_lanes;
}

void decode_count(Decoder& d) {
  d.operands(d.in.type(), 1);
  const bool wide = ptx::type_bits(d.in.type()) == 64;
  switch (d.in.opcode) {
    case Opcode::kPopc:
      d.step.run = lanes1<[](const Step&, uint64_t a) -> uint64_t { return population_count(a); }>;
      break;
    case Opcode::kClz:
      d.step.run = wide ? typed1<uint64_t, [](uint64_t a) { return count_leading_zeros(a); }>
                        : typed1<uint32_t, [](uint32_t a) { return count_leading_zeros(a); }>;
      break;
    default:
      d.step.run = wide ? typed1<uint64_t, [](uint64_t a) { return bit_reverse(a); }>
                        : typed1<uint32_t, [](uint32_t a) { return bit_reverse(a); }>;
      break;
  }
}

template <typename T>
constexpr auto kFind = [](const Step& s, uint64_t a) -> uint64_t {
  return bit_find(static_cast<T>(a), s.choice != 0);
};

void decode_bfind(Decoder& d) {
  d.operands(d.in.type(), 1);
  d.step.choice = d.take(Modifier::kShiftamt) ? 1 : 0;
  switch (d.in.type()) {
    case ScalarType::kU32:
      d.step.run = lanes1<kFind<uint32_t>>;
      break;
    case ScalarType::kS32:
      d.step.run = lanes1<kFind<int32_t>>;
      break;
    case ScalarType::kU64:
      d.step.run = lanes1<kFind<uint64_t>>;
      break;
    case ScalarType::kS64:
      d.step.run = lanes1<kFind<int64_t>>;
      break;
    default:
      d.refuse("the type is not handled");
  }
}

void decode_fns(Decoder& d) {
  d.operands(ScalarType::kB32, 3);
  d.step.run = lanes3<[](const Step&, uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    return find_nth_set(low32(a), low32(b), static_cast<int32_t>(c));
  }>;
}

void decode_mask(Decoder& d) {
  d.operands(ScalarType::kB32, 2);
  d.step.choice = static_cast<uint8_t>(d.take_one({Modifier::kClamp, Modifier::kWrap}));
  d.step.choice2 = is_signed_integer(d.in.type()) ? 1 : 0;
  if (d.in.opcode == Opcode::kBmsk) {
    d.step.run = lanes2<[](const Step& s, uint64_t a, uint64_t b) -> uint64_t {
      return bit_mask(low32(a), low32(b), static_cast<MaskMode>(s.choice));
    }>;
  } else {
    d.step.run = lanes2<[](const Step& s, uint64_t a, uint64_t b) -> uint64_t {
      return sign_zero_extend(low32(a), low32(b), s.choice2 != 0, static_cast<MaskMode>(s.choice));
    }>;
  }
}

}  // namespace

DecodeFunction bit_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAnd:
      return decode_logic<'&'>;
    case Opcode::kOr:
      return decode_logic<'|'>;
    case Opcode::kXor:
      return decode_logic<'^'>;
    case Opcode::kNot:
    case Opcode::kCnot:
      return decode_not;
    case Opcode::kShl:
    case Opcode::kShr:
      return decode_shift;
    case Opcode::kShfL:
    case Opcode::kShfR:
      return decode_funnel;
    case Opcode::kBfe:
      return decode_bfe;
    case Opcode::kBfi:
      return decode_bfi;
    case Opcode::kPrmt:
      return decode_permute;
    case Opcode::kLop3:
      return decode_lop3;
    case Opcode::kPopc:
    case Opcode::kClz:
    case Opcode::kBrev:
      return decode_count;
    case Opcode::kBfind:
      return decode_bfind;
    case Opcode::kFns:
      return decode_fns;
    case Opcode::kBmsk:
    case Opcode::kSzext:
      return decode_mask;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
