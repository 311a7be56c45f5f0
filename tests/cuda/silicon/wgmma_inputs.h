// Operands of the wgmma chains: a pure function of type, tile, matrix, row and column.
// Depends on: base/philox.h. Used by: silicon_wgmma.cu, tests that compare a model with its
// outputs. A tile is D[64, 32] = C[64, 32] + A[64, K] B[32, K]^T, K cut into kSteps instructions of
// 32 bytes.
#pragma once

#include <cstdint>

#include "base/philox.h"

namespace flamia::silicon {

inline constexpr int kTileRows = 64;
inline constexpr int kTileCols = 32;
inline constexpr int kSteps = 4;        ///< chained instructions
inline constexpr int kStepBytes = 32;   ///< of K in one instruction, any type
inline constexpr uint32_t kTiles = 64;  ///< of one case; tile % 4 selects the kind of numbers

/// Bits of an operand type.
struct CodeType {
  int bits;  ///< of one element in memory
  int mantissa_bits;
  int exponent_bits;
  int dropped_bits;   ///< below the mantissa (tf32), filled with random bits
  bool has_infinity;  ///< false: e4m3, whose only NaN is all ones
};
inline constexpr CodeType kCodeE4m3{8, 3, 4, 0, false};
inline constexpr CodeType kCodeE5m2{8, 2, 5, 0, true};
inline constexpr CodeType kCodeF16{16, 10, 5, 0, true};
inline constexpr CodeType kCodeBf16{16, 7, 8, 0, true};
inline constexpr CodeType kCodeTf32{32, 10, 8, 13, true};

/// One element of A (matrix 0) or B (matrix 1); k counts elements over all steps.
FLAMIA_HD inline uint32_t code_operand(CodeType type, uint32_t tile, uint32_t matrix, uint32_t row,
                                       uint32_t k) {
  const uint64_t stream = (static_cast<uint64_t>(matrix) << 32) | tile;
  const Philox4 r = philox(21, stream, static_cast<uint64_t>(row) << 32 | k);
  const int m = type.mantissa_bits, e = type.exponent_bits;
  const uint32_t fields = (1u << e) - 1u, bias = fields >> 1;
  const uint32_t mantissa = r.word[0] & ((1u << m) - 1u);
  const uint32_t sign = (r.word[1] & 1u) << (m + e);
  const uint32_t largest_field = type.has_infinity ? fields - 1u : fields;
  uint32_t field = 0;
  switch (tile & 3u) {
    case 0:  // any code, infinity and NaN seldom
      field = r.word[2] % (largest_field + 1u);
      if ((r.word[3] & 0x1ffu) == 0) field = fields;
      break;
    case 1:  // any finite code
      field = r.word[2] % (largest_field + 1u);
      break;
    case 2:  // subnormal and the smallest normal numbers
      field = r.word[2] % 3u;
      break;
    default:  // around one
      field = bias - 2u + r.word[2] % 5u;
      break;
  }
  uint32_t code = sign | (field << m) | mantissa;
  const uint32_t magnitude = (1u << (m + e)) - 1u;
  const bool rare = (tile & 3u) == 0 && (r.word[3] & 0x1ffu) == 0;
  if (!type.has_infinity && (code & magnitude) == magnitude && !rare) code ^= 1u;
  return (code << type.dropped_bits) |
         (type.dropped_bits != 0 ? r.word[3] >> 19 & ((1u << type.dropped_bits) - 1u) : 0u);
}

/// Element of C as binary32 bits.
FLAMIA_HD inline uint32_t start_operand(uint32_t tile, uint32_t row, uint32_t col) {
  const Philox4 r = philox(22, tile, static_cast<uint64_t>(row) << 32 | col);
  const uint32_t sign = (r.word[1] & 1u) << 31;
  const uint32_t mantissa = r.word[0] & 0x7fffffu;
  switch (tile & 3u) {
    case 0:
      if ((r.word[3] & 0xffu) == 0) return sign | 0x7f800000u | (r.word[3] & 0x100u);
      return sign | ((107u + r.word[2] % 41u) << 23) | mantissa;
    case 1:
      return sign | ((107u + r.word[2] % 41u) << 23) | mantissa;
    case 2:
      return (r.word[2] & 1u) != 0 ? sign : sign | ((r.word[2] >> 8) % 100u << 23) | mantissa;
    default:
      return sign | ((121u + r.word[2] % 13u) << 23) | mantissa;
  }
}

}  // namespace flamia::silicon
