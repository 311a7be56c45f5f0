// What one PTX instruction is to the counters and to the model.
// Depends on: counters.h, ptx/module.h. Used by: recorder.cc, tests.
// PTX is not machine code. The costs are those of the SASS that nvcc 13.0 makes for sm_90a in
// straight-line code: moves, parameter loads and address spaces cost nothing, 64-bit integers cost
// two instructions, approximations without .ftz are scaled around one MUFU.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "emulator/model/counters.h"
#include "emulator/ptx/module.h"

namespace flamia::emulator::model {

struct InstructionCost {
  Counter category = Counter::kOther;
  std::array<uint8_t, kSlotCount> slots{};
  // Amounts that the text alone decides, for each execution by one warp.
  uint32_t tmem_read_bytes = 0;
  uint32_t tmem_write_bytes = 0;
  uint32_t tmem_copy_bytes = 0;
  // wgmma and mma.sync; a warp executes a quarter of a wgmma.
  std::string tensor;  ///< spelling; empty: none
  TensorCount tensor_count;
  uint64_t flops = 0;          ///< of this warp
  uint32_t operand_bytes = 0;  ///< read from shared memory for this warp

  uint8_t& operator[](Slot slot) { return slots[static_cast<size_t>(slot)]; }
  uint8_t operator[](Slot slot) const { return slots[static_cast<size_t>(slot)]; }
};

InstructionCost cost_of(const ptx::Function& function, const ptx::Instruction& instruction);

}  // namespace flamia::emulator::model
