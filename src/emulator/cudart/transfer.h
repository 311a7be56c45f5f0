// Copies and fills: which memory a pointer is, what a direction demands of it, and doing it.
// Depends on: runtime.h. Used by: memory calls, graph nodes, execute.cc.
#pragma once

#include "emulator/cudart/runtime.h"

namespace flamia::emulator::cudart {

enum class Place : uint8_t {
  kPageable,  ///< memory of the program that the device does not know
  kPinned,    ///< page-locked host memory
  kDevice,
  kConstant,  ///< of a module
  kNowhere,   ///< in the device's range, but not all of it allocated
};

/// Where [pointer, pointer + bytes) lies.
Place place_of(Runtime& runtime, const void* pointer, uint64_t bytes);

/// Whether a copy may be made, with the codes of the real runtime.
Outcome check_copy(Runtime& runtime, const CopyWork& work);
Outcome check_fill(Runtime& runtime, const FillWork& work);

/// Checks and does it.
Outcome run_copy(Runtime& runtime, const CopyWork& work);
Outcome run_fill(Runtime& runtime, const FillWork& work);

/// Where `bytes` at `offset` of a variable are for the host: its copy in device memory or in the
/// constant bank of its module.
Outcome locate_symbol(Runtime& runtime, const void* symbol, uint64_t offset, uint64_t bytes,
                      void** data);
/// Address of a variable as device code sees it, and its size.
Outcome symbol_address(Runtime& runtime, const void* symbol, uint64_t* address, uint64_t* bytes);

}  // namespace flamia::emulator::cudart
