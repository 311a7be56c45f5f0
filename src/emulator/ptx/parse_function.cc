// Functions: signatures, launch directives, bodies with nested scopes and labels.
#include <algorithm>
#include <utility>

#include "base/bits.h"
#include "base/message.h"
#include "emulator/ptx/parser_state.h"

namespace flamia::emulator::ptx {
namespace {

constexpr uint32_t kDeepestScope = 256;
constexpr uint64_t kMostParameterBytes = uint64_t{1} << 20;
constexpr uint64_t kMostRegisters = uint64_t{1} << 31;

bool ends_flow(const Instruction& instruction) {
  if (instruction.guard != kNoIndex) return false;
  switch (instruction.opcode) {
    case Opcode::kBra:
    case Opcode::kBrxIdx:
    case Opcode::kRet:
    case Opcode::kExit:
    case Opcode::kTrap:
      return true;
    default:
      return false;
  }
}

/// Gives parameters their offsets; the size of all. Offsets are right if that is not too large.
uint64_t place_parameters(std::vector<Parameter>* parameters) {
  uint64_t top = 0;
  for (Parameter& parameter : *parameters) {
    if (parameter.is_register) continue;
    top = round_up<uint64_t>(top, parameter.alignment);
    parameter.offset = static_cast<uint32_t>(top);
    top += parameter.bytes;
  }
  return top;
}

}  // namespace

void Parser::function(const Qualifiers& qualifiers, bool is_entry) {
  Function function;
  function_ = &function;
  symbols_.clear();
  function.linkage = qualifiers.linkage;
  function.is_entry = is_entry;
  function.line = lexer_.line();
  launch_directives(&function);  // .attribute and .noreturn may come before the name
  if (lexer_.peek().is('(')) function.returns = parameter_list(&function, false);
  const std::string_view name = take_word("name of a function");
  function.name = name;
  if (lexer_.peek().is('(')) function.parameters = parameter_list(&function, false);
  const uint64_t parameter_bytes = place_parameters(&function.parameters);
  const uint64_t return_bytes = place_parameters(&function.returns);
  if (parameter_bytes > kMostParameterBytes || return_bytes > kMostParameterBytes) {
    fail_at(function.line, "parameters", "have at most 2^20 bytes", name);
  }
  function.parameter_bytes = static_cast<uint32_t>(parameter_bytes);
  function.return_bytes = static_cast<uint32_t>(return_bytes);
  launch_directives(&function);
  function.has_body = lexer_.peek().is('{');
  const uint32_t index = register_function(name, function);
  if (function.has_body) {
    declare_parameters(function);
    body();
    module_->functions[index] = std::move(function);
  } else {
    lexer_.expect(';', "declaration of a function");
  }
  function_ = nullptr;
}

/// The index of the function, new or declared before.
uint32_t Parser::register_function(std::string_view name, const Function& function) {
  const auto index = static_cast<uint32_t>(module_->functions.size());
  const Entity entity{EntityKind::kFunction, ScalarType{}, 0, index};
  const auto [known, inserted] = module_names_.try_emplace(name, entity);
  if (inserted) {
    module_->functions.push_back(function);
    return index;
  }
  const bool is_function = known->second.kind == EntityKind::kFunction;
  const bool is_defined =
      is_function && (module_->functions[known->second.index].has_body ||
                      module_->functions[known->second.index].alias_of != kNoIndex);
  if (!is_function || (is_defined && function.has_body)) {
    fail_at(function.line, "function", "be defined once", name);
  }
  return known->second.index;
}

std::vector<Parameter> Parser::parameter_list(Function* function, bool is_prototype) {
  std::vector<Parameter> parameters;
  lexer_.expect('(', "list of parameters");
  while (!lexer_.peek().is(')')) {
    parameters.push_back(parameter(function, is_prototype));
    if (!lexer_.accept(',')) break;
  }
  lexer_.expect(')', "list of parameters");
  return parameters;
}

Parameter Parser::parameter(Function* function, bool is_prototype) {
  Parameter parameter;
  const uint32_t line = lexer_.line();
  while (lexer_.peek().is('.')) {
    const Token dot = lexer_.peek();
    const std::string_view word = lexer_.directive();
    if (word == "reg") {
      parameter.is_register = true;
    } else if (word == "ptr") {
      parameter.is_pointer = true;
    } else if (word == "align") {
      const auto alignment = static_cast<uint32_t>(take_integer(lexer_, ".align", 1, 4096));
      if ((alignment & (alignment - 1)) != 0) {
        fail_at(dot.line, ".align", "be a power of two", concat(alignment));
      }
      // Behind .ptr it is that of what the pointer points to.
      if (!parameter.is_pointer) parameter.alignment = alignment;
    } else if (const std::optional<ScalarType> type = find_type(word)) {
      parameter.type = *type;
    } else if (word != "param" && word != "global" && word != "const" && word != "shared" &&
               word != "local") {
      fail_at(dot.line, concat("directive .", word), "be a part of a parameter",
              lexer_.line_text(dot.text));
    }
  }
  const std::string_view name = take_word("name of a parameter");
  parameter.name = name;
  const uint32_t bits = type_bits(parameter.type);
  uint64_t bytes = bits == 0 ? 8 : bits < 8 ? 1 : bits / 8;
  const auto natural = static_cast<uint32_t>(std::min<uint64_t>(bytes, 16));
  parameter.alignment = std::max(parameter.alignment, natural);
  while (lexer_.accept('[')) {
    const uint64_t count =
        lexer_.peek().is(']') ? 0 : take_integer(lexer_, "size", 0, kMostParameterBytes);
    lexer_.expect(']', "size of a parameter");
    bytes = std::min(bytes * count, kMostParameterBytes + 1);
  }
  if (bytes > kMostParameterBytes || parameter.type == ScalarType{}) {
    fail_at(line, "parameter", "have a type and at most 2^20 bytes", name);
  }
  parameter.bytes = static_cast<uint32_t>(bytes);
  if (parameter.is_register && !is_prototype) {
    if (!symbols_.declare(name, {EntityKind::kRegister, parameter.type, 0, kNoIndex})) {
      fail_at(line, "parameter", "be declared once", name);
    }
    parameter.index = static_cast<uint32_t>(function->registers.size());
    symbols_.find(name)->index = parameter.index;
    function->registers.push_back({std::string(name), parameter.type});
  }
  return parameter;
}

void Parser::declare_parameters(const Function& function) {
  const auto declare = [&](const std::vector<Parameter>& parameters, EntityKind kind) {
    for (uint32_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].is_register || parameters[i].name == "_") continue;
      // The table keeps views; the vector of parameters stays as it is while the body is read.
      if (!symbols_.declare(parameters[i].name, {kind, parameters[i].type, 0, i})) {
        fail_at(function.line, "parameter", "be declared once", parameters[i].name);
      }
    }
  };
  declare(function.parameters, EntityKind::kParameter);
  declare(function.returns, EntityKind::kReturn);
}

void Parser::launch_directives(Function* function) {
  LaunchBounds& bounds = function->bounds;
  while (lexer_.peek().is('.')) {
    const Token dot = lexer_.peek();
    const std::string_view word = lexer_.directive();
    if (word == "maxntid") {
      bounds.max_threads = take_dim3();
    } else if (word == "reqntid") {
      bounds.required_threads = take_dim3();
    } else if (word == "reqnctapercluster") {
      bounds.required_cluster = take_dim3();
    } else if (word == "maxclusterrank") {
      bounds.max_cluster_rank = take_u32(".maxclusterrank");
    } else if (word == "minnctapersm" || word == "maxnctapersm") {
      const uint32_t ctas = take_u32(".minnctapersm");
      if (word == "minnctapersm") bounds.min_ctas_per_sm = ctas;
    } else if (word == "maxnreg") {
      bounds.max_registers = take_u32(".maxnreg");
    } else if (word == "abi_preserve" || word == "abi_preserve_control") {
      take_u32(".abi_preserve");
    } else if (word == "explicitcluster") {
      bounds.explicit_cluster = true;
    } else if (word == "blocksareclusters") {
      bounds.blocks_are_clusters = true;
    } else if (word == "noreturn") {
      function->is_noreturn = true;
    } else if (word == "pragma") {
      pragma_directive(&function->pragmas);
    } else if (word == "attribute") {
      Qualifiers ignored;
      take_attribute(&ignored);
    } else {
      fail_unsupported(dot.line, concat("directive .", word), "be one of a function",
                       lexer_.line_text(dot.text));
    }
  }
}

void Parser::body() {
  location_ = kNoIndex;
  table_edges_ = 0;
  call_parameter_top_ = 0;
  depth_ = 0;
  const uint32_t line = lexer_.line();
  lexer_.expect('{', "signature");
  open_scope();
  while (depth_ > 0) {
    if (lexer_.peek().kind == TokenKind::kEnd) {
      fail_at(line, "function", "end with }", lexer_.peek().text);
    }
    statement();
  }
}

void Parser::statement() {
  const Token& token = lexer_.peek();
  if (token.is(';')) {
    lexer_.next();
  } else if (token.is('{')) {
    lexer_.next();
    open_scope();
  } else if (token.is('}')) {
    if (depth_ == 1) finish_body();
    close_scope();
    lexer_.next();
  } else if (token.is('.')) {
    body_directive({});
  } else if (lexer_.at_label()) {
    label();
  } else {
    instruction();
  }
}

void Parser::open_scope() {
  if (depth_ == kDeepestScope) {
    fail_at(lexer_.line(), "scopes", "nest at most 256 deep", lexer_.peek().text);
  }
  ++depth_;
  if (scopes_.size() <= depth_) scopes_.emplace_back();
  BlockScope& scope = scopes_[depth_];
  if (!scope.labels.empty()) scope.labels = {};
  scope.pending.clear();
  scope.call_parameter_top = call_parameter_top_;
  symbols_.open();
}

void Parser::close_scope() {
  resolve_targets();
  symbols_.close();
  call_parameter_top_ = scopes_[depth_].call_parameter_top;
  --depth_;
}

/// Gives branches of the closing scope their targets; unknown labels may be those of outer scopes.
void Parser::resolve_targets() {
  BlockScope& scope = scopes_[depth_];
  for (const Target& target : scope.pending) {
    const auto found = scope.labels.find(target.name);
    if (found == scope.labels.end()) {
      if (depth_ == 1) fail_at(target.line, "label", "be defined in its function", target.name);
      scopes_[depth_ - 1].pending.push_back(target);
    } else if (target.table == kNoIndex) {
      function_->operands[target.index].index = found->second;
    } else {
      function_->branch_tables[target.table].targets[target.index] = found->second;
    }
  }
  scope.pending.clear();
}

void Parser::finish_body() {
  std::vector<Instruction>& instructions = function_->instructions;
  const bool label_at_end =
      !function_->labels.empty() && function_->labels.back().instruction == instructions.size();
  if (!instructions.empty() && ends_flow(instructions.back()) && !label_at_end) return;
  Instruction& last = instructions.emplace_back();
  last.opcode = Opcode::kRet;
  last.line = lexer_.line();
  last.location = location_;
  last.first_operand = static_cast<uint32_t>(function_->operands.size());
}

void Parser::label() {
  const Token name = lexer_.next();
  lexer_.expect(':', "label");
  if (lexer_.peek().is('.')) {
    body_directive(name);
  } else {
    define_label(name);
  }
}

void Parser::define_label(const Token& name) {
  const auto here = static_cast<uint32_t>(function_->instructions.size());
  if (!scopes_[depth_].labels.try_emplace(name.text, here).second) {
    fail_at(name.line, "label", "be defined once in its scope", name.text);
  }
  function_->labels.push_back({std::string(name.text), here});
}

/// `label` is what stands in front: the name of a table or prototype, or of what follows.
void Parser::body_directive(const Token& label) {
  const Token dot = lexer_.peek();
  std::string_view word = lexer_.directive();
  if (label.kind == TokenKind::kWord) {
    if (word == "branchtargets") return branch_targets(label.text);
    if (word == "calltargets") return call_targets(label.text);
    if (word == "callprototype") return call_prototype(label.text);
    define_label(label);
  }
  if (word == "reg") return register_directive();
  if (word == "loc") return location_directive();
  if (word == "file") return file_directive();
  if (word == "section") return section_directive();
  if (word == "pragma") return pragma_directive(&function_->pragmas);
  const Qualifiers qualifiers = take_qualifiers(&word);
  if (word == "local") return variables(qualifiers, StateSpace::kLocal);
  if (word == "shared") return variables(qualifiers, StateSpace::kShared);
  if (word == "param") return variables(qualifiers, StateSpace::kParam);
  if (word == "global") return variables(qualifiers, StateSpace::kGlobal);
  if (word == "const") return variables(qualifiers, StateSpace::kConst);
  fail_unsupported(dot.line, concat("directive .", word), "be one of a function body",
                   lexer_.line_text(dot.text));
}

void Parser::register_directive() {
  const Token dot = lexer_.peek();
  const std::string_view word = lexer_.directive();
  const std::optional<ScalarType> type = find_type(word);
  if (!type) {
    fail_unsupported(dot.line, concat("register type .", word), "be a scalar type",
                     lexer_.line_text(dot.text));
  }
  do {
    const Token name = lexer_.peek();
    take_word("name of a register");
    bool is_new = false;
    if (lexer_.accept('<')) {
      const uint64_t count = take_integer(lexer_, "number of registers", 0, kMostRegisters);
      lexer_.expect('>', "number of registers");
      is_new = symbols_.declare_range(name.text, *type, static_cast<uint32_t>(count));
    } else {
      is_new = symbols_.declare(name.text, {EntityKind::kRegister, *type, 0, kNoIndex});
    }
    if (!is_new) fail_at(name.line, "register", "be declared once in its scope", name.text);
  } while (lexer_.accept(','));
  lexer_.expect(';', ".reg");
}

// .loc file line column [, function_name name [+ n]] [, inlined_at file line column]
void Parser::location_directive() {
  Location location;
  location.file = take_u32(".loc");
  location.line = take_u32(".loc");
  location.column = take_u32(".loc");
  while (lexer_.accept(',')) {
    const std::string_view word = take_word("part of .loc");
    if (word == "inlined_at") {
      for (int i = 0; i < 3; ++i) take_u32(".loc");
    } else {
      take_word("part of .loc");
      if (lexer_.accept('+')) take_u32(".loc");
    }
  }
  location_ = static_cast<uint32_t>(function_->locations.size());
  function_->locations.push_back(location);
}

void Parser::branch_targets(std::string_view name) {
  const auto table = static_cast<uint32_t>(function_->branch_tables.size());
  BranchTable& targets = function_->branch_tables.emplace_back();
  targets.name = name;
  do {
    const Token target = lexer_.peek();
    const auto index = static_cast<uint32_t>(targets.targets.size());
    scopes_[depth_].pending.push_back({take_word("branch target"), target.line, table, index});
    targets.targets.push_back(kNoIndex);
  } while (lexer_.accept(','));
  lexer_.expect(';', ".branchtargets");
  if (!symbols_.declare(name, {EntityKind::kBranchTable, ScalarType{}, 0, table})) {
    fail_at(lexer_.line(), "label", "be defined once in its scope", name);
  }
}

void Parser::call_targets(std::string_view name) {
  const auto table = static_cast<uint32_t>(function_->call_tables.size());
  BranchTable& targets = function_->call_tables.emplace_back();
  targets.name = name;
  do {
    const Token target = lexer_.next();
    const auto found = module_names_.find(target.text);
    if (found == module_names_.end() || found->second.kind != EntityKind::kFunction) {
      fail_at(target.line, "call target", "be a declared function", target.text);
    }
    targets.targets.push_back(found->second.index);
  } while (lexer_.accept(','));
  lexer_.expect(';', ".calltargets");
  if (!symbols_.declare(name, {EntityKind::kCallTable, ScalarType{}, 0, table})) {
    fail_at(lexer_.line(), "label", "be defined once in its scope", name);
  }
}

void Parser::call_prototype(std::string_view name) {
  Prototype prototype;
  const uint32_t line = lexer_.line();
  prototype.name = name;
  if (lexer_.peek().is('(')) prototype.returns = parameter_list(nullptr, true);
  if (lexer_.peek().kind == TokenKind::kWord) lexer_.next();
  if (lexer_.peek().is('(')) prototype.parameters = parameter_list(nullptr, true);
  Function directives;
  launch_directives(&directives);
  prototype.is_noreturn = directives.is_noreturn;
  lexer_.expect(';', ".callprototype");
  if (place_parameters(&prototype.parameters) > kMostParameterBytes ||
      place_parameters(&prototype.returns) > kMostParameterBytes) {
    fail_at(line, "parameters", "have at most 2^20 bytes", name);
  }
  const auto index = static_cast<uint32_t>(function_->prototypes.size());
  function_->prototypes.push_back(std::move(prototype));
  if (!symbols_.declare(name, {EntityKind::kPrototype, ScalarType{}, 0, index})) {
    fail_at(line, "label", "be defined once in its scope", name);
  }
}

}  // namespace flamia::emulator::ptx
