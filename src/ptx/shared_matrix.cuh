// Loads and stores of 8x8 matrices of 16-bit elements in shared memory: one function per
// instruction. Lane i gives the address of row i % 8 of matrix i / 8.
// Used by: kernels.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "ptx/shared_address.cuh"

namespace flamia::ptx {

/// Four matrices, transposed: lane i holds of each the rows 2(i % 4) and 2(i % 4) + 1 in column
/// i / 4, the former in the low half.
FLAMIA_DEVICE void load_matrices_transposed(uint32_t (&matrices)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
               : "r"(address)
               : "memory");
}

/// Four matrices: lane i holds of each 32 bits of row i / 4, at byte 4 (i % 4).
FLAMIA_DEVICE void store_matrices(uint32_t address, const uint32_t (&matrices)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               :
               : "r"(address), "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]),
                 "r"(matrices[3])
               : "memory");
}

}  // namespace flamia::ptx
