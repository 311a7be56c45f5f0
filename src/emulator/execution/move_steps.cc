// mov in all its forms, selp, slct, setp, set and createpolicy.
// Depends on: isa/scalar_float.h for comparisons.
#include "emulator/execution/decoder.h"
#include "emulator/execution/lanes.h"

namespace flamia::emulator::execution {
namespace {

using isa::Compare;
using ptx::Operand;
using ptx::OperandKind;

// ---- mov

struct Piece {
  uint32_t slot = 0;
  Source source;
  uint32_t bits = 0;
};
struct VectorMove : Detail {
  std::vector<Piece> sources, targets;  ///< lowest bits first; 64 bits at most each
};

Outcome move_vector(Warp& warp, const Step& step, uint32_t active) {
  const auto& d = static_cast<const VectorMove&>(*step.detail);
  each_lane(active, [&](uint32_t i) {
    uint64_t words[2] = {};
    uint32_t place = 0;
    for (const Piece& piece : d.sources) {
      words[place / 64] |= warp.read(piece.source)[i] << (place % 64);
      place += piece.bits;
    }
    place = 0;
    for (const Piece& piece : d.targets) {
      warp.row(piece.slot)[i] = words[place / 64] >> (place % 64) & width_mask(piece.bits);
      place += piece.bits;
    }
  });
  return Outcome::kNext;
}

uint32_t element_bits(const Decoder& d, const Operand& operand, uint32_t total, uint32_t count) {
  return operand.kind == OperandKind::kRegister ? d.register_bits(operand) : total / count;
}

void add_sources(Decoder& d, const Operand& operand, uint32_t bits, std::vector<Piece>* out) {
  if (bits <= 64) {
    const ScalarType type = bits == 64   ? ScalarType::kB64
                            : bits == 32 ? ScalarType::kB32
                            : bits == 16 ? ScalarType::kB16
                                         : ScalarType::kB8;
    out->push_back({0, d.source(operand, type), bits});
    return;
  }
  if (operand.kind != OperandKind::kRegister) d.refuse("a 128-bit operand must be a register");
  Source low = d.source(operand, ScalarType::kB128);
  out->push_back({0, low, 64});
  ++low.slot;
  out->push_back({0, low, 64});
}

void add_targets(Decoder& d, const Operand& operand, uint32_t bits, std::vector<Piece>* out) {
  const uint32_t slot = d.target(operand);
  if (bits <= 64) {
    out->push_back({slot, {}, bits});
    return;
  }
  const bool sink = operand.kind == OperandKind::kSink;
  out->push_back({slot, {}, 64});
  out->push_back({sink ? slot : slot + 1, {}, 64});
}

void decode_vector_move(Decoder& d, uint32_t total) {
  VectorMove* const detail = d.detail<VectorMove>();
  const Operand& to = d.operand(0);
  const Operand& from = d.operand(1);
  if (from.kind == OperandKind::kVector) {
    for (const Operand& e : d.elements(from)) {
      add_sources(d, e, element_bits(d, e, total, from.count), &detail->sources);
    }
  } else {
    add_sources(d, from, total, &detail->sources);
  }
  if (to.kind == OperandKind::kVector) {
    for (const Operand& e : d.elements(to)) {
      add_targets(d, e, element_bits(d, e, total, to.count), &detail->targets);
    }
  } else {
    add_targets(d, to, total, &detail->targets);
  }
  uint32_t from_bits = 0, to_bits = 0;
  const auto add = [&d](const Piece& piece, uint32_t* bits) {
    // A piece lies in one word of 64 bits.
    if (piece.bits == 0 || *bits % 64 + piece.bits > 64) d.refuse("an element has a wrong width");
    *bits += piece.bits;
  };
  for (const Piece& piece : detail->sources) add(piece, &from_bits);
  for (const Piece& piece : detail->targets) add(piece, &to_bits);
  if (from_bits != total || to_bits != total) d.refuse("the widths must add up to the type");
  d.step.run = move_vector;
}

/// Registers that change while a frame lives.
Outcome read_clock(Warp& warp, const Step& step, uint32_t active) {
  const Grid& grid = warp.grid();
  // One step of the grid counts as one cycle of 1 ns.
  uint64_t value = grid.steps;
  const auto special = static_cast<ptx::SpecialRegister>(step.choice);
  if (special == ptx::SpecialRegister::kClockHi ||
      special == ptx::SpecialRegister::kGlobaltimerHi) {
    value >>= 32;
  }
  uint64_t* const out = warp.row(step.target);
  each_lane(active, [&](uint32_t i) { out[i] = value & step.width_mask; });
  return Outcome::kNext;
}

bool is_clock(ptx::SpecialRegister special) {
  switch (special) {
    case ptx::SpecialRegister::kClock:
    case ptx::SpecialRegister::kClockHi:
    case ptx::SpecialRegister::kClock64:
    case ptx::SpecialRegister::kGlobaltimer:
    case ptx::SpecialRegister::kGlobaltimerLo:
    case ptx::SpecialRegister::kGlobaltimerHi:
      return true;
    default:
      return false;
  }
}

void decode_mov(Decoder& d) {
  d.expect(2, 2);
  const ScalarType type = d.in.type();
  const Operand& to = d.operand(0);
  const Operand& from = d.operand(1);
  if (type == ScalarType::kPred) {
    d.operands(type, 1);
    d.step.run = [](Warp& warp, const Step& step, uint32_t active) {
      write_predicate(warp, step.target, active, read_predicate(warp, step.source[0]));
      return Outcome::kNext;
    };
    return;
  }
  if (to.kind == OperandKind::kVector || from.kind == OperandKind::kVector ||
      type == ScalarType::kB128) {
    return decode_vector_move(d, ptx::type_bits(type));
  }
  if (from.kind == OperandKind::kSpecial && is_clock(from.special)) {
    d.step.target = d.target(0u);
    d.step.width_mask = width_mask(ptx::type_bits(type));
    d.step.choice = static_cast<uint8_t>(from.special);
    d.step.run = read_clock;
    return;
  }
  d.operands(type, 1);
  d.step.run = lanes1<[](const Step& s, uint64_t a) { return a & s.width_mask; }>;
}

// ---- Selection

Outcome select_lanes(Warp& warp, const Step& step, uint32_t active) {
  const uint32_t p = read_predicate(warp, step.source[2]);
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint64_t value = (p >> i & 1u) != 0 ? a[i] : b[i];
    out[i] = (active >> i & 1u) != 0 ? value : out[i];
  }
  return Outcome::kNext;
}

void decode_selp(Decoder& d) {
  d.operands(d.in.type(), 3);
  d.step.source[2] = d.source(3, ScalarType::kPred);
  d.step.run = select_lanes;
}

void decode_slct(Decoder& d) {
  d.step.mode.ftz = d.take(Modifier::kFtz);
  d.operands(d.in.type(), 3);
  const ScalarType chooser = d.in.type(1);
  d.step.source[2] = d.source(3, chooser);
  if (chooser == ScalarType::kF32) {
    d.step.run = lanes3<[](const Step& s, uint64_t a, uint64_t b, uint64_t c) {
      return isa::select_first(isa::kF32Format, c, s.mode.ftz) ? a : b;
    }>;
  } else if (chooser == ScalarType::kS32) {
    d.step.run = lanes3<[](const Step&, uint64_t a, uint64_t b, uint64_t c) {
      return static_cast<int32_t>(c) >= 0 ? a : b;
    }>;
  } else {
    d.refuse("the types are not handled");
  }
}

// ---- Comparison

using CompareBits = uint32_t (*)(const Step& step, const uint64_t* a, const uint64_t* b);

enum class Combine : uint8_t { kNone, kAnd, kOr, kXor };

struct CompareDetail : Detail {
  CompareBits compare = nullptr;
  CompareBits compare_high = nullptr;  ///< upper halves of a packed type
  Combine combine = Combine::kNone;
  bool negated = false;
  Source predicate;
  uint64_t true_value = 0;  ///< of set
};

template <typename T>
CompareBits integer_compare(Compare compare) {
#define FLAMIA_COMPARE(op)                            \
  lane_bits<[](const Step&, uint64_t a, uint64_t b) { \
    return (static_cast<T>(a) op static_cast<T>(b));  \
  }>
  switch (compare) {
    case Compare::kEq:
      return FLAMIA_COMPARE(==);
    case Compare::kNe:
      return FLAMIA_COMPARE(!=);
    case Compare::kLt:
      return FLAMIA_COMPARE(<);
    case Compare::kLe:
      return FLAMIA_COMPARE(<=);
    case Compare::kGt:
      return FLAMIA_COMPARE(>);
    case Compare::kGe:
      return FLAMIA_COMPARE(>=);
    default:
      return nullptr;
  }
#undef FLAMIA_COMPARE
}

template <const isa::FloatFormat& kFormat, int kShift>
CompareBits float_compare() {
  return lane_bits<[](const Step& s, uint64_t a, uint64_t b) {
    const uint64_t mask = width_mask(static_cast<uint32_t>(kFormat.mantissa_bits) +
                                     static_cast<uint32_t>(kFormat.exponent_bits) + 1);
    return isa::float_compare(kFormat, static_cast<Compare>(s.choice), a >> kShift & mask,
                              b >> kShift & mask, s.mode.ftz);
  }>;
}

CompareBits comparison(ScalarType type, Compare compare) {
  switch (type) {
    case ScalarType::kB16:
    case ScalarType::kU16:
      return integer_compare<uint16_t>(compare);
    case ScalarType::kS16:
      return integer_compare<int16_t>(compare);
    case ScalarType::kB32:
    case ScalarType::kU32:
      return integer_compare<uint32_t>(compare);
    case ScalarType::kS32:
      return integer_compare<int32_t>(compare);
    case ScalarType::kB64:
    case ScalarType::kU64:
      return integer_compare<uint64_t>(compare);
    case ScalarType::kS64:
      return integer_compare<int64_t>(compare);
    case ScalarType::kF16:
    case ScalarType::kF16x2:
      return float_compare<isa::kF16Format, 0>();
    case ScalarType::kBf16:
    case ScalarType::kBf16x2:
      return float_compare<isa::kBf16Format, 0>();
    case ScalarType::kF32:
      return float_compare<isa::kF32Format, 0>();
    case ScalarType::kF64:
      return float_compare<isa::kF64Format, 0>();
    default:
      return nullptr;
  }
}

/// The comparison of the modifiers; lo, ls, hi, hs are those of unsigned types.
Compare take_compare(Decoder& d) {
  const int found =
      d.take_one({Modifier::kEq, Modifier::kNe, Modifier::kLt, Modifier::kLe, Modifier::kGt,
                  Modifier::kGe, Modifier::kEqu, Modifier::kNeu, Modifier::kLtu, Modifier::kLeu,
                  Modifier::kGtu, Modifier::kGeu, Modifier::kNum, Modifier::kNan, Modifier::kLo,
                  Modifier::kLs, Modifier::kHi, Modifier::kHs});
  if (found < 0) d.refuse("a comparison is missing");
  constexpr Compare kUnsigned[] = {Compare::kLt, Compare::kLe, Compare::kGt, Compare::kGe};
  return found < 14 ? static_cast<Compare>(found) : kUnsigned[found - 14];
}

CompareDetail* compare_detail(Decoder& d, ScalarType type) {
  CompareDetail* const detail = d.detail<CompareDetail>();
  const Compare compare = take_compare(d);
  d.step.choice = static_cast<uint8_t>(compare);
  d.step.mode.ftz = d.take(Modifier::kFtz);
  detail->combine =
      static_cast<Combine>(1 + d.take_one({Modifier::kAnd, Modifier::kOr, Modifier::kXor}));
  detail->compare = comparison(type, compare);
  if (type == ScalarType::kF16x2) detail->compare_high = float_compare<isa::kF16Format, 16>();
  if (type == ScalarType::kBf16x2) detail->compare_high = float_compare<isa::kBf16Format, 16>();
  if (detail->compare == nullptr) d.refuse("the comparison is not handled for this type");
  d.step.source[0] = d.source(1, type);
  d.step.source[1] = d.source(2, type);
  if (detail->combine == Combine::kNone) {
    d.expect(3, 3);
  } else {
    d.expect(4, 4);
    Operand predicate = d.operand(3);
    detail->negated = predicate.negated;
    predicate.negated = false;
    detail->predicate = d.source(predicate, ScalarType::kPred);
  }
  return detail;
}

uint32_t combined(const Warp& warp, const CompareDetail& d, uint32_t bits) {
  if (d.combine == Combine::kNone) return bits;
  uint32_t other = read_predicate(warp, d.predicate);
  if (d.negated) other = ~other;
  if (d.combine == Combine::kAnd) return bits & other;
  return d.combine == Combine::kOr ? bits | other : bits ^ other;
}

Outcome setp_lanes(Warp& warp, const Step& step, uint32_t active) {
  const auto& d = static_cast<const CompareDetail&>(*step.detail);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  const uint32_t bits = d.compare(step, a, b);
  const uint32_t second = d.compare_high != nullptr ? d.compare_high(step, a, b) : ~bits;
  const uint32_t first_value = combined(warp, d, bits);
  const uint32_t second_value = combined(warp, d, second);
  write_predicate(warp, step.target, active, first_value);
  if (step.target2 != step.target) write_predicate(warp, step.target2, active, second_value);
  return Outcome::kNext;
}

void decode_setp(Decoder& d) {
  compare_detail(d, d.in.type());
  const Operand& to = d.operand(0);
  if (to.kind == OperandKind::kPair) {
    d.step.target = d.target(d.elements(to)[0]);
    d.step.target2 = d.target(d.elements(to)[1]);
  } else {
    d.step.target = d.target(to);
    d.step.target2 = d.scratch();
  }
  d.step.run = setp_lanes;
}

Outcome set_lanes(Warp& warp, const Step& step, uint32_t active) {
  const auto& d = static_cast<const CompareDetail&>(*step.detail);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  const uint32_t low = combined(warp, d, d.compare(step, a, b));
  uint32_t high = 0;
  if (d.compare_high != nullptr) high = combined(warp, d, d.compare_high(step, a, b));
  uint64_t* const out = warp.row(step.target);
  each_lane(active, [&](uint32_t i) {
    out[i] = ((low >> i & 1u) != 0 ? d.true_value : 0) |
             ((high >> i & 1u) != 0 ? d.true_value << 16 : 0);
  });
  return Outcome::kNext;
}

void decode_set(Decoder& d) {
  const ScalarType to = d.in.type(0), from = d.in.type(1);
  CompareDetail* const detail = compare_detail(d, from);
  d.step.target = d.target(0u);
  const bool packed = detail->compare_high != nullptr;
  if (is_float(to)) {
    detail->true_value = float_format(to)->one();
    if (packed != (to == ScalarType::kF16x2 || to == ScalarType::kBf16x2)) {
      d.refuse("the types are not handled");
    }
  } else if (packed) {
    detail->true_value = 0xffff;
  } else {
    detail->true_value = width_mask(ptx::type_bits(to));
  }
  d.step.run = set_lanes;
}

/// Cache policies are opaque and change no result.
void decode_policy(Decoder& d) {
  d.accept({Modifier::kL2EvictFirst, Modifier::kL2EvictLast, Modifier::kL2EvictNormal,
            Modifier::kL2EvictUnchanged, Modifier::kL2, Modifier::kGlobal, Modifier::kL2CacheHint});
  d.step.target = d.target(0u);
  d.step.source[0] = d.constant(0x14f0000000000000);
  d.step.run = lanes1<[](const Step&, uint64_t a) { return a; }>;
}

}  // namespace

DecodeFunction move_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kMov:
      return decode_mov;
    case Opcode::kSelp:
      return decode_selp;
    case Opcode::kSlct:
      return decode_slct;
    case Opcode::kSetp:
      return decode_setp;
    case Opcode::kSet:
      return decode_set;
    case Opcode::kCreatepolicyCvt:
    case Opcode::kCreatepolicyFractional:
    case Opcode::kCreatepolicyRange:
      return decode_policy;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
