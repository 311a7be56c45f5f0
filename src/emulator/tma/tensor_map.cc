// Checks and encoding of tensor maps.
// Used by: see tensor_map.h.
#include "emulator/tma/tensor_map.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "base/bits.h"
#include "base/message.h"

namespace flamia::emulator {
namespace {

constexpr uint32_t kMagic = 0x50414d54u;  // "TMAP"
constexpr uint32_t kSwizzleCount = 7;
constexpr uint64_t kMaxDim = uint64_t{1} << 32;
constexpr uint64_t kMaxStride = uint64_t{1} << 40;

/// The 128 bytes.
struct Encoded {
  uint32_t magic;
  uint8_t type, rank, interleave, swizzle;
  /// Programs that work around old drivers clear a bit of this word; it means nothing here.
  uint64_t loose;
  uint64_t address;
  uint64_t dims[kMapMaxRank];
  uint64_t strides[kMapMaxRank - 1];
  uint16_t box[kMapMaxRank];
  uint8_t element_strides[kMapMaxRank];
  uint8_t l2_promotion, nan_fill;
  uint8_t reserved[11];
  uint32_t check;
};
static_assert(sizeof(Encoded) == kMapBytes);

uint32_t checksum(const Encoded& encoded) {
  uint8_t bytes[kMapBytes];
  std::memcpy(bytes, &encoded, kMapBytes);
  std::memset(bytes + offsetof(Encoded, loose), 0, sizeof encoded.loose);
  uint32_t sum = 2166136261u;
  for (uint32_t i = 0; i + 4 < kMapBytes; ++i) sum = (sum ^ bytes[i]) * 16777619u;
  return sum;
}

constexpr Swizzle kDriverSwizzles[kSwizzleCount] = {Swizzle::kNone,       Swizzle::k32B,
                                                    Swizzle::k64B,        Swizzle::k128B,
                                                    Swizzle::k128BAtom32, Swizzle::k128BAtom32Flip8,
                                                    Swizzle::k128BAtom64};

bool padded_type(MapType type) {
  return type == MapType::kU4Align16 || type == MapType::kU6Align16;
}

bool float_type(MapType type) { return type >= MapType::kF16 && type <= MapType::kTF32Ftz; }

/// The rules; the text of the first that is broken, or nothing.
std::string broken_rule(const TensorMap& map) {
  const auto bad = [](std::string_view name, uint32_t index, std::string_view rule, uint64_t got) {
    return concat(name, "[", index, "] must ", rule, "; got ", got);
  };
  if (map.rank < 1 || map.rank > kMapMaxRank) {
    return refusal("tensorRank", "be 1 to 5", concat(map.rank));
  }
  if (map.interleave != MapInterleave::kNone && map.rank < 3) {
    return refusal("tensorRank", "be at least 3 with interleave", concat(map.rank));
  }
  const bool wide = map.interleave == MapInterleave::k32B || padded_type(map.type);
  const uint64_t alignment = wide ? 32 : 16;
  if (map.address % alignment != 0) {
    return refusal("globalAddress", concat("be a multiple of ", alignment), hex(map.address));
  }
  for (uint32_t i = 0; i < map.rank; ++i) {
    if (map.dims[i] == 0 || map.dims[i] > kMaxDim) {
      return bad("globalDim", i, "be 1 to 2^32", map.dims[i]);
    }
    if (map.box[i] == 0 || map.box[i] > 256) return bad("boxDim", i, "be 1 to 256", map.box[i]);
    const bool ignored = i == 0 && map.interleave == MapInterleave::kNone;
    if (!ignored && (map.element_strides[i] == 0 || map.element_strides[i] > 8)) {
      return bad("elementStrides", i, "be 1 to 8", map.element_strides[i]);
    }
  }
  for (uint32_t i = 0; i + 1 < map.rank; ++i) {
    if (map.strides[i] % alignment != 0) {
      return bad("globalStrides", i, concat("be a multiple of ", alignment), map.strides[i]);
    }
    if (map.strides[i] >= kMaxStride) {
      return bad("globalStrides", i, "be below 2^40", map.strides[i]);
    }
  }
  if (padded_type(map.type)) {
    if (map.dims[0] % 128 != 0) {
      return bad("globalDim", 0, "be a multiple of 128 for this type", map.dims[0]);
    }
    if (map.box[0] != 128) return bad("boxDim", 0, "be 128 for this type", map.box[0]);
  } else if (map.type == MapType::kU4Align8 && map.dims[0] % 2 != 0) {
    return bad("globalDim", 0, "be even for this type", map.dims[0]);
  }
  const uint32_t inner = map_shared_bytes(map.type, map.box[0]);
  if (map.interleave == MapInterleave::kNone) {
    if (inner % 16 != 0) {
      return bad("boxDim", 0, "make a multiple of 16 bytes", map.box[0]);
    }
    if (map.swizzle != Swizzle::kNone && inner > swizzle_span(map.swizzle)) {
      return bad("boxDim", 0,
                 concat("make at most the ", swizzle_span(map.swizzle), " bytes of the swizzle"),
                 map.box[0]);
    }
  } else if (map.interleave == MapInterleave::k32B && map.swizzle != Swizzle::k32B) {
    return "swizzle must be 32B with interleave 32B";
  }
  if (map.type == MapType::kU6Align16 && map.interleave != MapInterleave::kNone) {
    return "interleave must be none for type 16U6_ALIGN16B";
  }
  if (padded_type(map.type)) {
    const bool common = map.swizzle == Swizzle::kNone || map.swizzle == Swizzle::k128B ||
                        map.swizzle == Swizzle::k128BAtom32;
    const bool store_only = map.type == MapType::kU6Align16 && map.swizzle == Swizzle::k128BAtom64;
    if (!common && !store_only) return "swizzle is not one that this padded type allows";
  }
  if (map.nan_fill && !float_type(map.type)) {
    return "oobFill must be none for a type that is not floating";
  }
  if (map.l2_promotion > 3) {
    return refusal("l2Promotion", "be 0 to 3", concat(map.l2_promotion));
  }
  return {};
}

}  // namespace

uint32_t map_element_bits(MapType type) {
  switch (type) {
    case MapType::kU8:
      return 8;
    case MapType::kU16:
    case MapType::kF16:
    case MapType::kBF16:
      return 16;
    case MapType::kU32:
    case MapType::kS32:
    case MapType::kF32:
    case MapType::kF32Ftz:
    case MapType::kTF32:
    case MapType::kTF32Ftz:
      return 32;
    case MapType::kU64:
    case MapType::kS64:
    case MapType::kF64:
      return 64;
    case MapType::kU4Align8:
    case MapType::kU4Align16:
      return 4;
    case MapType::kU6Align16:
      return 6;
  }
  return 8;
}

uint32_t map_shared_bytes(MapType type, uint32_t count) {
  // Padded types: 16 elements in 16 bytes.
  return padded_type(type) ? count : count * map_element_bits(type) / 8;
}

uint32_t map_box_count(const TensorMap& map, uint32_t dimension) {
  if (dimension == 0 && map.interleave == MapInterleave::kNone) return map.box[0];
  return ceil_div(map.box[dimension], map.element_strides[dimension]);
}

uint32_t map_box_bytes(const TensorMap& map) {
  uint32_t rows = 1;
  for (uint32_t i = 1; i < map.rank; ++i) rows *= map_box_count(map, i);
  return rows * map_shared_bytes(map.type, map_box_count(map, 0));
}

uint32_t map_row_pitch(const TensorMap& map) {
  const uint32_t bytes = map_shared_bytes(map.type, map_box_count(map, 0));
  return map.swizzle == Swizzle::kNone ? bytes : larger(bytes, swizzle_span(map.swizzle));
}

Status encode_im2col() {
  return Status(
      StatusCode::kUnsupported,
      "cuTensorMapEncodeIm2col: im2col maps are not modelled (use cuTensorMapEncodeTiled)");
}

Status encode_tiled(const EncodeTiledArguments& arguments, bool blackwell) {
  const auto refuse = [](std::string text) {
    return Status(StatusCode::kInvalidArgument,
                  concat("cuTensorMapEncodeTiled: ", std::move(text)));
  };
  if (arguments.map == nullptr || reinterpret_cast<uint64_t>(arguments.map) % 64 != 0) {
    return refuse(refusal("tensorMap", "be aligned to 64 bytes",
                          hex(reinterpret_cast<uint64_t>(arguments.map))));
  }
  if (arguments.rank < 1 || arguments.rank > kMapMaxRank) {
    return refuse(refusal("tensorRank", "be 1 to 5", concat(arguments.rank)));
  }
  const bool strides_missing = arguments.rank > 1 && arguments.strides == nullptr;
  if (arguments.dims == nullptr || arguments.box == nullptr ||
      arguments.element_strides == nullptr || strides_missing || arguments.address == 0) {
    return refuse(
        "globalAddress, globalDim, globalStrides, boxDim and elementStrides must not be null");
  }
  const uint32_t types = blackwell ? kMapTypeCount : 13;
  const uint32_t swizzles = blackwell ? kSwizzleCount : 4;
  if (arguments.type >= types) {
    return refuse(refusal("tensorDataType", concat("be below ", types), concat(arguments.type)));
  }
  if (arguments.swizzle >= swizzles) {
    return refuse(refusal("swizzle", concat("be below ", swizzles), concat(arguments.swizzle)));
  }
  if (arguments.interleave > 2) {
    return refuse(refusal("interleave", "be 0 to 2", concat(arguments.interleave)));
  }
  if (arguments.oob_fill > 1) {
    return refuse(refusal("oobFill", "be 0 or 1", concat(arguments.oob_fill)));
  }
  TensorMap map;
  map.type = static_cast<MapType>(arguments.type);
  map.rank = arguments.rank;
  map.address = arguments.address;
  map.interleave = static_cast<MapInterleave>(arguments.interleave);
  map.swizzle = kDriverSwizzles[arguments.swizzle];
  map.l2_promotion = arguments.l2_promotion;
  map.nan_fill = arguments.oob_fill == 1;
  for (uint32_t i = 0; i < map.rank; ++i) {
    map.dims[i] = arguments.dims[i];
    map.box[i] = arguments.box[i];
    map.element_strides[i] = arguments.element_strides[i];
    if (i > 0) map.strides[i - 1] = arguments.strides[i - 1];
  }
  std::string rule = broken_rule(map);
  if (!rule.empty()) return refuse(std::move(rule));
  encode_map(map, static_cast<uint8_t*>(arguments.map));
  return {};
}

void encode_map(const TensorMap& map, uint8_t bytes[kMapBytes]) {
  Encoded encoded = {};
  encoded.magic = kMagic;
  encoded.type = static_cast<uint8_t>(map.type);
  encoded.rank = static_cast<uint8_t>(map.rank);
  encoded.interleave = static_cast<uint8_t>(map.interleave);
  encoded.swizzle = static_cast<uint8_t>(map.swizzle);
  encoded.address = map.address;
  for (uint32_t i = 0; i < kMapMaxRank; ++i) {
    encoded.dims[i] = map.dims[i];
    encoded.box[i] = static_cast<uint16_t>(map.box[i]);
    encoded.element_strides[i] = static_cast<uint8_t>(map.element_strides[i]);
    if (i > 0) encoded.strides[i - 1] = map.strides[i - 1];
  }
  encoded.l2_promotion = static_cast<uint8_t>(map.l2_promotion);
  encoded.nan_fill = map.nan_fill ? 1 : 0;
  encoded.check = checksum(encoded);
  std::memcpy(bytes, &encoded, kMapBytes);
}

Fault decode_map(const uint8_t bytes[kMapBytes], TensorMap* map) {
  Encoded encoded;
  std::memcpy(&encoded, bytes, kMapBytes);
  if (encoded.magic != kMagic || encoded.check != checksum(encoded)) {
    return make_fault(FaultKind::kBadOperand,
                      "the 128 bytes are no tensor map of cuTensorMapEncodeTiled");
  }
  const bool in_range = encoded.type < kMapTypeCount && encoded.rank >= 1 &&
                        encoded.rank <= kMapMaxRank && encoded.interleave <= 2 &&
                        encoded.swizzle <= static_cast<uint8_t>(Swizzle::k96B);
  if (!in_range) return make_fault(FaultKind::kBadOperand, "the tensor map is damaged");
  map->type = static_cast<MapType>(encoded.type);
  map->rank = encoded.rank;
  map->address = encoded.address;
  map->interleave = static_cast<MapInterleave>(encoded.interleave);
  map->swizzle = static_cast<Swizzle>(encoded.swizzle);
  map->l2_promotion = encoded.l2_promotion;
  map->nan_fill = encoded.nan_fill != 0;
  for (uint32_t i = 0; i < kMapMaxRank; ++i) {
    map->dims[i] = encoded.dims[i];
    map->box[i] = encoded.box[i];
    map->element_strides[i] = encoded.element_strides[i];
    if (i > 0) map->strides[i - 1] = encoded.strides[i - 1];
  }
  return {};
}

Fault check_map(const TensorMap& map) {
  std::string rule = broken_rule(map);
  if (rule.empty()) return {};
  return make_fault(FaultKind::kBadOperand, concat("tensor map: ", rule));
}

Fault replace_field(uint8_t bytes[kMapBytes], MapField field, uint32_t ordinal, uint64_t value) {
  TensorMap map;
  Fault fault = decode_map(bytes, &map);
  if (!fault.ok()) return fault;
  const auto bad = [](const char* what) {
    return make_fault(FaultKind::kBadOperand, concat("tensormap.replace: ", what));
  };
  const bool by_dimension = field == MapField::kBoxDim || field == MapField::kGlobalDim ||
                            field == MapField::kElementStride;
  if (by_dimension && ordinal >= kMapMaxRank) return bad("ordinal must be below 5");
  if (field == MapField::kGlobalStride && ordinal >= kMapMaxRank - 1) {
    return bad("ordinal must be below 4");
  }
  switch (field) {
    case MapField::kGlobalAddress:
      map.address = value;
      break;
    case MapField::kRank:
      if (value >= kMapMaxRank) return bad("rank (less one) must be below 5");
      map.rank = static_cast<uint32_t>(value) + 1;
      break;
    case MapField::kBoxDim:
      map.box[ordinal] = static_cast<uint32_t>(smaller(value, uint64_t{65535}));
      break;
    case MapField::kGlobalDim:
      map.dims[ordinal] = value;
      break;
    case MapField::kGlobalStride:
      map.strides[ordinal] = value;
      break;
    case MapField::kElementStride:
      map.element_strides[ordinal] = static_cast<uint32_t>(smaller(value, uint64_t{255}));
      break;
    case MapField::kElementType: {
      // The PTX codes permute three of the driver's.
      static constexpr MapType kTypes[kMapTypeCount] = {
          MapType::kU8,      MapType::kU16,      MapType::kU32,       MapType::kS32,
          MapType::kU64,     MapType::kS64,      MapType::kF16,       MapType::kF32,
          MapType::kF32Ftz,  MapType::kF64,      MapType::kBF16,      MapType::kTF32,
          MapType::kTF32Ftz, MapType::kU4Align8, MapType::kU4Align16, MapType::kU6Align16};
      if (value >= kMapTypeCount) return bad("elemtype must be below 16");
      map.type = kTypes[value];
      break;
    }
    case MapField::kInterleave:
      if (value > 2) return bad("interleave_layout must be 0 to 2");
      map.interleave = static_cast<MapInterleave>(value);
      break;
    case MapField::kSwizzleMode: {
      static constexpr Swizzle kModes[] = {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B,
                                           Swizzle::k128B, Swizzle::k96B};
      if (value > 4) return bad("swizzle_mode must be 0 to 4");
      map.swizzle = kModes[value];
      break;
    }
    case MapField::kSwizzleAtomicity: {
      static constexpr Swizzle kAtoms[] = {Swizzle::k128B, Swizzle::k128BAtom32,
                                           Swizzle::k128BAtom32Flip8, Swizzle::k128BAtom64};
      if (value > 3) return bad("swizzle_atomicity must be 0 to 3");
      if (value != 0 && swizzle_span(map.swizzle) != 128) {
        return bad("swizzle_atomicity other than 16B needs the 128B swizzle mode first");
      }
      if (swizzle_span(map.swizzle) == 128) map.swizzle = kAtoms[value];
      break;
    }
    case MapField::kFillMode:
      if (value > 1) return bad("fill_mode must be 0 or 1");
      map.nan_fill = value == 1;
      break;
  }
  encode_map(map, bytes);
  return {};
}

}  // namespace flamia::emulator
