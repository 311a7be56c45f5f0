// Instructions as text, for messages and traces.
// Depends on: module.h. Used by: traps, hazard reports, the tracer.
#pragma once

#include <string>

#include "emulator/ptx/module.h"

namespace flamia::emulator::ptx {

/// The instruction as PTX writes it, on one line: "@!%p1 add.s32 %r3, %r1, 4;". Symbols of the
/// module appear by name where `module` is given, otherwise by number.
std::string to_text(const Instruction& instruction, const Function& function,
                    const Module* module = nullptr);

}  // namespace flamia::emulator::ptx
