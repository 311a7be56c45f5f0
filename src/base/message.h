// Text from values: concatenation and the one form of every refusal.
// Used by: status messages of all layers. Values print in their shortest exact form.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace flamia {

inline void append_text(std::string& out, std::string_view text) { out.append(text); }

template <typename Number>
requires std::integral<Number> || std::floating_point<Number>
void append_text(std::string& out, Number value) {
  static_assert(!std::is_same_v<Number, bool> && !std::is_same_v<Number, char>);
  char buffer[64];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  out.append(buffer, result.ptr);
}

/// All arguments as text, one after the other.
template <typename... Values>
std::string concat(const Values&... values) {
  std::string out;
  (append_text(out, values), ...);
  return out;
}

/// "ARGUMENT must RULE; got VALUE (HINT)"; no parentheses without a hint. Callers put the name of
/// their function in front.
inline std::string refusal(std::string_view argument, std::string_view rule, std::string_view got,
                           std::string_view hint = {}) {
  std::string out = concat(argument, " must ", rule, "; got ", got);
  if (!hint.empty()) out += concat(" (", hint, ")");
  return out;
}

}  // namespace flamia
