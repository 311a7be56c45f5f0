// The part of instruction_cost.h that is about tensor cores and tensor memory.
// Depends on: instruction_cost.h, tensor/descriptors.h. Used by: instruction_cost.cc, recorder.cc.
#pragma once

#include "emulator/model/instruction_cost.h"
#include "emulator/tensor/descriptors.h"

namespace flamia::emulator::model {

/// True if the instruction is of the tensor families; fills *cost.
bool matrix_cost(const ptx::Function& function, const ptx::Instruction& instruction,
                 InstructionCost* cost);

/// One tcgen05.mma as its descriptor says: spelling, FLOPs, operand bytes of shared memory. Both
/// SMs of a pair are counted.
struct TensorMmaCost {
  std::string name;
  TensorCount count;
  uint64_t operand_bytes = 0;
};
TensorMmaCost tensor_mma_cost(const InstructionForm& form, const InstructionDescriptor& descriptor);

}  // namespace flamia::emulator::model
