// cvt and cvt.pack: integers, floats, tf32 and the packed narrow formats.
// Depends on: isa/scalar_convert.h and isa/scalar_narrow.h for all semantics, convert_fast.h for
// the common modes. Longer than other families, since those have a handler beside the definition's.
#include "emulator/execution/convert_fast.h"
#include "emulator/execution/decoder.h"
#include "emulator/execution/lanes.h"
#include "emulator/isa/scalar_narrow.h"

namespace flamia::emulator::execution {
namespace {

using namespace isa;  // NOLINT: the functions of this family

struct ConvertDetail : Detail {
  IntegerType to_integer{}, from_integer{};
  FloatFormat to_float{}, from_float{};
  Narrow narrow = Narrow::kE4m3;
  bool whole = false;
  bool up = false;
  Source source[6];
};

const ConvertDetail& detail_of(const Step& step) {
  return static_cast<const ConvertDetail&>(*step.detail);
}

template <typename F>
Outcome convert_lanes(Warp& warp, const Step& step, uint32_t active, F one) {
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  each_lane(active, [&](uint32_t i) { out[i] = one(a[i], b[i]) & step.width_mask; });
  return Outcome::kNext;
}

Outcome integer_to_integer(Warp& warp, const Step& step, uint32_t active) {
  const ConvertDetail& d = detail_of(step);
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t) {
    return convert_integer(d.to_integer, d.from_integer, a, step.mode.sat);
  });
}

// ---- Fast paths; convert_fast.h says which modes they stand for.

constexpr uint32_t relu_mask(const Step& step) { return step.mode.relu ? ~0u : 0u; }

/// cvt.rn(.relu) from f32 to one half and to two.
template <Half kTo>
constexpr auto kHalfOfF32 = [](const Step& s, uint64_t a) -> uint64_t {
  return half_of_f32<kTo>(static_cast<uint32_t>(a), relu_mask(s)) & s.width_mask;
};
template <Half kTo>
constexpr auto kHalvesOfF32 = [](const Step& s, uint64_t a, uint64_t b) -> uint64_t {
  const uint32_t high = half_of_f32<kTo>(static_cast<uint32_t>(a), relu_mask(s));
  return (high << 16 | half_of_f32<kTo>(static_cast<uint32_t>(b), relu_mask(s))) & s.width_mask;
};

/// From f32, two codes; from f16x2, whose low half is the second.
template <Narrow kFormat>
constexpr auto kNarrowOfF32 = [](const Step& s, uint64_t a, uint64_t b) -> uint64_t {
  return narrow_pair_of_f32<kFormat>(static_cast<uint32_t>(a), static_cast<uint32_t>(b),
                                     relu_mask(s)) &
         s.width_mask;
};
template <Narrow kFormat>
constexpr auto kNarrowOfF16 = [](const Step& s, uint64_t a) -> uint64_t {
  const uint32_t pair = static_cast<uint32_t>(a);
  return narrow_pair_of_f32<kFormat>(float_bits(widen_half<Half::kF16>(pair >> 16)),
                                     float_bits(widen_half<Half::kF16>(pair & 0xffffu)),
                                     relu_mask(s)) &
         s.width_mask;
};
template <Narrow kFormat>
Handler halves_handler(bool relu) {
  return relu ? lanes1<[](const Step& s, uint64_t a) -> uint64_t {
    return halves_of_narrow<kFormat, true>(static_cast<uint32_t>(a)) & s.width_mask;
  }>
              : lanes1<[](const Step& s, uint64_t a) -> uint64_t {
                  return halves_of_narrow<kFormat, false>(static_cast<uint32_t>(a)) & s.width_mask;
                }>;
}

/// The handler of a narrow format by its name.
enum class NarrowWay : uint8_t { kFromF32, kFromF16, kToF16 };
template <Narrow kFormat>
Handler narrow_handler(NarrowWay way, bool relu) {
  if (way == NarrowWay::kFromF32) return lanes2<kNarrowOfF32<kFormat>>;
  return way == NarrowWay::kFromF16 ? lanes1<kNarrowOfF16<kFormat>> : halves_handler<kFormat>(relu);
}
Handler narrow_handler(Narrow format, NarrowWay way, bool relu) {
  switch (format) {
    case Narrow::kE4m3:
      return narrow_handler<Narrow::kE4m3>(way, relu);
    case Narrow::kE5m2:
      return narrow_handler<Narrow::kE5m2>(way, relu);
    case Narrow::kE2m1:
      return narrow_handler<Narrow::kE2m1>(way, relu);
    case Narrow::kE2m3:
      return narrow_handler<Narrow::kE2m3>(way, relu);
    case Narrow::kE3m2:
      break;
  }
  return narrow_handler<Narrow::kE3m2>(way, relu);
}

template <Rounding kRounding>
constexpr auto kWholeF32 = [](const Step& s, uint64_t a) -> uint64_t {
  return whole_f32<kRounding>(static_cast<uint32_t>(a), s.mode.ftz, s.mode.sat) & s.width_mask;
};
template <Rounding kRounding>
Outcome integer_of_f32_lanes(Warp& warp, const Step& step, uint32_t active) {
  const IntegerType& to = detail_of(step).to_integer;
  const double lowest =
      static_cast<double>(static_cast<int64_t>(clamp_integer(to, true, ~Wide{0})));
  const double highest =
      static_cast<double>(static_cast<int64_t>(clamp_integer(to, false, ~Wide{0})));
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t) {
    return integer_of_f32<kRounding>(static_cast<uint32_t>(a), step.mode.ftz, lowest, highest);
  });
}
template <template <Rounding> typename Pick>
Handler by_rounding(Rounding rounding) {
  switch (rounding) {
    case Rounding::kZero:
      return Pick<Rounding::kZero>::kHandler;
    case Rounding::kDown:
      return Pick<Rounding::kDown>::kHandler;
    case Rounding::kUp:
      return Pick<Rounding::kUp>::kHandler;
    case Rounding::kNearestEven:
      return Pick<Rounding::kNearestEven>::kHandler;
    case Rounding::kNearestAway:
      break;
  }
  return nullptr;
}
template <Rounding kRounding>
struct WholeF32 {
  static constexpr Handler kHandler = lanes1<kWholeF32<kRounding>>;
};
template <Rounding kRounding>
struct IntegerOfF32 {
  static constexpr Handler kHandler = integer_of_f32_lanes<kRounding>;
};

Outcome f32_of_integer(Warp& warp, const Step& step, uint32_t active) {
  const IntegerType& from = detail_of(step).from_integer;
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t) -> uint64_t {
    return float_bits(static_cast<float>(extended(from, a)));
  });
}

/// A faster handler of a plain conversion to or from floats, or null.
Handler fast_plain(const ConvertDetail& d, const Step& step, ScalarType to, ScalarType from) {
  const FloatMode& mode = step.mode;
  const bool nearest = mode.rounding == Rounding::kNearestEven;
  const bool f32 = from == ScalarType::kF32;
  if (f32 && d.to_integer.bits > 0 && d.to_integer.bits <= 32) {
    return by_rounding<IntegerOfF32>(mode.rounding);
  }
  if (f32 && to == ScalarType::kF32 && d.whole && !mode.relu && !step.satfinite) {
    return by_rounding<WholeF32>(mode.rounding);
  }
  if (mode.sat || step.satfinite || d.whole || !nearest) return nullptr;
  if (to == ScalarType::kF32 && d.from_integer.bits > 0 && d.from_integer.bits <= 32) {
    return f32_of_integer;
  }
  // .ftz of f32 is for what does not go to f16.
  if (f32 && to == ScalarType::kF16) return lanes1<kHalfOfF32<Half::kF16>>;
  if (mode.ftz && to != ScalarType::kF32) return nullptr;
  if (f32 && to == ScalarType::kBf16) return lanes1<kHalfOfF32<Half::kBf16>>;
  if (mode.relu) return nullptr;
  if (to == ScalarType::kF32 && from == ScalarType::kF16) {  // never subnormal
    return lanes1<[](const Step& s, uint64_t a) -> uint64_t {
      return f32_of_f16(static_cast<uint32_t>(a) & 0xffffu) & s.width_mask;
    }>;
  }
  if (mode.ftz) return nullptr;
  if (to == ScalarType::kF32 && from == ScalarType::kBf16) {
    return lanes1<[](const Step& s, uint64_t a) { return (a & 0xffffu) << 16 & s.width_mask; }>;
  }
  // The host makes NaN quiet and keeps the upper payload, as the definition does.
  if (to == ScalarType::kF64 && f32) {
    return lanes1<[](const Step& s, uint64_t a) {
      return __builtin_bit_cast(uint64_t,
                                static_cast<double>(bits_float(static_cast<uint32_t>(a)))) &
             s.width_mask;
    }>;
  }
  if (to == ScalarType::kF32 && from == ScalarType::kF64) {
    return lanes1<[](const Step& s, uint64_t a) {
      return float_bits(static_cast<float>(__builtin_bit_cast(double, a))) & s.width_mask;
    }>;
  }
  return nullptr;
}

// ----

/// Without saturation: the low bits, extended by `T`.
template <typename T>
Outcome extend_lanes(Warp& warp, const Step& step, uint32_t active) {
  return lanes1<[](const Step& s, uint64_t a) {
    return static_cast<uint64_t>(static_cast<int64_t>(static_cast<T>(a))) & s.width_mask;
  }>(warp, step, active);
}

Outcome integer_to_float(Warp& warp, const Step& step, uint32_t active) {
  const ConvertDetail& d = detail_of(step);
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t) {
    return convert_from_integer(d.to_float, d.from_integer, a, step.convert_mode());
  });
}

Outcome float_to_integer(Warp& warp, const Step& step, uint32_t active) {
  const ConvertDetail& d = detail_of(step);
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t) {
    return convert_to_integer(d.to_integer, d.from_float, a, step.convert_mode());
  });
}

Outcome float_to_float(Warp& warp, const Step& step, uint32_t active) {
  const ConvertDetail& d = detail_of(step);
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t) {
    return convert_float(d.to_float, d.from_float, a, step.convert_mode(), d.whole);
  });
}

Outcome float_pair(Warp& warp, const Step& step, uint32_t active) {
  const ConvertDetail& d = detail_of(step);
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t b) {
    const ConvertMode mode = step.convert_mode();
    return convert_float(d.to_float, kF32Format, a, mode) << 16 |
           convert_float(d.to_float, kF32Format, b, mode);
  });
}

Outcome float_pair_stochastic(Warp& warp, const Step& step, uint32_t active) {
  const ConvertDetail& d = detail_of(step);
  const uint64_t* const random = warp.read(step.source[2]);
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  each_lane(active, [&](uint32_t i) {
    out[i] = stochastic_pair(d.to_float, bits_float(static_cast<uint32_t>(a[i])),
                             bits_float(static_cast<uint32_t>(b[i])),
                             static_cast<uint32_t>(random[i]), step.convert_mode());
  });
  return Outcome::kNext;
}

Outcome narrow_quad_stochastic(Warp& warp, const Step& step, uint32_t active) {
  const ConvertDetail& d = detail_of(step);
  uint64_t* const out = warp.row(step.target);
  each_lane(active, [&](uint32_t i) {
    float values[4];
    for (uint32_t j = 0; j < 4; ++j) {
      values[j] = bits_float(static_cast<uint32_t>(warp.read(d.source[j])[i]));
    }
    const uint32_t random = static_cast<uint32_t>(warp.read(d.source[4])[i]);
    out[i] = stochastic_quad(d.narrow, values, random, step.mode.relu) & step.width_mask;
  });
  return Outcome::kNext;
}

/// choice 1: both sources are the halves of a bf16x2.
Outcome ue8m0_from(Warp& warp, const Step& step, uint32_t active) {
  const bool up = detail_of(step).up;
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t b) -> uint64_t {
    uint32_t high = static_cast<uint32_t>(a), low = static_cast<uint32_t>(b);
    if (step.choice == 1) {
      low = high << 16;
      high &= 0xffff0000u;
    }
    return encode_ue8m0_pair(bits_float(high), bits_float(low), up, step.satfinite);
  });
}

Outcome ue8m0_to_bf16(Warp& warp, const Step& step, uint32_t active) {
  return convert_lanes(warp, step, active, [](uint64_t a, uint64_t) -> uint64_t {
    return decode_ue8m0_pair(static_cast<uint16_t>(a));
  });
}

Outcome to_tf32(Warp& warp, const Step& step, uint32_t active) {
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t) -> uint64_t {
    return convert_tf32(static_cast<uint32_t>(a), step.convert_mode());
  });
}

/// The format of a packed narrow type; false for others.
bool narrow_format(ScalarType type, Narrow* format) {
  switch (type) {
    case ScalarType::kE4m3x2:
    case ScalarType::kE4m3x4:
      *format = Narrow::kE4m3;
      return true;
    case ScalarType::kE5m2x2:
    case ScalarType::kE5m2x4:
      *format = Narrow::kE5m2;
      return true;
    case ScalarType::kE2m1x2:
    case ScalarType::kE2m1x4:
      *format = Narrow::kE2m1;
      return true;
    case ScalarType::kE2m3x2:
    case ScalarType::kE2m3x4:
      *format = Narrow::kE2m3;
      return true;
    case ScalarType::kE3m2x2:
    case ScalarType::kE3m2x4:
      *format = Narrow::kE3m2;
      return true;
    default:
      return false;
  }
}

bool is_pair(ScalarType type) { return type == ScalarType::kF16x2 || type == ScalarType::kBf16x2; }

void decode_plain(Decoder& d, ScalarType to, ScalarType from, bool whole) {
  ConvertDetail* const detail = d.detail<ConvertDetail>();
  const IntegerType* const to_integer = integer_type(to);
  const IntegerType* const from_integer = integer_type(from);
  if (to_integer != nullptr) detail->to_integer = *to_integer;
  if (from_integer != nullptr) detail->from_integer = *from_integer;
  if (is_float(to)) detail->to_float = *float_format(to);
  if (is_float(from)) detail->from_float = *float_format(from);
  detail->whole = whole;
  if (to_integer != nullptr && from_integer != nullptr) {
    d.step.run = integer_to_integer;
    if (d.step.mode.sat) return;
    // The narrower of the two types decides what is kept and how it is extended.
    const IntegerType& kept = to_integer->bits <= from_integer->bits ? *to_integer : *from_integer;
    const bool is_signed = kept.is_signed;
    // A signed source in an unsigned wider type is extended to that width only.
    if (from_integer->is_signed && !to_integer->is_signed) {
      d.step.width_mask &= to_integer->mask();
    }
    switch (kept.bits) {
      case 8:
        d.step.run = is_signed ? extend_lanes<int8_t> : extend_lanes<uint8_t>;
        break;
      case 16:
        d.step.run = is_signed ? extend_lanes<int16_t> : extend_lanes<uint16_t>;
        break;
      case 32:
        d.step.run = is_signed ? extend_lanes<int32_t> : extend_lanes<uint32_t>;
        break;
      default:
        d.step.run = extend_lanes<int64_t>;
        break;
    }
  } else if (to_integer != nullptr && is_float(from)) {
    d.step.run = float_to_integer;
  } else if (from_integer != nullptr && is_float(to)) {
    d.step.run = integer_to_float;
  } else if (is_float(to) && is_float(from)) {
    d.step.run = float_to_float;
  } else {
    d.refuse("the types are not handled");
  }
  if (const Handler fast = fast_plain(*detail, d.step, to, from); fast != nullptr) {
    d.step.run = fast;
  }
}

/// Pairs of halves from two f32.
void decode_pair(Decoder& d, ScalarType to, bool stochastic) {
  ConvertDetail* const detail = d.detail<ConvertDetail>();
  detail->to_float = *float_format(to);
  d.expect(stochastic ? 4 : 3, stochastic ? 4 : 3);
  d.step.source[1] = d.source(2, ScalarType::kF32);
  if (stochastic) d.step.source[2] = d.source(3, ScalarType::kB32);
  d.step.run = stochastic ? float_pair_stochastic : float_pair;
  const FloatMode& mode = d.step.mode;
  if (stochastic || d.step.satfinite || mode.sat || mode.rounding != Rounding::kNearestEven) return;
  if (to == ScalarType::kF16x2) d.step.run = lanes2<kHalvesOfF32<Half::kF16>>;
  if (to == ScalarType::kBf16x2 && !mode.ftz) d.step.run = lanes2<kHalvesOfF32<Half::kBf16>>;
}

void decode_narrow_to(Decoder& d, ScalarType to, ScalarType from, bool stochastic) {
  ConvertDetail* const detail = d.detail<ConvertDetail>();
  narrow_format(to, &detail->narrow);
  const bool quad = to == ScalarType::kE4m3x4 || to == ScalarType::kE5m2x4 ||
                    to == ScalarType::kE2m1x4 || to == ScalarType::kE2m3x4 ||
                    to == ScalarType::kE3m2x4;
  if (!d.step.satfinite) d.refuse(".satfinite is missing");
  if (quad) {
    if (!stochastic || from != ScalarType::kF32) d.refuse("the types are not handled");
    d.expect(3, 3);
    const auto values = d.elements(d.operand(1));
    if (values.size() != 4) d.refuse("four values are expected");
    for (uint32_t i = 0; i < 4; ++i) detail->source[i] = d.source(values[i], ScalarType::kF32);
    detail->source[4] = d.source(2, ScalarType::kB32);
    d.step.run = narrow_quad_stochastic;
    return;
  }
  if (stochastic) d.refuse(".rs is not handled for this type");
  d.step.source[0] = d.source(1, from);
  if (from == ScalarType::kF32) {
    d.expect(3, 3);
    d.step.source[1] = d.source(2, ScalarType::kF32);
    d.step.run = narrow_handler(detail->narrow, NarrowWay::kFromF32, false);
  } else if (from == ScalarType::kF16x2) {
    d.step.run = narrow_handler(detail->narrow, NarrowWay::kFromF16, false);
  } else {
    d.refuse("the types are not handled");
  }
}

void decode_ue8m0(Decoder& d, ScalarType from) {
  ConvertDetail* const detail = d.detail<ConvertDetail>();
  detail->up = d.step.mode.rounding == Rounding::kUp;
  d.step.source[0] = d.source(1, from);
  d.step.source[1] = d.step.source[0];
  d.step.choice = from == ScalarType::kBf16x2 ? 1 : 0;
  if (from == ScalarType::kF32) {
    d.expect(3, 3);
    d.step.source[1] = d.source(2, ScalarType::kF32);
  } else if (from != ScalarType::kBf16x2) {
    d.refuse("the types are not handled");
  }
  d.step.run = ue8m0_from;
}

void decode_cvt(Decoder& d) {
  const ScalarType to = d.in.type(0), from = d.in.type(1);
  const bool whole = d.in.has(Modifier::kRni) || d.in.has(Modifier::kRzi) ||
                     d.in.has(Modifier::kRmi) || d.in.has(Modifier::kRpi);
  d.float_mode();
  const bool stochastic = d.take(Modifier::kRs);
  d.step.satfinite = d.take(Modifier::kSatfinite);
  d.step.target = d.target(0u);
  d.step.width_mask = width_mask(d.register_bits(d.operand(0)));
  Narrow narrow{};
  if (narrow_format(to, &narrow)) return decode_narrow_to(d, to, from, stochastic);
  if (to == ScalarType::kUe8m0x2) return decode_ue8m0(d, from);
  d.step.source[0] = d.source(1, from);
  d.step.source[1] = d.step.source[0];
  if (narrow_format(from, &narrow)) {
    if (to != ScalarType::kF16x2) d.refuse("the types are not handled");
    d.step.run = narrow_handler(narrow, NarrowWay::kToF16, d.step.mode.relu);
  } else if (from == ScalarType::kUe8m0x2) {
    if (to != ScalarType::kBf16x2) d.refuse("the types are not handled");
    d.step.run = ue8m0_to_bf16;
  } else if (to == ScalarType::kTf32) {
    d.step.run = to_tf32;
  } else if (is_pair(to) && from == ScalarType::kF32) {
    decode_pair(d, to, stochastic);
  } else {
    if (stochastic || is_pair(to) || is_pair(from)) d.refuse("the types are not handled");
    d.expect(2, 2);
    decode_plain(d, to, from, whole);
  }
}

Outcome pack_lanes(Warp& warp, const Step& step, uint32_t active) {
  const IntegerType& to = detail_of(step).to_integer;
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  const uint64_t* const c = warp.read(step.source[2]);
  each_lane(active, [&](uint32_t i) {
    out[i] = convert_pack(to, static_cast<uint32_t>(a[i]), static_cast<uint32_t>(b[i]),
                          static_cast<uint32_t>(c[i]));
  });
  return Outcome::kNext;
}

void decode_pack(Decoder& d) {
  ConvertDetail* const detail = d.detail<ConvertDetail>();
  if (!d.take(Modifier::kSat)) d.refuse(".sat is missing");
  const ScalarType type = d.in.type(0);
  if (type == ScalarType::kU4 || type == ScalarType::kS4) {
    detail->to_integer = {4, type == ScalarType::kS4};
  } else if (const IntegerType* const to = integer_type(type); to != nullptr) {
    detail->to_integer = *to;
  } else {
    d.refuse("the types are not handled");
  }
  if (d.in.type(1) != ScalarType::kS32) d.refuse("the types are not handled");
  d.step.target = d.target(0u);
  d.step.source[0] = d.source(1, ScalarType::kS32);
  d.step.source[1] = d.source(2, ScalarType::kS32);
  d.step.source[2] = d.operand_count() == 4 ? d.source(3, ScalarType::kB32) : d.constant(0);
  d.expect(3, 4);
  d.step.run = pack_lanes;
}

}  // namespace

DecodeFunction convert_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kCvt:
      return decode_cvt;
    case Opcode::kCvtPack:
      return decode_pack;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
