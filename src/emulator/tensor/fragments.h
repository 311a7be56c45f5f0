// Which matrix element each register of each thread holds: mma.sync, wgmma, ldmatrix, stmatrix.
// Depends on: std only. Used by: mma.h and the interpreter.
// t is the lane in the warp, r the register of the operand, e the element in the register, lowest
// bits first; rows and columns count within the warp's part of the matrix.
#pragma once

#include <cstdint>

namespace flamia::emulator {

struct FragmentElement {
  uint32_t row;
  uint32_t column;
};

/// A operand of mma.sync m16n8 and of wgmma (16 rows of each warp): column is the K index.
/// Registers: 4 for rows of 32 bytes, 2 for rows of 16 bytes.
constexpr FragmentElement a_fragment(uint32_t element_bytes, uint32_t t, uint32_t r, uint32_t e) {
  return {t / 4 + 8 * (r & 1u),
          (4 / element_bytes) * (t % 4) + e + (16 / element_bytes) * (r >> 1)};
}

/// B operand of mma.sync: row is the N index, column the K index.
constexpr FragmentElement b_fragment(uint32_t element_bytes, uint32_t t, uint32_t r, uint32_t e) {
  return {t / 4, (4 / element_bytes) * (t % 4) + e + (16 / element_bytes) * r};
}

/// Accumulator of wgmma and mma.sync in binary32: N/2 registers.
constexpr FragmentElement accumulator_f32(uint32_t t, uint32_t r) {
  return {t / 4 + 8 * ((r >> 1) & 1u), 8 * (r >> 2) + 2 * (t % 4) + (r & 1u)};
}

/// The same in binary16, two per register: N/4 registers.
constexpr FragmentElement accumulator_f16(uint32_t t, uint32_t r, uint32_t e) {
  return {t / 4 + 8 * (r & 1u), 8 * (r >> 1) + 2 * (t % 4) + e};
}

enum class MatrixLoad : uint8_t {
  kM8n8,              ///< .b16, rows of 8 elements
  kM8n8Transposed,    ///< .b16 .trans
  kM16n16Transposed,  ///< ldmatrix .b8 .trans
  kM16n8Transposed,   ///< stmatrix .b8 .trans
  kM8n16Expand4,      ///< ldmatrix .b8x16.b4x16_p64
  kM8n16Expand6,      ///< ldmatrix .b8x16.b6x16_p32
  kM16n16Expand4,     ///< ldmatrix .trans .b8x16.b4x16_p64
  kM16n16Expand6,     ///< ldmatrix .trans .b8x16.b6x16_p32
};

/// Rows of 16 bytes, and so row addresses (one per lane), of .xN.
uint32_t matrix_row_count(MatrixLoad form, uint32_t count);
/// Registers per thread of .xN; 0 if the form does not come in that count.
uint32_t matrix_register_count(MatrixLoad form, uint32_t count);

/// ldmatrix: registers[r][t] from the 16-byte rows whose addresses the lanes gave in order.
void distribute_rows(MatrixLoad form, uint32_t count, const uint8_t (*rows)[16],
                     uint32_t (*registers)[32]);
/// stmatrix: the rows to store.
void collect_rows(MatrixLoad form, uint32_t count, const uint32_t (*registers)[32],
                  uint8_t (*rows)[16]);
/// movmatrix .m8n8.trans.b16.
void transpose_m8n8(const uint32_t in[32], uint32_t out[32]);

}  // namespace flamia::emulator
