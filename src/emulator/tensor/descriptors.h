// Shared-memory matrix descriptors of wgmma and tcgen05, and the instruction descriptor of
// tcgen05.mma: decoded, validated, and turned into addresses.
// Depends on: machine/fault.h, machine/memory.h. Used by: mma.h, tensor_copy.h, the interpreter.
// Reserved bits must be zero here although hardware may ignore them.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/machine/fault.h"
#include "emulator/machine/memory.h"

namespace flamia::emulator {

/// Permutations of byte addresses; each moves units of at least 16 bytes, except kFlip8.
enum class Swizzle : uint8_t {
  kNone,
  k32B,
  k64B,
  k128B,
  k128BAtom32,       ///< 32-byte units
  k128BAtom32Flip8,  ///< the same, and 8-byte halves exchanged in every other 128-byte line
  k128BAtom64,       ///< 64-byte units
  k96B,
};

/// Bytes of a row that a swizzle keeps together: 16 for kNone.
uint32_t swizzle_span(Swizzle swizzle);
/// Bytes after which the pattern repeats: the alignment that a buffer should have.
uint32_t swizzle_period(Swizzle swizzle);
/// The address that the element of unswizzled address `address` is kept at.
uint32_t swizzled(Swizzle swizzle, uint32_t address);

struct MatrixDescriptor {
  uint32_t start = 0;    ///< byte offset in the CTA's shared window, 18 bits
  uint32_t leading = 0;  ///< LBO in bytes, or an address if absolute_leading
  uint32_t stride = 0;   ///< SBO in bytes
  Swizzle swizzle = Swizzle::kNone;
  bool absolute_leading = false;
};

Fault decode_wgmma_descriptor(uint64_t bits, MatrixDescriptor* out);
/// allow_absolute: the target is sm_103a and the row is 48 bytes.
Fault decode_tcgen05_descriptor(uint64_t bits, bool allow_absolute, MatrixDescriptor* out);

/// An operand in shared memory, rows x k elements.
struct SharedOperand {
  MatrixDescriptor descriptor;
  bool mn_major = false;
  uint32_t element_bits = 16;   ///< as stored: 4 (two per byte), 8, 16, 32; padded types count 8
  uint32_t payload_bytes = 16;  ///< of each 16 bytes; 8 or 12 for padded 4- and 6-bit types
};

/// Offset of the byte that holds element (row, k); for 4-bit elements of the pair.
uint32_t element_offset(const SharedOperand& operand, uint32_t row, uint32_t k);

/// Copies rows x k elements, row after row with k contiguous, to out [rows][k * element_bits / 8].
/// Faults: out of bounds, misaligned descriptor, unwritten bytes (the data are delivered then).
/// chunks (may be null): offsets of the 16-byte units that were read, for the hazard check.
Fault read_operand(const SharedMemory& shared, const SharedOperand& operand, uint32_t rows,
                   uint32_t k, uint8_t* out, std::vector<uint32_t>* chunks);

enum class TensorKind : uint8_t { kF16, kTf32, kF8f6f4, kMxf8f6f4, kMxf4, kMxf4nvf4, kI8 };

enum class ElementFormat : uint8_t { kF16, kBF16, kTF32, kE4M3, kE5M2, kE2M3, kE3M2, kE2M1 };
enum class ScaleFormat : uint8_t { kNone, kUE8M0, kUE4M3 };

struct InstructionDescriptor {
  TensorKind kind = TensorKind::kF16;
  uint32_t m = 0, n = 0, k = 0;
  ElementFormat a = ElementFormat::kF16;
  ElementFormat b = ElementFormat::kF16;
  bool f16_result = false;
  bool negate_a = false, negate_b = false;
  bool mn_major_a = false, mn_major_b = false;
  ScaleFormat scale_format = ScaleFormat::kNone;
  uint32_t scale_block = 0;  ///< elements of K per scale, 16 or 32; 0 unscaled
  uint32_t sfa_id = 0, sfb_id = 0;
};

/// What the instruction's spelling says besides the descriptor.
struct InstructionForm {
  TensorKind kind = TensorKind::kF16;
  uint32_t cta_group = 1;
  uint32_t scale_block = 0;  ///< of .scale_vec or .block: 16, 32; 0: the kind's default
  bool a_in_tensor_memory = false;
  bool sm103 = false;  ///< allows K = 96
};

/// Decodes and checks an idesc against its form: reserved bits, types, shapes, scale ids. Sparse
/// and integer forms are refused as unsupported.
Fault decode_instruction(uint32_t bits, const InstructionForm& form, InstructionDescriptor* out);

}  // namespace flamia::emulator
