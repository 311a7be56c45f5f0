// Operands, modifiers and the choice of the family.
#include "emulator/execution/decoder.h"

#include "base/message.h"
#include "emulator/machine/memory.h"
#include "emulator/ptx/text.h"

namespace flamia::emulator::execution {

using ptx::Operand;
using ptx::OperandKind;

Decoder::Decoder(const LoadedModule& loaded, Code* code, uint32_t instruction, Step* target_step)
    : module(loaded),
      function(*code->function),
      in(code->function->instructions[instruction]),
      step(*target_step),
      code_(code) {}

void Decoder::refuse(std::string_view why) const { throw Refusal{std::string(why)}; }

bool Decoder::take(Modifier modifier) {
  bool found = false;
  for (uint32_t i = 0; i < in.modifiers.size(); ++i) {
    if (in.modifiers[i] != modifier) continue;
    taken_ |= 1u << i;
    found = true;
  }
  return found;
}

int Decoder::take_one(std::initializer_list<Modifier> list, int none) {
  int found = none, index = 0;
  for (const Modifier modifier : list) {
    if (take(modifier)) found = index;
    ++index;
  }
  return found;
}

void Decoder::accept(std::initializer_list<Modifier> list) {
  for (const Modifier modifier : list) take(modifier);
}

void Decoder::finish() const {
  for (uint32_t i = 0; i < in.modifiers.size(); ++i) {
    if ((taken_ >> i & 1u) == 0) {
      throw Refusal{concat("modifier .", ptx::modifier_text(in.modifiers[i]), " is not handled")};
    }
  }
}

const Operand& Decoder::operand(uint32_t i) const {
  if (i >= in.operand_count) refuse(concat("operand ", i + 1, " is missing"));
  return function.operands[in.first_operand + i];
}

void Decoder::expect(uint32_t lowest, uint32_t highest) {
  if (in.operand_count < lowest || in.operand_count > highest) {
    refuse(concat("must have ", lowest, " to ", highest, " operands; got ",
                  uint32_t{in.operand_count}));
  }
}

Source Decoder::constant(uint64_t value) {
  for (const auto& row : code_->constants) {
    if (row[0] == value) return {row.data(), 0};
  }
  auto& row = code_->constants.emplace_back();
  row.fill(value);
  return {row.data(), 0};
}

uint32_t Decoder::hidden(HiddenRow::Kind kind, uint64_t value, ptx::SpecialRegister special,
                         uint8_t component) {
  for (const HiddenRow& row : code_->hidden) {
    if (row.kind == kind && row.value == value && row.special == special &&
        row.component == component) {
      return row.slot;
    }
  }
  const uint32_t slot = code_->slot_count++;
  code_->hidden.push_back({kind, special, component, value, slot});
  return slot;
}

uint32_t Decoder::shared_row(const ptx::Variable& variable, uint64_t addend) {
  if (variable.is_dynamic) return hidden(HiddenRow::Kind::kDynamicShared, addend);
  return hidden(HiddenRow::Kind::kShared, variable.offset + addend);
}

Source Decoder::symbol(const Operand& operand) {
  const uint64_t addend = static_cast<uint64_t>(operand.value);
  switch (operand.scope) {
    case ptx::Scope::kModule: {
      const ptx::Variable& variable = module.module.variables[operand.index];
      if (variable.space == ptx::StateSpace::kShared) {
        return {nullptr, shared_row(variable, addend)};
      }
      const uint64_t base = module.variable_address[operand.index];
      if (base == 0) refuse(concat("variable ", variable.name, " has no address"));
      return constant((variable.space == ptx::StateSpace::kConst ? base & ~kWindowMask : base) +
                      addend);
    }
    case ptx::Scope::kFunction: {
      const ptx::Variable& variable = function.variables[operand.index];
      if (variable.space == ptx::StateSpace::kLocal) {
        return {nullptr, hidden(HiddenRow::Kind::kLocal, variable.offset + addend)};
      }
      if (variable.space == ptx::StateSpace::kShared) {
        return {nullptr, shared_row(variable, addend)};
      }
      refuse(concat("the address of .param ", variable.name, " is not handled"));
    }
    case ptx::Scope::kParameter:
      if (function.is_entry) {
        return constant(function.parameters[operand.index].offset + addend);
      }
      refuse("the address of a parameter of a device function is not handled");
    case ptx::Scope::kReturn:
      break;
  }
  refuse("the address of a return value is not handled");
}

Source Decoder::source(const Operand& operand, ScalarType type) {
  // Only registers have the second row that the upper half is in.
  if (type == ScalarType::kB128 && operand.kind != OperandKind::kRegister &&
      operand.kind != OperandKind::kImmediate) {
    refuse("a 128-bit operand must be a .b128 register");
  }
  switch (operand.kind) {
    case OperandKind::kRegister:
      if (operand.negated) refuse("a negated operand is not handled here");
      if (type == ScalarType::kB128 && register_bits(operand) != 128) {
        refuse("a 128-bit operand must be a .b128 register");
      }
      return {nullptr, code_->slots[operand.index]};
    case OperandKind::kImmediate: {
      const uint64_t bits = ptx::immediate_bits(operand, type);
      if (type == ScalarType::kPred) return constant(bits != 0 ? ~uint64_t{0} : 0);
      return constant(bits & width_mask(ptx::type_bits(type)));
    }
    case OperandKind::kSpecial:
      return {nullptr, hidden(HiddenRow::Kind::kSpecial, 0, operand.special, operand.component)};
    case OperandKind::kSymbol:
      return symbol(operand);
    case OperandKind::kFunction:
      return constant(function_address(operand.index));
    case OperandKind::kSink:
    case OperandKind::kVector:
    case OperandKind::kPair:
    case OperandKind::kList:
    case OperandKind::kAddress:
    case OperandKind::kLabel:
    case OperandKind::kBranchTable:
    case OperandKind::kCallTable:
    case OperandKind::kPrototype:
      break;
  }
  refuse("an operand of this kind is not handled");
}

uint32_t Decoder::target(const Operand& operand) {
  if (operand.kind == OperandKind::kSink) return code_->scratch;
  if (operand.kind != OperandKind::kRegister) refuse("the destination must be a register");
  return code_->slots[operand.index];
}

uint32_t Decoder::register_bits(const Operand& operand) const {
  if (operand.kind != OperandKind::kRegister) return 64;
  return ptx::type_bits(function.registers[operand.index].type);
}

Source Decoder::address(const Operand& operand, int64_t* offset) {
  if (operand.kind != OperandKind::kAddress) refuse("an address is expected");
  if (operand.base == ptx::AddressBase::kImmediate) {
    *offset = 0;
    return constant(static_cast<uint64_t>(operand.value));
  }
  if (operand.base == ptx::AddressBase::kRegister) {
    *offset = operand.value;
    return {nullptr, code_->slots[operand.index]};
  }
  *offset = 0;
  return symbol(operand);
}

void Decoder::float_mode() {
  switch (take_one({Modifier::kRn, Modifier::kRz, Modifier::kRm, Modifier::kRp, Modifier::kRna,
                    Modifier::kRni, Modifier::kRzi, Modifier::kRmi, Modifier::kRpi},
                   0)) {
    case 1:
    case 6:
      step.mode.rounding = isa::Rounding::kZero;
      break;
    case 2:
    case 7:
      step.mode.rounding = isa::Rounding::kDown;
      break;
    case 3:
    case 8:
      step.mode.rounding = isa::Rounding::kUp;
      break;
    case 4:
      step.mode.rounding = isa::Rounding::kNearestAway;
      break;
    default:
      break;
  }
  step.mode.ftz = take(Modifier::kFtz);
  step.mode.sat = take(Modifier::kSat);
  step.mode.relu = take(Modifier::kRelu);
}

void Decoder::operands(ScalarType type, uint32_t sources) {
  expect(sources + 1, sources + 1);
  step.target = target(0u);
  step.width_mask = width_mask(ptx::type_bits(type));
  for (uint32_t i = 0; i < sources; ++i) step.source[i] = source(i + 1, type);
}

bool is_float(ScalarType type) { return float_format(type) != nullptr; }

bool is_signed_integer(ScalarType type) {
  const isa::IntegerType* const integer = integer_type(type);
  return integer != nullptr && integer->is_signed;
}

const isa::FloatFormat* float_format(ScalarType type) {
  switch (type) {
    case ScalarType::kF16:
    case ScalarType::kF16x2:
      return &isa::kF16Format;
    case ScalarType::kBf16:
    case ScalarType::kBf16x2:
      return &isa::kBf16Format;
    case ScalarType::kF32:
    case ScalarType::kF32x2:
      return &isa::kF32Format;
    case ScalarType::kF64:
      return &isa::kF64Format;
    default:
      return nullptr;
  }
}

const isa::IntegerType* integer_type(ScalarType type) {
  switch (type) {
    case ScalarType::kU8:
    case ScalarType::kB8:
      return &isa::kU8;
    case ScalarType::kU16:
    case ScalarType::kB16:
      return &isa::kU16;
    case ScalarType::kU32:
    case ScalarType::kB32:
      return &isa::kU32;
    case ScalarType::kU64:
    case ScalarType::kB64:
      return &isa::kU64;
    case ScalarType::kS8:
      return &isa::kS8;
    case ScalarType::kS16:
      return &isa::kS16;
    case ScalarType::kS32:
      return &isa::kS32;
    case ScalarType::kS64:
      return &isa::kS64;
    default:
      return nullptr;
  }
}

}  // namespace flamia::emulator::execution
