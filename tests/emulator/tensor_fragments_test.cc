// ldmatrix and stmatrix against the maps stated for rows, columns and threads.
#include <gtest/gtest.h>

#include <cstring>

#include "emulator/tensor/fragments.h"

namespace flamia::emulator::test {
namespace {

struct Rows {
  uint8_t bytes[32][16];
  Rows() {
    for (uint32_t r = 0; r < 32; ++r) {
      for (uint32_t b = 0; b < 16; ++b) bytes[r][b] = static_cast<uint8_t>(r * 16 + b + r);
    }
  }
};

TEST(LoadMatrix, PlainAndTransposedSixteenBit) {
  const Rows rows;
  uint32_t registers[4][32];
  distribute_rows(MatrixLoad::kM8n8, 4, rows.bytes, registers);
  for (uint32_t m = 0; m < 4; ++m) {
    for (uint32_t t = 0; t < 32; ++t) {
      uint32_t expected = 0;
      std::memcpy(&expected, rows.bytes[8 * m + t / 4] + 4 * (t % 4), 4);
      ASSERT_EQ(registers[m][t], expected);
    }
  }
  distribute_rows(MatrixLoad::kM8n8Transposed, 2, rows.bytes, registers);
  for (uint32_t m = 0; m < 2; ++m) {
    for (uint32_t t = 0; t < 32; ++t) {
      uint16_t low = 0, high = 0;
      std::memcpy(&low, rows.bytes[8 * m + 2 * (t % 4)] + 2 * (t / 4), 2);
      std::memcpy(&high, rows.bytes[8 * m + 2 * (t % 4) + 1] + 2 * (t / 4), 2);
      ASSERT_EQ(registers[m][t], low | static_cast<uint32_t>(high) << 16);
    }
  }
}

TEST(LoadMatrix, StoreIsTheInverse) {
  for (const MatrixLoad form : {MatrixLoad::kM8n8, MatrixLoad::kM8n8Transposed}) {
    const Rows rows;
    uint32_t registers[4][32];
    uint8_t back[32][16] = {};
    distribute_rows(form, 4, rows.bytes, registers);
    collect_rows(form, 4, registers, back);
    EXPECT_EQ(std::memcmp(back, rows.bytes, sizeof(back)), 0);
  }
}

TEST(LoadMatrix, BytesTransposed) {
  const Rows rows;
  uint32_t registers[4][32];
  distribute_rows(MatrixLoad::kM16n16Transposed, 2, rows.bytes, registers);
  for (uint32_t t = 0; t < 32; ++t) {
    for (uint32_t r = 0; r < 4; ++r) {
      for (uint32_t e = 0; e < 4; ++e) {
        const uint32_t row = 16 * (r / 2) + 4 * (t % 4) + e, byte = t / 4 + 8 * (r % 2);
        ASSERT_EQ(registers[r][t] >> (8 * e) & 0xffu, rows.bytes[row][byte]);
      }
    }
  }
  EXPECT_EQ(matrix_register_count(MatrixLoad::kM16n16Transposed, 4), 0u);
  EXPECT_EQ(matrix_row_count(MatrixLoad::kM16n16Transposed, 2), 32u);
}

TEST(StoreMatrix, BytesTransposedStoreAnAccumulatorColumnMajor) {
  uint32_t registers[1][32];
  for (uint32_t t = 0; t < 32; ++t) {
    registers[0][t] = 0;
    for (uint32_t e = 0; e < 4; ++e) {
      const uint32_t row = t / 4 + 8 * (e / 2), column = 2 * (t % 4) + e % 2;
      registers[0][t] |= (row * 8 + column) << (8 * e);
    }
  }
  uint8_t rows[8][16];
  collect_rows(MatrixLoad::kM16n8Transposed, 1, registers, rows);
  for (uint32_t column = 0; column < 8; ++column) {
    for (uint32_t row = 0; row < 16; ++row) ASSERT_EQ(rows[column][row], row * 8 + column);
  }
}

TEST(LoadMatrix, ExpandsFourBitElementsToBytes) {
  uint8_t rows[8][16] = {};
  for (uint32_t r = 0; r < 8; ++r) {
    for (uint32_t b = 0; b < 8; ++b) rows[r][b] = static_cast<uint8_t>(0x10 * (2 * b + 1) + 2 * b);
  }
  uint32_t registers[1][32];
  distribute_rows(MatrixLoad::kM8n16Expand4, 1, rows, registers);
  for (uint32_t t = 0; t < 32; ++t) {
    for (uint32_t e = 0; e < 4; ++e) {
      ASSERT_EQ(registers[0][t] >> (8 * e) & 0xffu, 4 * (t % 4) + e);
    }
  }
}

TEST(MoveMatrix, TransposesEightByEight) {
  uint32_t in[32], out[32];
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t row = t / 4, column = 2 * (t % 4);
    in[t] = (row * 8 + column) | (row * 8 + column + 1) << 16;
  }
  transpose_m8n8(in, out);
  for (uint32_t t = 0; t < 32; ++t) {
    const uint32_t row = t / 4, column = 2 * (t % 4);
    EXPECT_EQ(out[t], (column * 8 + row) | ((column + 1) * 8 + row) << 16);
  }
}

TEST(Fragments, AccumulatorPackedIsTheNextAOperand) {
  // Binary16 accumulators of 16 columns are the A fragment of K = 16 without moves.
  for (uint32_t t = 0; t < 32; ++t) {
    for (uint32_t r = 0; r < 4; ++r) {
      for (uint32_t e = 0; e < 2; ++e) {
        const FragmentElement c = accumulator_f16(t, r, e), a = a_fragment(2, t, r, e);
        EXPECT_EQ(c.row, a.row);
        EXPECT_EQ(c.column, a.column);
      }
    }
  }
}

}  // namespace
}  // namespace flamia::emulator::test
