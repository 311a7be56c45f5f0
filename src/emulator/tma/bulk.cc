// Bulk copies and reductions without a tensor map, and the targets of multicast loads.
// Used by: see copy.h.
#include <cstring>

#include "base/message.h"
#include "emulator/tma/copy.h"
#include "emulator/tma/copy_checks.h"
#include "emulator/tma/reduce.h"

namespace flamia::emulator {
namespace {

Fault check_bulk(uint64_t global_address, uint32_t bytes) {
  if (global_address % kCopyUnit == 0 && bytes % kCopyUnit == 0) return {};
  return make_fault(FaultKind::kMisaligned,
                    concat("bulk copy: address and size must be multiples of 16; got ",
                           hex(global_address), " and ", bytes),
                    global_address);
}

}  // namespace

Fault bulk_load(const GlobalMemory& global, uint64_t from, const SharedSide& to, uint32_t bytes,
                CopyResult* result) {
  Fault fault = check_bulk(from, bytes);
  if (fault.ok()) fault = check_shared(to, bytes, kCopyUnit);
  if (fault.ok()) fault = global.check(from, bytes);
  if (!fault.ok() || bytes == 0) return fault;
  std::memcpy(to.memory->at(to.offset), reinterpret_cast<const void*>(from), bytes);
  to.memory->mark(to.offset, bytes, true);
  for (uint32_t i = 0; i < bytes;) {
    i += static_cast<uint32_t>(global.first_unwritten(from + i, bytes - i));
    if (i >= bytes) break;
    to.memory->mark(to.offset + i, 1, false);
    result->unwritten = true;
    ++i;
  }
  result->completed_bytes = bytes;
  result->global.push_back({from, bytes});
  result->shared.push_back({to.offset, bytes});
  return {};
}

Fault bulk_store(const SharedSide& from, GlobalMemory* global, uint64_t to, uint32_t bytes,
                 uint32_t byte_mask, CopyResult* result) {
  Fault fault = check_bulk(to, bytes);
  if (fault.ok()) fault = check_shared(from, bytes, kCopyUnit);
  if (fault.ok()) fault = global->check(to, bytes);
  if (!fault.ok()) return fault;
  uint8_t* target = reinterpret_cast<uint8_t*>(to);
  for (uint32_t i = 0; i < bytes; ++i) {
    if ((byte_mask >> (i % kCopyUnit) & 1u) == 0) continue;
    target[i] = *from.memory->at(from.offset + i);
    const bool written = from.memory->first_unwritten(from.offset + i, 1) != 0;
    global->mark(to + i, 1, written);
    result->unwritten = result->unwritten || !written;
  }
  result->global.push_back({to, bytes});
  result->shared.push_back({from.offset, bytes});
  return {};
}

Fault bulk_shared(const SharedSide& from, const SharedSide& to, uint32_t bytes,
                  CopyResult* result) {
  Fault fault = check_bulk(0, bytes);
  if (fault.ok()) fault = check_shared(from, bytes, kCopyUnit);
  if (fault.ok()) fault = check_shared(to, bytes, kCopyUnit);
  if (!fault.ok()) return fault;
  for (uint32_t i = 0; i < bytes; ++i) {
    *to.memory->at(to.offset + i) = *from.memory->at(from.offset + i);
    const bool written = from.memory->first_unwritten(from.offset + i, 1) != 0;
    to.memory->mark(to.offset + i, 1, written);
    result->unwritten = result->unwritten || !written;
  }
  result->completed_bytes = bytes;
  result->shared.push_back({to.offset, bytes});
  return {};
}

Fault bulk_prefetch(const GlobalMemory& global, uint64_t from, uint32_t bytes) {
  Fault fault = check_bulk(from, bytes);
  return fault.ok() ? global.check(from, bytes) : fault;
}

Fault bulk_reduce(ReduceOp op, MapType type, const SharedSide& from, GlobalMemory* global,
                  uint64_t to, uint32_t bytes, CopyResult* result) {
  Fault fault = check_bulk(to, bytes);
  if (fault.ok()) fault = check_reduce(op, type);
  if (fault.ok()) fault = check_shared(from, bytes, kCopyUnit);
  if (fault.ok()) fault = global->check(to, bytes);
  if (!fault.ok()) return fault;
  const uint32_t size = map_element_bits(type) / 8;
  for (uint32_t i = 0; i < bytes; i += size) {
    reduce_element(op, type, false, from.memory->at(from.offset + i),
                   reinterpret_cast<uint8_t*>(to) + i);
  }
  result->unwritten = from.memory->first_unwritten(from.offset, bytes) != bytes ||
                      global->first_unwritten(to, bytes) != bytes;
  result->global.push_back({to, bytes});
  result->shared.push_back({from.offset, bytes});
  return {};
}

Fault bulk_reduce_shared(ReduceOp op, MapType type, const SharedSide& from, const SharedSide& to,
                         uint32_t bytes, CopyResult* result) {
  Fault fault = check_bulk(0, bytes);
  if (fault.ok()) fault = check_reduce(op, type);
  const bool integer = type >= MapType::kU32 && type <= MapType::kS64;
  if (fault.ok() && !integer) {
    fault = make_fault(FaultKind::kBadOperand,
                       "reduction: shared memory takes integer reductions only");
  }
  if (fault.ok()) fault = check_shared(from, bytes, kCopyUnit);
  if (fault.ok()) fault = check_shared(to, bytes, kCopyUnit);
  if (!fault.ok()) return fault;
  const uint32_t size = map_element_bits(type) / 8;
  for (uint32_t i = 0; i < bytes; i += size) {
    reduce_element(op, type, false, from.memory->at(from.offset + i), to.memory->at(to.offset + i));
  }
  result->unwritten = from.memory->first_unwritten(from.offset, bytes) != bytes ||
                      to.memory->first_unwritten(to.offset, bytes) != bytes;
  result->completed_bytes = bytes;
  result->shared.push_back({to.offset, bytes});
  return {};
}

Fault multicast_targets(uint32_t mask, uint32_t cluster_size, uint32_t destination_rank,
                        uint32_t barrier_rank, bool pair, std::vector<MulticastTarget>* targets) {
  targets->clear();
  if (mask == 0) {
    const bool same_pair = destination_rank / 2 == barrier_rank / 2;
    if (barrier_rank != destination_rank && (!pair || !same_pair)) {
      return make_fault(
          FaultKind::kBadOperand,
          concat("bulk load: the mbarrier must lie in the destination CTA (rank ", destination_rank,
                 pair ? ") or its pair peer; got rank " : "); got rank ", barrier_rank));
    }
    targets->push_back({destination_rank, barrier_rank});
    return {};
  }
  if (cluster_size < 32 && mask >> cluster_size != 0) {
    return make_fault(FaultKind::kBadOperand,
                      concat("bulk load: multicast mask must name CTAs below ", cluster_size,
                             "; got ", hex(mask)));
  }
  for (uint32_t rank = 0; rank < cluster_size; ++rank) {
    if ((mask >> rank & 1u) == 0) continue;
    targets->push_back({rank, pair ? (rank & ~1u) | (barrier_rank & 1u) : rank});
  }
  return {};
}

}  // namespace flamia::emulator
