// ldmatrix and stmatrix as maps between rows of 16 bytes and registers.
// Used by: see fragments.h.
#include "emulator/tensor/fragments.h"

#include <cstring>

namespace flamia::emulator {
namespace {

struct ByteAt {
  uint32_t row;
  uint32_t byte;
};

/// The byte of the rows that byte e of register r of thread t is.
ByteAt byte_of(MatrixLoad form, uint32_t t, uint32_t r, uint32_t e) {
  switch (form) {
    case MatrixLoad::kM8n8:
      return {8 * r + t / 4, 4 * (t % 4) + e};
    case MatrixLoad::kM8n8Transposed:
      return {8 * r + 2 * (t % 4) + (e >> 1), 2 * (t / 4) + (e & 1u)};
    case MatrixLoad::kM16n16Transposed:
    case MatrixLoad::kM16n16Expand4:
    case MatrixLoad::kM16n16Expand6:
      return {16 * (r >> 1) + 4 * (t % 4) + e, t / 4 + 8 * (r & 1u)};
    case MatrixLoad::kM16n8Transposed:
      return {8 * r + 2 * (t % 4) + (e & 1u), t / 4 + 8 * (e >> 1)};
    case MatrixLoad::kM8n16Expand4:
    case MatrixLoad::kM8n16Expand6:
      return {8 * r + t / 4, 4 * (t % 4) + e};
  }
  return {0, 0};
}

uint32_t expand_bits(MatrixLoad form) {
  if (form == MatrixLoad::kM8n16Expand4 || form == MatrixLoad::kM16n16Expand4) return 4;
  if (form == MatrixLoad::kM8n16Expand6 || form == MatrixLoad::kM16n16Expand6) return 6;
  return 8;
}

bool sixteen_rows(MatrixLoad form) {
  return form == MatrixLoad::kM16n16Transposed || form == MatrixLoad::kM16n16Expand4 ||
         form == MatrixLoad::kM16n16Expand6;
}

}  // namespace

uint32_t matrix_row_count(MatrixLoad form, uint32_t count) {
  return (sixteen_rows(form) ? 16 : 8) * count;
}

uint32_t matrix_register_count(MatrixLoad form, uint32_t count) {
  if (sixteen_rows(form)) return count == 1 || count == 2 ? 2 * count : 0;
  return count == 1 || count == 2 || count == 4 ? count : 0;
}

void distribute_rows(MatrixLoad form, uint32_t count, const uint8_t (*rows)[16],
                     uint32_t (*registers)[32]) {
  const uint32_t bits = expand_bits(form);
  for (uint32_t r = 0; r < matrix_register_count(form, count); ++r) {
    for (uint32_t t = 0; t < 32; ++t) {
      uint32_t value = 0;
      for (uint32_t e = 0; e < 4; ++e) {
        const ByteAt at = byte_of(form, t, r, e);
        uint32_t byte = 0;
        if (bits == 8) {
          byte = rows[at.row][at.byte];
        } else {
          const uint32_t first = at.byte * bits;
          uint32_t pair = rows[at.row][first / 8];
          if (first % 8 + bits > 8) pair |= static_cast<uint32_t>(rows[at.row][first / 8 + 1]) << 8;
          byte = pair >> (first % 8) & ((1u << bits) - 1u);
        }
        value |= byte << (8 * e);
      }
      registers[r][t] = value;
    }
  }
}

void collect_rows(MatrixLoad form, uint32_t count, const uint32_t (*registers)[32],
                  uint8_t (*rows)[16]) {
  for (uint32_t r = 0; r < matrix_register_count(form, count); ++r) {
    for (uint32_t t = 0; t < 32; ++t) {
      for (uint32_t e = 0; e < 4; ++e) {
        const ByteAt at = byte_of(form, t, r, e);
        rows[at.row][at.byte] = static_cast<uint8_t>(registers[r][t] >> (8 * e));
      }
    }
  }
}

void transpose_m8n8(const uint32_t in[32], uint32_t out[32]) {
  uint8_t rows[8][16];
  uint32_t registers[1][32];
  std::memcpy(registers[0], in, sizeof(registers[0]));
  collect_rows(MatrixLoad::kM8n8, 1, registers, rows);
  distribute_rows(MatrixLoad::kM8n8Transposed, 1, rows, registers);
  std::memcpy(out, registers[0], sizeof(registers[0]));
}

}  // namespace flamia::emulator
