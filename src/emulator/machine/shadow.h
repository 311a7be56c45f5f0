// The access history of one memory: finds pairs of accesses that nothing orders.
// Depends on: order_clocks.h. Used by: the interpreter, for shared memory of a cluster (addresses
// rank << 24 | offset), TMEM (tensor_cell_address) and global memory.
// Global memory. Only what the cluster itself has written is followed, in pages: a read of other
// pages costs one look-up, so that a read before the first write of its page is not remembered (the
// other order of the two is a race as well, and some seed takes it). Beyond kMostGlobalPages the
// history starts afresh. Whether the async proxy sees generic writes is not checked there.
// Constant time per 4 bytes accessed. One writer and, in general, one reader are remembered per
// 4 bytes, with the bytes they touched; a write of other bytes of the same word replaces the first,
// so that a race may be missed there, but none is invented.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/machine/order_clocks.h"

namespace flamia::emulator {

enum class HazardKind : uint8_t {
  kRace,               ///< two warps, no barrier between them
  kMissingProxyFence,  ///< generic write, async read, no fence.proxy.async
  kNotComplete,        ///< asynchronous work whose completion was not waited for
  kMissingWaitLoad,    ///< tcgen05.ld without wait::ld
  kMissingWaitStore,   ///< tcgen05.st without wait::st
};

/// One side of a hazard.
struct HazardParty {
  AccessKind kind = AccessKind::kGeneric;
  bool write = false;
  uint16_t warp = 0;
  uint32_t instruction = 0;
};

struct Hazard {
  HazardKind kind = HazardKind::kRace;
  uint64_t address = 0;
  HazardParty first;
  HazardParty second;
};

/// "tcgen05.ld", "bulk copy", "generic", ...
const char* access_kind_name(AccessKind kind);
/// "no barrier between them", ...
const char* hazard_reason(HazardKind kind);
/// "generic write of warp 3 (instruction 120) and bulk read of warp 0 (instruction 140) at 0x410:
/// no fence.proxy.async between them". The interpreter replaces instruction indices by lines.
std::string describe(const Hazard& hazard);

/// Address in the shadow of TMEM of one 32-bit cell.
constexpr uint64_t tensor_cell_address(uint32_t lane, uint32_t column) {
  return (uint64_t{lane} * 512 + column) * 4;
}

class Shadow {
 public:
  enum class Memory : uint8_t { kShared, kTensor, kGlobal };
  /// rules: as given to the OrderClocks whose actors are passed.
  Shadow(Memory memory, OrderRules rules) : memory_(memory), rules_(rules) {}

  /// Records an access of [address, address + bytes); the first unordered pair found, if any.
  /// `domain` tells clusters apart in global memory: accesses of different domains are not compared
  /// (their actors count by different clocks).
  std::optional<Hazard> read(const Actor& actor, uint64_t address, uint64_t bytes,
                             uint32_t domain = 0);
  std::optional<Hazard> write(const Actor& actor, uint64_t address, uint64_t bytes,
                              uint32_t domain = 0);
  /// Drops the history of a range: memory that changed its owner.
  void forget(uint64_t address, uint64_t bytes);
  /// Drops everything.
  void clear();

 private:
  struct Record {
    uint32_t step = 0;
    uint32_t instruction = 0;
    uint16_t strand = 0;
    uint16_t warp = 0;
    AccessKind kind = AccessKind::kGeneric;
    uint8_t mask = 0;  ///< bytes of the word; 0: no access yet
  };
  struct Cell {
    Record writer;
    Record reader;
    uint32_t more_readers = 0;  ///< index into readers_, 0: none
    uint32_t domain = 0;
  };
  static constexpr uint64_t kPageCells = 1024;
  static constexpr size_t kMostGlobalPages = 1024;
  struct Page {
    Cell cells[kPageCells];
  };

  /// What ordered() and needs_fence() look at.
  static bool same_access(const Record& a, const Record& b) {
    return a.step == b.step && a.strand == b.strand && a.kind == b.kind;
  }
  Cell* cell(uint64_t word) {
    return word / kPageCells == last_index_ ? &last_page_->cells[word % kPageCells]
                                            : cell_of_page(word);
  }
  Cell* cell_of_page(uint64_t word);
  bool has_page(uint64_t word);
  bool ordered(const Record& before, const Actor& actor) const;
  bool needs_fence(const Record& before, const Actor& actor) const;
  Hazard hazard(HazardKind kind, uint64_t word, const Record& before, bool before_writes,
                const Actor& actor, bool writes) const;
  void drop_readers(Cell* at);
  template <bool kWrite>
  std::optional<Hazard> access(const Actor& actor, uint64_t address, uint64_t bytes,
                               uint32_t domain);

  Memory memory_;
  OrderRules rules_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  uint64_t last_index_ = ~uint64_t{0};
  Page* last_page_ = nullptr;
  uint64_t missing_index_ = ~uint64_t{0};  ///< a page that does not exist
  std::vector<std::vector<Record>> readers_ = std::vector<std::vector<Record>>(1);
  std::vector<uint32_t> free_readers_;
};

}  // namespace flamia::emulator
