// Scanning of words, numbers, strings and comments.
#include "emulator/ptx/lexer.h"

#include <array>
#include <utility>

#include "base/message.h"

namespace flamia::emulator::ptx {
namespace {

enum CharacterClass : uint8_t { kOther = 0, kBlank = 1, kWordStart = 2, kDigit = 4 };

constexpr std::array<uint8_t, 256> kClasses = [] {
  std::array<uint8_t, 256> classes{};
  for (const char c : {' ', '\t', '\r', '\f', '\v', '\n'})
    classes[static_cast<uint8_t>(c)] = kBlank;
  for (int c = 'a'; c <= 'z'; ++c) classes[static_cast<size_t>(c)] = kWordStart;
  for (int c = 'A'; c <= 'Z'; ++c) classes[static_cast<size_t>(c)] = kWordStart;
  for (const char c : {'_', '$', '%'}) classes[static_cast<uint8_t>(c)] = kWordStart;
  for (int c = '0'; c <= '9'; ++c) classes[static_cast<size_t>(c)] = kDigit;
  return classes;
}();

bool has_class(char character, int wanted) {
  return (kClasses[static_cast<uint8_t>(character)] & wanted) != 0;
}

constexpr size_t kLongestQuote = 160;

/// Text of the input as part of a message: one line, printable, not too long.
std::string quotable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kLongestQuote)) {
    const auto code = static_cast<unsigned char>(c);
    out.push_back(code >= 0x20 && code < 0x7f ? c : '?');
  }
  if (text.size() > kLongestQuote) out += "...";
  return out.empty() ? "nothing" : out;
}

}  // namespace

void fail_at(uint32_t line, std::string_view what, std::string_view rule, std::string_view got) {
  throw ParseError{line, false, refusal(quotable(what), rule, quotable(got))};
}

void fail_unsupported(uint32_t line, std::string_view what, std::string_view rule,
                      std::string_view got) {
  throw ParseError{line, true, refusal(quotable(what), rule, quotable(got))};
}

Lexer::Lexer(std::string_view text) : text_(text) { advance(); }

Token Lexer::next() {
  const Token taken = token_;
  advance();
  return taken;
}

bool Lexer::accept(char character) {
  if (!token_.is(character)) return false;
  advance();
  return true;
}

void Lexer::expect(char character, std::string_view after) {
  if (accept(character)) return;
  fail_at(token_.line, after, concat("be followed by '", std::string_view(&character, 1), "'"),
          token_.text);
}

void Lexer::skip_block_comment() {
  const uint32_t start = line_;
  const size_t end = text_.find("*/", position_ + 2);
  if (end == std::string_view::npos)
    fail_at(start, "comment", "end with */", "the end of the text");
  for (; position_ < end; ++position_) line_ += text_[position_] == '\n' ? 1u : 0u;
  position_ = end + 2;
}

void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (has_class(c, kBlank)) {
      line_ += c == '\n' ? 1u : 0u;
      ++position_;
    } else if (c == '/' && text_.substr(position_, 2) == "//") {
      const size_t end = text_.find('\n', position_);
      position_ = end == std::string_view::npos ? text_.size() : end;
    } else if (c == '/' && text_.substr(position_, 2) == "/*") {
      skip_block_comment();
    } else {
      return;
    }
  }
}

size_t Lexer::scan_number(size_t at) const {
  const size_t start = at;
  // Hexadecimal bit patterns and integers hold only word characters; decimals may have a point and
  // a signed exponent.
  const std::string_view prefix = text_.substr(at, 2);
  const bool is_bits = prefix == "0x" || prefix == "0X" || prefix == "0f" || prefix == "0F" ||
                       prefix == "0d" || prefix == "0D";
  while (at < text_.size()) {
    const char c = text_[at];
    const bool sign = (c == '+' || c == '-') && !is_bits && at > start &&
                      (text_[at - 1] == 'e' || text_[at - 1] == 'E');
    const bool point = c == '.' && !is_bits;
    if (!has_class(c, kDigit | kWordStart) && !sign && !point) break;
    ++at;
  }
  return at;
}

void Lexer::advance() {
  skip_blanks();
  token_.line = line_;
  if (position_ >= text_.size()) {
    token_.kind = TokenKind::kEnd;
    token_.text = "the end of the text";
    return;
  }
  const char first = text_[position_];
  size_t end = position_ + 1;
  if (has_class(first, kWordStart)) {
    token_.kind = TokenKind::kWord;
    while (end < text_.size() && has_class(text_[end], kWordStart | kDigit)) ++end;
  } else if (has_class(first, kDigit)) {
    token_.kind = TokenKind::kNumber;
    end = scan_number(position_);
  } else if (first == '"') {
    token_.kind = TokenKind::kString;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
      end += text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != '\n' ? 2 : 1;
    }
    if (end >= text_.size() || text_[end] != '"') {
      fail_at(line_, "string", "end with a quote on its line", text_.substr(position_, 40));
    }
    token_.text = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return;
  } else {
    token_.kind = TokenKind::kPunctuation;
  }
  token_.text = text_.substr(position_, end - position_);
  position_ = end;
}

std::string_view Lexer::directive() {
  if (!token_.is('.')) fail_at(token_.line, "directive", "start with a dot", token_.text);
  const size_t start = position_;
  size_t end = start;
  while (end < text_.size()) {
    if (has_class(text_[end], kWordStart | kDigit)) {
      ++end;
    } else if (text_.substr(end, 2) == "::") {
      end += 2;
    } else {
      break;
    }
  }
  if (end == start) fail_at(token_.line, "dot", "be followed by a word", line_text(token_.text));
  position_ = end;
  advance();
  return text_.substr(start, end - start);
}

std::string_view Lexer::mnemonic(bool* stable) {
  const size_t start = position_ - token_.text.size();
  size_t end = position_;
  while (end < text_.size()) {
    if (has_class(text_[end], kWordStart | kDigit) || text_[end] == '.') {
      ++end;
    } else if (text_.substr(end, 2) == "::") {
      end += 2;
    } else {
      break;
    }
  }
  position_ = end;
  advance();
  const std::string_view taken = text_.substr(start, end - start);
  *stable = !token_.is('.');
  if (*stable) return taken;
  joined_ = taken;
  while (token_.is('.')) {
    joined_ += '.';
    joined_ += directive();
  }
  return joined_;
}

bool Lexer::at_double() const {
  return token_.kind == TokenKind::kPunctuation && position_ < text_.size() &&
         text_[position_] == token_.text.front();
}

bool Lexer::at_label() const {
  if (token_.kind != TokenKind::kWord) return false;
  size_t at = position_;
  while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
  return at < text_.size() && text_[at] == ':' && text_.substr(at, 2) != "::";
}

std::string_view Lexer::line_text(std::string_view token) const {
  if (token.data() < text_.data() || token.data() > text_.data() + text_.size()) return token;
  const auto at = static_cast<size_t>(token.data() - text_.data());
  size_t begin = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
  begin = begin == std::string_view::npos ? 0 : begin + 1;
  size_t end = text_.find('\n', at);
  end = end == std::string_view::npos ? text_.size() : end;
  while (begin < end && has_class(text_[begin], kBlank)) ++begin;
  return text_.substr(begin, end - begin);
}

void Lexer::skip_line() {
  const size_t end = text_.find('\n', position_);
  position_ = end == std::string_view::npos ? text_.size() : end;
  advance();
}

}  // namespace flamia::emulator::ptx
