// Stores of accumulator fragments to shared memory, 8 x 8 matrices of 16-bit elements.
// Used by: epilogues.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace flamia::ptx {

/// Four matrices; lane 8 i + r gives the address of row r of matrix i. Thread t of a matrix holds
/// columns 2 (t % 4) and the next of row t / 4.
FLAMIA_DEVICE void store_matrix_x4(uint32_t row_address, uint32_t a, uint32_t b, uint32_t c,
                                   uint32_t d) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address), "r"(a),
      "r"(b), "r"(c), "r"(d)
      : "memory");
}

}  // namespace flamia::ptx
