// cvt and cvt.pack: integers, floats, tf32 and the packed narrow formats.
// Depends on: isa/scalar_convert.h and isa/scalar_narrow.h for all semantics.
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

Outcome narrow_from_f32(Warp& warp, const Step& step, uint32_t active) {
  const Narrow format = detail_of(step).narrow;
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t b) -> uint64_t {
    return encode_narrow_pair(format, bits_float(static_cast<uint32_t>(a)),
                              bits_float(static_cast<uint32_t>(b)), step.mode.relu);
  });
}

Outcome narrow_from_f16(Warp& warp, const Step& step, uint32_t active) {
  const Narrow format = detail_of(step).narrow;
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t) -> uint64_t {
    return encode_narrow_f16x2(format, static_cast<uint32_t>(a), step.mode.relu);
  });
}

Outcome narrow_to_f16(Warp& warp, const Step& step, uint32_t active) {
  const Narrow format = detail_of(step).narrow;
  return convert_lanes(warp, step, active, [&](uint64_t a, uint64_t) -> uint64_t {
    return decode_narrow_pair(format, static_cast<uint16_t>(a), step.mode.relu);
  });
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
}

/// Pairs of halves from two f32.
void decode_pair(Decoder& d, ScalarType to, bool stochastic) {
  ConvertDetail* const detail = d.detail<ConvertDetail>();
  detail->to_float = *float_format(to);
  d.expect(stochastic ? 4 : 3, stochastic ? 4 : 3);
  d.step.source[1] = d.source(2, ScalarType::kF32);
  if (stochastic) d.step.source[2] = d.source(3, ScalarType::kB32);
  d.step.run = stochastic ? float_pair_stochastic : float_pair;
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
    d.step.run = narrow_from_f32;
  } else if (from == ScalarType::kF16x2) {
    d.step.source[1] = d.step.source[0];
    d.step.run = narrow_from_f16;
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
    d.detail<ConvertDetail>()->narrow = narrow;
    d.step.run = narrow_to_f16;
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
