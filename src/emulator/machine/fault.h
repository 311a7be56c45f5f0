// What went wrong in one access or operation of the machine: a kind and one sentence.
// Depends on: std::string only. Used by: every engine of the machine; the interpreter adds kernel,
// CTA, warp and line. A fault is a value: nothing here throws or stops.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace flamia::emulator {

enum class FaultKind : uint8_t {
  kNone = 0,
  kOutOfBounds,    ///< no memory there, or beyond its end
  kMisaligned,     ///< address, column or lane not aligned as the instruction needs
  kUninitialized,  ///< read of bytes that nothing wrote
  kUseAfterFree,   ///< memory that was freed or deallocated
  kWrongSpace,     ///< an address of another state space, or of a CTA that is not there
  kReadOnly,       ///< write to constant or parameter memory
  kBadOperand,     ///< a descriptor, shape or count that the instruction does not allow
  kBarrier,        ///< misuse of an mbarrier
  kHazard,         ///< two accesses without the order that they need
  kUnsupported,    ///< legal, but not modelled
};

/// Lower-case name of a kind, e.g. "out of bounds".
constexpr const char* fault_kind_name(FaultKind kind) {
  switch (kind) {
    case FaultKind::kNone:
      return "none";
    case FaultKind::kOutOfBounds:
      return "out of bounds";
    case FaultKind::kMisaligned:
      return "misaligned";
    case FaultKind::kUninitialized:
      return "uninitialized";
    case FaultKind::kUseAfterFree:
      return "use after free";
    case FaultKind::kWrongSpace:
      return "wrong space";
    case FaultKind::kReadOnly:
      return "read only";
    case FaultKind::kBadOperand:
      return "bad operand";
    case FaultKind::kBarrier:
      return "barrier misuse";
    case FaultKind::kHazard:
      return "hazard";
    case FaultKind::kUnsupported:
      return "unsupported";
  }
  return "invalid";
}

struct [[nodiscard]] Fault {
  FaultKind kind = FaultKind::kNone;
  uint8_t lane = 0;      ///< of the warp, where one lane is to blame
  uint64_t address = 0;  ///< as the program passed it, where there is one
  std::string text;      ///< "NAME must RULE; got VALUE" or a statement; empty without a fault

  bool ok() const { return kind == FaultKind::kNone; }
};

inline Fault make_fault(FaultKind kind, std::string text, uint64_t address = 0) {
  return {kind, 0, address, std::move(text)};
}

/// 0x... as the messages print addresses and descriptors.
inline std::string hex(uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), kDigits[value & 0xfu]);
    value >>= 4;
  } while (value != 0);
  return "0x" + out;
}

}  // namespace flamia::emulator
