// The copies of the async proxy: tensor tiles (load, store, reduce, gather4, scatter4) and plain
// bulk copies, done at once when the caller decides that they land.
// Depends on: tensor_map.h, machine memories. Used by: the interpreter's copy engine.
// Barriers, groups and order are the caller's: functions return the bytes that a load completes and
// the ranges that were touched. Unwritten bytes are copied as unwritten, not reported: whoever
// reads them is.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/machine/memory.h"
#include "emulator/tma/tensor_map.h"

namespace flamia::emulator {

struct ByteRange {
  uint64_t address;  ///< global address or shared offset
  uint32_t bytes;
};

struct CopyResult {
  uint32_t completed_bytes = 0;  ///< for complete_tx: the whole box, also where out of bounds
  bool unwritten = false;        ///< some source bytes were never written
  std::vector<ByteRange> shared;
  std::vector<ByteRange> global;
};

/// One side of the copies in shared memory.
struct SharedSide {
  SharedMemory* memory = nullptr;
  uint32_t offset = 0;  ///< in the CTA's window
};

enum class ReduceOp : uint8_t { kAdd, kMin, kMax, kInc, kDec, kAnd, kOr, kXor };

/// Tile mode. coordinates: innermost first, in elements, any sign. Faults: alignment of shared
/// memory (128 bytes) and of the innermost coordinate (16 bytes), memory bounds, damaged maps; of
/// stores and reductions, negative coordinates.
Fault tile_load(const TensorMap& map, const int32_t* coordinates, const GlobalMemory& global,
                const SharedSide& to, CopyResult* result);
Fault tile_store(const TensorMap& map, const int32_t* coordinates, GlobalMemory* global,
                 const SharedSide& from, CopyResult* result);
Fault tile_reduce(const TensorMap& map, const int32_t* coordinates, ReduceOp op,
                  GlobalMemory* global, const SharedSide& from, CopyResult* result);
/// Only the checks.
Fault tile_prefetch(const TensorMap& map, const int32_t* coordinates);

/// tile::gather4 and scatter4: coordinates {column, row0, row1, row2, row3} of a 2D map whose box
/// has one row.
Fault tile_gather4(const TensorMap& map, const int32_t coordinates[5], const GlobalMemory& global,
                   const SharedSide& to, CopyResult* result);
Fault tile_scatter4(const TensorMap& map, const int32_t coordinates[5], GlobalMemory* global,
                    const SharedSide& from, CopyResult* result);

// Bulk copies: sizes and both addresses are multiples of 16.
Fault bulk_load(const GlobalMemory& global, uint64_t from, const SharedSide& to, uint32_t bytes,
                CopyResult* result);
/// byte_mask: bit i set copies byte i of every 16 (cp_mask); 0xffff without the qualifier.
Fault bulk_store(const SharedSide& from, GlobalMemory* global, uint64_t to, uint32_t bytes,
                 uint32_t byte_mask, CopyResult* result);
Fault bulk_shared(const SharedSide& from, const SharedSide& to, uint32_t bytes, CopyResult* result);
Fault bulk_prefetch(const GlobalMemory& global, uint64_t from, uint32_t bytes);

/// Types of cp.reduce.async.bulk; no float flushes subnormals, whatever PTX says of f32 (H200).
Fault bulk_reduce(ReduceOp op, MapType type, const SharedSide& from, GlobalMemory* global,
                  uint64_t to, uint32_t bytes, CopyResult* result);
Fault bulk_reduce_shared(ReduceOp op, MapType type, const SharedSide& from, const SharedSide& to,
                         uint32_t bytes, CopyResult* result);

/// Where one destination of a multicast load signals.
struct MulticastTarget {
  uint32_t rank;          ///< CTA that receives the data
  uint32_t barrier_rank;  ///< CTA whose barrier gets the bytes
};
/// Destinations of a load. mask: of cluster ranks, or 0 without multicast (then destination_rank
/// alone). pair: .cta_group::2, where the signal goes to the CTA of the destination's pair whose
/// parity is that of barrier_rank.
Fault multicast_targets(uint32_t mask, uint32_t cluster_size, uint32_t destination_rank,
                        uint32_t barrier_rank, bool pair, std::vector<MulticastTarget>* targets);

}  // namespace flamia::emulator
