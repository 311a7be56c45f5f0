// Names in scope while a function is read: registers, variables, parameters, tables.
// Depends on: module.h. Used by: the parser. Names are views of the text, which outlives this.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/module.h"

namespace flamia::emulator::ptx {

enum class EntityKind : uint8_t {
  kNone,
  kRegister,        // index: Function::registers, or kNoIndex before its first use
  kRange,           // %r<count>: index: count
  kVariable,        // index: Function::variables
  kModuleVariable,  // index: Module::variables
  kParameter,
  kReturn,
  kFunction,
  kBranchTable,
  kCallTable,
  kPrototype,
};

struct Entity {
  EntityKind kind = EntityKind::kNone;
  ScalarType type{};
  uint32_t depth = 0;
  uint32_t index = 0;
};

/// Nested scopes; a name of an inner scope hides that of an outer one until the scope closes.
class SymbolTable {
 public:
  SymbolTable() { clear(); }
  void clear();
  void open();
  void close();
  uint32_t depth() const { return depth_; }

  /// False if the innermost scope has this name already.
  bool declare(std::string_view name, Entity entity);
  /// %r<count>: names prefix0 .. prefix(count - 1).
  bool declare_range(std::string_view prefix, ScalarType type, uint32_t count);
  /// The entity of a name; a register of a range is declared at its first use. kNone if unknown.
  Entity* find(std::string_view name);

 private:
  using Names = std::unordered_map<std::string_view, Entity>;
  struct Undo {
    Names* names;
    std::string_view name;
    Entity previous;
  };

  void put(Names& names, std::string_view name, Entity entity);
  const Entity* range_of(std::string_view name) const;

  Names names_;
  Names ranges_;
  std::vector<std::vector<Undo>> undo_;  // by depth; entries above depth_ are empty
  uint32_t depth_ = 0;
  uint32_t inner_ranges_ = 0;  // ranges declared below the outermost scope, still open
};

}  // namespace flamia::emulator::ptx
