// What the fuzzers of launches share: numbers from bytes, options of a machine from a number.
// Used by: launch_fuzz.cc, forms_fuzz.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "emulator/emulator.h"

namespace flamia::emulator::fuzz {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

/// The bytes of an input, then zeros.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint64_t take(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      if (place_ < size_) value |= uint64_t{data_[place_]} << (8 * i);
      ++place_;
    }
    return value;
  }

  bool is_left() const { return place_ < size_; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t place_ = 0;
};

inline MachineOptions options_of(uint64_t choice) {
  MachineOptions options;
  options.adversary = static_cast<Adversary>(choice % 3);
  options.chip = (choice >> 2 & 1) != 0 ? Chip::kB200 : Chip::kH200;
  options.check_hazards = (choice >> 3 & 1) == 0;
  options.check_uninitialized = (choice >> 4 & 1) == 0;
  options.numerics = (choice >> 5 & 1) != 0 ? Numerics::kExact : Numerics::kHardware;
  options.count = (choice >> 6 & 1) != 0;
  options.seed = choice;
  options.sms = 2;
  options.watchdog_steps = 4000;
  return options;
}

}  // namespace flamia::emulator::fuzz
