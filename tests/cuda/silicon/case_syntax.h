// Words of the case tables (*.def): operand kinds with their registers, and common PTX texts.
// Used by: silicon_cases.cu and tests/emulator/silicon_scalar_test.cc, which define the macros
// UNARY, BINARY and TERNARY(name, count, output, operands..., PTX text, model) before they include
// a table.
#pragma once

#include <cstdint>

#include "tests/cuda/silicon/case_inputs.h"

// clang-format off
#define TYPE_none uint32_t
#define TYPE_f16 uint16_t
#define TYPE_bf16 uint16_t
#define TYPE_f16x2 uint32_t
#define TYPE_bf16x2 uint32_t
#define TYPE_f32 uint32_t
#define TYPE_f64 uint64_t
#define TYPE_i16 uint16_t
#define TYPE_i32 uint32_t
#define TYPE_i64 uint64_t
#define TYPE_count uint32_t
#define TYPE_all16 uint16_t
#define TYPE_pair16 uint32_t
#define TYPE_tiny uint32_t

#define REG_f16 "h"
#define REG_bf16 "h"
#define REG_f16x2 "r"
#define REG_bf16x2 "r"
#define REG_f32 "r"
#define REG_f64 "l"
#define REG_i16 "h"
#define REG_i32 "r"
#define REG_i64 "l"
#define REG_count "r"
#define REG_all16 "h"
#define REG_pair16 "r"
#define REG_tiny "r"

#define KIND_none flamia::silicon::Kind::kNone
#define KIND_f16 flamia::silicon::Kind::kF16
#define KIND_bf16 flamia::silicon::Kind::kBf16
#define KIND_f16x2 flamia::silicon::Kind::kF16x2
#define KIND_bf16x2 flamia::silicon::Kind::kBf16x2
#define KIND_f32 flamia::silicon::Kind::kF32
#define KIND_f64 flamia::silicon::Kind::kF64
#define KIND_i16 flamia::silicon::Kind::kI16
#define KIND_i32 flamia::silicon::Kind::kI32
#define KIND_i64 flamia::silicon::Kind::kI64
#define KIND_count flamia::silicon::Kind::kCount
#define KIND_all16 flamia::silicon::Kind::kIndex16
#define KIND_pair16 flamia::silicon::Kind::kPair16
#define KIND_tiny flamia::silicon::Kind::kTiny

#define QUICK flamia::silicon::kQuickCount
#define FULL flamia::silicon::kFullCount

#define P1(op) op " %0, %1;"
#define P2(op) op " %0, %1, %2;"
#define P3(op) op " %0, %1, %2, %3;"
#define PREDICATE1(op) ".reg .pred p; " op " p, %1; selp.u32 %0, 1, 0, p;"
#define PREDICATE2(op) ".reg .pred p; " op " p, %1, %2; selp.u32 %0, 1, 0, p;"

#define FOR_ROUNDINGS(X) X(rn, kNearestEven) X(rz, kZero) X(rm, kDown) X(rp, kUp)
#define FOR_WHOLE(X) X(rni, kNearestEven) X(rzi, kZero) X(rmi, kDown) X(rpi, kUp)
// clang-format on
