// Float arithmetic: add to sqrt, min, max, the approximate functions, packed and mixed forms.
// Depends on: isa/scalar_float.h and isa/approx.h, which define every result.
// Binary32 has a fast path in host arithmetic for results that need no rule beyond IEEE rounding;
// everything else (NaN, flushed results) is left to the definitions. A test compares both.
#include <cmath>
#include <vector>

#include "emulator/execution/decoder.h"
#include "emulator/execution/float_fast.h"
#include "emulator/execution/half_fast.h"
#include "emulator/execution/lanes.h"
#include "emulator/isa/approx.h"

namespace flamia::emulator::execution {
namespace {

using namespace isa;  // NOLINT: the functions of this family

/// How many parts a type has and how wide they are.
uint32_t part_bits(ScalarType type) {
  switch (type) {
    case ScalarType::kF16x2:
    case ScalarType::kBf16x2:
      return 16;
    case ScalarType::kF32x2:
      return 32;
    default:
      return 64;
  }
}

/// Applies `one` to each part of packed operands (choice2 bits each; 64: not packed).
template <typename One>
uint64_t parts(const Step& s, uint64_t a, uint64_t b, uint64_t c, One one) {
  const uint32_t bits = s.choice2;
  if (bits == 64) return one(a, b, c);
  const uint64_t mask = width_mask(bits);
  return one(a & mask, b & mask, c & mask) |
         one(a >> bits & mask, b >> bits & mask, c >> bits & mask) << bits;
}

template <const FloatFormat& kFormat, char kOperation>
constexpr auto kExactF = [](const Step& s, uint64_t a, uint64_t b, uint64_t c) {
  return parts(s, a, b, c, [&s](uint64_t x, uint64_t y, uint64_t z) {
    return exact_arithmetic<kOperation>(kFormat, x, y, z, s.mode);
  });
};

template <char kOperation>
Handler exact_handler(ScalarType type) {
  switch (type) {
    case ScalarType::kF16:
    case ScalarType::kF16x2:
      return lanes3<kExactF<kF16Format, kOperation>>;
    case ScalarType::kBf16:
    case ScalarType::kBf16x2:
      return lanes3<kExactF<kBf16Format, kOperation>>;
    case ScalarType::kF32:
      return lanes3<kExactF<kF32Format, kOperation>>;
    case ScalarType::kF64:
      return lanes3<kExactF<kF64Format, kOperation>>;
    default:
      return nullptr;
  }
}

template <char kOperation>
Handler f32_handler(const FloatMode& mode) {
  if (mode.rounding != Rounding::kNearestEven) return f32_directed<kOperation>;
  if (mode.ftz)
    return mode.sat ? f32_lanes<kOperation, true, true> : f32_lanes<kOperation, true, false>;
  return mode.sat ? f32_lanes<kOperation, false, true> : f32_lanes<kOperation, false, false>;
}

template <char kOperation>
Handler arithmetic_handler(Decoder& d, ScalarType type) {
  if (type == ScalarType::kF32 && !d.step.mode.relu) return f32_handler<kOperation>(d.step.mode);
  if (type == ScalarType::kF32x2 && !d.step.mode.relu) return f32_pair_lanes<kOperation>;
  if (type == ScalarType::kF64 && d.step.mode.rounding == Rounding::kNearestEven) {
    return f64_lanes<kOperation>;
  }
  const bool packed = type == ScalarType::kF16x2 || type == ScalarType::kBf16x2;
  Handler handler = nullptr;
  if (type == ScalarType::kF16 || type == ScalarType::kF16x2) {
    handler = half_handler<Half::kF16, kOperation>(d.step.mode, packed);
  } else if (type == ScalarType::kBf16 || type == ScalarType::kBf16x2) {
    handler = half_handler<Half::kBf16, kOperation>(d.step.mode, packed);
  }
  if (handler == nullptr) handler = exact_handler<kOperation>(type);
  if (handler == nullptr) d.refuse("the type is not handled");
  return handler;
}

/// add.f32.bf16 and fma.rn.f32.f16: the narrow operands are widened first.
template <char kOperation>
Outcome mixed_lanes(Warp& warp, const Step& step, uint32_t active) {
  const uint64_t* const a = warp.read(step.source[0]);
  const uint64_t* const b = warp.read(step.source[1]);
  const auto widen = [&](const uint64_t* from, uint64_t(&to)[kLanes]) {
    if (step.choice == 0) {
      for (uint32_t i = 0; i < kLanes; ++i) {
        to[i] = float_bits(f16_to_float(static_cast<uint16_t>(from[i])));
      }
    } else {
      for (uint32_t i = 0; i < kLanes; ++i) to[i] = from[i] << 16 & 0xffffffffu;
    }
  };
  uint64_t x[kLanes], y[kLanes];
  widen(a, x);
  if (kOperation == 'f') widen(b, y);
  uint32_t result[kLanes];
  f32_any_mode<kOperation>(step.mode, x, kOperation == 'f' ? y : b, warp.read(step.source[2]),
                           result);
  write_lanes(warp.row(step.target), result, active);
  return Outcome::kNext;
}

template <char kOperation>
void decode_arithmetic(Decoder& d) {
  constexpr uint32_t kSources =
      kOperation == 'f' ? 3 : (kOperation == 'r' || kOperation == 'q' ? 1 : 2);
  const ScalarType type = d.in.type();
  d.float_mode();
  if (d.take(Modifier::kOob)) d.refuse(".oob is not handled");
  d.step.choice2 = static_cast<uint8_t>(part_bits(type));
  d.operands(type, kSources);
  for (uint32_t i = kSources; i < 3; ++i) d.step.source[i] = d.constant(0);
  const ScalarType narrow = d.in.type(1);
  if (narrow != ScalarType::kNone) {
    if constexpr (kOperation == 'f' || kOperation == '+' || kOperation == '-') {
      d.step.choice = narrow == ScalarType::kF16 ? 0 : 1;
      d.step.source[0] = d.source(1, narrow);
      if (kOperation == 'f') d.step.source[1] = d.source(2, narrow);
      d.step.run = mixed_lanes<kOperation>;
      return;
    }
    d.refuse("the types are not handled");
  }
  d.step.run = arithmetic_handler<kOperation>(d, type);
}

// Approximate functions of one operand.
// Out of line, where compilers vectorize the squarer, which they do not inside the loop over lanes.
template <uint32_t (*kFunction)(const MufuTables&, uint32_t, bool)>
[[gnu::noinline]] uint32_t approx_one(uint32_t a, bool ftz) {
  return kFunction(kMufuTables, a, ftz);
}
template <uint32_t (*kFunction)(const MufuTables&, uint32_t, bool)>
constexpr auto kApprox = [](const Step& s, uint64_t a) -> uint64_t {
  return approx_one<kFunction>(static_cast<uint32_t>(a), s.mode.ftz);
};
template <uint32_t (*kFunction)(const MufuTables&, uint32_t)>
constexpr auto kApproxPlain = [](const Step&, uint64_t a) -> uint64_t {
  return kFunction(kMufuTables, static_cast<uint32_t>(a));
};
/// Results for all 16-bit operands, made when the first instruction of the kind is decoded.
template <uint16_t (*kFunction)(const MufuTables&, uint16_t)>
const uint16_t* half_table() {
  static const std::vector<uint16_t> table = [] {
    std::vector<uint16_t> made(65536);
    for (uint32_t x = 0; x < 65536; ++x) {
      made[x] = kFunction(kMufuTables, static_cast<uint16_t>(x));
    }
    return made;
  }();
  return table.data();
}
template <uint16_t (*kFunction)(const MufuTables&, uint16_t)>
Outcome approx_half_lanes(Warp& warp, const Step& step, uint32_t active) {
  const uint16_t* const table = half_table<kFunction>();
  uint64_t* const out = warp.row(step.target);
  const uint64_t* const a = warp.read(step.source[0]);
  const bool packed = step.choice2 == 16;
  each_lane(active, [&](uint32_t i) {
    const uint64_t low = table[a[i] & 0xffffu];
    out[i] = packed ? low | static_cast<uint64_t>(table[a[i] >> 16 & 0xffffu]) << 16 : low;
  });
  return Outcome::kNext;
}

Handler approx_handler(Opcode opcode, ScalarType type) {
  const bool f16 = type == ScalarType::kF16 || type == ScalarType::kF16x2;
  const bool bf16 = type == ScalarType::kBf16 || type == ScalarType::kBf16x2;
  if (opcode == Opcode::kEx2 && f16) return approx_half_lanes<approx::ex2_f16>;
  if (opcode == Opcode::kEx2 && bf16) return approx_half_lanes<approx::ex2_bf16>;
  if (opcode == Opcode::kTanh && f16) return approx_half_lanes<approx::tanh_f16>;
  if (opcode == Opcode::kTanh && bf16) return approx_half_lanes<approx::tanh_bf16>;
  if (type != ScalarType::kF32) return nullptr;
  switch (opcode) {
    case Opcode::kEx2:
      return lanes1<kApprox<approx::ex2_f32>>;
    case Opcode::kLg2:
      return lanes1<kApprox<approx::lg2_f32>>;
    case Opcode::kRcp:
      return lanes1<kApprox<approx::rcp_f32>>;
    case Opcode::kRsqrt:
      return lanes1<kApprox<approx::rsqrt_f32>>;
    case Opcode::kSqrt:
      return lanes1<kApprox<approx::sqrt_f32>>;
    case Opcode::kSin:
      return lanes1<kApproxPlain<approx::sin_f32>>;
    case Opcode::kCos:
      return lanes1<kApproxPlain<approx::cos_f32>>;
    case Opcode::kTanh:
      return lanes1<kApproxPlain<approx::tanh_f32>>;
    default:
      return nullptr;
  }
}

template <uint64_t (*kFunction)(const MufuTables&, uint64_t)>
constexpr auto kApproxF64 =
    [](const Step&, uint64_t a) -> uint64_t { return kFunction(kMufuTables, a); };

void decode_approx(Decoder& d) {
  const ScalarType type = d.in.type();
  d.take(Modifier::kApprox);
  d.step.mode.ftz = d.take(Modifier::kFtz);
  d.step.choice2 = static_cast<uint8_t>(part_bits(type));
  d.operands(type, 1);
  if (type == ScalarType::kF64 && d.step.mode.ftz) {
    if (d.in.opcode == Opcode::kRcp) d.step.run = lanes1<kApproxF64<approx::rcp_f64>>;
    if (d.in.opcode == Opcode::kRsqrt) d.step.run = lanes1<kApproxF64<approx::rsqrt_f64>>;
  } else {
    d.step.run = approx_handler(d.in.opcode, type);
  }
  if (d.step.run == nullptr) d.refuse("the type is not handled");
}

void decode_divide(Decoder& d) {
  const int kind = d.take_one({Modifier::kApprox, Modifier::kFull});
  if (kind < 0) return decode_arithmetic<'/'>(d);
  if (d.in.type() != ScalarType::kF32) d.refuse("the type is not handled");
  d.step.mode.ftz = d.take(Modifier::kFtz);
  d.operands(ScalarType::kF32, 2);
  if (kind == 0) {
    d.step.run = lanes2<[](const Step& s, uint64_t a, uint64_t b) -> uint64_t {
      return approx::div_approx_f32(kMufuTables, static_cast<uint32_t>(a), static_cast<uint32_t>(b),
                                    s.mode.ftz);
    }>;
  } else {
    d.step.run = lanes2<[](const Step& s, uint64_t a, uint64_t b) -> uint64_t {
      return approx::div_full_f32(kMufuTables, static_cast<uint32_t>(a), static_cast<uint32_t>(b),
                                  s.mode.ftz);
    }>;
  }
}

void decode_root(Decoder& d) {
  if (d.in.has(Modifier::kApprox) || d.in.opcode == Opcode::kRsqrt) return decode_approx(d);
  if (d.in.opcode == Opcode::kRcp) return decode_arithmetic<'r'>(d);
  decode_arithmetic<'q'>(d);
}

template <bool kMaximum>
constexpr auto kMinMaxF64 = [](const Step& s, uint64_t a, uint64_t b, uint64_t c) {
  if (s.choice != 0) return float_min_max3(kF64Format, kMaximum, a, b, c, s.min_max);
  return float_min_max(kF64Format, kMaximum, a, b, s.min_max);
};

template <bool kMaximum>
Handler min_max_handler(ScalarType type) {
  switch (type) {
    case ScalarType::kF16:
      return min_max_lanes<kF16Format, kMaximum, 1>;
    case ScalarType::kF16x2:
      return min_max_lanes<kF16Format, kMaximum, 2>;
    case ScalarType::kBf16:
      return min_max_lanes<kBf16Format, kMaximum, 1>;
    case ScalarType::kBf16x2:
      return min_max_lanes<kBf16Format, kMaximum, 2>;
    case ScalarType::kF32:
      return min_max_lanes<kF32Format, kMaximum, 1>;
    case ScalarType::kF64:
      return lanes3<kMinMaxF64<kMaximum>>;
    default:
      return nullptr;
  }
}

void decode_min_max(Decoder& d) {
  const ScalarType type = d.in.type();
  const bool maximum = d.in.opcode == Opcode::kMax;
  MinMaxMode& mode = d.step.min_max;
  mode.ftz = d.take(Modifier::kFtz);
  mode.nan = d.take(Modifier::kNaN);
  const bool abs = d.take(Modifier::kAbs);
  mode.xorsign_abs = d.take(Modifier::kXorsign);
  mode.abs = abs && !mode.xorsign_abs;
  const uint32_t sources = d.operand_count() == 4 ? 3 : 2;
  d.step.choice = sources == 3 ? 1 : 0;
  d.step.choice2 = static_cast<uint8_t>(part_bits(type));
  d.operands(type, sources);
  if (sources == 2) d.step.source[2] = d.constant(0);
  d.step.run = maximum ? min_max_handler<true>(type) : min_max_handler<false>(type);
  if (d.step.run == nullptr) d.refuse("the type is not handled");
}

template <const FloatFormat& kFormat>
constexpr auto kNegate = [](const Step& s, uint64_t a) {
  return parts(s, a, 0, 0, [&s](uint64_t x, uint64_t, uint64_t) {
    return float_negate(kFormat, x, s.mode.ftz);
  });
};
template <const FloatFormat& kFormat>
constexpr auto kAbsolute = [](const Step& s, uint64_t a) {
  return parts(s, a, 0, 0,
               [&s](uint64_t x, uint64_t, uint64_t) { return float_abs(kFormat, x, s.mode.ftz); });
};

void decode_sign(Decoder& d) {
  const ScalarType type = d.in.type();
  const bool negate = d.in.opcode == Opcode::kNeg;
  d.step.mode.ftz = d.take(Modifier::kFtz);
  d.step.choice2 = static_cast<uint8_t>(part_bits(type));
  d.operands(type, 1);
  switch (type) {
    case ScalarType::kF16:
    case ScalarType::kF16x2:
      d.step.run = negate ? lanes1<kNegate<kF16Format>> : lanes1<kAbsolute<kF16Format>>;
      break;
    case ScalarType::kBf16:
    case ScalarType::kBf16x2:
      d.step.run = negate ? lanes1<kNegate<kBf16Format>> : lanes1<kAbsolute<kBf16Format>>;
      break;
    case ScalarType::kF32:
    case ScalarType::kF32x2:
      d.step.run = negate ? lanes1<kNegate<kF32Format>> : lanes1<kAbsolute<kF32Format>>;
      break;
    default:
      d.step.run = negate ? lanes1<kNegate<kF64Format>> : lanes1<kAbsolute<kF64Format>>;
      break;
  }
}

void decode_copysign(Decoder& d) {
  d.operands(d.in.type(), 2);
  d.step.run = d.in.type() == ScalarType::kF64 ? lanes2<[](const Step&, uint64_t a, uint64_t b) {
    return float_copysign(kF64Format, a, b);
  }>
                                               : lanes2<[](const Step&, uint64_t a, uint64_t b) {
                                                   return float_copysign(kF32Format, a, b);
                                                 }>;
}

Outcome test_lanes(Warp& warp, const Step& step, uint32_t active) {
  const FloatFormat& format = step.choice2 == 64 ? kF64Format : kF32Format;
  const uint64_t* const a = warp.read(step.source[0]);
  uint32_t bits = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    bits |= static_cast<uint32_t>(float_test(format, static_cast<FloatClass>(step.choice), a[i]))
            << i;
  }
  write_predicate(warp, step.target, active, bits);
  return Outcome::kNext;
}

void decode_test(Decoder& d) {
  const int which = d.take_one({Modifier::kFinite, Modifier::kInfinite, Modifier::kNumber,
                                Modifier::kNotanumber, Modifier::kNormal, Modifier::kSubnormal});
  if (which < 0) d.refuse("a class is missing");
  d.step.choice = static_cast<uint8_t>(which);
  d.step.choice2 = static_cast<uint8_t>(ptx::type_bits(d.in.type()));
  d.operands(d.in.type(), 1);
  d.step.run = test_lanes;
}

}  // namespace

DecodeFunction float_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
      return decode_arithmetic<'+'>;
    case Opcode::kSub:
      return decode_arithmetic<'-'>;
    case Opcode::kMul:
      return decode_arithmetic<'*'>;
    case Opcode::kFma:
    case Opcode::kMad:
      return decode_arithmetic<'f'>;
    case Opcode::kDiv:
      return decode_divide;
    case Opcode::kRcp:
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
      return decode_root;
    case Opcode::kEx2:
    case Opcode::kLg2:
    case Opcode::kSin:
    case Opcode::kCos:
    case Opcode::kTanh:
      return decode_approx;
    case Opcode::kMin:
    case Opcode::kMax:
      return decode_min_max;
    case Opcode::kNeg:
    case Opcode::kAbs:
      return decode_sign;
    case Opcode::kCopysign:
      return decode_copysign;
    case Opcode::kTestp:
      return decode_test;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
