// Demangling and shortening.
#include "emulator/kernel_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <string_view>

namespace flamia::emulator {
namespace {

constexpr size_t kLongest = 160;

void erase_all(std::string* text, std::string_view part) {
  for (size_t at = text->find(part); at != std::string::npos; at = text->find(part)) {
    text->erase(at, part.size());
  }
}

/// The name with "..." for what stands inside more than `depth` pairs of angle brackets.
std::string without_arguments(const std::string& name, int depth) {
  std::string out;
  int open = 0;
  for (const char c : name) {
    if (c == '>') --open;
    if (open <= depth) out += c;
    if (c == '<' && ++open == depth + 1) out += "...";
  }
  return out;
}

}  // namespace

std::string readable_kernel_name(const std::string& kernel) {
  int status = 0;
  char* const text = abi::__cxa_demangle(kernel.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? text : kernel;
  std::free(text);
  erase_all(&name, "(anonymous namespace)::");
  // The parameters start at the first parenthesis outside template arguments.
  int open = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++open;
    if (name[i] == '>') --open;
    if (name[i] == '(' && open == 0) {
      name.erase(i);
      break;
    }
  }
  // Templates are demangled with their result type, which is void for kernels.
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  return name;
}

std::string short_kernel_name(const std::string& kernel) {
  const std::string name = readable_kernel_name(kernel);
  if (name.size() <= kLongest) return name;
  std::string shorter = without_arguments(name, 1);
  if (shorter.size() > kLongest) shorter = without_arguments(name, 0);
  return shorter.size() <= kLongest ? shorter : shorter.substr(0, kLongest) + "...";
}

}  // namespace flamia::emulator
