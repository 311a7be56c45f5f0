// Operand elements of the tensor cores as binary32 values, from every form in which memory and
// registers hold them.
// Depends on: numerics (the formats). Used by: mma.h and its tests.
#pragma once

#include <cstdint>

#include "emulator/tensor/descriptors.h"

namespace flamia::emulator {

/// How elements lie in bytes.
enum class Packing : uint8_t {
  kPlain,      ///< one element per 1, 2 or 4 bytes
  kPadded16,   ///< groups of 16 elements of 4 or 6 bits in 16 bytes, payload first
  kContainer,  ///< one element of 4 or 6 bits per byte: bits 5:2 (e2m1) or 5:0
  kNibbles,    ///< two e2m1 per byte, the lower index in the low nibble
};

/// Bits per element as counted along a row of an operand in this packing.
uint32_t storage_bits(ElementFormat format, Packing packing);
/// Exponent of the smallest normal value.
int min_exponent(ElementFormat format);

/// count elements as values; tf32 loses its low 13 bits. negate flips signs (of NaN too, which has
/// no effect on results).
void decode_elements(ElementFormat format, Packing packing, const uint8_t* bytes, uint32_t count,
                     bool negate, float* out);

/// Value of a 6-bit code (bits 5:0).
float decode_e2m3(uint32_t code);
float decode_e3m2(uint32_t code);

}  // namespace flamia::emulator
