// Tensor maps: what cuTensorMapEncodeTiled accepts, in 128 bytes of an encoding of our own, and the
// changes of tensormap.replace.
// Depends on: flamia/status.h, std. Used by: the runtime half (encode), the interpreter (replace),
// tma/copy.h (decode). The enum values are those of cuda.h.
#pragma once

#include <cstdint>

#include "emulator/machine/fault.h"
#include "emulator/tensor/descriptors.h"
#include "flamia/status.h"

namespace flamia::emulator {

enum class MapType : uint8_t {
  kU8,
  kU16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kF32,
  kF64,
  kBF16,
  kF32Ftz,
  kTF32,
  kTF32Ftz,
  kU4Align8,
  kU4Align16,
  kU6Align16,
};
inline constexpr uint32_t kMapTypeCount = 16;

enum class MapInterleave : uint8_t { kNone, k16B, k32B };

inline constexpr uint32_t kMapMaxRank = 5;
inline constexpr uint32_t kMapBytes = 128;

struct TensorMap {
  MapType type = MapType::kU8;
  uint32_t rank = 1;
  uint64_t address = 0;
  uint64_t dims[kMapMaxRank] = {};
  uint64_t strides[kMapMaxRank - 1] = {};  ///< bytes, of dimensions 1 to rank - 1
  uint32_t box[kMapMaxRank] = {};
  uint32_t element_strides[kMapMaxRank] = {1, 1, 1, 1, 1};
  MapInterleave interleave = MapInterleave::kNone;
  Swizzle swizzle = Swizzle::kNone;
  uint32_t l2_promotion = 0;
  bool nan_fill = false;
};

/// Bits of one element in global memory.
uint32_t map_element_bits(MapType type);
/// Bytes that `count` elements of the innermost dimension occupy in shared memory.
uint32_t map_shared_bytes(MapType type, uint32_t count);
/// Elements of the box along a dimension: ceil(box / element stride).
uint32_t map_box_count(const TensorMap& map, uint32_t dimension);
/// Bytes of a whole box, which a load completes on its mbarrier.
uint32_t map_box_bytes(const TensorMap& map);
/// Bytes from one row of a box to the next in shared memory: those of the row, or the span of the
/// swizzle where the row is narrower (measured on an H200).
uint32_t map_row_pitch(const TensorMap& map);

/// The arguments of cuTensorMapEncodeTiled as plain numbers.
struct EncodeTiledArguments {
  void* map = nullptr;
  uint32_t type = 0;
  uint32_t rank = 0;
  uint64_t address = 0;
  const uint64_t* dims = nullptr;
  const uint64_t* strides = nullptr;
  const uint32_t* box = nullptr;
  const uint32_t* element_strides = nullptr;
  uint32_t interleave = 0;
  uint32_t swizzle = 0;
  uint32_t l2_promotion = 0;
  uint32_t oob_fill = 0;
};

/// Checks everything that the driver documents and writes the map; kInvalidArgument names the rule.
/// blackwell: the chip knows types 13 to 15 and swizzles 4 to 6.
Status encode_tiled(const EncodeTiledArguments& arguments, bool blackwell);
/// cuTensorMapEncodeIm2col and Im2colWide: always kUnsupported.
Status encode_im2col();

/// Reads a map; a fault if the bytes were not made by encode_tiled.
Fault decode_map(const uint8_t bytes[kMapBytes], TensorMap* map);
void encode_map(const TensorMap& map, uint8_t bytes[kMapBytes]);

enum class MapField : uint8_t {
  kGlobalAddress,
  kRank,
  kBoxDim,
  kGlobalDim,
  kGlobalStride,
  kElementStride,
  kElementType,
  kInterleave,
  kSwizzleMode,
  kSwizzleAtomicity,
  kFillMode,
};
/// tensormap.replace: the new value of a field, in PTX's codes (rank less one; element types and
/// swizzles are not the driver's). ordinal: the dimension, where the field has one.
Fault replace_field(uint8_t bytes[kMapBytes], MapField field, uint32_t ordinal, uint64_t value);
/// The rules of encode_tiled for a map that replace may have changed.
Fault check_map(const TensorMap& map);

}  // namespace flamia::emulator
