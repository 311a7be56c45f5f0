// One bit per byte of a memory: set once something wrote it.
// Depends on: nothing. Used by: memory.h, tensor_memory.h. The storage belongs to the caller.
#pragma once

#include <bit>
#include <cstdint>

namespace flamia::emulator {

/// A view of bits; word w holds the flags of bytes 64 w to 64 w + 63.
class ByteFlags {
 public:
  ByteFlags() = default;
  explicit ByteFlags(uint64_t* words) : words_(words) {}

  /// Sets or clears the flags of bytes [first, first + count).
  void fill(uint64_t first, uint64_t count, bool value) {
    uint64_t word = first / 64, bit = first % 64;
    while (count > 0) {
      const uint64_t taken = count < 64 - bit ? count : 64 - bit;
      const uint64_t mask = (taken == 64 ? ~uint64_t{0} : (uint64_t{1} << taken) - 1) << bit;
      if (value) {
        words_[word] |= mask;
      } else if ((words_[word] & mask) != 0) {  // does not touch pages that are zero anyway
        words_[word] &= ~mask;
      }
      count -= taken;
      bit = 0;
      ++word;
    }
  }

  /// Whether all flags of [first, first + count) are set; count is a power of two up to 32 and
  /// divides first.
  bool all_set(uint64_t first, uint64_t count) const {
    const uint64_t mask = (uint64_t{1} << count) - 1;
    return ((words_[first / 64] >> (first % 64)) & mask) == mask;
  }

  /// Index below count of the first byte of [first, first + count) whose flag is clear, or count.
  uint64_t first_clear(uint64_t first, uint64_t count) const {
    uint64_t done = 0;
    while (done < count) {
      const uint64_t at = first + done;
      const uint64_t bit = at % 64;
      const uint64_t taken = count - done < 64 - bit ? count - done : 64 - bit;
      const uint64_t mask = taken == 64 ? ~uint64_t{0} : (uint64_t{1} << taken) - 1;
      const uint64_t clear = ~(words_[at / 64] >> bit) & mask;
      if (clear != 0) return done + static_cast<uint64_t>(std::countr_zero(clear));
      done += taken;
    }
    return count;
  }

 private:
  uint64_t* words_ = nullptr;
};

}  // namespace flamia::emulator
