// The module: directives outside of functions.
#include "emulator/ptx/parser.h"

#include <charconv>
#include <utility>

#include "base/bits.h"
#include "base/message.h"
#include "emulator/ptx/parser_state.h"
#include "emulator/ptx/shared_layout.h"

namespace flamia::emulator::ptx {

Parser::Parser(std::string_view text, Module* module) : text_(text), lexer_(text), module_(module) {
  scopes_.emplace_back();
}

void Parser::run() {
  while (lexer_.peek().kind != TokenKind::kEnd) module_statement();
  if (module_->version_major == 0) fail_at(lexer_.line(), "module", "have a .version", "none");
  if (module_->target.empty()) fail_at(lexer_.line(), "module", "have a .target", "none");
  lay_out_shared_memory(module_);
}

std::string_view Parser::take_word(std::string_view what) {
  const Token token = lexer_.next();
  if (token.kind != TokenKind::kWord) {
    fail_at(token.line, what, "be a word", lexer_.line_text(token.text));
  }
  return token.text;
}

uint32_t Parser::take_u32(std::string_view what) {
  return static_cast<uint32_t>(take_integer(lexer_, what, 0, UINT32_MAX));
}

Dim3 Parser::take_dim3() {
  constexpr uint64_t kMost = INT32_MAX;
  const auto one = [this] {
    return static_cast<uint32_t>(take_integer(lexer_, "dimension", 1, kMost));
  };
  Dim3 dim{one(), 1, 1};
  if (lexer_.accept(',')) dim.y = one();
  if (lexer_.accept(',')) dim.z = one();
  return dim;
}

void Parser::module_statement() {
  const Token start = lexer_.peek();
  if (lexer_.accept(';')) return;
  if (start.is('@')) return lexer_.skip_line();  // @@DWARF of old compilers
  std::string_view directive = lexer_.directive();
  if (directive == "version") {
    const Token number = lexer_.next();
    const char* const last = number.text.data() + number.text.size();
    auto [dot, error] = std::from_chars(number.text.data(), last, module_->version_major);
    if (error == std::errc() && dot != last && *dot == '.') {
      error = std::from_chars(dot + 1, last, module_->version_minor).ec;
    }
    if (error != std::errc() || number.kind != TokenKind::kNumber) {
      fail_at(start.line, ".version", "be MAJOR.MINOR", number.text);
    }
    return;
  }
  if (directive == "target") return target_directive();
  if (directive == "address_size") {
    module_->address_bits = take_u32(".address_size");
    if (module_->address_bits != 64) {
      fail_unsupported(start.line, ".address_size", "be 64", concat(module_->address_bits));
    }
    return;
  }
  if (directive == "file") return file_directive();
  if (directive == "loc") return lexer_.skip_line();
  if (directive == "section") return section_directive();
  if (directive == "alias") return alias_directive();
  if (directive == "pragma") return pragma_directive(nullptr);
  const Qualifiers qualifiers = take_qualifiers(&directive);
  if (directive == "entry" || directive == "func")
    return function(qualifiers, directive == "entry");
  StateSpace space = StateSpace::kGlobal;
  if (directive == "const") {
    space = StateSpace::kConst;
  } else if (directive == "shared") {
    space = StateSpace::kShared;
  } else if (directive == "tex") {
    space = StateSpace::kTex;
  } else if (directive != "global") {
    fail_at(start.line, concat("directive .", directive), "be one of a module",
            lexer_.line_text(start.text));
  }
  variables(qualifiers, space);
}

/// Takes linking directives; *directive is the first one, then the one that follows them.
Qualifiers Parser::take_qualifiers(std::string_view* directive) {
  constexpr std::pair<std::string_view, Linkage> kLinkages[] = {{"visible", Linkage::kVisible},
                                                                {"extern", Linkage::kExtern},
                                                                {"weak", Linkage::kWeak},
                                                                {"common", Linkage::kCommon}};
  Qualifiers qualifiers;
  while (true) {
    bool taken = *directive == "attribute";
    if (taken) take_attribute(&qualifiers);
    for (const auto& [text, linkage] : kLinkages) {
      if (text != *directive) continue;
      qualifiers.linkage = linkage;
      taken = true;
    }
    if (!taken) return qualifiers;
    *directive = lexer_.directive();
  }
}

// .attribute(.managed), .attribute(.unified(a, b))
void Parser::take_attribute(Qualifiers* qualifiers) {
  lexer_.expect('(', ".attribute");
  do {
    if (lexer_.directive() == "managed") qualifiers->is_managed = true;
    if (!lexer_.accept('(')) continue;
    while (!lexer_.peek().is(')') && lexer_.peek().kind != TokenKind::kEnd) lexer_.next();
    lexer_.expect(')', "attribute");
  } while (lexer_.accept(','));
  lexer_.expect(')', ".attribute");
}

void Parser::target_directive() {
  module_->target = take_word(".target");
  while (lexer_.accept(',')) take_word(".target");  // debug, texmode_independent
}

void Parser::file_directive() {
  SourceFile file;
  file.number = take_u32(".file");
  const Token name = lexer_.next();
  if (name.kind != TokenKind::kString) fail_at(name.line, ".file", "have a name", name.text);
  file.name = name.text;
  module_->files.push_back(std::move(file));
  while (lexer_.accept(',')) take_u32(".file");  // time stamp, size
}

void Parser::section_directive() {
  while (lexer_.peek().is('.')) lexer_.directive();
  if (lexer_.peek().kind == TokenKind::kWord || lexer_.peek().kind == TokenKind::kString) {
    lexer_.next();
  }
  skip_braces();
}

void Parser::skip_braces() {
  const uint32_t line = lexer_.line();
  lexer_.expect('{', ".section");
  for (uint32_t depth = 1; depth > 0;) {
    const Token token = lexer_.next();
    if (token.kind == TokenKind::kEnd) fail_at(line, ".section", "end with }", token.text);
    if (token.is('{')) ++depth;
    if (token.is('}')) --depth;
  }
}

void Parser::alias_directive() {
  const Token alias = lexer_.next();
  lexer_.expect(',', ".alias");
  const Token aliasee = lexer_.next();
  lexer_.expect(';', ".alias");
  const auto from = module_names_.find(alias.text);
  const auto to = module_names_.find(aliasee.text);
  const auto is_function = [this](const auto& found) {
    return found != module_names_.end() && found->second.kind == EntityKind::kFunction;
  };
  if (!is_function(from) || !is_function(to)) {
    fail_at(alias.line, ".alias", "name two declared functions", lexer_.line_text(alias.text));
  }
  // A chain would be a cycle in the making.
  if (!module_->functions[to->second.index].has_body ||
      module_->functions[from->second.index].has_body) {
    fail_at(alias.line, ".alias", "name a declaration and a definition",
            lexer_.line_text(alias.text));
  }
  module_->functions[from->second.index].alias_of = to->second.index;
}

void Parser::pragma_directive(std::vector<std::string>* pragmas) {
  do {
    const Token text = lexer_.next();
    if (text.kind != TokenKind::kString) {
      fail_at(text.line, ".pragma", "have a string", lexer_.line_text(text.text));
    }
    if (pragmas != nullptr) pragmas->emplace_back(text.text);
  } while (lexer_.accept(','));
  lexer_.expect(';', ".pragma");
}

Status parse(std::string_view text, Module* module) {
  *module = {};
  // A fatbin's text ends with zero bytes.
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  try {
    Parser(text, module).run();
  } catch (const ParseError& error) {
    return {error.unsupported ? StatusCode::kUnsupported : StatusCode::kInvalidArgument,
            concat("ptx:", error.line, ": ", error.message)};
  }
  return {};
}

}  // namespace flamia::emulator::ptx
