// Rules of the parser, one at a time, and the exact words of its refusals.
#include <gtest/gtest.h>

#include <string>

#include "base/bits.h"
#include "base/message.h"
#include "emulator/ptx/parser.h"
#include "emulator/ptx/text.h"

namespace flamia::emulator::ptx {
namespace {

constexpr std::string_view kHead = ".version 9.0\n.target sm_90a\n.address_size 64\n";

Module parsed(std::string_view text) {
  Module module;
  const Status status = parse(concat(kHead, text), &module);
  EXPECT_TRUE(status.ok()) << status.message();
  return module;
}

/// A kernel with some registers around `body`, whose first line is line 4.
Module kernel(std::string_view body) {
  return parsed(concat(".entry k(.param .u64 p) { .reg .pred %p<8>; .reg .b32 %r<100>; ",
                       ".reg .b64 %rd<9>;", body, "}"));
}

std::string refusal_of(std::string_view text) {
  Module module;
  const Status status = parse(concat(kHead, text), &module);
  EXPECT_FALSE(status.ok());
  return status.message();
}

std::string refusal_in_kernel(std::string_view body) {
  return refusal_of(concat(".entry k() { .reg .b32 %r<4>; .reg .pred %p;\n", body, "\n}"));
}

std::string first_text(const Module& module) {
  const Function& f = module.functions.back();
  return f.instructions.empty() ? "" : to_text(f.instructions[0], f, &module);
}

TEST(PtxParser, ReadsTheHeaderOfTheModule) {
  const Module module = parsed(".file 1 \"a.cu\"\n.section .debug_str { .b8 1, 2 L: .b8 3 }\n");
  EXPECT_EQ(module.version_major, 9u);
  EXPECT_EQ(module.target, "sm_90a");
  ASSERT_EQ(module.files.size(), 1u);
  EXPECT_EQ(module.files[0].name, "a.cu");
}

TEST(PtxParser, GivesRegistersDenseIndicesOnFirstUse) {
  const Module module = kernel("add.s32 %r7, %r99, %r7;");
  const Function& f = module.functions[0];
  ASSERT_EQ(f.registers.size(), 2u);
  EXPECT_EQ(f.registers[0].name, "%r7");
  EXPECT_EQ(f.registers[1].name, "%r99");
  EXPECT_EQ(f.operands_of(f.instructions[0])[2].index, 0u);
}

TEST(PtxParser, HidesOuterRegistersInInnerScopes) {
  const Module module = kernel(
      "mov.b32 %r1, 1; { .reg .b32 %r<3>; .reg .b64 x; mov.b32 %r1, 2; mov.b64 x, 3; }"
      "{ .reg .b32 x; mov.b32 x, 4; } mov.b32 %r1, 5;");
  const Function& f = module.functions[0];
  ASSERT_EQ(f.registers.size(), 4u);
  const auto target = [&](size_t i) { return f.operands_of(f.instructions[i])[0].index; };
  EXPECT_NE(target(0), target(1));
  EXPECT_EQ(target(0), target(4));
  EXPECT_EQ(f.registers[target(2)].type, ScalarType::kB64);
  EXPECT_EQ(f.registers[target(3)].type, ScalarType::kB32);
}

TEST(PtxParser, ResolvesLabelsInTheirScope) {
  const Module module = kernel(
      "{ again: @%p1 bra done; bra again; done: }\n"
      "{ again: @%p1 bra done; bra again; done: }\n"
      "bra end; end: ret;");
  const Function& f = module.functions[0];
  const auto target = [&](size_t i) { return f.operands_of(f.instructions[i])[0].index; };
  EXPECT_EQ(target(0), 2u);
  EXPECT_EQ(target(1), 0u);
  EXPECT_EQ(target(2), 4u);
  EXPECT_EQ(target(3), 2u);
  EXPECT_EQ(target(4), 5u);
}

TEST(PtxParser, AddsAReturnWhereTheTextFallsOffItsEnd) {
  const Module module = kernel("@%p1 bra end; mov.b32 %r1, 0; end: ");
  const Function& f = module.functions[0];
  ASSERT_EQ(f.instructions.size(), 3u);
  EXPECT_EQ(f.instructions[2].opcode, Opcode::kRet);
  EXPECT_EQ(f.operands_of(f.instructions[0])[0].index, 2u);
}

TEST(PtxParser, ResolvesBranchTables) {
  const Module module =
      kernel("ts: .branchtargets a, b, a; brx.idx %r1, ts; a: mov.b32 %r1, 1; b: ret;");
  const Function& f = module.functions[0];
  ASSERT_EQ(f.branch_tables.size(), 1u);
  EXPECT_EQ(f.branch_tables[0].targets, (std::vector<uint32_t>{1, 2, 1}));
}

TEST(PtxParser, ReadsEveryFormOfConstant) {
  const Module module = kernel(
      "mov.b32 %r1, 0x1F; mov.b32 %r1, 017; mov.b32 %r1, 0b101; mov.b32 %r1, 12U;"
      "mov.f32 %r1, 0f3F800000; mov.f64 %rd1, 0d4000000000000000; mov.f32 %r1, -1.5;"
      "mov.b32 %r1, (1 << 4 | 3) * 2 - -1; mov.b32 %r1, WARP_SZ; mov.b32 %r1, ~0;");
  const Function& f = module.functions[0];
  const auto value = [&](size_t i) { return f.operands_of(f.instructions[i])[1]; };
  EXPECT_EQ(value(0).value, 31);
  EXPECT_EQ(value(1).value, 15);
  EXPECT_EQ(value(2).value, 5);
  EXPECT_EQ(value(3).value, 12);
  EXPECT_EQ(immediate_bits(value(4), ScalarType::kF32), float_bits(1.0f));
  EXPECT_EQ(immediate_bits(value(4), ScalarType::kF64), double_bits(1.0));
  EXPECT_EQ(immediate_bits(value(5), ScalarType::kF32), float_bits(2.0f));
  EXPECT_EQ(immediate_bits(value(6), ScalarType::kF32), float_bits(-1.5f));
  EXPECT_EQ(value(7).value, 39);
  EXPECT_EQ(value(8).value, 32);
  EXPECT_EQ(immediate_bits(value(9), ScalarType::kU16), 0xffffu);
}

TEST(PtxParser, ReadsAddressesVectorsPairsAndSinks) {
  EXPECT_EQ(first_text(kernel("ld.v2.u32 {%r1, _}, [%rd1+-4];")), "ld.v2.u32 {%r1, _}, [%rd1-4];");
  EXPECT_EQ(first_text(kernel("ld.param.u64 %rd1, [p+0];")), "ld.param.u64 %rd1, [p];");
  EXPECT_EQ(first_text(kernel("shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;")),
            "shfl.sync.idx.b32 %r1|%p1, %r2, 0, 31, -1;");
  EXPECT_EQ(first_text(kernel("setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;")),
            "setp.lt.and.s32 %p1|%p2, %r1, %r2, !%p3;");
  EXPECT_EQ(first_text(kernel("@!%p1 mov.u32 %r1, %ctaid.y;")), "@!%p1 mov.u32 %r1, %ctaid.y;");
  EXPECT_EQ(first_text(kernel("mov.u32 %r1, %laneid;")), "mov.u32 %r1, %laneid;");
  EXPECT_EQ(first_text(kernel("mov.u32 %r1, %envreg17;")), "mov.u32 %r1, %envreg17;");
  EXPECT_EQ(first_text(kernel("mov.u64 %rd1, %clock64;")), "mov.u64 %rd1, %clock64;");
  EXPECT_EQ(first_text(kernel("tex.2d.v4.f32.s32 {%r1,%r2,%r3,%r4}, [%rd1, {%r5, %r6}];")),
            "tex.2d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [%rd1, {%r5, %r6}];");
}

TEST(PtxParser, ToleratesBlanksAndCommentsInsideInstructions) {
  EXPECT_EQ(first_text(kernel("/* a\nb */ add .s32 // c\n %r1 ,\n%r2,3 ;")),
            "add.s32 %r1, %r2, 3;");
}

TEST(PtxParser, NormalizesCalls) {
  const Module module = parsed(
      ".extern .func (.param .b32 r) f(.param .b32 a);\n.func g() .noreturn;\n"
      ".entry k() { .param .b32 x; .param .b32 y; call (y), f, (x); call g; }");
  const Function& f = module.functions[2];
  const auto with_values = f.operands_of(f.instructions[0]);
  ASSERT_EQ(with_values.size(), 3u);
  EXPECT_EQ(with_values[0].count, 1u);
  EXPECT_EQ(with_values[1].index, 0u);
  const auto bare = f.operands_of(f.instructions[1]);
  ASSERT_EQ(bare.size(), 3u);
  EXPECT_EQ(bare[0].count + bare[2].count, 0u);
  EXPECT_TRUE(module.functions[1].is_noreturn);
  EXPECT_EQ(to_text(f.instructions[0], f, &module), "call (y), f, (x);");
  EXPECT_EQ(to_text(f.instructions[1], f, &module), "call g;");
}

TEST(PtxParser, ReusesCallParametersOfClosedScopes) {
  const Module module = kernel(
      "{ .param .b64 a; .param .align 16 .b8 b[32]; st.param.b64 [a], %rd1; }"
      "{ .param .b32 c; st.param.b32 [c], %r1; }");
  const Function& f = module.functions[0];
  ASSERT_EQ(f.variables.size(), 3u);
  EXPECT_EQ(f.variables[1].offset, 16u);
  EXPECT_EQ(f.variables[2].offset, 0u);
  EXPECT_EQ(f.call_parameter_bytes, 48u);
}

TEST(PtxParser, FillsInitializersWithRowsStringsMasksAndSymbols) {
  const Module module = parsed(
      ".global .u16 rows[2][3] = {{1, 2}, {3}};\n.global .u32 word = 0x01020304;\n"
      ".global .b8 text[8] = \"ab\";\n.func f() { ret; }\n"
      ".global .u64 pointers[3] = {generic(word)+4, f, 7};\n"
      ".global .u8 mask[2] = {0xff(word), 0xff00(word)};\n.global .f64 d = 1.0;\n");
  const Variable& rows = module.variables[0];
  EXPECT_EQ(rows.bytes, 12u);
  EXPECT_EQ(rows.initial, (std::vector<uint8_t>{1, 0, 2, 0, 0, 0, 3, 0}));
  EXPECT_EQ(module.variables[1].initial, (std::vector<uint8_t>{4, 3, 2, 1}));
  EXPECT_EQ(module.variables[2].initial, (std::vector<uint8_t>{'a', 'b'}));
  const Variable& pointers = module.variables[3];
  ASSERT_EQ(pointers.relocations.size(), 2u);
  EXPECT_TRUE(pointers.relocations[0].is_generic);
  EXPECT_EQ(pointers.relocations[0].addend, 4);
  EXPECT_TRUE(pointers.relocations[1].is_function);
  EXPECT_EQ(pointers.initial.at(16), 7u);
  EXPECT_EQ(module.variables[4].relocations.at(1).shift, 8u);
  EXPECT_EQ(module.variables[4].relocations.at(1).bytes, 1u);
  EXPECT_EQ(module.variables[5].initial.at(7), 0x3fu);
}

TEST(PtxParser, LaysOutSharedMemoryOfDeviceFunctionsBeforeThatOfEntries) {
  const Module module = parsed(
      ".shared .align 4 .b8 common[100];\n.extern .shared .align 1024 .b8 dynamic[];\n"
      ".func f() { .reg .b32 %r; ld.shared.u32 %r, [common]; ret; }\n"
      ".entry a() { .shared .align 8 .b8 mine[8]; .reg .b32 %r; call f; mov.b32 %r, dynamic; }\n"
      ".entry b() { .shared .align 8 .b8 mine[8]; }\n");
  const Function& with_call = module.functions[1];
  EXPECT_EQ(with_call.variables[0].offset, 104u);
  EXPECT_EQ(with_call.shared_bytes, 112u);
  EXPECT_EQ(with_call.dynamic_shared_offset, 1024u);
  EXPECT_EQ(module.functions[2].shared_bytes, 8u);
  EXPECT_EQ(module.functions[2].dynamic_shared_offset, 8u);
}

TEST(PtxParser, KeepsLaunchBoundsAliasesPragmasAndLocations) {
  const Module module = parsed(
      ".func real() { ret; }\n.weak .func other();\n.alias other, real;\n"
      ".weak .entry k(.param .u64 .ptr .global .align 256 a) .maxntid 128, 2, 1 .minnctapersm 2\n"
      ".maxnreg 64 .reqnctapercluster 2, 1, 1 .explicitcluster .maxclusterrank 4\n{\n"
      ".pragma \"nounroll\";\n.loc 1 7 3, function_name $L__s+3, inlined_at 1 9 1\nret;\n}\n");
  EXPECT_EQ(module.functions[1].alias_of, 0u);
  const Function& f = module.functions[2];
  EXPECT_EQ(f.linkage, Linkage::kWeak);
  EXPECT_TRUE(f.parameters[0].is_pointer);
  EXPECT_EQ(f.parameters[0].alignment, 8u);
  EXPECT_EQ(f.bounds.max_threads.y, 2u);
  EXPECT_EQ(f.bounds.max_registers, 64u);
  EXPECT_EQ(f.bounds.required_cluster.x, 2u);
  EXPECT_EQ(f.bounds.max_cluster_rank, 4u);
  EXPECT_EQ(f.pragmas.at(0), "nounroll");
  EXPECT_EQ(f.instructions[0].line, 12u);
  EXPECT_EQ(f.locations.at(f.instructions[0].location).line, 7u);
}

TEST(PtxParser, RefusesWithTheLineTheRuleAndTheText) {
  EXPECT_EQ(refusal_in_kernel("add.foo.s32 %r1, %r2, %r3;"),
            "ptx:5: modifier .foo must be one of PTX; got add.foo.s32 %r1, %r2, %r3;");
  EXPECT_EQ(refusal_in_kernel("frobnicate.b32 %r1;"),
            "ptx:5: instruction frobnicate must be one of PTX; got frobnicate.b32 %r1;");
  EXPECT_EQ(refusal_in_kernel("mov.b32 %r9, 1;"),
            "ptx:5: register must be declared or special; got %r9");
  EXPECT_EQ(refusal_in_kernel("mov.b32 %r1, x;"),
            "ptx:5: name must be declared before its use; got x");
  EXPECT_EQ(refusal_in_kernel("bra nowhere;"),
            "ptx:5: label must be defined in its function; got nowhere");
  EXPECT_EQ(refusal_in_kernel("@%r1 ret;"), "ptx:5: guard must be a predicate register; got %r1");
  EXPECT_EQ(refusal_in_kernel("bar.sync 0"), "ptx:6: bar.sync must be followed by ';'; got }");
  EXPECT_EQ(refusal_in_kernel("a: a: ret;"),
            "ptx:5: label must be defined once in its scope; got a");
  EXPECT_EQ(refusal_in_kernel(".reg .b32 %r<2>;"),
            "ptx:5: register must be declared once in its scope; got %r");
  EXPECT_EQ(refusal_in_kernel("mov.b32 %r1, 1/0;"),
            "ptx:5: divisor of a constant must not be zero; got 0");
  EXPECT_EQ(refusal_of(".entry k() { ret;"),
            "ptx:4: function must end with }; got the end of the text");
  EXPECT_EQ(refusal_of(".global .u32 a; .global .u32 a;"),
            "ptx:4: name must be declared once in its scope; got a");
  EXPECT_EQ(refusal_of("/* open"), "ptx:4: comment must end with */; got the end of the text");
}

TEST(PtxParser, SaysWhetherTheTextIsWrongOrWeAreIncomplete) {
  Module module;
  EXPECT_EQ(parse(concat(kHead, ".entry k() { frob; }"), &module).code(), StatusCode::kUnsupported);
  EXPECT_EQ(parse(concat(kHead, ".entry k() { ret "), &module).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(parse("", &module).message(), "ptx:1: module must have a .version; got none");
}

TEST(PtxParser, BoundsNestingAndMemory) {
  const std::string deep(100000, '{'), parentheses(100000, '(');
  EXPECT_NE(refusal_in_kernel(deep).find("nest at most 256 deep"), std::string::npos);
  EXPECT_NE(refusal_in_kernel("mov.b32 %r1, " + parentheses).find("nest at most 64 deep"),
            std::string::npos);
  EXPECT_NE(refusal_of(".global .b8 x[2][1073741824] = {{1}, {1}};").find("fill at most"),
            std::string::npos);
  EXPECT_NE(refusal_of(".global .b64 x[1099511627776][1099511627776];").find("have at most"),
            std::string::npos);
  const Module module = kernel(".reg .b32 many<2000000000>; mov.b32 many1999999999, 1;");
  EXPECT_EQ(module.functions[0].registers.size(), 1u);
}

}  // namespace
}  // namespace flamia::emulator::ptx
