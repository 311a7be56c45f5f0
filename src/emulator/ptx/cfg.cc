// Blocks, edges and post-dominators.
#include "emulator/ptx/cfg.h"

#include <algorithm>

namespace flamia::emulator::ptx {
namespace {

bool is_exit(Opcode opcode) {
  return opcode == Opcode::kRet || opcode == Opcode::kExit || opcode == Opcode::kTrap;
}

bool ends_block(Opcode opcode) {
  return opcode == Opcode::kBra || opcode == Opcode::kBrxIdx || is_exit(opcode);
}

/// Calls visit(target) for the branch targets of an instruction.
template <typename Visit>
void for_each_target(const Function& function, const Instruction& instruction, Visit visit) {
  if (instruction.opcode == Opcode::kBra) {
    visit(function.operands_of(instruction)[0].index);
  } else if (instruction.opcode == Opcode::kBrxIdx) {
    const uint32_t table = function.operands_of(instruction)[1].index;
    for (const uint32_t target : function.branch_tables[table].targets) visit(target);
  }
}

void find_blocks(const Function& function, ControlFlow* flow) {
  const auto size = static_cast<uint32_t>(function.instructions.size());
  std::vector<uint8_t> leads(size + 1, 0);
  leads[0] = 1;
  for (uint32_t i = 0; i < size; ++i) {
    const Instruction& instruction = function.instructions[i];
    if (ends_block(instruction.opcode)) leads[i + 1] = 1;
    for_each_target(function, instruction, [&](uint32_t target) { leads[target] = 1; });
  }
  flow->block_of.resize(size);
  for (uint32_t i = 0; i < size; ++i) {
    if (leads[i] != 0) flow->blocks.push_back({i, i, {}});
    flow->block_of[i] = static_cast<uint32_t>(flow->blocks.size() - 1);
    flow->blocks.back().end = i + 1;
  }
}

void find_successors(const Function& function, ControlFlow* flow) {
  const auto exit = static_cast<uint32_t>(flow->blocks.size());
  for (uint32_t b = 0; b < exit; ++b) {
    std::vector<uint32_t>& successors = flow->blocks[b].successors;
    const Instruction& last = function.instructions[flow->blocks[b].end - 1];
    for_each_target(function, last,
                    [&](uint32_t target) { successors.push_back(flow->block_of[target]); });
    if (is_exit(last.opcode)) successors.push_back(exit);
    const bool falls_through = last.guard != kNoIndex || !ends_block(last.opcode);
    if (falls_through) successors.push_back(b + 1 < exit ? b + 1 : exit);
    std::sort(successors.begin(), successors.end());
    successors.erase(std::unique(successors.begin(), successors.end()), successors.end());
  }
}

/// Immediate post-dominators by Cooper, Harvey and Kennedy's iteration on the reversed graph.
class PostDominators {
 public:
  explicit PostDominators(const ControlFlow& flow)
      : flow_(flow), exit_(static_cast<uint32_t>(flow.blocks.size())) {
    predecessors_.resize(exit_ + 1);
    for (uint32_t b = 0; b < exit_; ++b) {
      for (const uint32_t successor : flow.blocks[b].successors) {
        predecessors_[successor].push_back(b);
      }
    }
    order();
    solve();
  }

  uint32_t operator[](uint32_t block) const { return immediate_[block]; }

 private:
  /// Postorder of the reversed graph; blocks that never reach the exit hang from it directly.
  void order() {
    number_.assign(exit_ + 1, kNoIndex);
    seen_.assign(exit_ + 1, 0);
    endless_.assign(exit_ + 1, 0);
    // Endless loops first: their numbers must be below the exit's, which is the root.
    std::vector<uint8_t> reaches(exit_ + 1, 0);
    flood(exit_, &reaches);
    for (uint32_t b = exit_; b-- > 0;) {
      if (reaches[b] != 0) continue;
      endless_[b] = 1;
      flood(b, &reaches);
    }
    for (uint32_t b = 0; b < exit_; ++b) {
      if (endless_[b] != 0) predecessors_[exit_].push_back(b);
    }
    depth_first();
  }

  void flood(uint32_t from, std::vector<uint8_t>* reaches) const {
    std::vector<uint32_t> work{from};
    (*reaches)[from] = 1;
    while (!work.empty()) {
      const uint32_t block = work.back();
      work.pop_back();
      for (const uint32_t next : predecessors_[block]) {
        if ((*reaches)[next] != 0) continue;
        (*reaches)[next] = 1;
        work.push_back(next);
      }
    }
  }

  void depth_first() {
    struct Visit {
      uint32_t block;
      size_t next;
    };
    std::vector<Visit> stack{{exit_, 0}};
    seen_[exit_] = 1;
    while (!stack.empty()) {
      Visit& visit = stack.back();
      const std::vector<uint32_t>& next = predecessors_[visit.block];
      if (visit.next == next.size()) {
        number_[visit.block] = static_cast<uint32_t>(postorder_.size());
        postorder_.push_back(visit.block);
        stack.pop_back();
        continue;
      }
      const uint32_t block = next[visit.next++];
      if (seen_[block] != 0) continue;
      seen_[block] = 1;
      stack.push_back({block, 0});
    }
  }

  uint32_t meet(uint32_t a, uint32_t b) const {
    while (a != b) {
      while (number_[a] < number_[b]) a = immediate_[a];
      while (number_[b] < number_[a]) b = immediate_[b];
    }
    return a;
  }

  void solve() {
    immediate_.assign(exit_ + 1, kNoIndex);
    immediate_[exit_] = exit_;
    for (bool changed = true; changed;) {
      changed = false;
      for (auto block = postorder_.rbegin() + 1; block != postorder_.rend(); ++block) {
        uint32_t mine = endless_[*block] != 0 ? exit_ : kNoIndex;
        for (const uint32_t successor : flow_.blocks[*block].successors) {
          if (immediate_[successor] == kNoIndex) continue;
          mine = mine == kNoIndex ? successor : meet(mine, successor);
        }
        if (immediate_[*block] == mine) continue;
        immediate_[*block] = mine;
        changed = true;
      }
    }
  }

  const ControlFlow& flow_;
  uint32_t exit_;
  std::vector<std::vector<uint32_t>> predecessors_;
  std::vector<uint32_t> number_, postorder_, immediate_;
  std::vector<uint8_t> seen_, endless_;
};

}  // namespace

ControlFlow analyze(const Function& function) {
  ControlFlow flow;
  const auto size = static_cast<uint32_t>(function.instructions.size());
  flow.reconvergence.assign(size, kNoIndex);
  if (size == 0) return flow;
  find_blocks(function, &flow);
  find_successors(function, &flow);
  const PostDominators dominators(flow);
  for (uint32_t b = 0; b < flow.blocks.size(); ++b) {
    const uint32_t last = flow.blocks[b].end - 1;
    const Instruction& instruction = function.instructions[last];
    const bool can_diverge = instruction.opcode == Opcode::kBrxIdx ||
                             (instruction.opcode == Opcode::kBra && instruction.guard != kNoIndex);
    if (!can_diverge) continue;
    const uint32_t meeting = dominators[b];
    flow.reconvergence[last] = meeting < flow.blocks.size() ? flow.blocks[meeting].begin : size;
  }
  return flow;
}

}  // namespace flamia::emulator::ptx
