// Integer arithmetic: add to mad, carries, dp4a, packed 16-bit, min, max, div.
// Depends on: isa/scalar_integer.h for all semantics. Float types of the same mnemonics are passed
// on to float_steps.cc.
#include "emulator/execution/decoder.h"
#include "emulator/execution/lanes.h"
#include "emulator/isa/scalar_integer.h"

namespace flamia::emulator::execution {
namespace {

using namespace isa;  // NOLINT: the functions of this family

constexpr auto kAddF = [](auto a, auto b) {
  return static_cast<decltype(a)>(raw_bits(a) + raw_bits(b));
};
constexpr auto kSubF = [](auto a, auto b) {
  return static_cast<decltype(a)>(raw_bits(a) - raw_bits(b));
};
constexpr auto kMinF = [](auto a, auto b) { return b < a ? b : a; };
constexpr auto kMaxF = [](auto a, auto b) { return a < b ? b : a; };
constexpr auto kMulLoF = [](auto a, auto b) { return multiply_lo(a, b); };
constexpr auto kMulHiF = [](auto a, auto b) { return multiply_hi(a, b); };
constexpr auto kMadLoF = [](auto a, auto b, auto c) { return kAddF(multiply_lo(a, b), c); };
constexpr auto kMadHiF = [](auto a, auto b, auto c) { return kAddF(multiply_hi(a, b), c); };
constexpr auto kDivF = [](auto a, auto b) { return integer_div(a, b); };
constexpr auto kRemF = [](auto a, auto b) { return integer_rem(a, b); };
constexpr auto kSadF = [](auto a, auto b, auto c) { return sum_absolute_difference(a, b, c); };
constexpr auto kAbsF = [](auto a) { return integer_abs(a); };
constexpr auto kNegF = [](auto a) { return integer_negate(a); };

void set(Decoder& d, Handler handler) {
  if (handler == nullptr) d.refuse("the type is not handled");
  d.step.run = handler;
}

/// Float types of opcodes that this family is asked for first.
void decode_float(Decoder& d) {
  const DecodeFunction decode = float_decoder(d.in.opcode);
  if (decode == nullptr) d.refuse("the type is not handled");
  decode(d);
}

/// Chooses between the 32- and the 64-bit form of a carry instruction. One flag serves both kinds:
/// subtraction is a + ~b + 1, so that CC.CF is 1 where nothing was borrowed, as on an H200.
template <bool kSubtract, bool kIn, bool kOut>
Outcome carry_lanes(Warp& warp, const Step& step, uint32_t active) {
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  each_lane(active, [&](uint32_t i) {
    const bool in = kIn && (warp.carry[i] != 0) != kSubtract;
    bool carry = false;
    if (step.width_mask == ~uint64_t{0}) {
      const auto r = kSubtract ? subtract_borrow(a[i], b[i], in) : add_carry(a[i], b[i], in);
      out[i] = r.value;
      carry = r.carry;
    } else {
      const uint32_t x = static_cast<uint32_t>(a[i]), y = static_cast<uint32_t>(b[i]);
      const auto r = kSubtract ? subtract_borrow(x, y, in) : add_carry(x, y, in);
      out[i] = r.value;
      carry = r.carry;
    }
    if (kOut) warp.carry[i] = carry != kSubtract ? 1 : 0;
  });
  return Outcome::kNext;
}

/// mad.cc and madc: the product's half plus c with carries.
template <typename T, bool kHigh>
Outcome mad_carry_lanes(Warp& warp, const Step& step, uint32_t active) {
  using U = std::make_unsigned_t<T>;
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  const uint64_t* const c = warp.read(step.source[2]);
  each_lane(active, [&](uint32_t i) {
    const T x = static_cast<T>(a[i]), y = static_cast<T>(b[i]);
    const T product = kHigh ? multiply_hi(x, y) : multiply_lo(x, y);
    const bool in = step.choice != 0 && warp.carry[i] != 0;
    const auto r = add_carry(static_cast<U>(product), static_cast<U>(c[i]), in);
    out[i] = r.value;
    if (step.choice2 != 0) warp.carry[i] = r.carry ? 1 : 0;
  });
  return Outcome::kNext;
}

template <bool kSubtract>
void decode_carry(Decoder& d) {
  const bool in = d.in.opcode == Opcode::kAddc || d.in.opcode == Opcode::kSubc;
  const bool out = d.take(Modifier::kCc);
  d.operands(d.in.type(), 2);
  if (in) {
    d.step.run = out ? carry_lanes<kSubtract, true, true> : carry_lanes<kSubtract, true, false>;
  } else {
    d.step.run = carry_lanes<kSubtract, false, true>;
  }
}

template <bool kSubtract>
void decode_add(Decoder& d) {
  const ScalarType type = d.in.type();
  if (is_float(type) && type != ScalarType::kNone) return decode_float(d);
  if (d.in.has(Modifier::kCc)) return decode_carry<kSubtract>(d);
  d.operands(type, 2);
  if (d.take(Modifier::kSat)) {
    if (type != ScalarType::kS32) d.refuse(".sat needs .s32");
    d.step.run = typed2<int32_t, [](int32_t a, int32_t b) {
      return clamp_s32(kSubtract ? int64_t{a} - b : int64_t{a} + b);
    }>;
    return;
  }
  if (type == ScalarType::kU16x2 || type == ScalarType::kS16x2) {
    d.step.run = typed2<uint32_t, [](uint32_t a, uint32_t b) {
      return packed16<uint16_t>(a, b, [](uint16_t x, uint16_t y) {
        return static_cast<uint16_t>(kSubtract ? x - y : x + y);
      });
    }>;
    return;
  }
  if constexpr (kSubtract) {
    set(d, integers2<kSubF>(type));
  } else {
    set(d, integers2<kAddF>(type));
  }
}

template <bool kMaximum>
Handler packed_min_max(bool is_signed, bool relu) {
  if (is_signed && relu) {
    return typed2<uint32_t, [](uint32_t a, uint32_t b) {
      return packed16<int16_t>(a, b, [](int16_t x, int16_t y) {
        return kMaxF(kMaximum ? kMaxF(x, y) : kMinF(x, y), int16_t{0});
      });
    }>;
  }
  if (is_signed) {
    return typed2<uint32_t, [](uint32_t a, uint32_t b) {
      return packed16<int16_t>(
          a, b, [](int16_t x, int16_t y) { return kMaximum ? kMaxF(x, y) : kMinF(x, y); });
    }>;
  }
  return typed2<uint32_t, [](uint32_t a, uint32_t b) {
    return packed16<uint16_t>(
        a, b, [](uint16_t x, uint16_t y) { return kMaximum ? kMaxF(x, y) : kMinF(x, y); });
  }>;
}

template <bool kMaximum>
void decode_min_max(Decoder& d) {
  const ScalarType type = d.in.type();
  if (is_float(type)) return decode_float(d);
  const bool relu = d.take(Modifier::kRelu);
  if (type == ScalarType::kU16x2 || type == ScalarType::kS16x2) {
    d.operands(type, 2);
    d.step.run = packed_min_max<kMaximum>(type == ScalarType::kS16x2, relu);
    return;
  }
  d.operands(type, 2);
  if (relu) {
    if (type != ScalarType::kS32) d.refuse(".relu needs .s32 or .s16x2");
    d.step.run = typed2<int32_t, [](int32_t a, int32_t b) {
      return kMaxF(kMaximum ? kMaxF(a, b) : kMinF(a, b), 0);
    }>;
    return;
  }
  if constexpr (kMaximum) {
    set(d, integers2<kMaxF>(type));
  } else {
    set(d, integers2<kMinF>(type));
  }
}

template <bool kAdd>
Handler wide_handler(ScalarType type) {
  switch (type) {
#define FLAMIA_WIDE(name, narrow, wide)                                                         \
  case ScalarType::name:                                                                        \
    return lanes3<[](const Step&, uint64_t a, uint64_t b, uint64_t c) {                         \
      const wide product = multiply_wide<wide>(static_cast<narrow>(a), static_cast<narrow>(b)); \
      return raw_bits(kAdd ? kAddF(product, static_cast<wide>(c)) : product);                   \
    }>
    FLAMIA_WIDE(kU16, uint16_t, uint32_t);
    FLAMIA_WIDE(kS16, int16_t, int32_t);
    FLAMIA_WIDE(kU32, uint32_t, uint64_t);
    FLAMIA_WIDE(kS32, int32_t, int64_t);
#undef FLAMIA_WIDE
    default:
      return nullptr;
  }
}

ScalarType widened(ScalarType type) {
  switch (type) {
    case ScalarType::kU16:
      return ScalarType::kU32;
    case ScalarType::kS16:
      return ScalarType::kS32;
    case ScalarType::kU32:
      return ScalarType::kU64;
    default:
      return ScalarType::kS64;
  }
}

void decode_mul(Decoder& d) {
  const ScalarType type = d.in.type();
  if (is_float(type)) return decode_float(d);
  const int part = d.take_one({Modifier::kLo, Modifier::kHi, Modifier::kWide});
  d.operands(type, 2);
  if (part == 2) {
    d.step.source[2] = d.constant(0);
    return set(d, wide_handler<false>(type));
  }
  set(d, part == 1 ? integers2<kMulHiF>(type) : integers2<kMulLoF>(type));
}

void decode_mad(Decoder& d) {
  const ScalarType type = d.in.type();
  if (is_float(type)) return decode_float(d);
  const int part = d.take_one({Modifier::kLo, Modifier::kHi, Modifier::kWide});
  const bool sat = d.take(Modifier::kSat), carry_out = d.take(Modifier::kCc);
  const bool carry_in = d.in.opcode == Opcode::kMadc;
  d.operands(type, 3);
  if (part == 2) {
    d.step.source[2] = d.source(3, widened(type));
    return set(d, wide_handler<true>(type));
  }
  if (sat) {
    if (part != 1 || type != ScalarType::kS32) d.refuse(".sat needs mad.hi.s32");
    d.step.run = typed3<int32_t, [](int32_t a, int32_t b, int32_t c) {
      return clamp_s32(int64_t{multiply_hi(a, b)} + c);
    }>;
    return;
  }
  if (!carry_in && !carry_out) {
    return set(d, part == 1 ? integers3<kMadHiF>(type) : integers3<kMadLoF>(type));
  }
  d.step.choice = carry_in ? 1 : 0;
  d.step.choice2 = carry_out ? 1 : 0;
  const bool high = part == 1;
  switch (type) {
    case ScalarType::kU32:
      d.step.run = high ? mad_carry_lanes<uint32_t, true> : mad_carry_lanes<uint32_t, false>;
      break;
    case ScalarType::kS32:
      d.step.run = high ? mad_carry_lanes<int32_t, true> : mad_carry_lanes<int32_t, false>;
      break;
    case ScalarType::kU64:
      d.step.run = high ? mad_carry_lanes<uint64_t, true> : mad_carry_lanes<uint64_t, false>;
      break;
    case ScalarType::kS64:
      d.step.run = high ? mad_carry_lanes<int64_t, true> : mad_carry_lanes<int64_t, false>;
      break;
    default:
      d.refuse("the type is not handled");
  }
}

void decode_mul24(Decoder& d) {
  const bool high = d.take_one({Modifier::kLo, Modifier::kHi}) == 1;
  const bool is_signed = is_signed_integer(d.in.type());
  if (d.in.opcode == Opcode::kMul24) {
    d.operands(d.in.type(), 2);
    d.step.source[2] = d.constant(0);
  } else {
    d.operands(d.in.type(), 3);
  }
  if (d.take(Modifier::kSat)) {
    if (!high || d.in.type() != ScalarType::kS32) d.refuse(".sat needs mad24.hi.s32");
    d.step.run = typed3<int32_t, [](int32_t a, int32_t b, int32_t c) {
      return clamp_s32(int64_t{multiply24_hi(a, b)} + c);
    }>;
    return;
  }
  if (is_signed) {
    constexpr auto low_f = [](int32_t a, int32_t b, int32_t c) {
      return kAddF(multiply24_lo(a, b), c);
    };
    constexpr auto high_f = [](int32_t a, int32_t b, int32_t c) {
      return kAddF(multiply24_hi(a, b), c);
    };
    d.step.run = high ? typed3<int32_t, high_f> : typed3<int32_t, low_f>;
  } else {
    constexpr auto low_f = [](uint32_t a, uint32_t b, uint32_t c) {
      return multiply24_lo(a, b) + c;
    };
    constexpr auto high_f = [](uint32_t a, uint32_t b, uint32_t c) {
      return multiply24_hi(a, b) + c;
    };
    d.step.run = high ? typed3<uint32_t, high_f> : typed3<uint32_t, low_f>;
  }
}

void decode_dot(Decoder& d) {
  d.step.choice = is_signed_integer(d.in.type(0)) ? 1 : 0;
  d.step.choice2 = is_signed_integer(d.in.type(1)) ? 1 : 0;
  d.operands(ScalarType::kB32, 3);
  if (d.in.opcode == Opcode::kDp4a) {
    d.step.run = lanes3<[](const Step& s, uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
      return dot4(static_cast<uint32_t>(a), static_cast<uint32_t>(b), static_cast<uint32_t>(c),
                  s.choice != 0, s.choice2 != 0);
    }>;
    return;
  }
  d.step.number = d.take_one({Modifier::kLo, Modifier::kHi});
  d.step.run = lanes3<[](const Step& s, uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    return dot2(static_cast<uint32_t>(a), static_cast<uint32_t>(b), static_cast<uint32_t>(c),
                s.choice != 0, s.choice2 != 0, s.number == 1);
  }>;
}

template <auto F>
void decode_two(Decoder& d) {
  const ScalarType type = d.in.type();
  if (is_float(type)) return decode_float(d);
  d.operands(type, 2);
  set(d, integers2<F>(type));
}

template <auto F>
void decode_one(Decoder& d) {
  const ScalarType type = d.in.type();
  if (is_float(type)) return decode_float(d);
  d.operands(type, 1);
  set(d, integers1<F>(type));
}

void decode_sad(Decoder& d) {
  d.operands(d.in.type(), 3);
  set(d, integers3<kSadF>(d.in.type()));
}

}  // namespace

DecodeFunction integer_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
      return decode_add<false>;
    case Opcode::kSub:
      return decode_add<true>;
    case Opcode::kAddc:
      return decode_carry<false>;
    case Opcode::kSubc:
      return decode_carry<true>;
    case Opcode::kMul:
      return decode_mul;
    case Opcode::kMad:
    case Opcode::kMadc:
      return decode_mad;
    case Opcode::kMul24:
    case Opcode::kMad24:
      return decode_mul24;
    case Opcode::kDp4a:
    case Opcode::kDp2a:
      return decode_dot;
    case Opcode::kMin:
      return decode_min_max<false>;
    case Opcode::kMax:
      return decode_min_max<true>;
    case Opcode::kDiv:
      return decode_two<kDivF>;
    case Opcode::kRem:
      return decode_two<kRemF>;
    case Opcode::kAbs:
      return decode_one<kAbsF>;
    case Opcode::kNeg:
      return decode_one<kNegF>;
    case Opcode::kSad:
      return decode_sad;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
