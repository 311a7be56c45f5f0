// Variables of all state spaces, with initializers.
#include <algorithm>
#include <utility>

#include "base/bits.h"
#include "base/message.h"
#include "emulator/ptx/parser_state.h"

namespace flamia::emulator::ptx {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 40;       // of one variable
constexpr uint64_t kMostFrameBytes = uint64_t{1} << 31;  // of one kind in one function
constexpr uint32_t kMostAlignment = 4096;
constexpr size_t kMostDimensions = 8;

uint64_t element_bytes(const VariableHead& head) {
  // Texture, surface and sampler references are 64-bit handles.
  const uint32_t bits = type_bits(head.type);
  return (bits == 0 ? 8 : bits < 8 ? 1 : bits / 8) * uint64_t{head.vector};
}

bool is_space(std::string_view word, StateSpace* space) {
  constexpr std::pair<std::string_view, StateSpace> kSpaces[] = {
      {"global", StateSpace::kGlobal}, {"const", StateSpace::kConst},
      {"shared", StateSpace::kShared}, {"local", StateSpace::kLocal},
      {"param", StateSpace::kParam},   {"tex", StateSpace::kTex}};
  for (const auto& [text, value] : kSpaces) {
    if (text != word) continue;
    *space = value;
    return true;
  }
  return false;
}

}  // namespace

VariableHead Parser::variable_head(StateSpace space) {
  VariableHead head;
  head.space = space;
  while (lexer_.peek().is('.')) {
    const Token dot = lexer_.peek();
    const std::string_view word = lexer_.directive();
    Qualifiers ignored;
    if (word == "align") {
      head.alignment = static_cast<uint32_t>(take_integer(lexer_, ".align", 1, kMostAlignment));
      if ((head.alignment & (head.alignment - 1)) != 0) {
        fail_at(dot.line, ".align", "be a power of two", concat(head.alignment));
      }
    } else if (word == "v2" || word == "v4") {
      head.vector = word == "v2" ? 2 : 4;
    } else if (word == "attribute") {
      take_attribute(&ignored);
    } else if (is_space(word, &head.space)) {
      continue;
    } else if (const std::optional<ScalarType> type = find_type(word)) {
      head.type = *type;
    } else {
      fail_at(dot.line, concat("directive .", word), "be a part of a variable",
              lexer_.line_text(dot.text));
    }
  }
  const Token& name = lexer_.peek();
  if (head.type == ScalarType{}) {
    fail_at(name.line, "variable", "have a type", lexer_.line_text(name.text));
  }
  if (head.alignment == 0) {
    const uint64_t natural = std::min<uint64_t>(element_bytes(head), 128);
    head.alignment = 1;
    while (head.alignment < natural) head.alignment *= 2;
  }
  return head;
}

void Parser::variables(const Qualifiers& qualifiers, StateSpace space) {
  const VariableHead head = variable_head(space);
  do {
    declarator(qualifiers, head);
  } while (lexer_.accept(','));
  lexer_.expect(';', "variable");
}

void Parser::declarator(const Qualifiers& qualifiers, const VariableHead& head) {
  const Token name = lexer_.peek();
  Variable variable;
  variable.name = take_word("name of a variable");
  variable.space = head.space;
  variable.linkage = qualifiers.linkage;
  variable.is_managed = qualifiers.is_managed;
  variable.type = head.type;
  variable.vector = head.vector;
  variable.alignment = head.alignment;
  variable.line = name.line;
  std::vector<uint64_t> row_bytes;
  bool is_unsized = false;
  variable.bytes = dimensions(head, &row_bytes, &is_unsized);
  if (lexer_.accept('=')) {
    initializer(&variable, row_bytes);
    if (is_unsized) variable.bytes = variable.initial.size();
  } else if (is_unsized) {
    if (variable.linkage != Linkage::kExtern) {
      fail_at(name.line, "array without a size", "be .extern or have an initializer", name.text);
    }
    variable.bytes = 0;
    variable.is_dynamic = variable.space == StateSpace::kShared;
  }
  const bool has_values = !variable.initial.empty() || !variable.relocations.empty();
  if (has_values && variable.space != StateSpace::kGlobal && variable.space != StateSpace::kConst) {
    fail_at(name.line, "variable with an initializer", "be .global or .const", name.text);
  }
  if (variable.initial.size() > variable.bytes) {
    fail_at(name.line, "initializer", concat("fit into ", variable.bytes, " bytes"),
            concat(variable.initial.size()));
  }
  add_variable(std::move(variable), name);
}

/// Takes [a][b].. and returns the size of all; row_bytes: of one element at each depth.
uint64_t Parser::dimensions(const VariableHead& head, std::vector<uint64_t>* row_bytes,
                            bool* is_unsized) {
  std::vector<uint64_t> counts;
  while (lexer_.peek().is('[')) {
    const Token bracket = lexer_.next();
    if (lexer_.peek().is(']') && counts.empty()) {
      *is_unsized = true;
      counts.push_back(0);
    } else {
      counts.push_back(take_integer(lexer_, "size of an array", 0, kMostBytes));
    }
    lexer_.expect(']', "size of an array");
    if (counts.size() > kMostDimensions) {
      fail_at(bracket.line, "array", "have at most 8 dimensions", lexer_.line_text(bracket.text));
    }
  }
  uint64_t bytes = element_bytes(head);
  for (auto count = counts.rbegin(); count != counts.rend(); ++count) {
    row_bytes->insert(row_bytes->begin(), bytes);
    const bool outer_unsized = *is_unsized && std::next(count) == counts.rend();
    if (outer_unsized) return 0;
    if (*count != 0 && bytes > kMostBytes / *count) {
      fail_at(lexer_.line(), "array", concat("have at most ", kMostBytes, " bytes"),
              concat(bytes, " x ", *count));
    }
    bytes *= *count;
  }
  return bytes;
}

// Braces nest as deep as the dimensions; an inner row that is too short is padded with zeros.
void Parser::initializer(Variable* variable, const std::vector<uint64_t>& row_bytes) {
  const uint32_t line = lexer_.line();
  if (lexer_.peek().kind == TokenKind::kString) return initializer_string(variable, 0);
  if (!lexer_.peek().is('{')) {
    initializer_value(variable, 0);
    return;
  }
  size_t depth = 0;
  uint64_t at = 0;
  uint64_t row_start[kMostDimensions + 1] = {};
  do {
    if (lexer_.peek().is('{')) {
      lexer_.next();
      // A vector element may have braces of its own.
      if (depth > row_bytes.size()) {
        fail_at(line, "initializer", "nest as deep as its array", lexer_.peek().text);
      }
      row_start[depth++] = at;
    } else if (!lexer_.peek().is('}')) {
      at = initializer_value(variable, at);
    }
    while (lexer_.peek().is('}')) {
      lexer_.next();
      --depth;
      const uint64_t whole = depth > 0 ? row_bytes[depth - 1] : 0;
      if (depth == 0) return;
      at = std::max(at, row_start[depth] + whole);
      if (at > kMostBytes) fail_at(line, "initializer", "fit into its array", variable->name);
    }
    if (lexer_.peek().is(',')) lexer_.next();
  } while (lexer_.peek().kind != TokenKind::kEnd && !lexer_.peek().is(';'));
  fail_at(line, "initializer", "end with }", lexer_.peek().text);
}

void Parser::initializer_string(Variable* variable, uint64_t at) {
  for (const char c : lexer_.next().text) {
    put_bytes(variable, at++, static_cast<uint8_t>(c), 1);
  }
}

/// Takes one element, which belongs at byte `at`; returns where the next one belongs.
uint64_t Parser::initializer_value(Variable* variable, uint64_t at) {
  const uint32_t bits = type_bits(variable->type);
  const uint64_t bytes = bits == 0 ? 8 : bits < 8 ? 1 : bits / 8;
  const Token start = lexer_.peek();
  if (start.kind == TokenKind::kWord && start.text != "WARP_SZ") {
    initializer_symbol(variable, at, 0);
    return at + bytes;
  }
  const Constant constant = take_constant(lexer_);
  if (lexer_.peek().is('(')) {  // 0xFF00(symbol)
    lexer_.next();
    initializer_symbol(variable, at, static_cast<uint64_t>(constant.value));
    lexer_.expect(')', "symbol of a mask");
    return at + bytes;
  }
  Operand operand;
  operand.literal = constant.literal;
  operand.value = constant.value;
  put_bytes(variable, at, immediate_bits(operand, variable->type), std::min<uint64_t>(bytes, 8));
  if (bytes > 8) put_bytes(variable, at + 8, 0, std::min<uint64_t>(bytes - 8, 8));
  return at + bytes;
}

/// symbol, symbol + n, generic(symbol) + n; mask 0 for none.
void Parser::initializer_symbol(Variable* variable, uint64_t at, uint64_t mask) {
  const uint32_t bits = type_bits(variable->type);
  Relocation relocation;
  relocation.offset = at;
  relocation.bytes = static_cast<uint8_t>(std::clamp<uint32_t>(bits / 8, 1, 8));
  while (mask != 0 && (mask & 0xff) == 0) {
    mask >>= 8;
    relocation.shift = static_cast<uint8_t>(relocation.shift + 8);
  }
  Token name = lexer_.next();
  if (name.is_word("generic") && lexer_.accept('(')) {
    relocation.is_generic = true;
    name = lexer_.next();
    lexer_.expect(')', "generic");
  }
  const Entity* const entity = name.kind == TokenKind::kWord ? find(name.text) : nullptr;
  const bool is_function = entity != nullptr && entity->kind == EntityKind::kFunction;
  if (entity == nullptr || !(is_function || entity->kind == EntityKind::kModuleVariable)) {
    fail_at(name.line, "symbol of an initializer", "be a variable or function of the module",
            name.text);
  }
  relocation.is_function = is_function;
  relocation.index = entity->index;
  if (lexer_.peek().is('+') || lexer_.peek().is('-')) {
    relocation.addend = take_constant(lexer_).value;
  }
  put_bytes(variable, at, 0, relocation.bytes);
  variable->relocations.push_back(relocation);
}

void Parser::put_bytes(Variable* variable, uint64_t at, uint64_t bits, uint64_t bytes) {
  // Rows that are mostly padding must not take memory out of proportion.
  const uint64_t most = text_.size() * 16 + (uint64_t{1} << 16);
  if (at + bytes > most) {
    fail_at(lexer_.line(), "initializer", concat("fill at most ", most, " bytes"), variable->name);
  }
  if (variable->initial.size() < at + bytes) variable->initial.resize(at + bytes);
  for (uint64_t i = 0; i < bytes; ++i) {
    variable->initial[at + i] = static_cast<uint8_t>(bits >> (8 * i));
  }
}

/// Gives a variable of a function its offset.
void Parser::place(Variable* variable) {
  uint64_t* top = nullptr;
  switch (variable->space) {
    case StateSpace::kLocal:
      top = &function_->local_bytes;
      break;
    case StateSpace::kShared:
      top = &function_->shared_bytes;
      break;
    case StateSpace::kParam:
      top = &call_parameter_top_;
      break;
    default:
      return;
  }
  if (variable->is_dynamic) return;
  variable->offset = round_up<uint64_t>(*top, variable->alignment);
  *top = variable->offset + variable->bytes;
  if (*top > kMostFrameBytes) {
    fail_at(variable->line, "variables of a function", "have at most 2^31 bytes in all",
            variable->name);
  }
  if (variable->space == StateSpace::kLocal) {
    function_->local_alignment = std::max(function_->local_alignment, variable->alignment);
  }
  if (variable->space == StateSpace::kParam) {
    function_->call_parameter_bytes = std::max(function_->call_parameter_bytes, *top);
  }
}

void Parser::add_variable(Variable variable, const Token& name) {
  const bool is_local = function_ != nullptr && variable.space != StateSpace::kGlobal &&
                        variable.space != StateSpace::kConst;
  bool is_new = true;
  if (function_ == nullptr &&
      (variable.space == StateSpace::kLocal || variable.space == StateSpace::kParam)) {
    fail_at(name.line, "variable outside of functions", "not be .local or .param", name.text);
  }
  if (is_local) {
    place(&variable);
    const auto index = static_cast<uint32_t>(function_->variables.size());
    function_->variables.push_back(std::move(variable));
    is_new = symbols_.declare(name.text, {EntityKind::kVariable, ScalarType{}, 0, index});
  } else {
    const auto index = static_cast<uint32_t>(module_->variables.size());
    const Entity entity{EntityKind::kModuleVariable, ScalarType{}, 0, index};
    if (function_ != nullptr) {
      is_new = symbols_.declare(name.text, entity);
    } else {
      const auto [known, inserted] = module_names_.try_emplace(name.text, entity);
      if (!inserted && known->second.kind == EntityKind::kModuleVariable) {
        // A declaration and its definition are one variable.
        Variable& first = module_->variables[known->second.index];
        is_new = first.linkage == Linkage::kExtern || variable.linkage == Linkage::kExtern;
        if (is_new && first.linkage == Linkage::kExtern) first = std::move(variable);
        if (is_new) return;
      }
      is_new = inserted;
    }
    module_->variables.push_back(std::move(variable));
  }
  if (!is_new) fail_at(name.line, "name", "be declared once in its scope", name.text);
}

}  // namespace flamia::emulator::ptx
