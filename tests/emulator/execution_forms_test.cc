// Which instruction forms the interpreter decodes: all of data/instruction_forms.txt but the ones
// listed here by name.
// Depends on: the data file, execution/decoder.h through Program.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/message.h"
#include "emulator/execution/step.h"
#include "tests/emulator/execution_harness.h"

namespace flamia::emulator {
namespace {

constexpr const char* kHead =
    ".version 9.0\n.target sm_103a\n.address_size 64\n"
    ".func (.param .b32 result) device_function(.param .b32 parameter) { ret; }\n"
    ".entry kernel(.param .align 8 .b8 parameter[64]) {\n"
    ".reg .pred %p<10>; .reg .b8 %b<10>; .reg .b16 %h<10>; .reg .b32 %r<600>; .reg .f32 %f<600>;\n"
    ".reg .b64 %d<100>; .reg .f64 %e<10>; .reg .b128 %q<10>; .local .align 8 .b8 stack[64];\n"
    ".param .b32 argument; .param .b32 returned;\n";

TEST(ExecutionForms, AllAreHandledButSparseAndWeightStationaryMatrices) {
  std::ifstream file(std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/data/instruction_forms.txt");
  Emulator emulator({});
  uint32_t count = 0;
  for (std::string form; std::getline(file, form);) {
    if (form.starts_with("//")) continue;
    ++count;
    std::unique_ptr<LoadedModule> module;
    const Status status = emulator.load(concat(kHead, form, "\ndone: ret;\n}\n"), &module);
    ASSERT_TRUE(status.ok()) << form << "\n" << status.message();
    execution::Program program(module.get());
    const bool known = form.starts_with("tcgen05.mma.sp") || form.starts_with("tcgen05.mma.ws") ||
                       form.find(".ashift") != std::string::npos;
    const auto& refused = program.code(1).refused;
    EXPECT_EQ(!refused.empty(), known) << form << "\n" << (refused.empty() ? "" : refused[0]);
  }
  EXPECT_GE(count, 400u);
}

}  // namespace
}  // namespace flamia::emulator
