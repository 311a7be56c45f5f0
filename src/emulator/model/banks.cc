// Small sets by sorting: there are at most 96 of anything.
#include "emulator/model/banks.h"

#include <algorithm>
#include <bit>

namespace flamia::emulator::model {
namespace {

constexpr uint32_t kLanes = 32;
constexpr uint32_t kBanks = 32;
constexpr uint32_t kWordBytes = 4;

uint32_t group_wavefronts(const uint64_t* addresses, uint32_t active, uint32_t first,
                          uint32_t lanes, uint32_t bytes) {
  // 32 lanes of unaligned bytes touch at most 2 words each.
  uint64_t words[2 * kLanes + 8];
  uint32_t count = 0;
  for (uint32_t i = first; i < first + lanes; ++i) {
    if ((active >> i & 1u) == 0) continue;
    const uint64_t last = (addresses[i] + bytes - 1) / kWordBytes;
    for (uint64_t word = addresses[i] / kWordBytes; word <= last; ++word) words[count++] = word;
  }
  std::sort(words, words + count);
  uint8_t banks[kBanks] = {};
  uint32_t most = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (i != 0 && words[i] == words[i - 1]) continue;
    most = std::max<uint32_t>(most, ++banks[words[i] % kBanks]);
  }
  return most;
}

}  // namespace

Wavefronts shared_wavefronts(const uint64_t* addresses, uint32_t active, uint32_t bytes) {
  const uint32_t width = std::bit_ceil(std::clamp(bytes, kWordBytes, 16u));
  const uint32_t lanes = kLanes * kWordBytes / width;
  // 32 bytes a lane (sm_100) are two accesses of 16.
  const uint32_t parts = (bytes + 15) / 16;
  Wavefronts out;
  for (uint32_t part = 0; part < parts; ++part) {
    uint64_t shifted[kLanes];
    for (uint32_t i = 0; i < kLanes; ++i) shifted[i] = addresses[i] + uint64_t{16} * part;
    for (uint32_t first = 0; first < kLanes; first += lanes) {
      const uint32_t needed = group_wavefronts(shifted, active, first, lanes, std::min(bytes, 16u));
      out.needed += needed;
      out.ideal += needed != 0 ? 1 : 0;
    }
  }
  return out;
}

uint32_t global_sectors(const uint64_t* addresses, uint32_t active, uint32_t bytes,
                        uint64_t out[kMostSectors], uint32_t* distinct_bytes) {
  uint64_t sorted[kLanes];
  uint32_t lanes = 0;
  for (uint32_t i = 0; i < kLanes; ++i) {
    if ((active >> i & 1u) != 0) sorted[lanes++] = addresses[i];
  }
  if (!std::is_sorted(sorted, sorted + lanes)) std::sort(sorted, sorted + lanes);
  uint32_t count = 0;
  uint64_t end = 0;
  *distinct_bytes = 0;
  for (uint32_t i = 0; i < lanes; ++i) {
    const uint64_t from = std::max(sorted[i], end), to = sorted[i] + bytes;
    if (from < to) *distinct_bytes += static_cast<uint32_t>(to - from);
    end = std::max(end, to);
    for (uint64_t s = sorted[i] / kSectorBytes; s <= (to - 1) / kSectorBytes; ++s) {
      if (count == 0 || out[count - 1] < s) out[count++] = s;
    }
  }
  return count;
}

}  // namespace flamia::emulator::model
