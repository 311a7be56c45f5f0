// Scopes as maps with a list of what to undo at each closing brace.
#include "emulator/ptx/symbols.h"

#include <charconv>

namespace flamia::emulator::ptx {

void SymbolTable::clear() {
  // New maps: clearing one takes time for its largest size so far.
  names_ = {};
  ranges_ = {};
  undo_.assign(1, {});
  depth_ = 0;
  inner_ranges_ = 0;
}

void SymbolTable::open() {
  ++depth_;
  if (undo_.size() <= depth_) undo_.emplace_back();
}

void SymbolTable::close() {
  std::vector<Undo>& undo = undo_[depth_];
  for (auto entry = undo.rbegin(); entry != undo.rend(); ++entry) {
    if (entry->names == &ranges_ && depth_ > 1) --inner_ranges_;
    if (entry->previous.kind == EntityKind::kNone) {
      entry->names->erase(entry->name);
    } else {
      (*entry->names)[entry->name] = entry->previous;
    }
  }
  undo.clear();
  --depth_;
}

void SymbolTable::put(Names& names, std::string_view name, Entity entity) {
  Entity& slot = names[name];
  undo_[entity.depth].push_back({&names, name, slot});
  slot = entity;
}

bool SymbolTable::declare(std::string_view name, Entity entity) {
  const auto found = names_.find(name);
  if (found != names_.end() && found->second.depth == depth_) return false;
  entity.depth = depth_;
  put(names_, name, entity);
  return true;
}

bool SymbolTable::declare_range(std::string_view prefix, ScalarType type, uint32_t count) {
  const auto found = ranges_.find(prefix);
  if (found != ranges_.end() && found->second.depth == depth_) return false;
  put(ranges_, prefix, {EntityKind::kRange, type, depth_, count});
  if (depth_ > 1) ++inner_ranges_;
  return true;
}

const Entity* SymbolTable::range_of(std::string_view name) const {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  constexpr size_t kMostDigits = 10;
  if (name.size() - digits > kMostDigits) digits = name.size() - kMostDigits;
  // The number has no leading zeros, so the prefix may end in zeros: %r0<10> has %r00.
  for (size_t at = digits; at < name.size(); ++at) {
    if (name[at] == '0' && at + 1 < name.size()) continue;
    const auto found = ranges_.find(name.substr(0, at));
    if (found == ranges_.end()) continue;
    uint32_t number = 0;
    const char* const last = name.data() + name.size();
    const auto [end, error] = std::from_chars(name.data() + at, last, number);
    if (error == std::errc() && end == last && number < found->second.index) return &found->second;
  }
  return nullptr;
}

Entity* SymbolTable::find(std::string_view name) {
  auto found = names_.find(name);
  if (found != names_.end() && (inner_ranges_ == 0 || found->second.depth == depth_)) {
    return &found->second;
  }
  const Entity* const range = range_of(name);
  if (range == nullptr || (found != names_.end() && found->second.depth >= range->depth)) {
    return found == names_.end() ? nullptr : &found->second;
  }
  put(names_, name, {EntityKind::kRegister, range->type, range->depth, kNoIndex});
  return &names_.find(name)->second;
}

}  // namespace flamia::emulator::ptx
