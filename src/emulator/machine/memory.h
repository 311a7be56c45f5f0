// The memories of one device and of one thread's view of them: global arena, shared memory of a
// cluster, local, parameter and constant banks, and the generic windows over all of them.
// Depends on: byte_flags.h, fault.h. Used by: the interpreter, the copy and tensor engines.
// No ordering here: shadow.h decides whether an access was allowed at that time.
//
// Addresses. A shared address is `rank << 24 | offset`, as the hardware forms it: the rank of the
// CTA in its cluster above bit 24, the first kSharedReserved bytes of every CTA not the program's.
// Generic addresses of global memory are host addresses; the other windows lie above all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/machine/byte_flags.h"
#include "emulator/machine/fault.h"
#include "flamia/status.h"

namespace flamia::emulator {

enum class Space : uint8_t {
  kGeneric,
  kGlobal,
  kSharedCta,      ///< must lie in the executing CTA
  kSharedCluster,  ///< may lie in any CTA of the cluster
  kLocal,
  kParam,
  kConst,
};

inline constexpr uint64_t kSharedWindow = uint64_t{1} << 48;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << 48;
inline constexpr uint64_t kParamWindow = uint64_t{3} << 48;
inline constexpr uint64_t kConstWindow = uint64_t{4} << 48;
/// Every window is 4 GiB: addresses inside one are 32-bit.
inline constexpr uint64_t kWindowMask = ~((uint64_t{1} << 32) - 1);

inline constexpr uint32_t kSharedRankShift = 24;
inline constexpr uint32_t kSharedOffsetMask = (1u << kSharedRankShift) - 1;
inline constexpr uint32_t kSharedReserved = 1024;
/// Bytes that one CTA may ask for.
inline constexpr uint32_t kSharedMax = 227 * 1024;

/// shared::cluster address of the same offset in the CTA of `rank` (PTX mapa).
constexpr uint32_t map_shared(uint32_t shared_address, uint32_t rank) {
  return (rank << kSharedRankShift) | (shared_address & kSharedOffsetMask);
}
constexpr uint32_t shared_rank(uint32_t shared_address) {
  return shared_address >> kSharedRankShift;
}
constexpr uint32_t shared_offset(uint32_t shared_address) {
  return shared_address & kSharedOffsetMask;
}

/// Device memory: host addresses of one reserved range with gaps between allocations. Freed ranges
/// are not handed out again before the range is used up, so that late uses are seen.
class GlobalMemory {
 public:
  static constexpr uint64_t kAlignment = 256;
  static constexpr uint64_t kGuard = 256;

  /// arena_bytes of address space are reserved, not committed; limit_bytes is what the chip has.
  GlobalMemory(uint64_t arena_bytes, uint64_t limit_bytes);
  ~GlobalMemory();
  GlobalMemory(const GlobalMemory&) = delete;
  GlobalMemory& operator=(const GlobalMemory&) = delete;

  /// A new uninitialized range (its bytes are zero); its name appears in faults. kOutOfMemory
  /// beyond the limit.
  Status allocate(uint64_t bytes, std::string name, uint64_t* address);
  /// Frees a range by its first address.
  Status release(uint64_t address);
  /// Host memory that device code may use, always initialized; removed by release(address).
  Status register_host(void* data, uint64_t bytes, std::string name);

  struct Block {
    uint64_t address = 0;
    uint64_t bytes = 0;
    std::string name;
    bool host = false;
    bool freed = false;
    uint64_t serial = 0;
  };
  /// The live or freed block that holds the address, or null.
  const Block* block_of(uint64_t address) const;
  /// kNone if [address, address + bytes) is live device or registered memory.
  Fault check(uint64_t address, uint64_t bytes) const;
  /// Whether the address lies in the reserved range.
  bool contains(uint64_t address) const { return address - arena_ < arena_bytes_; }
  /// Marks bytes as written (by host copies) or as never written.
  void mark(uint64_t address, uint64_t bytes, bool written);
  /// Offset below `bytes` of the first byte that nothing wrote, or `bytes`; check() must hold.
  uint64_t first_unwritten(uint64_t address, uint64_t bytes) const;

  uint64_t used_bytes() const { return used_; }
  uint64_t limit_bytes() const { return limit_; }
  /// Live device blocks, for the leak report.
  std::vector<Block> live_blocks() const;

 private:
  friend struct LaneAccess;
  bool take_gap(uint64_t need, uint64_t* address);

  uint64_t arena_ = 0;
  uint64_t arena_bytes_ = 0;
  uint64_t limit_ = 0;
  uint64_t used_ = 0;
  uint64_t next_ = 0;
  uint64_t serial_ = 0;
  uint64_t* flag_words_ = nullptr;
  uint64_t flag_bytes_ = 0;
  std::map<uint64_t, Block> blocks_;
  mutable const Block* last_ = nullptr;
};

/// Shared memory of one CTA. Offsets count from the start of the CTA's window; those below
/// kSharedReserved and from kSharedReserved + size on do not exist.
class SharedMemory {
 public:
  explicit SharedMemory(uint32_t bytes);

  uint32_t begin() const { return kSharedReserved; }
  uint32_t end() const { return kSharedReserved + bytes_; }
  bool contains(uint64_t offset, uint64_t bytes) const {
    return offset >= begin() && offset <= end() && bytes <= end() - offset;
  }
  uint8_t* at(uint32_t offset) { return data_.data() + (offset - kSharedReserved); }
  const uint8_t* at(uint32_t offset) const { return data_.data() + (offset - kSharedReserved); }
  void mark(uint32_t offset, uint64_t bytes, bool written) {
    flags_.fill(offset - kSharedReserved, bytes, written);
  }
  uint64_t first_unwritten(uint32_t offset, uint64_t bytes) const {
    return flags_.first_clear(offset - kSharedReserved, bytes);
  }

 private:
  friend struct LaneAccess;
  uint32_t bytes_;
  std::vector<uint8_t> data_;
  std::vector<uint64_t> words_;
  ByteFlags flags_;
};

/// Bytes with flags and 32-bit addresses from 0: local memory of a thread, a parameter or constant
/// bank.
class ByteBank {
 public:
  ByteBank() = default;
  explicit ByteBank(uint32_t bytes, bool written = false) { resize(bytes, written); }
  /// New size; the contents are lost.
  void resize(uint32_t bytes, bool written);

  uint32_t size() const { return static_cast<uint32_t>(data_.size()); }
  uint8_t* data() { return data_.data(); }
  void mark(uint64_t offset, uint64_t bytes, bool written) {
    ByteFlags(words_.data()).fill(offset, bytes, written);
  }
  uint64_t first_unwritten(uint64_t offset, uint64_t bytes) {
    return ByteFlags(words_.data()).first_clear(offset, bytes);
  }

 private:
  friend struct LaneAccess;
  std::vector<uint8_t> data_;
  std::vector<uint64_t> words_;
};

/// What one thread can reach. Pointers are borrowed; null where there is nothing.
struct MemoryView {
  GlobalMemory* global = nullptr;
  SharedMemory* const* cluster = nullptr;  ///< [cluster_size]; null entries: not resident
  uint32_t cluster_size = 0;
  uint32_t rank = 0;  ///< of the executing CTA
  ByteBank* local = nullptr;
  ByteBank* param = nullptr;
  ByteBank* constant = nullptr;
};

/// Where an access lands after the generic windows are resolved.
struct Location {
  Space space = Space::kGlobal;  ///< kSharedCluster for all of shared memory
  uint32_t rank = 0;             ///< of the owning CTA, shared only
  uint64_t address = 0;          ///< host address, or offset in the memory
  uint8_t* data = nullptr;
};

/// Space and address after the generic windows; kGlobal when in none of them.
struct SpacedAddress {
  Space space;
  uint64_t address;
};
SpacedAddress resolve_generic(uint64_t generic);
/// Generic address of an address of a space (PTX cvta); kGeneric and kGlobal are unchanged.
uint64_t to_generic(Space space, uint64_t address);
/// Address in `space` of a generic address (PTX cvta.to); a fault if it lies elsewhere.
Fault from_generic(Space space, uint64_t generic, uint64_t* address);
/// Whether a generic address lies in the space (PTX isspacep).
bool is_space(const MemoryView& view, Space space, uint64_t generic);

/// Finds bytes; faults: out of bounds, misaligned (address % alignment), use after free, wrong
/// space. alignment 1 checks none.
Fault locate(const MemoryView& view, Space space, uint64_t address, uint64_t bytes,
             uint64_t alignment, Location* location);

/// Reads any number of bytes. Fault kUninitialized names the first unwritten byte; the data are
/// still delivered then, so that the caller may go on.
Fault read_bytes(const MemoryView& view, Space space, uint64_t address, uint64_t bytes,
                 uint64_t alignment, void* out);
Fault write_bytes(const MemoryView& view, Space space, uint64_t address, uint64_t bytes,
                  uint64_t alignment, const void* in);

/// One access of a warp: `bytes` (1, 2, 4, 8, 16, 32) per active lane. Register r of lane t is
/// registers[r][t]; accesses below 4 bytes use the low bits of register 0, zero-extended. The first
/// faulting lane is in Fault::lane; lanes before it have been done.
Fault read_lanes(const MemoryView* const views[32], Space space, const uint64_t addresses[32],
                 uint32_t active, uint32_t bytes, uint32_t (*registers)[32]);
Fault write_lanes(const MemoryView* const views[32], Space space, const uint64_t addresses[32],
                  uint32_t active, uint32_t bytes, const uint32_t (*registers)[32]);

}  // namespace flamia::emulator
