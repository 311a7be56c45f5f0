// Constant expressions of PTX: numbers in every form, signs, C operators, parentheses.
// Depends on: lexer.h. Used by: the parser, for operands, offsets, sizes and initializers.
#pragma once

#include <cstdint>

#include "emulator/ptx/lexer.h"
#include "emulator/ptx/module.h"

namespace flamia::emulator::ptx {

struct Constant {
  Literal literal = Literal::kInteger;
  int64_t value = 0;  // bits: of a binary32 in the low half, of a binary64, or an integer
};

/// True if the current token can start a constant.
bool at_constant(const Lexer& lexer);

/// Takes a constant expression; integers wrap at 64 bits.
Constant take_constant(Lexer& lexer);

/// Takes an integer expression in [lowest, highest]; `what` names it in messages.
uint64_t take_integer(Lexer& lexer, std::string_view what, uint64_t lowest, uint64_t highest);

}  // namespace flamia::emulator::ptx
