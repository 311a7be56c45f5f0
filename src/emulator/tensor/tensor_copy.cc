// Rows of 16 or 32 bytes from a descriptor to one, two or four lanes.
// Used by: see tensor_copy.h.
#include "emulator/tensor/tensor_copy.h"

#include <cstring>
#include <vector>

#include "base/message.h"

namespace flamia::emulator {
namespace {

struct Geometry {
  uint32_t rows;
  uint32_t bytes;
  uint32_t copies;
};

Geometry geometry(TensorCopyShape shape) {
  switch (shape) {
    case TensorCopyShape::k128x256b:
      return {128, 32, 1};
    case TensorCopyShape::k4x256b:
      return {4, 32, 1};
    case TensorCopyShape::k128x128b:
      return {128, 16, 1};
    case TensorCopyShape::k64x128bWarpx2_02_13:
    case TensorCopyShape::k64x128bWarpx2_01_23:
      return {64, 16, 2};
    case TensorCopyShape::k32x128bWarpx4:
      return {32, 16, 4};
  }
  return {0, 0, 0};
}

uint32_t lane_of(TensorCopyShape shape, uint32_t row, uint32_t copy) {
  switch (shape) {
    case TensorCopyShape::k4x256b:
      return 32 * row;
    case TensorCopyShape::k64x128bWarpx2_02_13:
      return row + 64 * copy;
    case TensorCopyShape::k64x128bWarpx2_01_23:
      return row % 32 + 64 * (row / 32) + 32 * copy;
    case TensorCopyShape::k32x128bWarpx4:
      return row + 32 * copy;
    case TensorCopyShape::k128x256b:
    case TensorCopyShape::k128x128b:
      break;
  }
  return row;
}

/// 16 packed codes to 16 bytes.
void expand(TensorCopyFormat format, uint8_t* chunk) {
  if (format == TensorCopyFormat::kPlain) return;
  uint8_t packed[17] = {};
  std::memcpy(packed, chunk, 16);
  const uint32_t bits = format == TensorCopyFormat::kB4x16P64 ? 4 : 6;
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t first = i * bits;
    const uint32_t pair = packed[first / 8] | static_cast<uint32_t>(packed[first / 8 + 1]) << 8;
    const uint32_t code = pair >> (first % 8) & ((1u << bits) - 1u);
    chunk[i] = static_cast<uint8_t>(bits == 4 ? code << 2 : code);
  }
}

}  // namespace

Fault tensor_copy(TensorCopyShape shape, TensorCopyFormat format, uint64_t descriptor,
                  uint32_t address, const TensorSide& side, uint32_t side_index,
                  MmaTouches* touches) {
  const Geometry size = geometry(shape);
  const uint32_t column = tensor_column(address);
  const uint32_t columns = size.bytes / 4;
  // Measured for 128x256b only: the others are held to their own width.
  if (column % 4 != 0 || tensor_lane(address) != 0) {
    return make_fault(FaultKind::kMisaligned,
                      concat("tcgen05.cp: address must have lane 0 and a column that is a multiple "
                             "of 4; got ",
                             hex(address)),
                      address);
  }
  Fault fault = side.tensor->check_columns(side.owner, column, columns, "tcgen05.cp");
  if (!fault.ok()) return fault;
  SharedOperand source;
  fault = decode_tcgen05_descriptor(descriptor, false, &source.descriptor);
  if (!fault.ok()) return fault;
  source.element_bits = 8;
  if (format != TensorCopyFormat::kPlain) {
    source.payload_bytes = format == TensorCopyFormat::kB4x16P64 ? 8 : 12;
  }
  std::vector<uint8_t> bytes(size.rows * size.bytes);
  fault = read_operand(*side.shared, source, size.rows, size.bytes, bytes.data(),
                       touches == nullptr ? nullptr : &touches->shared[side_index]);
  if (!fault.ok() && fault.kind != FaultKind::kUninitialized) return fault;
  for (uint32_t row = 0; row < size.rows; ++row) {
    uint8_t* from = bytes.data() + row * size.bytes;
    for (uint32_t at = 0; at < size.bytes; at += 16) expand(format, from + at);
    for (uint32_t copy = 0; copy < size.copies; ++copy) {
      const uint32_t lane = lane_of(shape, row, copy);
      std::memcpy(side.tensor->row(lane) + column, from, size.bytes);
      side.tensor->mark(lane, column, columns, true);
      if (touches != nullptr)
        touches->tensor.push_back({side_index, lane, 1, column, columns, true});
    }
  }
  return fault;
}

}  // namespace flamia::emulator
