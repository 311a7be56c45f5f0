// One instruction of a module to one Step: operands to slots, modifiers to modes.
// Depends on: step.h, ptx/module.h. Used by: the families (*_steps.cc), each of which knows its
// opcodes. A decode function that returns with a modifier not taken is refused by finish():
// nothing is ignored.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "emulator/emulator.h"
#include "emulator/execution/step.h"

namespace flamia::emulator::execution {

/// Thrown for what is not handled; becomes a step that traps when it is executed.
struct Refusal {
  std::string text;
};

class Decoder {
 public:
  Decoder(const LoadedModule& module, Code* code, uint32_t instruction, Step* step);

  const LoadedModule& module;
  const ptx::Function& function;
  const ptx::Instruction& in;
  Step& step;

  [[noreturn]] void refuse(std::string_view why) const;
  /// True if the instruction has the modifier, which then counts as handled.
  bool take(Modifier modifier);
  /// Index of the one modifier of the list that is there, or `none`.
  int take_one(std::initializer_list<Modifier> list, int none = -1);
  /// Marks modifiers that change nothing here (cache hints and the like).
  void accept(std::initializer_list<Modifier> list);
  /// Refuses what nobody took.
  void finish() const;

  uint32_t operand_count() const { return in.operand_count; }
  const ptx::Operand& operand(uint32_t i) const;
  std::span<const ptx::Operand> elements(const ptx::Operand& operand) const {
    return function.elements_of(operand);
  }
  /// Refuses another number of operands.
  void expect(uint32_t lowest, uint32_t highest);

  Source source(const ptx::Operand& operand, ScalarType type);
  Source source(uint32_t i, ScalarType type) { return source(operand(i), type); }
  /// Slot of a register or `_`.
  uint32_t target(const ptx::Operand& operand);
  uint32_t target(uint32_t i) { return target(operand(i)); }
  /// Bits of a register operand; 64 for other kinds.
  uint32_t register_bits(const ptx::Operand& operand) const;
  /// Base of an address operand; *offset is added to it.
  Source address(const ptx::Operand& operand, int64_t* offset);
  Source constant(uint64_t value);
  uint32_t hidden(HiddenRow::Kind kind, uint64_t value, ptx::SpecialRegister special = {},
                  uint8_t component = 0);
  uint32_t scratch() const { return code_->scratch; }

  /// A detail owned by the code.
  template <typename T>
  T* detail() {
    auto made = std::make_unique<T>();
    T* const pointer = made.get();
    code_->details.push_back(std::move(made));
    step.detail = pointer;
    return pointer;
  }

  /// Rounding, .ftz, .sat, .relu of float arithmetic.
  void float_mode();
  /// Target in operand 0 and sources in the next ones, all of `type`.
  void operands(ScalarType type, uint32_t sources);

 private:
  Source symbol(const ptx::Operand& operand);
  uint32_t shared_row(const ptx::Variable& variable, uint64_t addend);

  Code* code_;
  uint32_t taken_ = 0;  ///< bit i: modifier i of the instruction
};

using DecodeFunction = void (*)(Decoder& decoder);

// Families. Each sets step.run; null if the opcode is not of the family.
DecodeFunction integer_decoder(Opcode opcode);
DecodeFunction bit_decoder(Opcode opcode);
DecodeFunction float_decoder(Opcode opcode);
DecodeFunction convert_decoder(Opcode opcode);
DecodeFunction move_decoder(Opcode opcode);
DecodeFunction memory_decoder(Opcode opcode);
DecodeFunction address_decoder(Opcode opcode);
DecodeFunction atomic_decoder(Opcode opcode);
DecodeFunction control_decoder(Opcode opcode);
DecodeFunction collective_decoder(Opcode opcode);
DecodeFunction barrier_decoder(Opcode opcode);
DecodeFunction mbarrier_decoder(Opcode opcode);
DecodeFunction copy_decoder(Opcode opcode);
DecodeFunction bulk_decoder(Opcode opcode);
DecodeFunction matrix_decoder(Opcode opcode);
DecodeFunction tensor_memory_decoder(Opcode opcode);
DecodeFunction tensor_pipe_decoder(Opcode opcode);
DecodeFunction map_decoder(Opcode opcode);

// Classes of types.
bool is_float(ScalarType type);
bool is_signed_integer(ScalarType type);
/// Format of f16, bf16, f32, f64 (and of one part of their packed forms), or null.
const isa::FloatFormat* float_format(ScalarType type);
/// u8 to s64; b types count as unsigned. Null for others.
const isa::IntegerType* integer_type(ScalarType type);

constexpr uint64_t width_mask(uint32_t bits) {
  return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

}  // namespace flamia::emulator::execution
