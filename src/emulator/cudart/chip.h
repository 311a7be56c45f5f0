// What the three chips tell of themselves: device attributes and properties.
// Depends on: driver_types.h for the names. Used by: device calls, launch checks, occupancy.
// The limits are the chip's. The number of SMs is that of the machine, which is scaled down: a
// cooperative grid must fit what is resident. Features that the runtime refuses read as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "emulator/cudart/api.h"
#include "emulator/emulator.h"

namespace flamia::emulator::cudart {

inline constexpr uint32_t kMaxThreads = 1024;  ///< of a block
inline constexpr uint32_t kMaxThreadsOfSm = 2048;
inline constexpr uint32_t kMaxBlocksOfSm = 32;
inline constexpr uint32_t kRegistersOfSm = 65536;
inline constexpr uint32_t kSharedDefault = 48 * 1024;  ///< of a block without opt-in
inline constexpr uint32_t kSharedReservedOfBlock = 1024;
inline constexpr uint32_t kSharedOfSm = 228 * 1024;
inline constexpr uint32_t kPortableCluster = 8;
inline constexpr uint32_t kLargestCluster = 16;
inline constexpr int kGreatestPriority = -5;

struct ChipFacts {
  std::string_view name;    ///< as cudaDeviceProp::name
  std::string_view target;  ///< sm_90a
  int major = 0;
  int minor = 0;
  uint32_t sms = 0;  ///< of the chip
  int clock_khz = 0;
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;
  int l2_bytes = 0;
};

const ChipFacts& chip_facts(Chip chip);

/// Value of a device attribute; nothing for numbers that are not attributes.
std::optional<int> device_attribute(const MachineOptions& options, int attribute);

/// Properties as the attributes have them; total_bytes: of global memory.
cudaDeviceProp device_properties(const MachineOptions& options, uint64_t total_bytes);

}  // namespace flamia::emulator::cudart
