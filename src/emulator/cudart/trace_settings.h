// The window of a trace as text: "kernel=gemm,launch=0,cta=1:0:0,warp=3,lane=5,lines=10:40,skip=0,
// count=100", every part optional.
// Depends on: emulator.h. Used by: settings.cc, and vgpu-trace, which checks what it passes on.
#pragma once

#include <string_view>

#include "emulator/emulator.h"

namespace flamia::emulator::cudart {

/// kInvalidArgument names the part, its rule and its value.
Status read_trace_window(std::string_view text, TraceOptions* trace);

}  // namespace flamia::emulator::cudart
