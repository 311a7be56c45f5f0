// Tokens of PTX text: words, numbers, strings and single characters, with line numbers.
// Depends on: nothing but the text, which outlives every token. Used by: the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace flamia::emulator::ptx {

/// What is wrong with the text; becomes a Status in parse().
struct ParseError {
  uint32_t line = 0;
  bool unsupported = false;
  std::string message;  // "WHAT must RULE; got TEXT"
};

[[noreturn]] void fail_at(uint32_t line, std::string_view what, std::string_view rule,
                          std::string_view got);
[[noreturn]] void fail_unsupported(uint32_t line, std::string_view what, std::string_view rule,
                                   std::string_view got);

enum class TokenKind : uint8_t { kEnd, kWord, kNumber, kString, kPunctuation };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  uint32_t line = 1;
  std::string_view text;  // of a string: without the quotes

  bool is(char character) const {
    return kind == TokenKind::kPunctuation && text.front() == character;
  }
  bool is_word(std::string_view word) const { return kind == TokenKind::kWord && text == word; }
};

/// One token of lookahead. A word is [A-Za-z_$%][A-Za-z0-9_$%]*; dots are punctuation.
class Lexer {
 public:
  explicit Lexer(std::string_view text);

  const Token& peek() const { return token_; }
  Token next();
  /// Takes the token if it is this character.
  bool accept(char character);
  void expect(char character, std::string_view after);
  /// Takes ".word" and returns the word, which may contain "::" and start with a digit.
  std::string_view directive();
  /// Takes a mnemonic, whose first word is the current token: "cp.async.bulk.shared::cta". Blanks
  /// before dots are dropped; *stable says whether the view is one of the text.
  std::string_view mnemonic(bool* stable);
  /// True if the current token is one of two equal characters in a row: << or >>.
  bool at_double() const;
  /// True if the current token is a word with a single colon behind it.
  bool at_label() const;
  /// The trimmed line of the text that a token, which points into it, stands on; for messages.
  std::string_view line_text(std::string_view token) const;
  /// Skips to the next line; the current token is then the first one there.
  void skip_line();
  uint32_t line() const { return token_.line; }

 private:
  void advance();
  void skip_blanks();
  void skip_block_comment();
  size_t scan_number(size_t at) const;

  std::string_view text_;
  size_t position_ = 0;  // after the current token
  uint32_t line_ = 1;    // at position_
  Token token_;
  std::string joined_;
};

}  // namespace flamia::emulator::ptx
