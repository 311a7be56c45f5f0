// Lines of a trace: "CTA (1,0,0) warp 3 lanes 0xffffffff line 212: add.s32 %r5, %r4, 1; %r5=6 (5)".
// Values are those of one lane; a value that the instruction changed is followed by the old one.
#include "emulator/execution/trace.h"

#include <algorithm>

#include "base/message.h"
#include "emulator/execution/order.h"

namespace flamia::emulator::execution {
namespace {

using ptx::Operand;
using ptx::OperandKind;

constexpr size_t kMostOperands = 12;  ///< of a vector of registers, the first ones

/// Registers of an instruction in the order of its text, each once.
void add_registers(const ptx::Function& function, std::span<const Operand> operands,
                   std::vector<uint32_t>* out) {
  for (const Operand& operand : operands) {
    const bool nested = operand.kind == OperandKind::kVector || operand.kind == OperandKind::kList;
    if (nested) {
      add_registers(function, function.elements_of(operand), out);
    } else if ((operand.kind == OperandKind::kRegister || operand.kind == OperandKind::kAddress) &&
               operand.index < function.registers.size() && out->size() < kMostOperands &&
               std::find(out->begin(), out->end(), operand.index) == out->end()) {
      out->push_back(operand.index);
    }
  }
}

std::vector<uint32_t> registers_of(const Code& code, const Step& step) {
  std::vector<uint32_t> out;
  const ptx::Instruction& in = code.function->instructions[step.instruction];
  add_registers(*code.function, code.function->operands_of(in), &out);
  return out;
}

uint64_t value_of(const Frame& frame, const Code& code, uint32_t index, uint32_t lane) {
  const uint64_t value = frame.registers[size_t{code.slots[index]} * kLanes + lane];
  // A predicate is one word of bits, the same in every lane's place.
  if (code.function->registers[index].type == ScalarType::kPred) {
    return frame.registers[size_t{code.slots[index]} * kLanes] >> lane & 1u;
  }
  return value;
}

std::string value_text(ScalarType type, uint64_t value) {
  if (type == ScalarType::kPred) return value != 0 ? "true" : "false";
  if (type == ScalarType::kF32) {
    return concat(hex(static_cast<uint32_t>(value)), " ",
                  std::bit_cast<float>(static_cast<uint32_t>(value)));
  }
  if (type == ScalarType::kF64) return concat(hex(value), " ", std::bit_cast<double>(value));
  return hex(value);
}

std::string cta_text(const Cta& cta) {
  return concat("CTA (", cta.id.x, ",", cta.id.y, ",", cta.id.z, ")");
}

}  // namespace

std::unique_ptr<Tracer> Tracer::make(const TraceOptions& options, const std::string& kernel,
                                     uint64_t launch, std::FILE* to) {
  if (to == nullptr || kernel.find(options.kernel) == std::string::npos) return nullptr;
  if (options.has_launch && options.launch != launch) return nullptr;
  std::fprintf(to, "launch %llu: kernel %s\n", static_cast<unsigned long long>(launch),
               kernel.c_str());
  return std::unique_ptr<Tracer>(new Tracer(options, to));
}

bool Tracer::wanted(const Warp& warp, uint32_t line) const {
  if (line < options_.first_line || line > options_.last_line) return false;
  if (options_.has_warp && options_.warp != warp.index) return false;
  const ptx::Dim3& id = warp.cta->id;
  const ptx::Dim3& cta = options_.cta;
  return !options_.has_cta || (id.x == cta.x && id.y == cta.y && id.z == cta.z);
}

bool Tracer::take() {
  const uint64_t place = seen_++;
  return place >= options_.skip && place - options_.skip < options_.count;
}

void Tracer::before(Warp& warp, const Step& step, uint32_t active) {
  values_.clear();
  const Code& code = warp.code();
  if (!wanted(warp, code.function->instructions[step.instruction].line)) return;
  if (seen_ < options_.skip || seen_ - options_.skip >= options_.count) return;
  const uint32_t lane = (active >> options_.lane & 1u) != 0 ? options_.lane : first_lane(active);
  for (const uint32_t index : registers_of(code, step)) {
    values_.push_back(value_of(*warp.group().frame, code, index, lane));
  }
}

void Tracer::after(Warp& warp, const Step& step, uint32_t active, Outcome outcome) {
  if (warp.groups.empty()) return;  // the last lanes have exited
  const Code& code = warp.code();
  // After a call or a return the group may stand in another function.
  const bool same = step.instruction < code.steps.size() && &code.steps[step.instruction] == &step;
  if (!same || !wanted(warp, code.function->instructions[step.instruction].line) || !take()) return;
  const uint32_t lane = (active >> options_.lane & 1u) != 0 ? options_.lane : first_lane(active);
  std::string text = concat(cta_text(*warp.cta), " warp ", warp.index, " lanes ", hex(active), " ",
                            instruction_text(warp.grid(), instruction_key(code, step)));
  const std::vector<uint32_t> registers = registers_of(code, step);
  for (size_t i = 0; i < registers.size() && i < values_.size(); ++i) {
    const ptx::Register& name = code.function->registers[registers[i]];
    const uint64_t now = outcome == Outcome::kJump
                             ? values_[i]
                             : value_of(*warp.group().frame, code, registers[i], lane);
    text += concat(i == 0 ? concat("  [lane ", lane, "] ") : ", ", name.name, "=",
                   value_text(name.type, now));
    if (now != values_[i]) text += concat(" (", value_text(name.type, values_[i]), ")");
  }
  std::fprintf(to_, "%s\n", text.c_str());
}

void Tracer::completes(const Grid& grid, const Job& job) {
  const uint32_t line = job.code->function->instructions[job.step->instruction].line;
  if (!wanted(*job.warp, line) || !take()) return;
  std::fprintf(to_, "%s warp %u completes %s\n", cta_text(*job.warp->cta).c_str(), job.warp->index,
               instruction_text(grid, instruction_key(*job.code, *job.step)).c_str());
}

}  // namespace flamia::emulator::execution
