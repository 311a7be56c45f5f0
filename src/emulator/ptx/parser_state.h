// The state and the rules of the PTX parser; one object reads one module.
// Depends on: lexer, constants, symbols, mnemonics. Used by: the parse_*.cc files only.
// Rules are grouped by file: parser.cc the module, parse_function.cc signatures and bodies,
// parse_operand.cc instructions, parse_variable.cc variables and initializers.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/constant.h"
#include "emulator/ptx/lexer.h"
#include "emulator/ptx/mnemonic.h"
#include "emulator/ptx/module.h"
#include "emulator/ptx/symbols.h"

namespace flamia::emulator::ptx {

/// Linking and attribute directives in front of a variable or function.
struct Qualifiers {
  Linkage linkage = Linkage::kInternal;
  bool is_managed = false;
};

/// The part of a variable declaration that its declarators share.
struct VariableHead {
  StateSpace space = StateSpace::kGlobal;
  ScalarType type{};
  uint32_t alignment = 0;  // 0: that of the type
  uint8_t vector = 1;
};

class Parser {
 public:
  Parser(std::string_view text, Module* module);
  void run();

 private:
  // parser.cc
  void module_statement();
  void target_directive();
  void file_directive();
  void section_directive();
  void alias_directive();
  void pragma_directive(std::vector<std::string>* pragmas);
  Qualifiers take_qualifiers(std::string_view* directive);
  void take_attribute(Qualifiers* qualifiers);
  std::string_view take_word(std::string_view what);
  uint32_t take_u32(std::string_view what);
  Dim3 take_dim3();
  void skip_braces();

  // parse_function.cc
  void function(const Qualifiers& qualifiers, bool is_entry);
  std::vector<Parameter> parameter_list(Function* function, bool is_prototype);
  Parameter parameter(Function* function, bool is_prototype);
  void launch_directives(Function* function);
  void declare_parameters(const Function& function);
  uint32_t register_function(std::string_view name, const Function& function);
  void body();
  void statement();
  void open_scope();
  void close_scope();
  void resolve_targets();
  void body_directive(const Token& label);
  void label();
  void define_label(const Token& name);
  void register_directive();
  void location_directive();
  void branch_targets(std::string_view name);
  void call_targets(std::string_view name);
  void call_prototype(std::string_view name);
  void finish_body();

  // parse_operand.cc
  void instruction();
  const Mnemonic& take_mnemonic();
  uint32_t take_guard(bool* negated);
  void operands();
  void call_operands();
  Operand call_list();
  Operand operand();
  Operand simple_operand();
  Operand name_operand();
  Operand special_operand(const Token& name);
  Operand vector_operand();
  Operand address_operand();
  Operand pair_operand(const Operand& first);
  Operand entity_operand(Entity* entity, const Token& name);
  Entity* find(std::string_view name);
  uint32_t register_index(Entity* entity, std::string_view name);
  void offset_of(Operand* operand);
  Operand immediate_operand();
  void close_elements(Operand* operand, size_t base);
  void commit(const Mnemonic& mnemonic, uint32_t line, uint32_t guard, bool guard_negated);
  void check_operands(const Instruction& instruction);

  // parse_variable.cc
  void variables(const Qualifiers& qualifiers, StateSpace space);
  VariableHead variable_head(StateSpace space);
  void declarator(const Qualifiers& qualifiers, const VariableHead& head);
  uint64_t dimensions(const VariableHead& head, std::vector<uint64_t>* row_bytes, bool* is_unsized);
  void initializer(Variable* variable, const std::vector<uint64_t>& row_bytes);
  uint64_t initializer_value(Variable* variable, uint64_t at);
  void initializer_symbol(Variable* variable, uint64_t at, uint64_t mask);
  void initializer_string(Variable* variable, uint64_t at);
  void put_bytes(Variable* variable, uint64_t at, uint64_t bits, uint64_t bytes);
  void place(Variable* variable);
  void add_variable(Variable variable, const Token& name);

  struct Target {
    std::string_view name;
    uint32_t line;
    uint32_t table;  // Function::branch_tables, or kNoIndex for an operand
    uint32_t index;  // of the operand, or in the table
  };
  struct BlockScope {
    std::unordered_map<std::string_view, uint32_t> labels;
    std::vector<Target> pending;
    uint64_t call_parameter_top = 0;
  };

  std::string_view text_;
  Lexer lexer_;
  Module* module_;
  std::unordered_map<std::string_view, Entity> module_names_;
  std::unordered_map<std::string_view, Mnemonic> mnemonics_;
  Mnemonic unstable_mnemonic_;

  // Of the function that is being read.
  Function* function_ = nullptr;
  SymbolTable symbols_;
  std::vector<BlockScope> scopes_;
  uint32_t depth_ = 0;  // open scopes; scopes_ beyond are empty
  uint64_t call_parameter_top_ = 0;
  uint32_t location_ = kNoIndex;
  uint64_t table_edges_ = 0;      // of all brx.idx: what control flow will hold
  Opcode opcode_{};               // of the instruction that is being read
  std::vector<Operand> scratch_;  // operands that do not have their place yet
};

}  // namespace flamia::emulator::ptx
