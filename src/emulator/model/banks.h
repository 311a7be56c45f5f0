// What the 32 addresses of a warp cost: wavefronts of shared memory, sectors of global memory.
// Depends on: nothing. Used by: recorder.cc, tests.
#pragma once

#include <cstdint>

namespace flamia::emulator::model {

inline constexpr uint32_t kSectorBytes = 32;

/// Wavefronts of one access of `bytes` per lane. Lanes go together in groups of 128 bytes (32 lanes
/// of up to 4 bytes, 16 of 8, 8 of 16); a group needs as many wavefronts as the bank with the most
/// distinct words. Equal words are read once. ideal: without conflicts.
struct Wavefronts {
  uint32_t needed = 0;
  uint32_t ideal = 0;
};
Wavefronts shared_wavefronts(const uint64_t* addresses, uint32_t active, uint32_t bytes);

/// The distinct sectors of an access, at most kMostSectors, in `out`; how many. distinct_bytes: of
/// the union of the lanes' bytes.
inline constexpr uint32_t kMostSectors = 32 * 3;
uint32_t global_sectors(const uint64_t* addresses, uint32_t active, uint32_t bytes,
                        uint64_t out[kMostSectors], uint32_t* distinct_bytes);

}  // namespace flamia::emulator::model
