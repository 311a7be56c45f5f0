// PTX text to a Module.
// Depends on: the PTX ISA as nvcc 13.0 emits it, inline assembly included. Used by: loading
// modules. Any text is safe: memory grows with the text only, recursion is bounded.
#pragma once

#include <string_view>

#include "emulator/ptx/module.h"
#include "flamia/status.h"

namespace flamia::emulator::ptx {

/// Reads a whole module. Errors: "ptx:LINE: WHAT must RULE; got TEXT"; unknown instructions and
/// modifiers are kUnsupported, everything else kInvalidArgument. *module is unspecified on errors.
Status parse(std::string_view text, Module* module);

}  // namespace flamia::emulator::ptx
