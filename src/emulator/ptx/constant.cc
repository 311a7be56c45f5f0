// Literals and operators of constant expressions.
#include "emulator/ptx/constant.h"

#include <charconv>

#include "base/bits.h"
#include "base/message.h"

namespace flamia::emulator::ptx {
namespace {

constexpr int kDeepest = 64;
constexpr int64_t kWarpSize = 32;

uint64_t digits(const Token& token, std::string_view text, int base, bool exact_sixteen = false) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || end != text.data() + text.size() || error != std::errc() ||
      (exact_sixteen && text.size() != 16)) {
    fail_at(token.line, "number", "be a literal of PTX of at most 64 bits", token.text);
  }
  return value;
}

Constant decimal_float(const Token& token) {
  double value = 0;
  const char* const last = token.text.data() + token.text.size();
  const auto [end, error] = std::from_chars(token.text.data(), last, value);
  if (end != last || error != std::errc()) {
    fail_at(token.line, "number", "be a literal of PTX in the range of f64", token.text);
  }
  return {Literal::kF64, static_cast<int64_t>(double_bits(value))};
}

Constant number(const Token& token) {
  std::string_view text = token.text;
  const char kind = text.size() > 1 && text[0] == '0' ? text[1] : '\0';
  if (kind == 'f' || kind == 'F') {
    if (text.size() != 10) fail_at(token.line, "0f literal", "have 8 digits", text);
    return {Literal::kF32, static_cast<int64_t>(digits(token, text.substr(2), 16))};
  }
  if (kind == 'd' || kind == 'D') {
    return {Literal::kF64, static_cast<int64_t>(digits(token, text.substr(2), 16, true))};
  }
  const bool hexadecimal = kind == 'x' || kind == 'X';
  if (!hexadecimal && text.find_first_of(".eE") != std::string_view::npos) {
    return decimal_float(token);
  }
  if (text.back() == 'U' || text.back() == 'u') text.remove_suffix(1);
  uint64_t value = 0;
  if (hexadecimal) {
    value = digits(token, text.substr(2), 16);
  } else if (kind == 'b' || kind == 'B') {
    value = digits(token, text.substr(2), 2);
  } else {
    value = digits(token, text, text.size() > 1 && text[0] == '0' ? 8 : 10);
  }
  return {Literal::kInteger, static_cast<int64_t>(value)};
}

Constant binary_expression(Lexer& lexer, int precedence, int depth);

Constant negated(Constant value) {
  switch (value.literal) {
    case Literal::kF32:
      value.value ^= int64_t{1} << 31;
      break;
    case Literal::kF64:
      value.value ^= INT64_MIN;
      break;
    case Literal::kInteger:
      value.value = static_cast<int64_t>(0u - static_cast<uint64_t>(value.value));
      break;
  }
  return value;
}

Constant primary(Lexer& lexer, int depth) {
  const Token token = lexer.peek();
  if (depth > kDeepest) fail_at(token.line, "constant", "nest at most 64 deep", token.text);
  if (token.kind == TokenKind::kNumber) return number(lexer.next());
  if (token.is_word("WARP_SZ")) {
    lexer.next();
    return {Literal::kInteger, kWarpSize};
  }
  if (lexer.accept('(')) {
    const Constant inner = binary_expression(lexer, 0, depth + 1);
    lexer.expect(')', "parenthesis");
    return inner;
  }
  if (lexer.accept('-')) return negated(primary(lexer, depth + 1));
  if (lexer.accept('+')) return primary(lexer, depth + 1);
  const bool complement = token.is('~');
  if (complement || token.is('!')) {
    lexer.next();
    const Constant inner = primary(lexer, depth + 1);
    if (inner.literal != Literal::kInteger) {
      fail_at(token.line, "operand of ~ and !", "be an integer", token.text);
    }
    return {Literal::kInteger, complement ? ~inner.value : int64_t{inner.value == 0}};
  }
  fail_at(token.line, "constant", "start with a number, a sign or a parenthesis", token.text);
}

/// Binary operators: how strongly they bind, 0 for none. Shifts are two equal characters.
int precedence_of(const Lexer& lexer) {
  const Token& token = lexer.peek();
  if (token.kind != TokenKind::kPunctuation) return 0;
  switch (token.text.front()) {
    case '|':
      return 1;
    case '^':
      return 2;
    case '&':
      return 3;
    case '<':
    case '>':
      return lexer.at_double() ? 4 : 0;
    case '+':
    case '-':
      return 5;
    case '*':
    case '/':
    case '%':
      return 6;
    default:
      return 0;
  }
}

int64_t apply(uint32_t line, char operation, int64_t left, int64_t right) {
  const auto a = static_cast<uint64_t>(left);
  const auto b = static_cast<uint64_t>(right);
  switch (operation) {
    case '|':
      return left | right;
    case '^':
      return left ^ right;
    case '&':
      return left & right;
    case '<':
      return b < 64 ? static_cast<int64_t>(a << b) : 0;
    case '>':
      return left >> (b < 64 ? b : 63);
    case '+':
      return static_cast<int64_t>(a + b);
    case '-':
      return static_cast<int64_t>(a - b);
    case '*':
      return static_cast<int64_t>(a * b);
    default:
      break;
  }
  if (right == 0) fail_at(line, "divisor of a constant", "not be zero", "0");
  if (right == -1) return operation == '/' ? static_cast<int64_t>(0u - a) : 0;
  return operation == '/' ? left / right : left % right;
}

Constant binary_expression(Lexer& lexer, int precedence, int depth) {
  Constant left = primary(lexer, depth);
  for (int mine = precedence_of(lexer); mine > precedence; mine = precedence_of(lexer)) {
    const Token token = lexer.next();
    const char operation = token.text.front();
    if (operation == '<' || operation == '>') lexer.expect(operation, token.text);
    const Constant right = binary_expression(lexer, mine, depth + 1);
    if (left.literal != Literal::kInteger || right.literal != Literal::kInteger) {
      fail_at(token.line, "constant expression", "have integer operands", token.text);
    }
    left.value = apply(token.line, operation, left.value, right.value);
  }
  return left;
}

}  // namespace

bool at_constant(const Lexer& lexer) {
  const Token& token = lexer.peek();
  return token.kind == TokenKind::kNumber || token.is('-') || token.is('+') || token.is('~') ||
         token.is('(') || token.is_word("WARP_SZ");
}

Constant take_constant(Lexer& lexer) { return binary_expression(lexer, 0, 0); }

uint64_t take_integer(Lexer& lexer, std::string_view what, uint64_t lowest, uint64_t highest) {
  const Token token = lexer.peek();
  const Constant constant = take_constant(lexer);
  const auto value = static_cast<uint64_t>(constant.value);
  if (constant.literal != Literal::kInteger || value < lowest || value > highest) {
    fail_at(token.line, what, concat("be an integer from ", lowest, " to ", highest), token.text);
  }
  return value;
}

}  // namespace flamia::emulator::ptx
