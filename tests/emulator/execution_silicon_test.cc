// Every recorded scalar case of an H200, executed as PTX: decoding and lanes against silicon.
// Depends on: tests/cuda/silicon/*.def, tests/emulator/silicon/scalar_h200.bin.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>

#include "tests/cuda/silicon/case_inputs.h"
#include "tests/cuda/silicon/case_syntax.h"
#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

using silicon::Kind;

struct Case {
  const char* name;
  uint32_t count;
  uint32_t width_bytes;
  Kind kinds[3];
  const char* text;
  const char* registers[4];  ///< constraint letters of the output and the operands
};

#define UNARY(name, count, out, ka, text, expression) \
  {#name,                                             \
   count,                                             \
   sizeof(TYPE_##out),                                \
   {KIND_##ka, KIND_none, KIND_none},                 \
   text,                                              \
   {REG_##out, REG_##ka, "", ""}},
#define BINARY(name, count, out, ka, kb, text, expression) \
  {#name,                                                  \
   count,                                                  \
   sizeof(TYPE_##out),                                     \
   {KIND_##ka, KIND_##kb, KIND_none},                      \
   text,                                                   \
   {REG_##out, REG_##ka, REG_##kb, ""}},
#define TERNARY(name, count, out, ka, kb, kc, text, expression) \
  {#name,                                                       \
   count,                                                       \
   sizeof(TYPE_##out),                                          \
   {KIND_##ka, KIND_##kb, KIND_##kc},                           \
   text,                                                        \
   {REG_##out, REG_##ka, REG_##kb, REG_##kc}},
const Case kCases[] = {
#include "tests/cuda/silicon/all_cases.def"
};

/// Hash of all outputs by name.
std::map<std::string, uint64_t> recorded() {
  std::map<std::string, uint64_t> hashes;
  std::ifstream file(std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/silicon/scalar_h200.bin",
                     std::ios::binary);
  for (;;) {
    const int length = file.get();
    if (length < 0) break;
    std::string name(static_cast<size_t>(length), ' ');
    uint8_t width = 0;
    uint32_t count = 0;
    uint64_t hash = 0;
    file.read(name.data(), length);
    file.read(reinterpret_cast<char*>(&width), 1);
    file.read(reinterpret_cast<char*>(&count), sizeof count);
    file.read(reinterpret_cast<char*>(&hash), sizeof hash);
    file.ignore(int64_t{width} * silicon::kVerbatim);
    hashes[name] = hash;
  }
  return hashes;
}

/// The register for a placeholder %n: its number stands behind the letter of its class.
std::string with_registers(const Case& c) {
  std::string text;
  for (const char* at = c.text; *at != 0; ++at) {
    if (at[0] == '%' && at[1] >= '0' && at[1] <= '3') {
      text += std::string("%") + c.registers[at[1] - '0'] + at[1];
      ++at;
    } else if (at[0] == '%' && at[1] == '%') {
      text += '%';
      ++at;
    } else {
      text += *at;
    }
  }
  return text;
}

std::string module_of(const Case& c) {
  std::string text = R"(
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out)
{
  .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %l<16>;
  mov.u32 %r8, %tid.x; mov.u32 %r9, %ctaid.x; mov.u32 %r10, %ntid.x;
  mad.lo.u32 %r8, %r9, %r10, %r8;
  mul.wide.u32 %l8, %r8, 8;
)";
  const char* const names[] = {"out", "a", "b", "c"};
  for (int i = 1; i < 4; ++i) {
    const std::string letter = c.registers[i];
    if (letter.empty()) continue;
    const std::string type = letter == "h" ? "u16" : (letter == "r" ? "u32" : "u64");
    text += "ld.param.u64 %l9, [" + std::string(names[i]) + "]; add.u64 %l9, %l9, %l8;";
    text += "ld.global." + type + " %" + letter + std::to_string(i) + ", [%l9];\n";
  }
  text += "{ " + with_registers(c) + " }\n";
  const std::string letter = c.registers[0];
  if (letter == "h") text += "cvt.u64.u16 %l10, %h0;";
  if (letter == "r") text += "cvt.u64.u32 %l10, %r0;";
  if (letter == "l") text += "mov.u64 %l10, %l0;";
  return text + "ld.param.u64 %l9, [out]; add.u64 %l9, %l9, %l8; st.global.u64 [%l9], %l10; ret; }";
}

TEST(ExecutionSilicon, EveryRecordedScalarCaseIsReproduced) {
  const auto hashes = recorded();
  std::map<std::pair<Kind, int>, std::vector<uint64_t>> made;
  for (const Case& c : kCases) {
    // Two-bit types stand in the tables before the parser knows them.
    if (std::strstr(c.text, ".u2.") != nullptr || std::strstr(c.text, ".s2.") != nullptr) continue;
    Machine machine;
    machine.load(module_of(c));
    uint64_t addresses[3];
    for (int place = 0; place < 3; ++place) {
      auto& values = made[{c.kinds[place], place}];
      for (uint32_t i = static_cast<uint32_t>(values.size()); i < silicon::kFullCount; ++i) {
        values.push_back(silicon::case_operand(c.kinds[place], static_cast<uint64_t>(place), i));
      }
      addresses[place] = machine.upload(
          std::vector<uint64_t>(values.begin(), values.begin() + static_cast<int64_t>(c.count)));
    }
    const uint64_t out = machine.allocate(uint64_t{8} * c.count);
    const Status status = machine.launch("k", {c.count / 256, 1, 1}, {256, 1, 1}, addresses[0],
                                         addresses[1], addresses[2], out);
    EXPECT_TRUE(status.ok()) << c.name << ": " << status.message();
    if (!status.ok()) continue;
    uint64_t hash = silicon::kHashStart;
    for (const uint64_t value : machine.download<uint64_t>(out, c.count)) {
      hash = silicon::hash_step(hash, value);
    }
    ASSERT_TRUE(hashes.contains(c.name)) << c.name;
    EXPECT_EQ(hash, hashes.at(c.name)) << c.name << ": " << c.text;
  }
}

}  // namespace
}  // namespace flamia::emulator
