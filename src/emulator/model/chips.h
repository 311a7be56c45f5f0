// Rates of the three chips, each with where it is from. The only place of these numbers.
// Depends on: counters.h. Used by: predict.cc, print.cc.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "emulator/emulator.h"
#include "emulator/model/counters.h"

namespace flamia::emulator::model {

/// How far a number can be trusted.
enum class Trust : uint8_t {
  kMeasured,   ///< on an H200, with our own code
  kPublished,  ///< by the maker, or measured by others
  kDerived,    ///< from published numbers
  kAssumed,    ///< nobody says; the H200's, or a plausible width
};
std::string_view trust_name(Trust trust);

struct Rate {
  double value = 0;
  Trust trust = Trust::kAssumed;
  std::string_view source;
};

struct ChipRates {
  std::string_view name;
  uint32_t sms = 0;
  Rate clock_ghz;         ///< of short launches
  Rate tensor_clock_ghz;  ///< of short launches that keep the tensor cores busy
  Rate launch_us;         ///< what a launch takes besides its work, between two events
  /// Lanes of an SM and clock, by Slot; kIssue and kPort count warp instructions times 32.
  std::array<Rate, kSlotCount> slots;
  Rate shared_bytes;        ///< of the shared-memory port of an SM and clock
  Rate operand_port_bytes;  ///< the same if matrix operands and loads share it
  std::array<Rate, kTensorRateCount> tensor_flops;  ///< of an SM and clock
  /// Issue slots of a sub-partition lost in a clock of wgmma with the accumulator in registers.
  Rate accumulator_issue, half_accumulator_issue;
  Rate sm_l2_bytes;                        ///< between an SM and the L2, per clock, both ways
  Rate l2_read_bytes, l2_write_bytes;      ///< of the L2, per clock; their times add up
  Rate hbm_gb;                             ///< GB/s, both ways
  Rate tmem_read_bytes, tmem_write_bytes;  ///< of an SM and clock
};

const ChipRates& chip_rates(Chip chip);

}  // namespace flamia::emulator::model
