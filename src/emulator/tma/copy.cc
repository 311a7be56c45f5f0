// Tiles row by row, in pieces of 16 bytes placed by the swizzle of the absolute address.
// Used by: see copy.h.
#include "emulator/tma/copy.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/bits.h"
#include "base/message.h"
#include "emulator/tma/copy_checks.h"
#include "emulator/tma/reduce.h"
#include "numerics/minifloat.h"

namespace flamia::emulator {
namespace {

constexpr uint32_t kTileAlignment = 128;
constexpr uint32_t kPiece = kCopyUnit;

bool padded_type(MapType type) {
  return type == MapType::kU4Align16 || type == MapType::kU6Align16;
}

/// Payload bytes of every 16 in shared memory.
uint32_t payload(MapType type) {
  if (type == MapType::kU4Align16) return 8;
  return type == MapType::kU6Align16 ? 12 : kPiece;
}

/// 16 out-of-bounds bytes. The NaN is 0x7ff7 in every half word, whatever the type (H200).
void fill_pattern(const TensorMap& map, uint8_t out[kPiece]) {
  for (uint32_t i = 0; i < kPiece; ++i) {
    out[i] = map.nan_fill ? (i % 2 == 0 ? uint8_t{0xf7} : uint8_t{0x7f}) : uint8_t{0};
  }
}

/// What a load makes of a word of the tf32 types: rounded to 10 fraction bits, ties to even, one
/// NaN. An H200 does the same for kTF32Ftz: it flushes nothing.
uint32_t round_tf32(uint32_t bits) {
  constexpr uint32_t kTf32Nan = 0x7fffe000u;
  if (is_nan(bits_float(bits))) return kTf32Nan;
  return (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
}

Fault check_tile(const TensorMap& map, int32_t innermost) {
  Fault fault = check_map(map);
  if (!fault.ok()) return fault;
  if (map.interleave != MapInterleave::kNone) {
    return make_fault(FaultKind::kUnsupported,
                      "tensor copy: interleaved maps are not modelled (PTX does not define their "
                      "box traversal)");
  }
  const int64_t bits = int64_t{innermost} * map_element_bits(map.type);
  const int64_t elements = padded_type(map.type) ? (map.swizzle == Swizzle::k96B ? 64 : 128) : 1;
  const bool aligned = padded_type(map.type) ? innermost % elements == 0 : bits % 128 == 0;
  if (!aligned) {
    return make_fault(FaultKind::kMisaligned,
                      concat("tensor copy: the innermost coordinate must start on ",
                             padded_type(map.type) ? concat(elements, " elements") : "16 bytes",
                             "; got ", innermost));
  }
  return {};
}

/// Bytes of shared memory from the first to the last of `boxes` boxes one after the other.
uint64_t footprint(const TensorMap& map, uint32_t boxes) {
  uint64_t rows = boxes;
  for (uint32_t i = 1; i < map.rank; ++i) rows *= map_box_count(map, i);
  return rows * map_row_pitch(map);
}

/// The rows of a box: calls visit(row index, coordinates of dimensions 1.., all inside).
template <typename Visit>
Fault for_each_row(const TensorMap& map, const int32_t* coordinates, Visit visit) {
  uint32_t counts[kMapMaxRank] = {1, 1, 1, 1, 1};
  uint32_t rows = 1;
  for (uint32_t i = 1; i < map.rank; ++i) {
    counts[i] = map_box_count(map, i);
    rows *= counts[i];
  }
  for (uint32_t row = 0; row < rows; ++row) {
    uint32_t rest = row;
    uint64_t offset = 0;
    bool inside = true;
    for (uint32_t i = 1; i < map.rank; ++i) {
      const int64_t at = coordinates[i] + int64_t{rest % counts[i]} * map.element_strides[i];
      rest /= counts[i];
      inside = inside && at >= 0 && static_cast<uint64_t>(at) < map.dims[i];
      if (inside) offset += static_cast<uint64_t>(at) * map.strides[i - 1];
    }
    Fault fault = visit(row, inside, map.address + offset);
    if (!fault.ok()) return fault;
  }
  return {};
}

/// The part of a row of the box that is inside the tensor: elements [first, last) of the box.
struct Inside {
  uint32_t first;
  uint32_t last;
};

Inside inside_of(const TensorMap& map, int32_t start) {
  const int64_t count = map.box[0];
  const int64_t dim = static_cast<int64_t>(map.dims[0]);
  const int64_t first = std::clamp<int64_t>(-int64_t{start}, 0, count);
  const int64_t last = std::clamp<int64_t>(dim - start, first, count);
  return {static_cast<uint32_t>(first), static_cast<uint32_t>(last)};
}

/// The part of a row that a store or reduction changes: an H200 clips whole units of 16 bytes, so
/// that it writes beyond a row whose end is no multiple of them.
Inside written_part(const TensorMap& map, int32_t start) {
  Inside part = inside_of(map, start);
  if (part.first == part.last || padded_type(map.type)) return part;
  const uint32_t unit = kPiece * 8 / map_element_bits(map.type);
  part.last = std::min((part.last + unit - 1) / unit * unit, map.box[0]);
  return part;
}

/// Moves one row between its pieces in shared memory and a linear buffer. row_offset: of the row in
/// the unswizzled box.
template <typename Move>
void for_each_piece(const TensorMap& map, uint32_t box_start, uint32_t row_offset,
                    uint32_t row_bytes, Move move) {
  const bool halves = map.swizzle == Swizzle::k128BAtom32Flip8;
  const uint32_t step = halves ? 8 : kPiece;
  for (uint32_t at = 0; at < row_bytes; at += step) {
    move(swizzled(map.swizzle, box_start + row_offset + at), at, step);
  }
}

/// Bytes of one row of the box in global memory, and whether all were written.
uint32_t global_bytes(const TensorMap& map, uint32_t elements) {
  return elements * map_element_bits(map.type) / 8;
}

/// Loads one row into `to` (linear, shared form) with the flags of its bytes.
Fault load_row(const TensorMap& map, int32_t start, bool inside, uint64_t address,
               const GlobalMemory& global, std::vector<uint8_t>* data,
               std::vector<uint8_t>* written, CopyResult* result) {
  const uint32_t row_bytes = static_cast<uint32_t>(data->size());
  uint8_t fill[kPiece];
  fill_pattern(map, fill);
  for (uint32_t at = 0; at < row_bytes; ++at) (*data)[at] = fill[at % kPiece];
  const uint32_t useful = payload(map.type);
  for (uint32_t at = 0; at < row_bytes; ++at) (*written)[at] = at % kPiece < useful ? 1 : 0;
  if (!inside) return {};
  const Inside part = inside_of(map, start);
  if (part.first == part.last) return {};
  const int64_t first_bits = (int64_t{start} + part.first) * map_element_bits(map.type);
  const uint64_t from = address + static_cast<uint64_t>(first_bits / 8);
  const uint32_t bytes = global_bytes(map, part.last - part.first);
  Fault fault = global.check(from, bytes);
  if (!fault.ok()) return fault;
  result->global.push_back({from, bytes});
  const uint8_t* source = reinterpret_cast<const uint8_t*>(from);
  const bool holes = global.first_unwritten(from, bytes) != bytes;
  result->unwritten = result->unwritten || holes;
  const uint32_t skip = global_bytes(map, part.first);
  if (useful == kPiece && !holes) {
    std::memcpy(data->data() + skip, source, bytes);
  } else {
    for (uint32_t i = 0; i < bytes; ++i) {
      const uint32_t at = skip + i;
      const uint32_t target = useful == kPiece ? at : at / useful * kPiece + at % useful;
      (*data)[target] = source[i];
      if (holes) (*written)[target] = global.first_unwritten(from + i, 1) != 0 ? 1 : 0;
    }
  }
  if (map.type == MapType::kTF32 || map.type == MapType::kTF32Ftz) {
    for (uint32_t i = 0; i < bytes; i += 4) {
      uint32_t word = 0;
      std::memcpy(&word, data->data() + skip + i, 4);
      word = round_tf32(word);
      std::memcpy(data->data() + skip + i, &word, 4);
    }
  }
  return {};
}

Fault load_rows(const TensorMap& map, const int32_t* coordinates, const GlobalMemory& global,
                const SharedSide& to, uint32_t first_row, CopyResult* result) {
  const uint32_t row_bytes = map_shared_bytes(map.type, map.box[0]);
  const uint32_t pitch = map_row_pitch(map);
  std::vector<uint8_t> data(row_bytes), written(row_bytes);
  return for_each_row(map, coordinates, [&](uint32_t row, bool inside, uint64_t address) -> Fault {
    Fault fault = load_row(map, coordinates[0], inside, address, global, &data, &written, result);
    if (!fault.ok()) return fault;
    Fault bounds;
    for_each_piece(
        map, to.offset, (first_row + row) * pitch, row_bytes,
        [&](uint32_t offset, uint32_t at, uint32_t bytes) {
          if (!to.memory->contains(offset, bytes)) {
            bounds = make_fault(
                FaultKind::kOutOfBounds,
                concat("tensor copy: swizzled shared offset ", hex(offset), " is outside the CTA"),
                offset);
            return;
          }
          std::memcpy(to.memory->at(offset), data.data() + at, bytes);
          result->shared.push_back({offset, bytes});
          const bool all = std::all_of(written.begin() + at, written.begin() + at + bytes,
                                       [](uint8_t flag) { return flag != 0; });
          if (all) {
            to.memory->mark(offset, bytes, true);
            return;
          }
          for (uint32_t i = 0; i < bytes; ++i) {
            to.memory->mark(offset + i, 1, written[at + i] != 0);
          }
        });
    return bounds;
  });
}

/// Stores or reduces the rows of a box; op null: store.
Fault store_rows(const TensorMap& map, const int32_t* coordinates, const ReduceOp* op,
                 GlobalMemory* global, const SharedSide& from, uint32_t first_row,
                 CopyResult* result) {
  const uint32_t row_bytes = map_shared_bytes(map.type, map.box[0]);
  const uint32_t pitch = map_row_pitch(map);
  const uint32_t useful = payload(map.type);
  const Inside part = written_part(map, coordinates[0]);
  std::vector<uint8_t> data(row_bytes), written(row_bytes);
  return for_each_row(map, coordinates, [&](uint32_t row, bool inside, uint64_t address) -> Fault {
    Fault bounds;
    for_each_piece(map, from.offset, (first_row + row) * pitch, row_bytes,
                   [&](uint32_t offset, uint32_t at, uint32_t bytes) {
                     if (!from.memory->contains(offset, bytes)) {
                       bounds = make_fault(FaultKind::kOutOfBounds,
                                           concat("tensor copy: swizzled shared offset ",
                                                  hex(offset), " is outside the CTA"),
                                           offset);
                       return;
                     }
                     std::memcpy(data.data() + at, from.memory->at(offset), bytes);
                     result->shared.push_back({offset, bytes});
                     const bool all = from.memory->first_unwritten(offset, bytes) == bytes;
                     for (uint32_t i = 0; i < bytes; ++i) {
                       const bool one = all || from.memory->first_unwritten(offset + i, 1) != 0;
                       written[at + i] = one ? 1 : 0;
                     }
                   });
    if (!bounds.ok() || !inside || part.first == part.last) return bounds;
    const int64_t first_bits = (int64_t{coordinates[0]} + part.first) * map_element_bits(map.type);
    const uint64_t to = address + static_cast<uint64_t>(first_bits / 8);
    const uint32_t bytes = global_bytes(map, part.last - part.first);
    Fault fault = global->check(to, bytes);
    if (!fault.ok()) return fault;
    result->global.push_back({to, bytes});
    uint8_t* target = reinterpret_cast<uint8_t*>(to);
    const uint32_t skip = global_bytes(map, part.first);
    if (op != nullptr) {
      const bool flush = map.type == MapType::kF32Ftz || map.type == MapType::kTF32Ftz;
      const uint32_t size = map_element_bits(map.type) / 8;
      for (uint32_t i = 0; i < bytes; i += size) {
        reduce_element(*op, map.type, flush, data.data() + skip + i, target + i);
      }
      return {};
    }
    for (uint32_t i = 0; i < bytes; ++i) {
      const uint32_t at = skip + i;
      const uint32_t source = useful == kPiece ? at : at / useful * kPiece + at % useful;
      target[i] = data[source];
      if (written[source] == 0) {
        result->unwritten = true;
        global->mark(to + i, 1, false);
      } else {
        global->mark(to + i, 1, true);
      }
    }
    return {};
  });
}

Fault check_gather(const TensorMap& map) {
  if (map.rank != 2 || map.box[1] != 1) {
    return make_fault(FaultKind::kBadOperand,
                      concat("gather4/scatter4: the map must have rank 2 and a box of one row; got "
                             "rank ",
                             map.rank, ", ", map.box[1], " rows"));
  }
  return {};
}

/// An H200 stops at a store or reduction that begins before the tensor in any dimension.
Fault check_store_start(const TensorMap& map, const int32_t* coordinates) {
  for (uint32_t i = 0; i < map.rank; ++i) {
    if (coordinates[i] >= 0) continue;
    return make_fault(FaultKind::kBadOperand,
                      concat("tensor store: coordinate ", i, " must not be negative; got ",
                             coordinates[i], " (only loads may begin before the tensor)"));
  }
  return {};
}

Fault check_store_type(const TensorMap& map) {
  if (map.type == MapType::kU4Align16) {
    return make_fault(FaultKind::kBadOperand,
                      "tensor store: type 16U4_ALIGN16B can only be loaded");
  }
  return {};
}

}  // namespace

Fault tile_load(const TensorMap& map, const int32_t* coordinates, const GlobalMemory& global,
                const SharedSide& to, CopyResult* result) {
  Fault fault = check_tile(map, coordinates[0]);
  if (!fault.ok()) return fault;
  if (map.swizzle == Swizzle::k128BAtom64 && padded_type(map.type)) {
    return make_fault(FaultKind::kBadOperand, "tensor load: this swizzle is for stores only");
  }
  const uint32_t bytes = map_box_bytes(map);
  fault = check_shared(to, footprint(map, 1), kTileAlignment);
  if (!fault.ok()) return fault;
  result->completed_bytes = bytes;
  return load_rows(map, coordinates, global, to, 0, result);
}

Fault tile_store(const TensorMap& map, const int32_t* coordinates, GlobalMemory* global,
                 const SharedSide& from, CopyResult* result) {
  Fault fault = check_tile(map, coordinates[0]);
  if (fault.ok()) fault = check_store_start(map, coordinates);
  if (fault.ok()) fault = check_store_type(map);
  if (fault.ok()) fault = check_shared(from, footprint(map, 1), kTileAlignment);
  if (!fault.ok()) return fault;
  return store_rows(map, coordinates, nullptr, global, from, 0, result);
}

Fault tile_reduce(const TensorMap& map, const int32_t* coordinates, ReduceOp op,
                  GlobalMemory* global, const SharedSide& from, CopyResult* result) {
  Fault fault = check_tile(map, coordinates[0]);
  if (fault.ok()) fault = check_store_start(map, coordinates);
  if (fault.ok()) fault = check_reduce(op, map.type);
  if (fault.ok()) fault = check_shared(from, footprint(map, 1), kTileAlignment);
  if (!fault.ok()) return fault;
  return store_rows(map, coordinates, &op, global, from, 0, result);
}

Fault tile_prefetch(const TensorMap& map, const int32_t* coordinates) {
  return check_tile(map, coordinates[0]);
}

Fault tile_gather4(const TensorMap& map, const int32_t coordinates[5], const GlobalMemory& global,
                   const SharedSide& to, CopyResult* result) {
  Fault fault = check_tile(map, coordinates[0]);
  if (fault.ok()) fault = check_gather(map);
  const uint32_t bytes = 4 * map_box_bytes(map);
  if (fault.ok()) fault = check_shared(to, footprint(map, 4), kTileAlignment);
  if (!fault.ok()) return fault;
  result->completed_bytes = bytes;
  for (uint32_t row = 0; row < 4 && fault.ok(); ++row) {
    const int32_t at[2] = {coordinates[0], coordinates[1 + row]};
    fault = load_rows(map, at, global, to, row, result);
  }
  return fault;
}

Fault tile_scatter4(const TensorMap& map, const int32_t coordinates[5], GlobalMemory* global,
                    const SharedSide& from, CopyResult* result) {
  Fault fault = check_tile(map, coordinates[0]);
  if (fault.ok()) fault = check_gather(map);
  if (fault.ok()) fault = check_store_type(map);
  if (fault.ok()) fault = check_shared(from, footprint(map, 4), kTileAlignment);
  for (uint32_t row = 0; row < 4 && fault.ok(); ++row) {
    const int32_t at[2] = {coordinates[0], coordinates[1 + row]};
    fault = store_rows(map, at, nullptr, global, from, row, result);
  }
  return fault;
}

}  // namespace flamia::emulator
