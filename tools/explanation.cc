// The library's explanation of a call as data.

#include "tools/explanation.h"

namespace flamia::tools {

namespace {

// Parts of text between separators, without empty ones.
std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    if (end != 0) parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + separator.size());
  }
  return parts;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> explanation_lines(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const std::string& line : split(text, "\n")) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    lines.emplace_back(line.substr(0, colon), line.substr(colon + 2));
  }
  return lines;
}

std::string explained(std::string_view explanation, std::string_view key) {
  for (const auto& [name, value] : explanation_lines(explanation)) {
    if (name == key) return value;
  }
  return {};
}

std::vector<std::string> kernel_names(std::string_view explanation) {
  return split(explained(explanation, "kernels"), ", ");
}

}  // namespace flamia::tools
