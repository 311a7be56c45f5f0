// The memories: allocation, bounds, written flags, windows.
// Depends on: mmap for the reserved range. Used by: see memory.h.
#include "emulator/machine/memory.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "base/message.h"

#if defined(__has_feature)
#define FLAMIA_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define FLAMIA_ADDRESS_SANITIZER 1
#else
#define FLAMIA_ADDRESS_SANITIZER 0
#endif
#if FLAMIA_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace flamia::emulator {
namespace {

/// Where memory of the device is if the host has the place free: the same in every run.
constexpr uintptr_t kUsualPlace = uintptr_t{1} << 45;

/// Tells the address sanitizer, where there is one, which parts of the arena nobody may touch.
void forbid([[maybe_unused]] uint64_t address, [[maybe_unused]] uint64_t bytes,
            [[maybe_unused]] bool forbidden) {
#if FLAMIA_ADDRESS_SANITIZER
  // Of a freed block the beginning will do: its shadow takes memory.
  const uint64_t some = smaller(bytes, uint64_t{1} << 20);
  const void* const data = reinterpret_cast<const void*>(address);
  if (forbidden) {
    __asan_poison_memory_region(data, some);
  } else {
    __asan_unpoison_memory_region(data, some);
  }
#endif
}

/// Address space of zero pages that are committed when touched.
void* reserve(uint64_t bytes) {
  void* data = mmap(reinterpret_cast<void*>(kUsualPlace), bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FLAMIA_CHECK(data != MAP_FAILED, bytes);
  return data;
}

const char* space_name(Space space) {
  switch (space) {
    case Space::kGeneric:
      return "generic";
    case Space::kGlobal:
      return "global";
    case Space::kSharedCta:
      return "shared::cta";
    case Space::kSharedCluster:
      return "shared::cluster";
    case Space::kLocal:
      return "local";
    case Space::kParam:
      return "param";
    case Space::kConst:
      return "const";
  }
  return "invalid";
}

Fault bank_bounds(ByteBank* bank, Space space, uint64_t address, uint64_t bytes) {
  const uint64_t size = bank == nullptr ? 0 : bank->size();
  if (address <= size && bytes <= size - address) return {};
  return make_fault(FaultKind::kOutOfBounds,
                    concat(space_name(space), " address ", hex(address), " + ", bytes,
                           " bytes must lie in the ", size, " bytes that exist"),
                    address);
}

}  // namespace

GlobalMemory::GlobalMemory(uint64_t arena_bytes, uint64_t limit_bytes)
    : arena_bytes_(round_up(arena_bytes, uint64_t{4096})), limit_(limit_bytes) {
  arena_ = reinterpret_cast<uint64_t>(reserve(arena_bytes_));
  flag_bytes_ = arena_bytes_ / 8;
  flag_words_ = static_cast<uint64_t*>(reserve(flag_bytes_));
  next_ = kGuard;
}

GlobalMemory::~GlobalMemory() {
  for (const auto& [address, block] : blocks_) {
    if (block.host) continue;
    forbid(address, block.bytes, false);
    forbid(address + block.bytes, round_up(block.bytes, kAlignment) + kGuard - block.bytes, false);
  }
  munmap(reinterpret_cast<void*>(arena_), arena_bytes_);
  munmap(flag_words_, flag_bytes_);
}

/// Space of freed blocks, oldest first, once the end of the range is reached.
bool GlobalMemory::take_gap(uint64_t need, uint64_t* address) {
  auto best = blocks_.end();
  for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
    if (!it->second.freed || round_up(it->second.bytes, kAlignment) < need) continue;
    if (best == blocks_.end() || it->second.serial < best->second.serial) best = it;
  }
  if (best == blocks_.end()) return false;
  *address = best->first;
  const uint64_t end = best->first + best->second.bytes;
  forbid(end, round_up(end, kAlignment) + kGuard - end, false);
  blocks_.erase(best);
  return true;
}

Status GlobalMemory::allocate(uint64_t bytes, std::string name, uint64_t* address) {
  if (bytes == 0) return Status(StatusCode::kInvalidArgument, "allocate: bytes must be > 0; got 0");
  if (bytes > limit_ - used_) {
    return Status(StatusCode::kOutOfMemory, concat("allocate: bytes must fit the ", limit_ - used_,
                                                   " bytes that are free; got ", bytes));
  }
  last_ = nullptr;
  const uint64_t need = round_up(bytes, kAlignment);
  uint64_t start = arena_ + next_;
  if (need + kGuard <= arena_bytes_ - next_) {
    next_ += need + kGuard;
  } else if (!take_gap(need, &start)) {
    return Status(StatusCode::kOutOfMemory,
                  concat("allocate: bytes must fit the reserved address range; got ", bytes));
  }
  blocks_[start] = Block{start, bytes, std::move(name), false, false, serial_++};
  forbid(start, bytes, false);
  forbid(start + bytes, need + kGuard - bytes, true);
  used_ += bytes;
  *address = start;
  return {};
}

Status GlobalMemory::release(uint64_t address) {
  const auto it = blocks_.find(address);
  if (it == blocks_.end()) {
    return Status(
        StatusCode::kInvalidArgument,
        concat("release: address must be the start of an allocation; got ", hex(address)));
  }
  Block& block = it->second;
  if (block.freed) {
    return Status(StatusCode::kInvalidArgument,
                  concat("release: address must not be freed twice; got ", hex(address), " (",
                         block.name, ")"));
  }
  last_ = nullptr;
  if (block.host) {
    blocks_.erase(it);
    return {};
  }
  mark(address, block.bytes, false);
  // Pages that lie entirely in the block go back to the system.
  const uint64_t first = round_up(address, uint64_t{4096});
  const uint64_t last = (address + block.bytes) & ~uint64_t{4095};
  if (last > first) {
    madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    std::memset(reinterpret_cast<void*>(address), 0, first - address);
    std::memset(reinterpret_cast<void*>(last), 0, address + block.bytes - last);
  } else {
    std::memset(reinterpret_cast<void*>(address), 0, block.bytes);
  }
  forbid(address, block.bytes, true);
  block.freed = true;
  block.serial = serial_++;
  used_ -= block.bytes;
  return {};
}

Status GlobalMemory::register_host(void* data, uint64_t bytes, std::string name) {
  const uint64_t address = reinterpret_cast<uint64_t>(data);
  if (data == nullptr || bytes == 0) {
    return Status(StatusCode::kInvalidArgument, "register_host: range must not be empty");
  }
  const auto next = blocks_.lower_bound(address);
  const bool overlaps_next = next != blocks_.end() && next->first - address < bytes;
  const bool overlaps_last = block_of(address) != nullptr;
  if (contains(address) || overlaps_next || overlaps_last) {
    return Status(StatusCode::kInvalidArgument,
                  concat("register_host: range must not overlap another; got ", hex(address)));
  }
  last_ = nullptr;
  blocks_[address] = Block{address, bytes, std::move(name), true, false, serial_++};
  return {};
}

const GlobalMemory::Block* GlobalMemory::block_of(uint64_t address) const {
  if (last_ != nullptr && address - last_->address < last_->bytes) return last_;
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  --it;
  if (address - it->first >= it->second.bytes) return nullptr;
  last_ = &it->second;
  return last_;
}

Fault GlobalMemory::check(uint64_t address, uint64_t bytes) const {
  const Block* block = block_of(address);
  if (block == nullptr) {
    auto it = blocks_.upper_bound(address);
    std::string near;
    if (it != blocks_.begin()) {
      const Block& before = std::prev(it)->second;
      near = concat("; it lies ", address - before.address - before.bytes,
                    " bytes behind the end of ", before.name, " (", before.bytes, " bytes at ",
                    hex(before.address), before.freed ? ", freed)" : ")");
    }
    return make_fault(
        FaultKind::kOutOfBounds,
        concat("global address ", hex(address), " + ", bytes, " bytes is in no allocation", near),
        address);
  }
  if (block->freed) {
    return make_fault(FaultKind::kUseAfterFree,
                      concat("global address ", hex(address), " + ", bytes, " bytes is in ",
                             block->name, ", which was freed"),
                      address);
  }
  const uint64_t left = block->bytes - (address - block->address);
  if (bytes > left) {
    return make_fault(FaultKind::kOutOfBounds,
                      concat("global address ", hex(address), " + ", bytes,
                             " bytes passes the end of ", block->name, " (", block->bytes,
                             " bytes at ", hex(block->address), ") by ", bytes - left),
                      address);
  }
  return {};
}

void GlobalMemory::mark(uint64_t address, uint64_t bytes, bool written) {
  if (contains(address)) ByteFlags(flag_words_).fill(address - arena_, bytes, written);
}

uint64_t GlobalMemory::first_unwritten(uint64_t address, uint64_t bytes) const {
  if (!contains(address)) return bytes;
  return ByteFlags(flag_words_).first_clear(address - arena_, bytes);
}

std::vector<GlobalMemory::Block> GlobalMemory::live_blocks() const {
  std::vector<Block> live;
  for (const auto& [address, block] : blocks_) {
    if (!block.freed && !block.host) live.push_back(block);
  }
  return live;
}

SharedMemory::SharedMemory(uint32_t bytes)
    : bytes_(bytes), data_(bytes), words_(ceil_div(bytes, 64u) + 1), flags_(words_.data()) {
  FLAMIA_CHECK(bytes <= kSharedMax, bytes);
}

void ByteBank::resize(uint32_t bytes, bool written) {
  data_.assign(bytes, 0);
  words_.assign(ceil_div(bytes, 64u) + 1, 0);
  if (written) mark(0, bytes, true);
}

SpacedAddress resolve_generic(uint64_t generic) {
  const uint64_t window = generic & kWindowMask;
  const uint64_t inside = generic & ~kWindowMask;
  if (window == kSharedWindow) return {Space::kSharedCluster, inside};
  if (window == kLocalWindow) return {Space::kLocal, inside};
  if (window == kParamWindow) return {Space::kParam, inside};
  if (window == kConstWindow) return {Space::kConst, inside};
  return {Space::kGlobal, generic};
}

uint64_t to_generic(Space space, uint64_t address) {
  switch (space) {
    case Space::kSharedCta:
    case Space::kSharedCluster:
      return kSharedWindow + (address & ~kWindowMask);
    case Space::kLocal:
      return kLocalWindow + (address & ~kWindowMask);
    case Space::kParam:
      return kParamWindow + (address & ~kWindowMask);
    case Space::kConst:
      return kConstWindow + (address & ~kWindowMask);
    case Space::kGeneric:
    case Space::kGlobal:
      break;
  }
  return address;
}

Fault from_generic(Space space, uint64_t generic, uint64_t* address) {
  const SpacedAddress at = resolve_generic(generic);
  *address = at.address;
  const bool shared = space == Space::kSharedCta || space == Space::kSharedCluster;
  if (space == Space::kGeneric || at.space == space ||
      (shared && at.space == Space::kSharedCluster)) {
    return {};
  }
  return make_fault(FaultKind::kWrongSpace,
                    concat("generic address ", hex(generic), " must lie in the ", space_name(space),
                           " window; got ", space_name(at.space)),
                    generic);
}

bool is_space(const MemoryView& view, Space space, uint64_t generic) {
  const SpacedAddress at = resolve_generic(generic);
  if (space == Space::kSharedCta) {
    return at.space == Space::kSharedCluster &&
           shared_rank(static_cast<uint32_t>(at.address)) == view.rank;
  }
  return at.space == space;
}

Fault locate(const MemoryView& view, Space space, uint64_t address, uint64_t bytes,
             uint64_t alignment, Location* location) {
  if (address % alignment != 0) {
    return make_fault(FaultKind::kMisaligned,
                      concat(space_name(space), " address must be a multiple of ", alignment,
                             "; got ", hex(address)),
                      address);
  }
  const Space asked = space;
  uint64_t at = address;
  if (space == Space::kGeneric) {
    const SpacedAddress resolved = resolve_generic(address);
    space = resolved.space;
    at = resolved.address;
  }
  switch (space) {
    case Space::kGlobal: {
      // A window address used as global memory is a pointer of another space.
      const Space real = resolve_generic(at).space;
      if (real != Space::kGlobal) {
        return make_fault(FaultKind::kWrongSpace,
                          concat("global address must not lie in the ", space_name(real),
                                 " window; got ", hex(at)),
                          address);
      }
      Fault fault = view.global == nullptr ? make_fault(FaultKind::kOutOfBounds, "no global memory")
                                           : view.global->check(at, bytes);
      if (!fault.ok()) return fault;
      *location = {Space::kGlobal, 0, at, reinterpret_cast<uint8_t*>(at)};
      return {};
    }
    case Space::kSharedCta:
    case Space::kSharedCluster: {
      const uint64_t rank = at >> kSharedRankShift;
      const uint32_t offset = static_cast<uint32_t>(at) & kSharedOffsetMask;
      if (asked == Space::kSharedCta && rank != view.rank) {
        return make_fault(FaultKind::kWrongSpace,
                          concat("shared::cta address must lie in the executing CTA (rank ",
                                 view.rank, "); got ", hex(at), " of rank ", rank),
                          address);
      }
      if (rank >= view.cluster_size) {
        return make_fault(FaultKind::kWrongSpace,
                          concat("shared address ", hex(at), " must name a CTA rank below ",
                                 view.cluster_size, "; got ", rank),
                          address);
      }
      SharedMemory* shared = view.cluster[rank];
      if (shared == nullptr) {
        return make_fault(FaultKind::kUseAfterFree,
                          concat("shared address ", hex(at), ": CTA ", rank,
                                 " of the cluster has not started or has exited"),
                          address);
      }
      if (!shared->contains(offset, bytes)) {
        return make_fault(
            FaultKind::kOutOfBounds,
            concat("shared address ", hex(at), " + ", bytes, " bytes must lie in offsets ",
                   hex(shared->begin()), " to ", hex(shared->end()), " of CTA ", rank),
            address);
      }
      *location = {Space::kSharedCluster, static_cast<uint32_t>(rank), offset, shared->at(offset)};
      return {};
    }
    case Space::kLocal:
    case Space::kParam:
    case Space::kConst: {
      ByteBank* bank = space == Space::kLocal
                           ? view.local
                           : (space == Space::kParam ? view.param : view.constant);
      Fault fault = bank_bounds(bank, space, at, bytes);
      if (!fault.ok()) return fault;
      *location = {space, 0, at, bank->data() + at};
      return {};
    }
    case Space::kGeneric:
      break;
  }
  FLAMIA_UNREACHABLE("space ", static_cast<int>(space));
}

namespace {

uint64_t first_unwritten(const MemoryView& view, const Location& at, uint64_t bytes) {
  switch (at.space) {
    case Space::kGlobal:
      return view.global->first_unwritten(at.address, bytes);
    case Space::kSharedCta:
    case Space::kSharedCluster:
      return view.cluster[at.rank]->first_unwritten(static_cast<uint32_t>(at.address), bytes);
    case Space::kLocal:
      return view.local->first_unwritten(at.address, bytes);
    case Space::kParam:
      return view.param->first_unwritten(at.address, bytes);
    case Space::kConst:
      return view.constant->first_unwritten(at.address, bytes);
    case Space::kGeneric:
      break;
  }
  return bytes;
}

void mark_written(const MemoryView& view, const Location& at, uint64_t bytes) {
  if (at.space == Space::kGlobal) {
    view.global->mark(at.address, bytes, true);
  } else if (at.space == Space::kSharedCluster) {
    view.cluster[at.rank]->mark(static_cast<uint32_t>(at.address), bytes, true);
  } else if (at.space == Space::kLocal) {
    view.local->mark(at.address, bytes, true);
  }
}

}  // namespace

Fault read_bytes(const MemoryView& view, Space space, uint64_t address, uint64_t bytes,
                 uint64_t alignment, void* out) {
  Location at;
  Fault fault = locate(view, space, address, bytes, alignment, &at);
  if (!fault.ok()) return fault;
  std::memcpy(out, at.data, bytes);
  const uint64_t hole = first_unwritten(view, at, bytes);
  if (hole == bytes) return {};
  return make_fault(FaultKind::kUninitialized,
                    concat("read of ", bytes, " bytes at ", space_name(at.space), " address ",
                           hex(address), ": byte ", hole, " was never written"),
                    address);
}

Fault write_bytes(const MemoryView& view, Space space, uint64_t address, uint64_t bytes,
                  uint64_t alignment, const void* in) {
  Location at;
  Fault fault = locate(view, space, address, bytes, alignment, &at);
  if (!fault.ok()) return fault;
  if (at.space == Space::kParam || at.space == Space::kConst) {
    return make_fault(FaultKind::kReadOnly,
                      concat("write to ", space_name(at.space), " address ", hex(address)),
                      address);
  }
  std::memcpy(at.data, in, bytes);
  mark_written(view, at, bytes);
  return {};
}

}  // namespace flamia::emulator
