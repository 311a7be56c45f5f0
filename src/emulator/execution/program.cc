// Decoding of whole functions: slots of registers, then every instruction by its family.
#include "base/message.h"
#include "emulator/execution/decoder.h"
#include "emulator/execution/register_watch.h"
#include "emulator/execution/trap_error.h"
#include "emulator/ptx/text.h"

namespace flamia::emulator::execution {
namespace {

constexpr DecodeFunction (*kFamilies[])(Opcode) = {
    integer_decoder,       bit_decoder,         float_decoder,  convert_decoder, move_decoder,
    memory_decoder,        address_decoder,     atomic_decoder, control_decoder, barrier_decoder,
    collective_decoder,    mbarrier_decoder,    copy_decoder,   bulk_decoder,    matrix_decoder,
    tensor_memory_decoder, tensor_pipe_decoder, map_decoder};

struct RefusedDetail : Detail {
  std::string text;
};

/// What could not be decoded traps when it is executed.
Outcome refused(Warp&, const Step& step, uint32_t) {
  stop(fault_kind_name(FaultKind::kUnsupported),
       static_cast<const RefusedDetail&>(*step.detail).text);
}

void decode_step(const LoadedModule& module, Code* code, uint32_t index) {
  const ptx::Instruction& in = code->function->instructions[index];
  Step& step = code->steps[index];
  step.instruction = index;
  step.target = step.target2 = code->scratch;
  Decoder decoder(module, code, index, &step);
  try {
    DecodeFunction decode = nullptr;
    for (const auto family : kFamilies) {
      decode = family(in.opcode);
      if (decode != nullptr) break;
    }
    if (decode == nullptr) decoder.refuse(concat(ptx::opcode_text(in.opcode), " is not handled"));
    decode(decoder);
    decoder.finish();
    if (step.run == nullptr) decoder.refuse("the form is not handled");
  } catch (const Refusal& refusal) {
    step.run = refused;
    step.blocking = step.aligned = false;
    decoder.detail<RefusedDetail>()->text = refusal.text;
    code->refused.push_back(concat("line ", in.line, ": ",
                                   ptx::to_text(in, *code->function, &module.module), " ",
                                   refusal.text));
  }
  if (in.guard != kNoIndex) {
    step.guard = code->slots[in.guard];
    step.guard_negated = in.guard_negated;
  }
}

std::unique_ptr<Code> decode(const LoadedModule& module, uint32_t index) {
  auto code = std::make_unique<Code>();
  const ptx::Function& function = module.module.functions[index];
  code->function = &function;
  code->index = index;
  for (const ptx::Register& entry : function.registers) {
    code->slots.push_back(code->slot_count);
    code->slot_count += entry.type == ScalarType::kB128 ? 2 : 1;
  }
  code->scratch = code->slot_count;
  code->slot_count += 2;  // of a 128-bit sink
  code->steps.resize(function.instructions.size());
  for (uint32_t i = 0; i < function.instructions.size(); ++i) decode_step(module, code.get(), i);
  watch_registers(code.get());
  return code;
}

}  // namespace

Program::Program(const LoadedModule* module)
    : module_(module), codes_(module->module.functions.size()) {}

const Code& Program::code(uint32_t function) {
  if (codes_[function] == nullptr) codes_[function] = decode(*module_, function);
  return *codes_[function];
}

}  // namespace flamia::emulator::execution
