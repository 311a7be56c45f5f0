// Bits of the shared-memory matrix descriptors of Hopper's tensor cores.
// Used by: the attention kernels; host-testable. Only what the kernels use: K-major operands whose
// rows are one swizzle span wide, so that the leading offset has no meaning; and 16-bit operands
// whose rows of 128 bytes run along N.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace flamia::ptx {

/// Width of a swizzled row in bytes, as the descriptor counts it.
enum class Swizzle : uint32_t { k128 = 1, k64 = 2, k32 = 3 };

FLAMIA_HD constexpr Swizzle swizzle_of_row(int row_bytes) {
  return row_bytes == 128 ? Swizzle::k128 : row_bytes == 64 ? Swizzle::k64 : Swizzle::k32;
}

/// Upper word of a descriptor of packed rows of row_bytes (32, 64 or 128): eight rows form a group.
FLAMIA_HD constexpr uint32_t wgmma_descriptor_high(int row_bytes) {
  return static_cast<uint32_t>(swizzle_of_row(row_bytes)) << 30 |
         static_cast<uint32_t>(8 * row_bytes) >> 4;
}

/// Lower word: the address in shared memory in units of 16 bytes. A step of 32 bytes along K
/// adds 2.
FLAMIA_HD constexpr uint32_t wgmma_descriptor_low(uint32_t shared_address) {
  return (shared_address & 0x3ffffu) >> 4 | 1u << 16;
}

/// The same of an operand whose rows run along N: eight rows of K form a group, and 64 columns lie
/// `span_stride` bytes from the next 64. A step of 16 along K adds two groups, 128.
FLAMIA_HD constexpr uint32_t wgmma_descriptor_low(uint32_t shared_address, uint32_t span_stride) {
  return (shared_address & 0x3ffffu) >> 4 | span_stride >> 4 << 16;
}

static_assert(wgmma_descriptor_low(1024, 4096) == 0x01000040u);
static_assert(wgmma_descriptor_high(128) == 0x40000040u);
static_assert(wgmma_descriptor_high(32) == 0xc0000010u);

}  // namespace flamia::ptx
