// Basic blocks and immediate post-dominators of a function: where divergent lanes meet again.
// Depends on: module.h. Used by: the interpreter's reconvergence.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/module.h"

namespace flamia::emulator::ptx {

struct BasicBlock {
  uint32_t begin = 0, end = 0;       // instructions
  std::vector<uint32_t> successors;  // blocks; kExit is ControlFlow::blocks.size()
};

struct ControlFlow {
  std::vector<BasicBlock> blocks;  // ascending by begin
  std::vector<uint32_t> block_of;  // per instruction
  /// Per instruction that can diverge (a guarded bra, brx.idx): the first instruction of the block
  /// where all its paths meet, instructions.size() if only at the exit. kNoIndex for all others.
  std::vector<uint32_t> reconvergence;
};

ControlFlow analyze(const Function& function);

}  // namespace flamia::emulator::ptx
