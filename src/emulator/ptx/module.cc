// Look-ups in a module, and literals as bits of a type.
#include "emulator/ptx/module.h"

#include "base/bits.h"

namespace flamia::emulator::ptx {
namespace {

template <typename Named>
uint32_t find_name(const std::vector<Named>& all, std::string_view name) {
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return i;
  }
  return kNoIndex;
}

}  // namespace

uint32_t Module::find_function(std::string_view name) const { return find_name(functions, name); }
uint32_t Module::find_variable(std::string_view name) const { return find_name(variables, name); }

uint64_t immediate_bits(const Operand& operand, ScalarType type) {
  const auto value = static_cast<uint64_t>(operand.value);
  const uint32_t bits = type_bits(type);
  if (operand.literal == Literal::kF32 && type == ScalarType::kF64) {
    return double_bits(static_cast<double>(bits_float(static_cast<uint32_t>(value))));
  }
  if (operand.literal == Literal::kF64 && (type == ScalarType::kF32 || type == ScalarType::kTf32)) {
    return float_bits(static_cast<float>(bits_double(value)));
  }
  // Integers in a float's place are bit patterns.
  return bits >= 64 || bits == 0 ? value : value & ((uint64_t{1} << bits) - 1);
}

}  // namespace flamia::emulator::ptx
