// "cvt.rn.bf16x2.f32" to opcode, modifiers and types; the names of all enumerators.
// Depends on: the .def files. Used by: the parser, which caches the results per spelling.
#pragma once

#include <optional>
#include <string_view>

#include "emulator/ptx/module.h"

namespace flamia::emulator::ptx {

struct Mnemonic {
  Opcode opcode{};
  ShortList<ScalarType, 7> types;
  ShortList<Modifier, 12> modifiers;
  MatrixShape shape;
};

enum class MnemonicError : uint8_t { kNone, kOpcode, kModifier, kTooMany };

/// Decodes a spelling. On errors *wrong is the component that is not known.
MnemonicError decode_mnemonic(std::string_view text, Mnemonic* mnemonic, std::string_view* wrong);

std::optional<ScalarType> find_type(std::string_view text);
std::optional<SpecialRegister> find_special(std::string_view text);

}  // namespace flamia::emulator::ptx
