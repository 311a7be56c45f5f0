// Tables and bit streams of operand elements.
// Used by: see elements.h.
#include "emulator/tensor/elements.h"

#include <array>
#include <cstring>

#include "base/bits.h"
#include "base/check.h"
#include "numerics/bf16.h"
#include "numerics/e2m1.h"
#include "numerics/e4m3.h"
#include "numerics/e5m2.h"
#include "numerics/f16.h"

namespace flamia::emulator {
namespace {

constexpr int kE2m3MinExponent = 0;
constexpr int kE3m2MinExponent = -2;

/// A 6-bit float without infinities or NaN.
float decode_6bit(uint32_t code, int mantissa_bits, int smallest_exponent) {
  const uint32_t low = code & 0x1fu;
  const uint32_t mantissa = low & ((1u << mantissa_bits) - 1u);
  const int exponent = static_cast<int>(low >> mantissa_bits);
  const float fraction = static_cast<float>(mantissa) * pow2(-mantissa_bits);
  const float value = exponent == 0 ? fraction * pow2(smallest_exponent)
                                    : (1.0f + fraction) * pow2(smallest_exponent + exponent - 1);
  return (code & 0x20u) != 0 ? -value : value;
}

using Table = std::array<float, 256>;

template <typename Decode>
Table make_table(Decode decode) {
  Table table;
  for (uint32_t code = 0; code < 256; ++code) table[code] = decode(code);
  return table;
}

const Table& table_of(ElementFormat format) {
  static const Table kE4m3 =
      make_table([](uint32_t code) { return decode_e4m3(static_cast<uint8_t>(code)); });
  static const Table kE5m2 =
      make_table([](uint32_t code) { return decode_e5m2(static_cast<uint8_t>(code)); });
  static const Table kE2m3 = make_table([](uint32_t code) { return decode_e2m3(code); });
  static const Table kE3m2 = make_table([](uint32_t code) { return decode_e3m2(code); });
  static const Table kE2m1 =
      make_table([](uint32_t code) { return decode_e2m1(static_cast<uint8_t>(code)); });
  switch (format) {
    case ElementFormat::kE4M3:
      return kE4m3;
    case ElementFormat::kE5M2:
      return kE5m2;
    case ElementFormat::kE2M3:
      return kE2m3;
    case ElementFormat::kE3M2:
      return kE3m2;
    case ElementFormat::kE2M1:
      return kE2m1;
    case ElementFormat::kF16:
    case ElementFormat::kBF16:
    case ElementFormat::kTF32:
      break;
  }
  FLAMIA_UNREACHABLE("no table");
}

uint32_t element_bits(ElementFormat format) {
  switch (format) {
    case ElementFormat::kF16:
    case ElementFormat::kBF16:
      return 16;
    case ElementFormat::kTF32:
      return 32;
    case ElementFormat::kE4M3:
    case ElementFormat::kE5M2:
      return 8;
    case ElementFormat::kE2M3:
    case ElementFormat::kE3M2:
      return 6;
    case ElementFormat::kE2M1:
      return 4;
  }
  return 8;
}

/// Code number `index` of a little-endian bit stream.
uint32_t stream_code(const uint8_t* bytes, uint32_t index, uint32_t bits) {
  const uint32_t first = index * bits;
  const uint32_t low = bytes[first / 8];
  const uint32_t high = first % 8 + bits > 8 ? bytes[first / 8 + 1] : 0u;
  return ((low | high << 8) >> (first % 8)) & ((1u << bits) - 1u);
}

}  // namespace

float decode_e2m3(uint32_t code) { return decode_6bit(code, 3, kE2m3MinExponent); }
float decode_e3m2(uint32_t code) { return decode_6bit(code, 2, kE3m2MinExponent); }

uint32_t storage_bits(ElementFormat format, Packing packing) {
  switch (packing) {
    case Packing::kPlain:
      return element_bits(format);
    case Packing::kPadded16:
    case Packing::kContainer:
      return 8;
    case Packing::kNibbles:
      return 4;
  }
  return 8;
}

int min_exponent(ElementFormat format) {
  switch (format) {
    case ElementFormat::kF16:
      return kF16MinExponent;
    case ElementFormat::kBF16:
    case ElementFormat::kTF32:
      return -126;
    case ElementFormat::kE4M3:
      return kE4m3MinExponent;
    case ElementFormat::kE5M2:
      return kE5m2MinExponent;
    case ElementFormat::kE2M3:
      return kE2m3MinExponent;
    case ElementFormat::kE3M2:
      return kE3m2MinExponent;
    case ElementFormat::kE2M1:
      return kE2m1MinExponent;
  }
  return -126;
}

void decode_elements(ElementFormat format, Packing packing, const uint8_t* bytes, uint32_t count,
                     bool negate, float* out) {
  if (packing == Packing::kPlain && element_bits(format) > 8) {
    for (uint32_t i = 0; i < count; ++i) {
      if (format == ElementFormat::kTF32) {
        uint32_t bits = 0;
        std::memcpy(&bits, bytes + 4 * i, 4);
        // The hardware cuts first: a NaN whose payload is in the lost bits becomes infinity.
        out[i] = bits_float(bits & ~0x1fffu);
      } else {
        uint16_t bits = 0;
        std::memcpy(&bits, bytes + 2 * i, 2);
        out[i] = format == ElementFormat::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
      }
    }
  } else {
    const Table& table = table_of(format);
    const uint32_t width = element_bits(format);
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t code = 0;
      switch (packing) {
        case Packing::kPlain:
          code = bytes[i];
          break;
        case Packing::kPadded16:
          code = stream_code(bytes + i / 16 * 16, i % 16, width);
          break;
        case Packing::kContainer:
          code = format == ElementFormat::kE2M1 ? bytes[i] >> 2 : bytes[i];
          break;
        case Packing::kNibbles:
          code = unpack_e2m1(bytes[i / 2], static_cast<int>(i));
          break;
      }
      out[i] = table[code & 0xffu];
    }
  }
  if (negate) {
    for (uint32_t i = 0; i < count; ++i) out[i] = -out[i];
  }
}

}  // namespace flamia::emulator
