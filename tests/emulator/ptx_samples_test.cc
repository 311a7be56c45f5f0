// Whole modules that nvcc 13.0 made of tests/cuda/emulator_samples parse completely.
// data/NAME_smTARGET.ptx comes from: nvcc -std=c++20 -ptx -arch=compute_TARGET
// tests/cuda/emulator_samples/NAME.cu
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "emulator/ptx/cfg.h"
#include "emulator/ptx/parser.h"
#include "emulator/ptx/text.h"

namespace flamia::emulator::ptx {
namespace {

const std::string kData = std::string(FLAMIA_SOURCE_DIR) + "/tests/emulator/data/";

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Module sample(const std::string& name) {
  Module module;
  const Status status = parse(read_file(kData + name + ".ptx"), &module);
  EXPECT_TRUE(status.ok()) << name << ": " << status.message();
  return module;
}

const Function& function(const Module& module, std::string_view name) {
  const uint32_t index = module.find_function(name);
  EXPECT_NE(index, kNoIndex) << name;
  return module.functions.at(index);
}

size_t count(const Function& function, Opcode opcode) {
  size_t n = 0;
  for (const Instruction& instruction : function.instructions) n += instruction.opcode == opcode;
  return n;
}

TEST(PtxSamples, EveryModuleParsesWithAnInstructionPerStatement) {
  size_t modules = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData)) {
    if (entry.path().extension() != ".ptx") continue;
    ++modules;
    const std::string text = read_file(entry.path());
    Module module;
    const Status status = parse(text, &module);
    ASSERT_TRUE(status.ok()) << entry.path() << ": " << status.message();
    // nvcc writes one instruction a line with a tab in front; inline assembly has no tab or more.
    size_t instructions = 0;
    for (const Function& f : module.functions) {
      instructions += f.instructions.size();
      for (const Instruction& i : f.instructions) EXPECT_FALSE(to_text(i, f, &module).empty());
      const ControlFlow flow = analyze(f);
      EXPECT_EQ(flow.reconvergence.size(), f.instructions.size());
    }
    EXPECT_GT(instructions, 50u) << entry.path();
  }
  EXPECT_GE(modules, 9u);
}

TEST(PtxSamples, ScalarHasTablesPointersAndACall) {
  const Module module = sample("scalar_sm90a");
  EXPECT_EQ(module.target, "sm_90a");
  const Function& integers = function(module, "integers");
  EXPECT_TRUE(integers.is_entry);
  ASSERT_EQ(integers.parameters.size(), 4u);
  EXPECT_EQ(integers.parameters[3].offset, 24u);
  EXPECT_EQ(integers.parameter_bytes, 28u);
  EXPECT_EQ(count(integers, Opcode::kCall), 1u);
  const Variable& table = module.variables.at(module.find_variable("table"));
  EXPECT_EQ(table.space, StateSpace::kConst);
  EXPECT_EQ(table.bytes, 64u);
  EXPECT_EQ(table.initial.at(4), 0xfe);  // -2
  const Variable& names = module.variables.at(module.find_variable("names"));
  ASSERT_EQ(names.relocations.size(), 2u);
  EXPECT_TRUE(names.relocations[1].is_generic);
  EXPECT_EQ(names.relocations[1].offset, 8u);
}

TEST(PtxSamples, SharedMemoryIsLaidOutPerEntry) {
  const Module module = sample("shared_reduce_sm90a");
  const Function& reduce = function(module, "reduce");
  EXPECT_EQ(reduce.shared_bytes, 36u);
  EXPECT_EQ(reduce.bounds.max_threads.x, 256u);
  EXPECT_EQ(reduce.bounds.min_ctas_per_sm, 2u);
  const Function& transpose = function(module, "transpose");
  EXPECT_EQ(transpose.shared_bytes, 0u);
  EXPECT_EQ(transpose.dynamic_shared_offset, 0u);
  const Variable& dynamic = module.variables.at(module.find_variable("dynamic"));
  EXPECT_TRUE(dynamic.is_dynamic);
  EXPECT_EQ(dynamic.alignment, 128u);
}

TEST(PtxSamples, IndirectCallsNameTheirPrototype) {
  const Module module = sample("divergent_sm103a");
  const Function& indirect = function(module, "indirect");
  size_t calls = 0;
  for (const Instruction& instruction : indirect.instructions) {
    if (instruction.opcode != Opcode::kCall) continue;
    const auto operands = indirect.operands_of(instruction);
    ASSERT_EQ(operands.size(), 4u);
    EXPECT_EQ(operands[1].kind, OperandKind::kRegister);
    ASSERT_EQ(operands[3].kind, OperandKind::kPrototype);
    EXPECT_EQ(indirect.prototypes[operands[3].index].parameters.size(), 1u);
    ++calls;
  }
  EXPECT_GT(calls, 0u);
}

TEST(PtxSamples, PrintingCallsTheDeviceRuntime) {
  const Module module = sample("printing_sm90a");
  const Function& print = function(module, "print");
  EXPECT_EQ(count(print, Opcode::kCall), 3u);
  EXPECT_EQ(count(print, Opcode::kTrap), 1u);
  EXPECT_FALSE(function(module, "vprintf").has_body);
  EXPECT_EQ(function(module, "vprintf").return_bytes, 4u);
  EXPECT_EQ(function(module, "__assertfail").parameter_bytes, 40u);
  EXPECT_GE(print.local_bytes, 32u);
}

TEST(PtxSamples, ClustersAndTensorMapsSurvive) {
  const Module module = sample("async_copy_sm90a");
  const Function& kernel = function(module, "tma_pipeline");
  EXPECT_EQ(kernel.bounds.required_cluster.x, 2u);
  EXPECT_TRUE(kernel.bounds.explicit_cluster);
  EXPECT_EQ(kernel.parameters[0].bytes, 128u);
  EXPECT_EQ(kernel.parameters[0].alignment, 64u);
  bool found = false;
  for (const Instruction& instruction : kernel.instructions) {
    if (instruction.opcode != Opcode::kCpAsyncBulkTensor || found) continue;
    found = true;
    const auto operands = kernel.operands_of(instruction);
    ASSERT_EQ(operands.size(), 3u);
    ASSERT_EQ(operands[1].count, 1u);
    const Operand& coordinates = kernel.elements_of(operands[1])[0];
    EXPECT_EQ(coordinates.kind, OperandKind::kVector);
    EXPECT_EQ(coordinates.count, 2u);
    EXPECT_TRUE(instruction.has(Modifier::k2d));
  }
  EXPECT_TRUE(found);
}

TEST(PtxSamples, MatrixUnitsAreDecoded) {
  const Module hopper = sample("wgmma_sm90a");
  const Function& product = function(hopper, "product");
  ASSERT_EQ(count(product, Opcode::kWgmmaMmaAsync), 1u);
  for (const Instruction& instruction : product.instructions) {
    if (instruction.opcode != Opcode::kWgmmaMmaAsync) continue;
    EXPECT_EQ(instruction.shape.n, 16u);
    EXPECT_EQ(instruction.type(0), ScalarType::kF32);
    EXPECT_EQ(instruction.type(2), ScalarType::kE4m3);
    EXPECT_EQ(product.operands_of(instruction)[0].count, 8u);
  }
  const Module blackwell = sample("tcgen05_sm100a");
  const Function& tensor = function(blackwell, "product");
  EXPECT_EQ(count(tensor, Opcode::kTcgen05Mma), 1u);
  EXPECT_EQ(count(tensor, Opcode::kTcgen05Ld), 16u);
  EXPECT_EQ(count(tensor, Opcode::kTcgen05Commit), 1u);
}

}  // namespace
}  // namespace flamia::emulator::ptx
