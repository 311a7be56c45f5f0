// Numbers from text, whole text or nothing.
// Used by: options, document lists, distributions.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace flamia::tools {

/// The number that fills text exactly; nothing for empty text, other characters, or a value out
/// of range.
template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value = {};
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace flamia::tools
