// Instructions: guard, mnemonic, operands.
#include <charconv>
#include <utility>

#include "base/message.h"
#include "emulator/ptx/parser_state.h"

namespace flamia::emulator::ptx {
namespace {

constexpr size_t kMostOperands = 64;
constexpr size_t kMostElements = 4096;
constexpr uint64_t kMostTableEdges = uint64_t{1} << 20;

Operand register_operand(uint32_t index) {
  Operand operand;
  operand.kind = OperandKind::kRegister;
  operand.index = index;
  return operand;
}

Operand indexed(OperandKind kind, uint32_t index) {
  Operand operand;
  operand.kind = kind;
  operand.index = index;
  return operand;
}

Operand symbol(Scope scope, uint32_t index) {
  Operand operand = indexed(OperandKind::kSymbol, index);
  operand.scope = scope;
  return operand;
}

bool names_label(Opcode opcode) { return opcode == Opcode::kBra; }

}  // namespace

void Parser::instruction() {
  const Token start = lexer_.peek();
  bool guard_negated = false;
  const uint32_t guard = start.is('@') ? take_guard(&guard_negated) : kNoIndex;
  const Mnemonic& mnemonic = take_mnemonic();
  opcode_ = mnemonic.opcode;
  scratch_.clear();
  if (opcode_ == Opcode::kCall) {
    call_operands();
  } else {
    operands();
  }
  lexer_.expect(';', opcode_text(opcode_));
  commit(mnemonic, start.line, guard, guard_negated);
}

uint32_t Parser::take_guard(bool* negated) {
  lexer_.expect('@', "guard");
  *negated = lexer_.accept('!');
  const Token name = lexer_.peek();
  const Operand guard = name_operand();
  if (guard.kind != OperandKind::kRegister ||
      function_->registers[guard.index].type != ScalarType::kPred) {
    fail_at(name.line, "guard", "be a predicate register", name.text);
  }
  return guard.index;
}

const Mnemonic& Parser::take_mnemonic() {
  const Token first = lexer_.peek();
  if (first.kind != TokenKind::kWord) {
    fail_at(first.line, "statement", "start with an instruction, a label or a directive",
            lexer_.line_text(first.text));
  }
  bool stable = false;
  const std::string_view text = lexer_.mnemonic(&stable);
  if (stable) {
    const auto known = mnemonics_.find(text);
    if (known != mnemonics_.end()) return known->second;
  }
  std::string_view wrong;
  switch (decode_mnemonic(text, &unstable_mnemonic_, &wrong)) {
    case MnemonicError::kNone:
      break;
    case MnemonicError::kOpcode:
      fail_unsupported(first.line, concat("instruction ", wrong), "be one of PTX",
                       lexer_.line_text(first.text));
    case MnemonicError::kModifier:
      fail_unsupported(first.line, concat("modifier .", wrong), "be one of PTX",
                       lexer_.line_text(first.text));
    case MnemonicError::kTooMany:
      fail_at(first.line, "instruction", "have at most 7 types and 12 modifiers",
              lexer_.line_text(first.text));
  }
  return stable ? (mnemonics_[text] = unstable_mnemonic_) : unstable_mnemonic_;
}

void Parser::operands() {
  if (lexer_.peek().is(';')) return;
  do {
    const Operand next = operand();
    scratch_.push_back(next);
    if (scratch_.size() > kMostOperands) {
      fail_at(lexer_.line(), "instruction", "have at most 64 operands", opcode_text(opcode_));
    }
  } while (lexer_.accept(','));
}

// call (returns), target, (arguments), prototype; every part but the target may be missing.
void Parser::call_operands() {
  Operand returns = indexed(OperandKind::kList, kNoIndex);
  if (lexer_.peek().is('(')) {
    returns = call_list();
    lexer_.expect(',', "list of return values");
  }
  const Token name = lexer_.peek();
  const Operand target = name_operand();
  if (target.kind != OperandKind::kFunction && target.kind != OperandKind::kRegister) {
    fail_at(name.line, "target of call", "be a function or a register", name.text);
  }
  Operand arguments = indexed(OperandKind::kList, kNoIndex);
  Operand table;
  bool has_table = false;
  if (lexer_.accept(',')) {
    const bool is_list = lexer_.peek().is('(');
    if (is_list) arguments = call_list();
    if (!is_list || lexer_.accept(',')) {
      table = name_operand();
      has_table = true;
    }
  }
  scratch_.insert(scratch_.end(), {returns, target, arguments});
  if (has_table) scratch_.push_back(table);
}

Operand Parser::call_list() {
  lexer_.expect('(', "call");
  Operand list = indexed(OperandKind::kList, kNoIndex);
  const size_t base = scratch_.size();
  while (!lexer_.peek().is(')')) {
    const Token start = lexer_.peek();
    const Operand next = simple_operand();
    if (next.kind == OperandKind::kSymbol && next.scope != Scope::kFunction) {
      fail_at(start.line, "argument of a call", "be a .param variable, a register or a constant",
              start.text);
    }
    scratch_.push_back(next);
    if (!lexer_.accept(',')) break;
  }
  lexer_.expect(')', "list of a call");
  close_elements(&list, base);
  return list;
}

Operand Parser::operand() {
  const Token& token = lexer_.peek();
  if (token.is('{')) return vector_operand();
  if (token.is('[')) return address_operand();
  if (names_label(opcode_)) {
    Operand target = indexed(OperandKind::kLabel, kNoIndex);
    const Token name = lexer_.peek();
    const auto place = static_cast<uint32_t>(function_->operands.size() + scratch_.size());
    scopes_[depth_].pending.push_back({take_word("branch target"), name.line, kNoIndex, place});
    return target;
  }
  return simple_operand();
}

/// A register, sink, immediate, symbol, special register, pair or negated predicate.
Operand Parser::simple_operand() {
  const Token token = lexer_.peek();
  if (token.is('!')) {
    lexer_.next();
    Operand inner = name_operand();
    if (inner.kind != OperandKind::kRegister) {
      fail_at(token.line, "operand of !", "be a predicate register", lexer_.line_text(token.text));
    }
    inner.negated = true;
    return inner;
  }
  if (token.kind == TokenKind::kWord && token.text != "WARP_SZ") {
    const Operand first = name_operand();
    const bool may_pair = first.kind == OperandKind::kRegister || first.kind == OperandKind::kSink;
    return may_pair && lexer_.peek().is('|') ? pair_operand(first) : first;
  }
  if (at_constant(lexer_)) return immediate_operand();
  fail_at(token.line, "operand", "be a register, a constant, a name, an address or a vector",
          lexer_.line_text(token.text));
}

Operand Parser::immediate_operand() {
  const Constant constant = take_constant(lexer_);
  Operand operand;
  operand.kind = OperandKind::kImmediate;
  operand.literal = constant.literal;
  operand.value = constant.value;
  return operand;
}

Operand Parser::pair_operand(const Operand& first) {
  lexer_.expect('|', "first of a pair");
  Operand pair;
  pair.kind = OperandKind::kPair;
  const size_t base = scratch_.size();
  const Operand second = name_operand();
  if (second.kind != OperandKind::kRegister && second.kind != OperandKind::kSink) {
    fail_at(lexer_.line(), "second of a pair", "be a register or _", lexer_.peek().text);
  }
  scratch_.push_back(first);
  scratch_.push_back(second);
  close_elements(&pair, base);
  return pair;
}

Operand Parser::name_operand() {
  const Token name = lexer_.peek();
  if (name.kind != TokenKind::kWord) {
    fail_at(name.line, "operand", "be a name", lexer_.line_text(name.text));
  }
  lexer_.next();
  if (name.text == "_") return {};
  Entity* const entity = find(name.text);
  if (entity != nullptr) return entity_operand(entity, name);
  if (name.text.front() == '%') return special_operand(name);
  fail_at(name.line, "name", "be declared before its use", name.text);
}

Operand Parser::special_operand(const Token& name) {
  std::string_view text = name.text.substr(1);
  Operand operand;
  const size_t digits = text.find_first_of("0123456789");
  const std::string_view stem = text.substr(0, digits);
  if (digits != std::string_view::npos && (stem == "envreg" || stem == "pm")) {
    const auto [end, error] =
        std::from_chars(text.data() + digits, text.data() + text.size(), operand.component);
    if (error == std::errc() && end == text.data() + text.size()) text = stem;
  }
  const std::optional<SpecialRegister> special = find_special(text);
  if (!special) fail_at(name.line, "register", "be declared or special", name.text);
  operand.kind = OperandKind::kSpecial;
  operand.special = *special;
  if (lexer_.peek().is('.')) {
    const std::string_view component = lexer_.directive();
    const size_t at = std::string_view("xyzw").find(component);
    if (component.size() != 1 || at == std::string_view::npos) {
      fail_at(name.line, "component of a special register", "be x, y, z or w", component);
    }
    operand.component = static_cast<uint8_t>(at);
  }
  return operand;
}

Entity* Parser::find(std::string_view name) {
  if (Entity* const local = symbols_.find(name)) return local;
  const auto found = module_names_.find(name);
  return found == module_names_.end() ? nullptr : &found->second;
}

uint32_t Parser::register_index(Entity* entity, std::string_view name) {
  if (entity->index == kNoIndex) {
    entity->index = static_cast<uint32_t>(function_->registers.size());
    function_->registers.push_back({std::string(name), entity->type});
  }
  return entity->index;
}

Operand Parser::entity_operand(Entity* entity, const Token& name) {
  Operand operand;
  switch (entity->kind) {
    case EntityKind::kRegister:
      if (lexer_.peek().is('.')) {
        fail_unsupported(name.line, "register", "not be a vector with components",
                         lexer_.line_text(name.text));
      }
      return register_operand(register_index(entity, name.text));
    case EntityKind::kVariable:
      operand = symbol(Scope::kFunction, entity->index);
      break;
    case EntityKind::kModuleVariable:
      operand = symbol(Scope::kModule, entity->index);
      break;
    case EntityKind::kParameter:
      operand = symbol(Scope::kParameter, entity->index);
      break;
    case EntityKind::kReturn:
      operand = symbol(Scope::kReturn, entity->index);
      break;
    case EntityKind::kFunction:
      return indexed(OperandKind::kFunction, entity->index);
    case EntityKind::kBranchTable:
      return indexed(OperandKind::kBranchTable, entity->index);
    case EntityKind::kCallTable:
      return indexed(OperandKind::kCallTable, entity->index);
    case EntityKind::kPrototype:
      return indexed(OperandKind::kPrototype, entity->index);
    case EntityKind::kRange:
    case EntityKind::kNone:
      fail_at(name.line, "operand", "be a value", name.text);
  }
  offset_of(&operand);
  return operand;
}

void Parser::offset_of(Operand* operand) {
  const Token sign = lexer_.peek();
  if (!sign.is('+') && !sign.is('-')) return;
  const Constant constant = take_constant(lexer_);
  if (constant.literal != Literal::kInteger) {
    fail_at(sign.line, "offset", "be an integer", lexer_.line_text(sign.text));
  }
  operand->value = constant.value;
}

Operand Parser::vector_operand() {
  const Token brace = lexer_.next();
  Operand vector;
  vector.kind = OperandKind::kVector;
  const size_t base = scratch_.size();
  do {
    const Operand element = simple_operand();
    scratch_.push_back(element);
    if (scratch_.size() - base > kMostElements) {
      fail_at(brace.line, "vector", "have at most 4096 elements", lexer_.line_text(brace.text));
    }
  } while (lexer_.accept(','));
  lexer_.expect('}', "vector");
  close_elements(&vector, base);
  return vector;
}

// [base + offset], [base, {coordinates}], [base, {coordinates}, {offsets}].
Operand Parser::address_operand() {
  const Token bracket = lexer_.next();
  Operand address;
  if (lexer_.peek().kind == TokenKind::kWord && !lexer_.peek().is_word("WARP_SZ")) {
    const Token name = lexer_.peek();
    address = name_operand();
    if (address.kind == OperandKind::kRegister) {
      address.base = AddressBase::kRegister;
      offset_of(&address);
    } else if (address.kind == OperandKind::kSymbol) {
      address.base = AddressBase::kSymbol;
    } else {
      fail_at(name.line, "base of an address", "be a register or a variable",
              lexer_.line_text(name.text));
    }
  } else {
    const Token start = lexer_.peek();
    address = immediate_operand();
    if (address.literal != Literal::kInteger) {
      fail_at(start.line, "address", "be an integer", lexer_.line_text(start.text));
    }
    address.base = AddressBase::kImmediate;
    address.index = kNoIndex;
  }
  address.kind = OperandKind::kAddress;
  const size_t base = scratch_.size();
  while (lexer_.accept(',')) {
    const bool is_vector = lexer_.peek().is('{');
    const Operand element = is_vector ? vector_operand() : simple_operand();
    scratch_.push_back(element);
    if (scratch_.size() - base > kMostOperands) {
      fail_at(bracket.line, "address", "have at most 64 parts", lexer_.line_text(bracket.text));
    }
  }
  lexer_.expect(']', "address");
  close_elements(&address, base);
  return address;
}

/// Moves the elements collected since `base` to their place in the function.
void Parser::close_elements(Operand* operand, size_t base) {
  std::vector<Operand>& pool = function_->operands;
  operand->first = static_cast<uint32_t>(pool.size());
  operand->count = static_cast<uint32_t>(scratch_.size() - base);
  pool.insert(pool.end(), scratch_.begin() + static_cast<std::ptrdiff_t>(base), scratch_.end());
  scratch_.resize(base);
}

void Parser::commit(const Mnemonic& mnemonic, uint32_t line, uint32_t guard, bool guard_negated) {
  Instruction& instruction = function_->instructions.emplace_back();
  instruction.opcode = mnemonic.opcode;
  instruction.types = mnemonic.types;
  instruction.modifiers = mnemonic.modifiers;
  instruction.shape = mnemonic.shape;
  instruction.guard = guard;
  instruction.guard_negated = guard_negated;
  instruction.line = line;
  instruction.location = location_;
  instruction.first_operand = static_cast<uint32_t>(function_->operands.size());
  instruction.operand_count = static_cast<uint8_t>(scratch_.size());
  function_->operands.insert(function_->operands.end(), scratch_.begin(), scratch_.end());
  check_operands(instruction);
}

/// What control flow relies on.
void Parser::check_operands(const Instruction& instruction) {
  const std::span<const Operand> mine = function_->operands_of(instruction);
  bool right = true;
  std::string_view rule;
  if (instruction.opcode == Opcode::kBra) {
    right = mine.size() == 1 && mine[0].kind == OperandKind::kLabel;
    rule = "have one label";
  } else if (instruction.opcode == Opcode::kBrxIdx) {
    right = mine.size() == 2 && mine[0].kind == OperandKind::kRegister &&
            mine[1].kind == OperandKind::kBranchTable;
    rule = "have a register and a list of .branchtargets";
    if (right) table_edges_ += function_->branch_tables[mine[1].index].targets.size();
    if (table_edges_ > kMostTableEdges) {
      fail_at(instruction.line, "branch tables of a function", "have at most 2^20 uses of targets",
              concat(table_edges_));
    }
  } else if (instruction.opcode == Opcode::kCall) {
    const bool direct = mine[1].kind == OperandKind::kFunction;
    right = direct ? mine.size() == 3
                   : mine.size() == 4 && (mine[3].kind == OperandKind::kPrototype ||
                                          mine[3].kind == OperandKind::kCallTable);
    rule = "name its prototype or targets if and only if it is indirect";
  }
  if (!right) fail_at(instruction.line, opcode_text(instruction.opcode), rule, "other operands");
}

}  // namespace flamia::emulator::ptx
