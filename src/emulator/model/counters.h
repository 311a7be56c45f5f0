// What the warps of a launch did, and the roles that they played.
// Depends on: counters.def. Used by: recorder.h, which fills it; predict.h, print.h.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace flamia::emulator::model {

enum class Counter : uint8_t {
#define FLAMIA_COUNTER(enumerator, name) enumerator,
#include "emulator/model/counters.def"
#undef FLAMIA_COUNTER
};
inline constexpr size_t kCounterCount = static_cast<size_t>(Counter::kTensorFlops) + 1;
inline constexpr size_t kClassCount = static_cast<size_t>(Counter::kOther) + 1;

std::string_view counter_name(Counter counter);

/// Pipes of a sub-partition (a quarter of an SM) as the model sees them. What an instruction costs
/// there is the model's idea of the machine code that ptxas makes of it: see instruction_cost.h.
enum class Slot : uint8_t {
  kIssue,  ///< every machine instruction
  kFma,    ///< FP32 arithmetic; packed forms count twice
  kImad,   ///< integer multiplications, half to single precision
  kHalf,   ///< packed half arithmetic
  kAlu,    ///< logic, comparisons, min and max, packing conversions
  kXu,     ///< MUFU, conversions between integers and floats
  kFp64,
  kPort,  ///< one wavefront of the shared-memory port that moves no shared memory: shuffles
};
inline constexpr size_t kSlotCount = static_cast<size_t>(Slot::kPort) + 1;

/// What sets the rate of a matrix instruction.
enum class TensorRate : uint8_t {
  kBf16,  ///< f16 and bf16
  kTf32,
  kFp8,       ///< 8- and 6-bit types, and 4-bit ones in the f8f6f4 kinds
  kFp4,       ///< the mxf4 and mxf4nvf4 kinds
  kSyncBf16,  ///< mma.sync
  kSyncTf32,
  kSyncFp8,
};
inline constexpr size_t kTensorRateCount = static_cast<size_t>(TensorRate::kSyncFp8) + 1;

/// Matrix instructions of one shape and type.
struct TensorCount {
  TensorRate rate = TensorRate::kBf16;
  bool register_accumulator = false;  ///< wgmma: the accumulator costs issue slots
  bool half_accumulator = false;
  bool whole_sm = false;  ///< tcgen05: all four tensor cores work, whoever issues it
  double used = 1;     ///< part of the tensor core that the shape can use (M = 64 of tcgen05: half)
  uint32_t warps = 1;  ///< that issue one instruction together: 4 for wgmma
  uint64_t issues = 0;  ///< by warps
  uint64_t flops = 0;
  uint64_t instructions() const { return issues / warps; }
};

struct Counters {
  std::array<uint64_t, kCounterCount> values{};
  std::array<uint64_t, kSlotCount> slots{};   ///< warp instructions
  std::map<std::string, TensorCount> tensor;  ///< by spelling

  uint64_t& operator[](Counter counter) { return values[static_cast<size_t>(counter)]; }
  uint64_t operator[](Counter counter) const { return values[static_cast<size_t>(counter)]; }
  uint64_t& operator[](Slot slot) { return slots[static_cast<size_t>(slot)]; }
  uint64_t operator[](Slot slot) const { return slots[static_cast<size_t>(slot)]; }
  void add(const Counters& other);
};

/// Warps [first, last] of every CTA, which do the same kind of work.
struct Role {
  std::string name;  ///< of what it does: "tma", "wgmma+mufu", "fma"
  uint32_t first_warp = 0;
  uint32_t last_warp = 0;
  Counters counters;
};

struct LaunchCounters {
  uint64_t ctas = 0;
  uint32_t warps_per_cta = 0;
  uint32_t cluster_size = 1;
  std::vector<Counters> warps;  ///< by index in the CTA, over all CTAs

  Counters total() const;
};

/// Neighbouring warps become one role if their mix of instruction classes is alike (distance of the
/// shares at most 0.15, control and barriers left out) and the same special units are used.
std::vector<Role> find_roles(const LaunchCounters& launch);

/// Distance of two mixes: half the sum of the differences of the shares, 0 to 1.
double mix_distance(const Counters& a, const Counters& b);

}  // namespace flamia::emulator::model
