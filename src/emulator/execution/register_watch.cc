// Which registers are watched, and what becomes of them.
#include "emulator/execution/register_watch.h"

#include <algorithm>

#include "base/message.h"
#include "emulator/execution/order.h"

namespace flamia::emulator::execution {
namespace {

using ptx::Operand;
using ptx::OperandKind;

/// Calls body(operand) for every register below an operand.
template <typename Body>
void each_register(const ptx::Function& function, const Operand& operand, Body body) {
  if (operand.kind == OperandKind::kRegister ||
      (operand.kind == OperandKind::kAddress && operand.base == ptx::AddressBase::kRegister)) {
    body(operand.index);
  }
  if (operand.kind == OperandKind::kVector || operand.kind == OperandKind::kPair ||
      operand.kind == OperandKind::kList || operand.kind == OperandKind::kAddress) {
    for (const Operand& e : function.elements_of(operand)) each_register(function, e, body);
  }
}

/// Whether operand 0 is what the instruction writes.
bool has_target(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSt:
    case Opcode::kRed:
    case Opcode::kStAsync:
    case Opcode::kRedAsync:
    case Opcode::kStmatrix:
    case Opcode::kTcgen05St:
    case Opcode::kBra:
      return false;
    default:
      return true;
  }
}

bool is_load(Opcode opcode) {
  return opcode == Opcode::kTcgen05Ld || opcode == Opcode::kTcgen05LdRed;
}

[[noreturn]] void raise(Warp& warp, const std::string& first, const Step& step, const char* why) {
  stop(fault_kind_name(FaultKind::kHazard),
       concat(first, " and ", warp_text(*warp.cta->cluster, warp.global), " (",
              instruction_text(warp.grid(), instruction_key(warp.code(), step)), "): ", why));
}

std::string party(Warp& warp, const char* what, uint32_t key) {
  return concat(what, " of ", warp_text(*warp.cta->cluster, warp.global), " (",
                instruction_text(warp.grid(), key), ")");
}

std::vector<RegisterState>& states(Warp& warp) {
  Frame& frame = *warp.group().frame;
  if (frame.watch.empty()) frame.watch.resize(frame.code->slot_count);
  return frame.watch;
}

bool in_flight(const Warp& warp, const RegisterState& state) {
  return state.matrix > warp.matrix_waited;
}

}  // namespace

void watch_registers(Code* code) {
  const ptx::Function& function = *code->function;
  std::vector<bool> watched(function.registers.size(), false);
  bool any = false;
  for (const ptx::Instruction& in : function.instructions) {
    const auto operands = function.operands_of(in);
    const uint32_t count =
        in.opcode == Opcode::kWgmmaMmaAsync ? 2 : (is_load(in.opcode) ? in.operand_count : 0);
    for (uint32_t i = 0; i < count && i < operands.size(); ++i) {
      if (operands[i].kind == OperandKind::kAddress) continue;
      if (i == 1 && operands[i].kind != OperandKind::kVector && !is_load(in.opcode)) continue;
      each_register(function, operands[i], [&](uint32_t r) { watched[r] = any = true; });
    }
  }
  if (!any) return;
  for (uint32_t i = 0; i < function.instructions.size(); ++i) {
    const ptx::Instruction& in = function.instructions[i];
    if (in.opcode == Opcode::kWgmmaMmaAsync) continue;
    const auto operands = function.operands_of(in);
    std::vector<RegisterTouch> touches;
    for (uint32_t o = 0; o < operands.size(); ++o) {
      const bool write =
          o == 0 && has_target(in.opcode) && operands[o].kind != OperandKind::kAddress;
      each_register(function, operands[o], [&](uint32_t r) {
        if (watched[r]) touches.push_back({code->slots[r], write, in.opcode == Opcode::kMov});
      });
    }
    if (touches.empty()) continue;
    code->steps[i].watched = true;
    code->touches.emplace(i, std::move(touches));
  }
}

void check_registers(Warp& warp, const Step& step) {
  OrderClocks* const clocks = clocks_of(warp);
  if (clocks == nullptr) return;
  std::vector<RegisterState>& all = states(warp);
  const Code& code = warp.code();
  for (const RegisterTouch& touch : code.touches.find(step.instruction)->second) {
    RegisterState& state = all[touch.slot];
    if (in_flight(warp, state) && (touch.write || state.accumulator)) {
      raise(warp, party(warp, state.accumulator ? "accumulator" : "A registers", state.matrix_key),
            step, "no wgmma.wait_group between them");
    }
    if (state.load.step != 0 && !clocks->rules().tensor_fences) {
      clocks->observe(warp.global, state.load);
    }
    state.load = {};
    if (touch.write && !touch.copy) {
      state.written = warp.matrix_fences + 1;
      state.written_key = instruction_key(code, step);
    }
  }
}

void begin_wgmma(Warp& warp, const Step& step, uint64_t serial,
                 const std::vector<uint32_t>& accumulators, const std::vector<Source>& a) {
  if (clocks_of(warp) == nullptr) return;
  if (warp.matrix_fences == 0) {
    stop(fault_kind_name(FaultKind::kHazard),
         "wgmma must follow a wgmma.fence of its warp; there was none");
  }
  std::vector<RegisterState>& all = states(warp);
  const uint32_t key = instruction_key(warp.code(), step);
  for (const uint32_t slot : accumulators) {
    RegisterState& state = all[slot];
    if (state.written == warp.matrix_fences + 1) {
      raise(warp, party(warp, "write", state.written_key), step, "no wgmma.fence between them");
    }
    if (in_flight(warp, state) && !state.accumulator) {
      raise(warp, party(warp, "A registers", state.matrix_key), step,
            "no wgmma.wait_group between them");
    }
  }
  for (const Source& source : a) {
    if (source.constant != nullptr) continue;
    RegisterState& state = all[source.slot];
    if (in_flight(warp, state) && state.accumulator) {
      raise(warp, party(warp, "accumulator", state.matrix_key), step,
            "no wgmma.wait_group between them");
    }
    state.matrix = serial;
    state.accumulator = false;
    state.matrix_key = key;
  }
  for (const uint32_t slot : accumulators) {
    RegisterState& state = all[slot];
    state.matrix = serial;
    state.accumulator = true;
    state.matrix_key = key;
    state.written = 0;
  }
}

void begin_tensor_load(Warp& warp, const std::vector<uint32_t>& slots, Epoch epoch) {
  std::vector<RegisterState>& all = states(warp);
  for (const uint32_t slot : slots) all[slot].load = epoch;
}

}  // namespace flamia::emulator::execution
