// An instruction ready to run: a handler and where its operands are, for a whole function.
// Depends on: ptx/module.h, isa modes. Used by: decoder.h, which fills it; handlers; the scheduler.
// Slots are rows of 32 values in a frame. Behind the registers stand the hidden rows: special
// registers and addresses that differ between CTAs, filled when the frame is made.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/isa/scalar_convert.h"
#include "emulator/isa/scalar_float.h"
#include "emulator/ptx/module.h"

namespace flamia::emulator {
struct LoadedModule;
}

namespace flamia::emulator::execution {

using ptx::kNoIndex;
using ptx::Modifier;
using ptx::Opcode;
using ptx::ScalarType;

struct Warp;
struct Step;

enum class Outcome : uint8_t {
  kNext,     ///< go on with the next instruction
  kYield,    ///< the same, and let other warps run
  kJump,     ///< the handler has set the groups of the warp
  kBlocked,  ///< run the same instruction again later
};

/// Runs one instruction for the lanes in `active`, which is never empty.
using Handler = Outcome (*)(Warp& warp, const Step& step, uint32_t active);

/// A row of 32 values: in the frame, or a constant.
struct Source {
  const uint64_t* constant = nullptr;
  uint32_t slot = 0;
};

/// What only some instructions have; each family derives its own.
struct Detail {
  virtual ~Detail() = default;
};

struct Step {
  Handler run = nullptr;
  uint32_t guard = kNoIndex;
  bool guard_negated = false;
  bool blocking = false;  ///< lanes that the guard excludes go on without waiting
  bool aligned = false;   ///< all lanes of the warp must be here
  bool watched = false;   ///< touches registers of asynchronous instructions
  uint8_t choice = 0;     ///< meaning by family: comparison, operation, mode
  uint8_t choice2 = 0;
  bool satfinite = false;
  isa::FloatMode mode;
  isa::MinMaxMode min_max;
  uint32_t instruction = 0;  ///< of the function
  uint32_t target = 0;       ///< slots; the scratch slot for `_`
  uint32_t target2 = 0;
  Source source[4];
  int64_t number = 0;       ///< offset of an address, or another constant
  uint64_t width_mask = 0;  ///< of the first target
  const Detail* detail = nullptr;

  isa::ConvertMode convert_mode() const {
    return {mode.rounding, mode.ftz, mode.sat, mode.relu, satfinite};
  }
};

/// A row that a new frame fills: a special register, or a base address plus `value`.
struct HiddenRow {
  enum class Kind : uint8_t { kSpecial, kShared, kDynamicShared, kLocal };
  Kind kind = Kind::kSpecial;
  ptx::SpecialRegister special{};
  uint8_t component = 0;
  uint64_t value = 0;
  uint32_t slot = 0;
};

/// A register that an instruction touches although an asynchronous one may be using it.
struct RegisterTouch {
  uint32_t slot = 0;
  bool write = false;
  bool copy = false;  ///< by mov, which compilers put where they like
};

struct Code {
  const ptx::Function* function = nullptr;
  uint32_t index = 0;  ///< of the function in its module
  std::vector<Step> steps;
  std::vector<uint32_t> slots;  ///< of the registers
  uint32_t slot_count = 0;
  uint32_t scratch = 0;
  std::vector<HiddenRow> hidden;
  std::deque<std::array<uint64_t, 32>> constants;  ///< a deque: rows must not move
  std::vector<std::unique_ptr<Detail>> details;
  /// Of the steps that are watched, by instruction.
  std::unordered_map<uint32_t, std::vector<RegisterTouch>> touches;
  std::vector<std::string> refused;  ///< "line N: INSTRUCTION: why", for what will trap
};

/// The functions of one module, decoded when they are first needed.
class Program {
 public:
  explicit Program(const LoadedModule* module);
  const LoadedModule& module() const { return *module_; }
  const Code& code(uint32_t function);

 private:
  const LoadedModule* module_;
  std::vector<std::unique_ptr<Code>> codes_;
};

/// Addresses of functions, as mov gives them and indirect calls take them.
inline constexpr uint64_t kFunctionWindow = uint64_t{5} << 48;
constexpr uint64_t function_address(uint32_t function) {
  return kFunctionWindow | (uint64_t{function} + 1) << 4;
}

}  // namespace flamia::emulator::execution
