// Offsets of static shared variables, and where dynamic shared memory starts, for every entry.
// Depends on: module.h. Used by: the parser, last.
#pragma once

#include "emulator/ptx/module.h"

namespace flamia::emulator::ptx {

/// Variables of the module and of device functions form one block, which entries that can reach a
/// use of it have at offset 0; the variables of the entry itself follow.
void lay_out_shared_memory(Module* module);

}  // namespace flamia::emulator::ptx
