// The printer of instructions.
#include "emulator/ptx/text.h"

#include "base/message.h"

namespace flamia::emulator::ptx {
namespace {

class Printer {
 public:
  Printer(const Function& function, const Module* module) : function_(function), module_(module) {}

  void instruction(const Instruction& instruction);
  std::string take() { return std::move(out_); }

 private:
  void operand(const Operand& operand);
  void list(std::span<const Operand> operands, std::string_view separator);
  void immediate(const Operand& operand);
  void symbol(const Operand& operand);
  void address(const Operand& operand);
  void offset(int64_t value);
  void call(const Instruction& instruction);
  void hex(uint64_t value, int digits);
  void function_name(uint32_t index);
  void special(const Operand& operand);
  void label(uint32_t instruction);

  const Function& function_;
  const Module* module_;
  std::string out_;
};

void Printer::instruction(const Instruction& instruction) {
  if (instruction.guard != kNoIndex) {
    out_ += concat("@", instruction.guard_negated ? "!" : "",
                   function_.registers[instruction.guard].name, " ");
  }
  out_ += opcode_text(instruction.opcode);
  for (const Modifier modifier : instruction.modifiers) {
    if (modifier == Modifier::kShapeMnk) {
      const MatrixShape& shape = instruction.shape;
      out_ += concat(".m", shape.m, "n", shape.n, "k", shape.k);
    } else {
      out_ += concat(".", modifier_text(modifier));
    }
  }
  for (const ScalarType type : instruction.types) out_ += concat(".", type_text(type));
  if (instruction.operand_count > 0) out_ += ' ';
  if (instruction.opcode == Opcode::kCall) {
    call(instruction);
  } else {
    list(function_.operands_of(instruction), ", ");
  }
  out_ += ';';
}

void Printer::call(const Instruction& instruction) {
  const std::span<const Operand> operands = function_.operands_of(instruction);
  bool first = true;
  for (const Operand& part : operands) {
    if (part.kind == OperandKind::kList && part.count == 0) continue;
    if (!first) out_ += ", ";
    first = false;
    operand(part);
  }
}

void Printer::list(std::span<const Operand> operands, std::string_view separator) {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) out_ += separator;
    operand(operands[i]);
  }
}

void Printer::hex(uint64_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    out_ += "0123456789ABCDEF"[(value >> shift) & 15];
  }
}

void Printer::immediate(const Operand& operand) {
  switch (operand.literal) {
    case Literal::kInteger:
      out_ += concat(operand.value);
      break;
    case Literal::kF32:
      out_ += "0f";
      hex(static_cast<uint64_t>(operand.value), 8);
      break;
    case Literal::kF64:
      out_ += "0d";
      hex(static_cast<uint64_t>(operand.value), 16);
      break;
  }
}

void Printer::function_name(uint32_t index) {
  out_ += module_ != nullptr ? module_->functions[index].name : concat("function#", index);
}

void Printer::symbol(const Operand& operand) {
  switch (operand.scope) {
    case Scope::kModule:
      out_ += module_ != nullptr ? module_->variables[operand.index].name
                                 : concat("variable#", operand.index);
      break;
    case Scope::kFunction:
      out_ += function_.variables[operand.index].name;
      break;
    case Scope::kParameter:
      out_ += function_.parameters[operand.index].name;
      break;
    case Scope::kReturn:
      out_ += function_.returns[operand.index].name;
      break;
  }
  offset(operand.value);
}

void Printer::offset(int64_t value) {
  if (value != 0) out_ += concat(value > 0 ? "+" : "", value);
}

void Printer::address(const Operand& operand) {
  out_ += '[';
  switch (operand.base) {
    case AddressBase::kRegister:
      out_ += function_.registers[operand.index].name;
      offset(operand.value);
      break;
    case AddressBase::kSymbol:
      symbol(operand);
      break;
    case AddressBase::kImmediate:
      out_ += concat(operand.value);
      break;
  }
  for (const Operand& element : function_.elements_of(operand)) {
    out_ += ", ";
    this->operand(element);
  }
  out_ += ']';
}

void Printer::special(const Operand& operand) {
  const SpecialRegister which = operand.special;
  const bool numbered = which == SpecialRegister::kEnvreg || which == SpecialRegister::kPm;
  const bool has_components =
      operand.component > 0 || which <= SpecialRegister::kNctaid ||
      (which >= SpecialRegister::kClusterid && which <= SpecialRegister::kClusterNctaid);
  out_ += concat("%", special_text(which));
  if (numbered) {
    out_ += concat(operand.component);
  } else if (has_components) {
    out_ += concat(".", std::string_view("xyzw").substr(operand.component, 1));
  }
}

void Printer::label(uint32_t instruction) {
  for (const Label& label : function_.labels) {
    if (label.instruction == instruction) {
      out_ += label.name;
      return;
    }
  }
  out_ += concat("instruction#", instruction);
}

void Printer::operand(const Operand& operand) {
  switch (operand.kind) {
    case OperandKind::kSink:
      out_ += '_';
      break;
    case OperandKind::kRegister:
      out_ += concat(operand.negated ? "!" : "", function_.registers[operand.index].name);
      break;
    case OperandKind::kImmediate:
      immediate(operand);
      break;
    case OperandKind::kSpecial:
      special(operand);
      break;
    case OperandKind::kVector:
      out_ += '{';
      list(function_.elements_of(operand), ", ");
      out_ += '}';
      break;
    case OperandKind::kPair:
      list(function_.elements_of(operand), "|");
      break;
    case OperandKind::kList:
      out_ += '(';
      list(function_.elements_of(operand), ", ");
      out_ += ')';
      break;
    case OperandKind::kAddress:
      address(operand);
      break;
    case OperandKind::kSymbol:
      symbol(operand);
      break;
    case OperandKind::kFunction:
      function_name(operand.index);
      break;
    case OperandKind::kLabel:
      label(operand.index);
      break;
    case OperandKind::kBranchTable:
      out_ += function_.branch_tables[operand.index].name;
      break;
    case OperandKind::kCallTable:
      out_ += function_.call_tables[operand.index].name;
      break;
    case OperandKind::kPrototype:
      out_ += function_.prototypes[operand.index].name;
      break;
  }
}

}  // namespace

std::string to_text(const Instruction& instruction, const Function& function,
                    const Module* module) {
  Printer printer(function, module);
  printer.instruction(instruction);
  return printer.take();
}

}  // namespace flamia::emulator::ptx
