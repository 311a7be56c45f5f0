// Every instruction form of data/instruction_forms.txt parses, and its text parses to the same.
// Depends on: the data file.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/message.h"
#include "emulator/ptx/parser.h"
#include "emulator/ptx/text.h"

namespace flamia::emulator::ptx {
namespace {

constexpr const char* kHead =
    ".version 9.0\n.target sm_103a\n.address_size 64\n"
    ".func (.param .b32 result) device_function(.param .b32 parameter) { ret; }\n"
    ".entry kernel(.param .align 8 .b8 parameter[64]) {\n"
    ".reg .pred %p<10>; .reg .b8 %b<10>; .reg .b16 %h<10>; .reg .b32 %r<600>; .reg .f32 %f<600>;\n"
    ".reg .b64 %d<100>; .reg .f64 %e<10>; .reg .b128 %q<10>; .local .align 8 .b8 stack[64];\n"
    ".param .b32 argument; .param .b32 returned;\n";

std::string module_of(const std::string& form) { return concat(kHead, form, "\ndone: ret;\n}\n"); }

std::vector<std::string> forms() {
  std::ifstream file(std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/data/instruction_forms.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("//")) lines.push_back(line);
  }
  return lines;
}

/// The components of a mnemonic in any order of modifiers and types.
std::vector<std::string> components(const std::string& form) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : form) {
    const bool ends = c == ' ' || c == ';';
    if (ends || c == '.') {
      parts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
    if (ends) break;
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

TEST(PtxForms, AllParseAndPrintAsThemselves) {
  const std::vector<std::string> all = forms();
  ASSERT_GE(all.size(), 400u);
  for (const std::string& form : all) {
    Module module;
    const Status status = parse(module_of(form), &module);
    ASSERT_TRUE(status.ok()) << form << "\n" << status.message();
    const Function& kernel = module.functions[1];
    ASSERT_GE(kernel.instructions.size(), 1u) << form;
    const std::string text = to_text(kernel.instructions[0], kernel, &module);
    EXPECT_EQ(components(text), components(form));
    Module again;
    const Status second = parse(module_of(text), &again);
    ASSERT_TRUE(second.ok()) << text << "\n" << second.message();
    EXPECT_EQ(to_text(again.functions[1].instructions[0], again.functions[1], &again), text);
  }
}

}  // namespace
}  // namespace flamia::emulator::ptx
