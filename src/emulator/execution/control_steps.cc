// Branches, calls, returns, exit, trap; and what only paces a warp: nanosleep, setmaxnreg.
// Depends on: state.h; printing.h for vprintf. Convergence itself is the scheduler's.
#include <algorithm>
#include <cstring>

#include "base/message.h"
#include "emulator/execution/control.h"
#include "emulator/execution/decoder.h"
#include "emulator/execution/lanes.h"
#include "emulator/execution/printing.h"

namespace flamia::emulator::execution {
namespace {

using ptx::Operand;
using ptx::OperandKind;

// ---- Branches

Outcome branch(Warp& warp, uint32_t taken, uint32_t target) {
  if (taken != warp.group().mask) warp.split(taken, warp.group().pc + 1);
  Group& group = warp.group();
  if (target <= group.pc) ++group.backward;
  group.pc = target;
  return Outcome::kJump;
}

Outcome bra_lanes(Warp& warp, const Step& step, uint32_t active) {
  return branch(warp, active, static_cast<uint32_t>(step.number));
}

void decode_bra(Decoder& d) {
  d.take(Modifier::kUni);
  d.expect(1, 1);
  d.step.number = d.operand(0).index;
  d.step.run = bra_lanes;
}

struct TableDetail : Detail {
  const std::vector<uint32_t>* targets = nullptr;
};

Outcome brx_lanes(Warp& warp, const Step& step, uint32_t active) {
  const auto& targets = *static_cast<const TableDetail&>(*step.detail).targets;
  const uint64_t* const index = warp.read(step.source[0]);
  each_lane(active, [&](uint32_t i) {
    if (index[i] >= targets.size()) {
      stop(fault_kind_name(FaultKind::kBadOperand),
           concat("brx.idx: the index must be below ", targets.size(), "; got ", index[i]), i);
    }
  });
  if (active != warp.group().mask) warp.split(active, warp.group().pc + 1);
  // One group for each index; the last one stays the current group.
  for (uint32_t left = active;;) {
    const uint64_t value = index[first_lane(left)];
    uint32_t same = 0;
    each_lane(left, [&](uint32_t i) { same |= index[i] == value ? 1u << i : 0; });
    const uint32_t target = targets[value];
    if (same == left) return branch(warp, left, target);
    left &= ~same;
    if (target <= warp.group().pc) ++warp.group().backward;
    warp.split(left, target);
  }
}

void decode_brx(Decoder& d) {
  d.take(Modifier::kUni);
  d.expect(2, 2);
  d.step.source[0] = d.source(0u, ScalarType::kU32);
  d.detail<TableDetail>()->targets = &d.function.branch_tables[d.operand(1).index].targets;
  d.step.run = brx_lanes;
}

// ---- Calls

/// How one parameter or return value of a call travels.
struct Passed {
  bool is_register = false;  ///< on the caller's side
  Source value;              ///< register or immediate argument
  uint32_t slot = 0;         ///< register that receives a return value
  uint32_t offset = 0;       ///< in the caller's arguments
  uint64_t bytes = 0;        ///< of the variable there
};
struct CallDetail : Detail {
  uint32_t function = kNoIndex;  ///< direct
  std::vector<Passed> arguments;
  std::vector<Passed> returns;
};

uint32_t resolved(const ptx::Module& module, uint32_t function) {
  for (int hops = 0; hops < 64 && module.functions[function].alias_of != kNoIndex; ++hops) {
    function = module.functions[function].alias_of;
  }
  return function;
}

void copy_in(Warp& warp, const Passed& passed, const ptx::Parameter& parameter, Frame* callee,
             uint32_t lanes) {
  const Frame& caller = *callee->caller;
  const size_t from_stride = caller.arguments.size() / kLanes;
  const size_t to_stride = callee->parameters.size() / kLanes;
  each_lane(lanes, [&](uint32_t i) {
    const uint8_t* const from = caller.arguments.data() + i * from_stride + passed.offset;
    if (parameter.is_register) {
      uint64_t value = 0;
      if (passed.is_register) {
        value = warp.read(passed.value)[i];
      } else {
        std::memcpy(&value, from, std::min<size_t>(parameter.bytes, 8));
      }
      callee->row(callee->code->slots[parameter.index])[i] = value;
    } else if (passed.is_register) {
      const uint64_t value = warp.read(passed.value)[i];
      std::memcpy(callee->parameters.data() + i * to_stride + parameter.offset, &value,
                  std::min<size_t>(parameter.bytes, 8));
    } else {
      std::memcpy(callee->parameters.data() + i * to_stride + parameter.offset, from,
                  parameter.bytes);
    }
  });
}

void copy_out(const Passed& passed, const ptx::Parameter& parameter, Frame* callee,
              uint32_t lanes) {
  Frame& caller = *callee->caller;
  const size_t to_stride = caller.arguments.size() / kLanes;
  const size_t from_stride = callee->returns.size() / kLanes;
  each_lane(lanes, [&](uint32_t i) {
    uint64_t value = 0;
    const uint8_t* from = reinterpret_cast<const uint8_t*>(&value);
    if (parameter.is_register) {
      value = callee->row(callee->code->slots[parameter.index])[i];
    } else {
      from = callee->returns.data() + i * from_stride + parameter.offset;
    }
    if (passed.is_register) {
      uint64_t result = 0;
      std::memcpy(&result, from, std::min<size_t>(parameter.bytes, 8));
      caller.row(passed.slot)[i] = result;
    } else {
      const size_t bytes =
          parameter.is_register ? std::min<size_t>(parameter.bytes, 8) : parameter.bytes;
      std::memcpy(caller.arguments.data() + i * to_stride + passed.offset, from, bytes);
    }
  });
}

/// The variables of a call must hold what the callee takes and gives.
void check_passed(const ptx::Function& callee, const std::vector<Passed>& passed,
                  const std::vector<ptx::Parameter>& parameters) {
  bool fits = passed.size() == parameters.size();
  for (size_t i = 0; i < passed.size() && fits; ++i) {
    const uint64_t bytes =
        parameters[i].is_register ? std::min(parameters[i].bytes, 8u) : parameters[i].bytes;
    fits = passed[i].is_register || bytes <= passed[i].bytes;
  }
  if (fits) return;
  stop(fault_kind_name(FaultKind::kBadOperand),
       concat("call of ", callee.name, ": the arguments must match its parameters"));
}

/// The arguments of one lane as bytes, for the functions that the machine itself provides.
uint64_t argument(const Warp& warp, const Frame& frame, const Passed& passed, uint32_t lane) {
  if (passed.is_register) return warp.read(passed.value)[lane];
  uint64_t value = 0;
  const size_t stride = frame.arguments.size() / kLanes;
  std::memcpy(&value, frame.arguments.data() + lane * stride + passed.offset,
              std::min<size_t>(8, stride - passed.offset));
  return value;
}

Outcome call_builtin(Warp& warp, const CallDetail& d, const ptx::Function& function,
                     uint32_t active) {
  Frame& frame = *warp.group().frame;
  const auto at = [&](uint32_t index, uint32_t lane) {
    return index < d.arguments.size() ? argument(warp, frame, d.arguments[index], lane) : 0;
  };
  if (function.name == "vprintf") {
    const size_t stride = frame.arguments.size() / kLanes;
    each_lane(active, [&](uint32_t i) {
      const uint32_t printed = print_formatted(warp, i, at(0, i), at(1, i));
      if (d.returns.empty()) return;
      if (d.returns[0].is_register) {
        warp.row(d.returns[0].slot)[i] = printed;
      } else if (d.returns[0].bytes >= 4) {
        std::memcpy(frame.arguments.data() + i * stride + d.returns[0].offset, &printed, 4);
      }
    });
    return Outcome::kNext;
  }
  if (function.name == "__assertfail") {
    const uint32_t lane = first_lane(active);
    stop("assert",
         concat(read_text(warp, lane, at(1, lane)), ":", static_cast<uint32_t>(at(2, lane)), ": ",
                read_text(warp, lane, at(3, lane)), ": assertion `",
                read_text(warp, lane, at(0, lane)), "` failed"),
         lane);
  }
  stop(fault_kind_name(FaultKind::kUnsupported),
       concat("call of ", function.name, ", which has no body here"));
}

Outcome enter_call(Warp& warp, const Step& step, uint32_t function, uint32_t active) {
  const auto& d = static_cast<const CallDetail&>(*step.detail);
  const ptx::Module& module = warp.grid().program->module().module;
  const ptx::Function& callee = module.functions[function];
  if (!callee.has_body) {
    const Outcome outcome = call_builtin(warp, d, callee, active);
    return outcome;
  }
  check_passed(callee, d.arguments, callee.parameters);
  check_passed(callee, d.returns, callee.returns);
  const uint32_t return_pc = warp.group().pc + 1;
  Frame* const caller = warp.group().frame;
  constexpr uint32_t kDeepest = 4096;
  if (caller->depth >= kDeepest)
    stop("stack overflow", concat("calls nest deeper than ", kDeepest));
  if (active != warp.group().mask) warp.split(active, return_pc);
  Frame* const frame = warp.enter(warp.grid().program->code(function), caller, active);
  frame->return_pc = return_pc;
  frame->call = &step;
  for (size_t i = 0; i < d.arguments.size(); ++i) {
    copy_in(warp, d.arguments[i], callee.parameters[i], frame, active);
  }
  warp.group().frame = frame;
  warp.group().pc = 0;
  warp.select(warp.current);
  return Outcome::kJump;
}

Outcome call_lanes(Warp& warp, const Step& step, uint32_t active) {
  const auto& d = static_cast<const CallDetail&>(*step.detail);
  const ptx::Module& module = warp.grid().program->module().module;
  if (d.function != kNoIndex) {
    return enter_call(warp, step, resolved(module, d.function), active);
  }
  const uint64_t* const targets = warp.read(step.source[0]);
  const uint32_t lane = first_lane(active);
  const uint64_t target = targets[lane];
  const uint64_t index = (target & ~kFunctionWindow) >> 4;
  if ((target & kWindowMask) != kFunctionWindow || index == 0 || index > module.functions.size()) {
    stop(fault_kind_name(FaultKind::kBadOperand),
         concat("indirect call must go to a function; got ", hex(target)), lane);
  }
  uint32_t same = 0;
  each_lane(active, [&](uint32_t i) { same |= targets[i] == target ? 1u << i : 0; });
  // The others execute the call again, for their own targets.
  if (same != active) {
    const uint32_t pc = warp.group().pc;
    if (active != warp.group().mask) warp.split(active, pc + 1);
    warp.split(same, pc);
  }
  return enter_call(warp, step, resolved(module, static_cast<uint32_t>(index - 1)), same);
}

std::vector<Passed> passed_values(Decoder& d, const Operand& list, bool returns) {
  std::vector<Passed> out;
  for (const Operand& e : d.elements(list)) {
    Passed passed;
    if (e.kind == OperandKind::kSymbol && e.scope == ptx::Scope::kFunction &&
        d.function.variables[e.index].space == ptx::StateSpace::kParam) {
      passed.offset = static_cast<uint32_t>(d.function.variables[e.index].offset);
      passed.bytes = d.function.variables[e.index].bytes;
    } else if (returns) {
      passed.is_register = true;
      passed.slot = d.target(e);
    } else {
      passed.is_register = true;
      passed.value = d.source(e, ScalarType::kB64);
    }
    out.push_back(passed);
  }
  return out;
}

void decode_call(Decoder& d) {
  d.take(Modifier::kUni);
  CallDetail* const detail = d.detail<CallDetail>();
  detail->returns = passed_values(d, d.operand(0), true);
  detail->arguments = passed_values(d, d.operand(2), false);
  const Operand& target = d.operand(1);
  if (target.kind == OperandKind::kFunction) {
    detail->function = target.index;
  } else {
    d.step.source[0] = d.source(target, ScalarType::kB64);
  }
  d.step.run = call_lanes;
}

Outcome ret_lanes(Warp& warp, const Step&, uint32_t active) {
  Frame* const frame = warp.group().frame;
  if (frame->caller == nullptr) return exit_lanes(warp, active);
  if (active != warp.group().mask) warp.split(active, warp.group().pc + 1);
  const auto& d = static_cast<const CallDetail&>(*frame->call->detail);
  const ptx::Function& function = *frame->code->function;
  for (size_t i = 0; i < d.returns.size(); ++i) {
    copy_out(d.returns[i], function.returns[i], frame, active);
  }
  Group& group = warp.group();
  group.frame = frame->caller;
  group.pc = frame->return_pc;
  frame->lanes &= ~active;
  if (frame->lanes == 0) warp.leave(frame);
  warp.select(warp.current);
  return Outcome::kJump;
}

void decode_ret(Decoder& d) {
  d.take(Modifier::kUni);
  d.expect(0, 0);
  d.step.run = ret_lanes;
}

void decode_exit(Decoder& d) {
  d.expect(0, 0);
  d.step.run = [](Warp& warp, const Step&, uint32_t active) { return exit_lanes(warp, active); };
}

// ---- Traps and pace

void decode_trap(Decoder& d) {
  d.step.choice = d.in.opcode == Opcode::kTrap ? 1 : 0;
  d.step.run = [](Warp&, const Step& step, uint32_t active) -> Outcome {
    stop("trap", step.choice == 1 ? "trap instruction" : "brkpt instruction", first_lane(active));
  };
}

void decode_nanosleep(Decoder& d) {
  d.expect(1, 1);
  d.step.run = [](Warp&, const Step&, uint32_t) { return Outcome::kYield; };
}

/// Earlier grids are complete and their writes visible before this one starts; dependents start
/// after it. pmevent only counts.
void decode_nothing(Decoder& d) {
  d.step.run = [](Warp&, const Step&, uint32_t) { return Outcome::kNext; };
}

constexpr uint8_t kIncrease = 1;

/// The count at launch is the compiler's choice, which PTX does not tell unless .maxnreg is given:
/// the first change of a warp may go either way from our estimate.
Outcome setmaxnreg_lanes(Warp& warp, const Step& step, uint32_t) {
  Cta& cta = *warp.cta;
  const uint32_t wanted = static_cast<uint32_t>(step.number), have = warp.register_count;
  const bool known = warp.registers_set || warp.grid().entry->bounds.max_registers != 0;
  const bool increase = step.choice == kIncrease;
  if (known && (increase ? wanted < have : wanted > have)) {
    stop(fault_kind_name(FaultKind::kBadOperand),
         increase ? concat("setmaxnreg.inc must not lower the count; got ", wanted, " < ", have)
                  : concat("setmaxnreg.dec must not raise the count; got ", wanted, " > ", have));
  }
  Wait& wait = warp.group().wait;
  const uint32_t need = wanted > have ? (wanted - have) * kLanes : 0;
  if (need > cta.pool_registers) {
    wait.kind = Wait::Kind::kRegisters;
    wait.a = need;
    wait.b = cta.pool_registers;
    return Outcome::kBlocked;
  }
  wait = {};
  cta.pool_registers -= need;
  if (wanted < have) {
    cta.pool_registers += (have - wanted) * kLanes;
    ++warp.grid().activity;
  }
  warp.register_count = wanted;
  warp.registers_set = true;
  return Outcome::kNext;
}

void decode_setmaxnreg(Decoder& d) {
  d.step.choice = d.take_one({Modifier::kDec, Modifier::kInc}) == 1 ? kIncrease : 0;
  d.accept({Modifier::kSync, Modifier::kAligned});
  d.expect(1, 1);
  d.step.number = d.operand(0).value;
  if (d.step.number < 24 || d.step.number > 256 || d.step.number % 8 != 0) {
    d.refuse("the count must be a multiple of 8 in 24..256");
  }
  d.step.aligned = d.step.blocking = true;
  d.step.run = setmaxnreg_lanes;
}

}  // namespace

DecodeFunction control_decoder(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBra:
      return decode_bra;
    case Opcode::kBrxIdx:
      return decode_brx;
    case Opcode::kCall:
      return decode_call;
    case Opcode::kRet:
      return decode_ret;
    case Opcode::kExit:
      return decode_exit;
    case Opcode::kTrap:
    case Opcode::kBrkpt:
      return decode_trap;
    case Opcode::kNanosleep:
      return decode_nanosleep;
    case Opcode::kGriddepcontrolLaunchDependents:
    case Opcode::kGriddepcontrolWait:
    case Opcode::kPmevent:
      return decode_nothing;
    case Opcode::kSetmaxnreg:
      return decode_setmaxnreg;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
