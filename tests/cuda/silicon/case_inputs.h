// Operands of the silicon cases: a pure function of kind, place and index, the same on host and
// GPU. Depends on: base/philox.h. Used by: silicon_cases.cu, tests/emulator/silicon_scalar_test.cc.
// Random patterns are mixed with the values at which instructions differ: zeros, subnormals, the
// ends of the range, infinities, NaN with payloads, ties, and operands of similar exponent.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace flamia::silicon {

enum class Kind : uint8_t {
  kNone,
  kF16,
  kBf16,
  kF16x2,
  kBf16x2,
  kF32,
  kF64,
  kI16,
  kI32,
  kI64,
  kCount,    ///< mostly 0 to 70, sometimes any 32-bit value
  kIndex16,  ///< the index: all 65536 patterns
  kPair16,   ///< the index, and its complement in the upper half
  kTiny,     ///< binary32 whose product with operand 0 is close to the smallest normal value
};

/// A binary format of up to 64 bits.
struct Shape {
  int mantissa_bits;
  int exponent_bits;
};

FLAMIA_HD inline uint64_t random64(uint64_t seed, uint64_t stream, uint64_t index) {
  const Philox4 r = philox(seed, stream, index);
  return static_cast<uint64_t>(r.word[1]) << 32 | r.word[0];
}

FLAMIA_HD inline uint64_t float_operand(Shape shape, uint64_t place, uint64_t index) {
  const int m = shape.mantissa_bits, e = shape.exponent_bits;
  const uint64_t bits = random64(11, place, index);
  const Philox4 choice = philox(12, place, index);
  const uint64_t mask = (uint64_t{1} << m) - 1, sign = uint64_t{1} << (m + e);
  const uint64_t fields = (uint64_t{1} << e) - 1, bias = fields >> 1;
  const uint64_t negative = (choice.word[1] & 1u) != 0 ? sign : 0;
  const uint64_t mantissa = bits & mask;
  switch (choice.word[0] & 7u) {
    case 0: {  // named values
      const uint64_t named[16] = {0,
                                  1,
                                  mask,
                                  mask + 1,
                                  mask + 2,
                                  bias << m,
                                  (bias << m) + 1,
                                  (bias << m) - 1,
                                  (bias - 1) << m,
                                  (fields << m) - 1,
                                  fields << m,
                                  (fields << m) + 1,
                                  (fields << m) | (uint64_t{1} << (m - 1)),
                                  (fields << m) | mantissa,
                                  (bias + 1) << m,
                                  ((bias + static_cast<uint64_t>(m)) << m) + 1};
      return negative | named[choice.word[2] & 15u];
    }
    case 1:  // subnormal
      return negative | (mantissa >> (choice.word[2] % static_cast<uint32_t>(m)));
    case 2: {  // the ends of the exponent range
      const uint64_t near = choice.word[2] & 3u;
      const uint64_t field = (choice.word[2] & 4u) != 0 ? near : fields - 1 - near;
      return negative | (field << m) | mantissa;
    }
    case 3:
    case 4: {  // around one, few mantissa bits: ties and cancellation
      const uint64_t field = bias - 3 + choice.word[2] % 7u;
      const uint64_t kept = mask & ~(mask >> (choice.word[3] % static_cast<uint32_t>(m)));
      return negative | (field << m) | (mantissa & kept);
    }
    case 5: {  // whole and half numbers of any size an integer type can hold
      const uint64_t span = fields < 70 ? fields - bias : 70u;
      const uint64_t field = bias - 2 + choice.word[2] % (span + 1);
      return negative | ((field < fields ? field : fields - 1) << m) | mantissa;
    }
    case 6: {
      const uint64_t span = fields < 60 ? fields / 2 : 48u;
      const uint64_t field = bias - span / 2 + choice.word[2] % span;
      return negative | (field << m) | mantissa;
    }
    default:
      return bits & ((sign << 1) - 1);
  }
}

FLAMIA_HD inline uint64_t integer_operand(int width, uint64_t place, uint64_t index) {
  const uint64_t bits = random64(13, place, index);
  const Philox4 choice = philox(14, place, index);
  const uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  switch (choice.word[0] & 7u) {
    case 0:
    case 1: {  // powers of two, one more, one less, and their negatives
      const uint64_t power = uint64_t{1} << (choice.word[1] % static_cast<uint32_t>(width));
      const uint64_t value = power + (choice.word[2] % 3u) - 1;
      return (choice.word[3] & 1u) != 0 ? (0 - value) & mask : value & mask;
    }
    case 2:
      return (choice.word[1] & 15u) & mask;
    case 3:
      return (0 - static_cast<uint64_t>(choice.word[1] & 15u)) & mask;
    case 4:
      return (bits & mask) >> (choice.word[1] % static_cast<uint32_t>(width));
    default:
      return bits & mask;
  }
}

/// Operand `place` (0, 1, 2) of case number `index`.
FLAMIA_HD inline uint64_t case_operand(Kind kind, uint64_t place, uint64_t index) {
  switch (kind) {
    case Kind::kNone:
      return 0;
    case Kind::kF16:
      return float_operand({10, 5}, place, index);
    case Kind::kBf16:
      return float_operand({7, 8}, place, index);
    case Kind::kF16x2:
      return float_operand({10, 5}, place, index) | float_operand({10, 5}, place + 8, index) << 16;
    case Kind::kBf16x2:
      return float_operand({7, 8}, place, index) | float_operand({7, 8}, place + 8, index) << 16;
    case Kind::kF32:
      return float_operand({23, 8}, place, index);
    case Kind::kF64:
      return float_operand({52, 11}, place, index);
    case Kind::kI16:
      return integer_operand(16, place, index);
    case Kind::kI32:
      return integer_operand(32, place, index);
    case Kind::kI64:
      return integer_operand(64, place, index);
    case Kind::kCount: {
      const uint64_t bits = random64(15, place, index);
      return (bits & 0xf00000000u) == 0 ? bits & 0xffffffffu : (bits & 0xffffffffu) % 71u;
    }
    case Kind::kIndex16:
      return index & 0xffffu;
    case Kind::kPair16:
      return (index & 0xffffu) | (~index & 0xffffu) << 16;
    case Kind::kTiny: {
      // The quotient 2^24 / significand of operand 0, cut to 24 bits, and its neighbours.
      const uint64_t a = float_operand({23, 8}, 0, index);
      const uint64_t significand = (a & 0x7fffffu) | 0x800000u;
      const uint64_t quotient = (uint64_t{1} << 47) / significand;  // in (2^23, 2^24]
      const uint64_t step = philox(16, place, index).word[0] % 4u;
      const uint64_t mantissa = (quotient - (uint64_t{1} << 23)) + step - 1;
      const int64_t field = 127 - static_cast<int64_t>((a >> 23) & 0xffu);
      const int64_t clamped = field < 0 ? 0 : field;
      return (static_cast<uint64_t>(clamped) << 23) + (mantissa & 0x7fffffu);
    }
  }
  return 0;
}

/// Outputs recorded as they are; the rest is covered by a hash of all of them.
inline constexpr uint32_t kVerbatim = 192;
inline constexpr uint32_t kQuickCount = 8192;
inline constexpr uint32_t kFullCount = 65536;

/// The next value of the hash of a sequence of outputs (FNV-1a over 64-bit words).
constexpr uint64_t hash_step(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x100000001b3ull;
}
inline constexpr uint64_t kHashStart = 0xcbf29ce484222325ull;

}  // namespace flamia::silicon
