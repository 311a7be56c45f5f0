// The comparison of each access with the last ones of its words.
// Used by: see shadow.h.
#include "emulator/machine/shadow.h"

#include <algorithm>

#include "base/message.h"

namespace flamia::emulator {
namespace {

bool is_generic(AccessKind kind) {
  return kind == AccessKind::kGeneric || kind == AccessKind::kStrong;
}

bool is_bulk(AccessKind kind) {
  return kind == AccessKind::kBulk || kind == AccessKind::kBulkReduce;
}

/// Read-modify-writes and their like, which may meet each other.
bool is_atomic(AccessKind kind) {
  return kind == AccessKind::kStrong || kind == AccessKind::kBulkReduce;
}

/// Pairs that PTX documents as pipelined.
bool pipelined(AccessKind first, AccessKind second) {
  if (first == AccessKind::kWgmma) return true;
  if (first == AccessKind::kTensorMma) return second != AccessKind::kTensorCopy;
  if (first == AccessKind::kTensorCopy) return second == AccessKind::kTensorMma;
  return first == AccessKind::kTensorShift;
}

HazardKind kind_of(AccessKind first) {
  if (first == AccessKind::kTensorLoad) return HazardKind::kMissingWaitLoad;
  if (first == AccessKind::kTensorStore) return HazardKind::kMissingWaitStore;
  return is_generic(first) || first == AccessKind::kTensorFree ? HazardKind::kRace
                                                               : HazardKind::kNotComplete;
}

std::string party_text(const HazardParty& party) {
  return concat(access_kind_name(party.kind), party.write ? " write" : " read", " of warp ",
                party.warp, " (instruction ", party.instruction, ")");
}

}  // namespace

const char* access_kind_name(AccessKind kind) {
  switch (kind) {
    case AccessKind::kGeneric:
      return "generic";
    case AccessKind::kStrong:
      return "atomic";
    case AccessKind::kBulk:
      return "bulk copy";
    case AccessKind::kBulkReduce:
      return "bulk reduction";
    case AccessKind::kWgmma:
      return "wgmma";
    case AccessKind::kTensorMma:
      return "tcgen05.mma";
    case AccessKind::kTensorCopy:
      return "tcgen05.cp";
    case AccessKind::kTensorShift:
      return "tcgen05.shift";
    case AccessKind::kTensorLoad:
      return "tcgen05.ld";
    case AccessKind::kTensorStore:
      return "tcgen05.st";
    case AccessKind::kTensorFree:
      return "tcgen05.dealloc";
  }
  return "invalid";
}

const char* hazard_reason(HazardKind kind) {
  switch (kind) {
    case HazardKind::kRace:
      return "no barrier between them";
    case HazardKind::kMissingProxyFence:
      return "no fence.proxy.async between them";
    case HazardKind::kNotComplete:
      return "the completion of the first was not waited for";
    case HazardKind::kMissingWaitLoad:
      return "no tcgen05.wait::ld after the first";
    case HazardKind::kMissingWaitStore:
      return "no tcgen05.wait::st after the first";
  }
  return "invalid";
}

std::string describe(const Hazard& hazard) {
  return concat(party_text(hazard.first), " and ", party_text(hazard.second), " at ",
                hazard.address, ": ", hazard_reason(hazard.kind));
}

Shadow::Cell* Shadow::cell_of_page(uint64_t word) {
  const uint64_t index = word / kPageCells;
  if (index != last_index_) {
    if (memory_ == Memory::kGlobal && pages_.size() == kMostGlobalPages &&
        pages_.find(index) == pages_.end()) {
      clear();
    }
    std::unique_ptr<Page>& page = pages_[index];
    if (page == nullptr) page = std::make_unique<Page>();
    if (index == missing_index_) missing_index_ = ~uint64_t{0};
    last_page_ = page.get();
    last_index_ = index;
  }
  return &last_page_->cells[word % kPageCells];
}

bool Shadow::has_page(uint64_t word) {
  const uint64_t index = word / kPageCells;
  if (index == last_index_) return true;
  if (index == missing_index_) return false;
  if (pages_.find(index) != pages_.end()) return true;
  missing_index_ = index;
  return false;
}

bool Shadow::ordered(const Record& before, const Actor& actor) const {
  if (before.strand == actor.epoch.strand) {
    // One strand is in order with itself; a bulk slot only with the same operation.
    if (is_bulk(before.kind)) {
      if (before.step == actor.epoch.step) return true;
    } else {
      return !rules_.documented_pipeline_only || before.step == actor.epoch.step ||
             is_generic(before.kind) || before.kind >= AccessKind::kTensorLoad ||
             pipelined(before.kind, actor.kind);
    }
  }
  if (before.kind == AccessKind::kStrong && actor.kind == AccessKind::kStrong) return true;
  // Elements of bulk reductions are atomic in global memory; their source is only read.
  if (memory_ == Memory::kGlobal && is_atomic(before.kind) && is_atomic(actor.kind)) return true;
  uint32_t seen = before.strand;
  // A cell of tensor memory belongs to one quarter of an SM, whose warps store and load in order:
  // CUTLASS' attention hands row statistics from warp to warp without wait::st.
  if (before.kind == AccessKind::kTensorStore && actor.kind >= AccessKind::kTensorLoad &&
      before.warp != actor.warp && !rules_.tensor_fences) {
    seen += kStoreIssued;
  }
  return seen < actor.ordered->size() && (*actor.ordered)[seen] >= before.step;
}

/// An ordered generic write that the async proxy may not see yet.
bool Shadow::needs_fence(const Record& before, const Actor& actor) const {
  if (memory_ != Memory::kShared || !is_generic(before.kind) || is_generic(actor.kind))
    return false;
  return before.strand >= actor.fenced->size() || (*actor.fenced)[before.strand] < before.step;
}

Hazard Shadow::hazard(HazardKind kind, uint64_t word, const Record& before, bool before_writes,
                      const Actor& actor, bool writes) const {
  return {kind,
          word * 4,
          {before.kind, before_writes, before.warp, before.instruction},
          {actor.kind, writes, actor.warp, actor.instruction}};
}

void Shadow::drop_readers(Cell* at) {
  at->reader.mask = 0;
  if (at->more_readers == 0) return;
  readers_[at->more_readers].clear();
  free_readers_.push_back(at->more_readers);
  at->more_readers = 0;
}

template <bool kWrite>
std::optional<Hazard> Shadow::access(const Actor& actor, uint64_t address, uint64_t bytes,
                                     uint32_t domain) {
  std::optional<Hazard> found;
  const uint64_t end = address + bytes;
  Record now = {actor.epoch.step, actor.instruction, static_cast<uint16_t>(actor.epoch.strand),
                actor.warp,       actor.kind,        0};
  // Neighbours were mostly written and read by one access, which is compared once. No record has
  // kind 0xff.
  Record safe_writer, safe_reader;
  safe_writer.kind = safe_reader.kind = static_cast<AccessKind>(0xff);
  for (uint64_t word = address / 4; word * 4 < end; ++word) {
    const uint64_t first = std::max(address, word * 4) - word * 4;
    const uint64_t last = std::min(end, word * 4 + 4) - word * 4;
    const uint8_t mask = static_cast<uint8_t>(((1u << (last - first)) - 1u) << first);
    if (!kWrite && memory_ == Memory::kGlobal && !has_page(word)) {
      word = word / kPageCells * kPageCells + kPageCells - 1;
      continue;
    }
    Cell* at = cell(word);
    if (at->domain != domain) {
      drop_readers(at);
      at->writer.mask = 0;
      at->domain = domain;
    }
    now.mask = mask;
    const Record& writer = at->writer;
    if ((writer.mask & mask) != 0 && !same_access(writer, safe_writer) && !found) {
      if (!ordered(writer, actor)) {
        found = hazard(kind_of(writer.kind), word, writer, true, actor, kWrite);
      } else if (!kWrite && needs_fence(writer, actor)) {
        found = hazard(HazardKind::kMissingProxyFence, word, writer, true, actor, kWrite);
      } else {
        safe_writer = writer;
      }
    }
    if constexpr (kWrite) {
      if ((at->reader.mask & mask) != 0 && !same_access(at->reader, safe_reader) && !found) {
        if (ordered(at->reader, actor)) {
          safe_reader = at->reader;
        } else {
          found = hazard(kind_of(at->reader.kind), word, at->reader, false, actor, true);
        }
      }
      if (at->more_readers != 0) {
        for (const Record& reader : readers_[at->more_readers]) {
          if (!found && (reader.mask & mask) != 0 && !ordered(reader, actor)) {
            found = hazard(kind_of(reader.kind), word, reader, false, actor, true);
          }
        }
      }
      drop_readers(at);
      at->writer = now;
    } else {
      const bool replaces =
          at->reader.mask == 0 || at->reader.strand == now.strand || ordered(at->reader, actor);
      if (!replaces) {
        if (at->more_readers == 0) {
          if (free_readers_.empty()) {
            free_readers_.push_back(static_cast<uint32_t>(readers_.size()));
            readers_.emplace_back();
          }
          at->more_readers = free_readers_.back();
          free_readers_.pop_back();
        }
        std::vector<Record>& more = readers_[at->more_readers];
        const auto same = std::find_if(more.begin(), more.end(), [&](const Record& reader) {
          return reader.strand == at->reader.strand;
        });
        if (same == more.end()) {
          more.push_back(at->reader);
        } else {
          *same = at->reader;
        }
      }
      const uint8_t kept = at->reader.strand == now.strand ? at->reader.mask : uint8_t{0};
      at->reader = now;
      at->reader.mask = static_cast<uint8_t>(mask | kept);
    }
  }
  return found;
}

std::optional<Hazard> Shadow::read(const Actor& actor, uint64_t address, uint64_t bytes,
                                   uint32_t domain) {
  return access<false>(actor, address, bytes, domain);
}

std::optional<Hazard> Shadow::write(const Actor& actor, uint64_t address, uint64_t bytes,
                                    uint32_t domain) {
  return access<true>(actor, address, bytes, domain);
}

void Shadow::forget(uint64_t address, uint64_t bytes) {
  if (bytes == 0) return;
  const uint64_t last = (address + bytes - 1) / 4;
  for (uint64_t word = address / 4; word <= last; ++word) {
    if (pages_.find(word / kPageCells) == pages_.end()) {
      word = (word / kPageCells + 1) * kPageCells - 1;
      continue;
    }
    Cell* at = cell(word);
    drop_readers(at);
    at->writer.mask = 0;
  }
}

void Shadow::clear() {
  pages_.clear();
  last_index_ = ~uint64_t{0};
  last_page_ = nullptr;
  missing_index_ = ~uint64_t{0};
  readers_.assign(1, {});
  free_readers_.clear();
}

}  // namespace flamia::emulator
