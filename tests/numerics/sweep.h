// Walks all binary32 patterns on two threads, and derives from a table of values alone which
// patterns must round to which code.
// Depends on: nothing of src/numerics but bit casts. Used by: the Exhaustive* suites.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/bits.h"

namespace flamia::test {

inline constexpr uint32_t kSignBit = 0x80000000u;
inline constexpr uint32_t kInfinityBits = 0x7f800000u;
inline constexpr int kSweepThreads = 2;

/// Adds up count(first, last) over chunks that cover the patterns [begin, end).
template <typename Count>
uint64_t sweep(uint64_t begin, uint64_t end, Count count) {
  constexpr uint64_t kChunk = 1u << 18;
  std::atomic<uint64_t> next{begin};
  std::atomic<uint64_t> total{0};
  const auto work = [&] {
    uint64_t sum = 0;
    for (uint64_t first = next.fetch_add(kChunk); first < end; first = next.fetch_add(kChunk)) {
      sum += count(first, smaller(first + kChunk, end));
    }
    total += sum;
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < kSweepThreads; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return total;
}

/// The non-negative patterns [first, last] that round to one code of value `value`.
struct CodeRange {
  uint32_t first, last;
  uint32_t code;
  float value;
};

/// Ranges of nearest-even rounding to `values`, ascending, whose indices are the codes: the bound
/// between two values is their midpoint, which belongs to the even code. The last value takes
/// everything above, infinity included.
inline std::vector<CodeRange> nearest_even_ranges(const std::vector<double>& values) {
  std::vector<CodeRange> ranges;
  uint32_t first = 0;
  for (uint32_t code = 0; code < values.size(); ++code) {
    uint32_t last = kInfinityBits;
    if (code + 1 < values.size()) {
      const float middle = static_cast<float>((values[code] + values[code + 1]) / 2);  // exact
      last = float_bits(middle) - (code % 2 == 0 ? 0 : 1);
    }
    ranges.push_back({first, last, code, static_cast<float>(values[code])});
    first = last + 1;
  }
  return ranges;
}

/// Values of a format by its definition, ascending from zero: `codes` of them.
inline std::vector<double> format_values(int mantissa_bits, int min_exponent, int codes) {
  std::vector<double> values;
  for (int code = 0; code < codes; ++code) {
    const int binade = code >> mantissa_bits;
    const int fraction = code & ((1 << mantissa_bits) - 1);
    const int significand = binade == 0 ? fraction : fraction + (1 << mantissa_bits);
    const int exponent = min_exponent - mantissa_bits + (binade == 0 ? 0 : binade - 1);
    values.push_back(__builtin_ldexp(significand, exponent));
  }
  return values;
}

/// Adds up count(first, last, range) over all non-negative patterns that are not NaN, each chunk
/// inside one range.
template <typename Count>
uint64_t sweep_ranges(const std::vector<CodeRange>& ranges, Count count) {
  return sweep(0, uint64_t{kInfinityBits} + 1, [&](uint64_t first, uint64_t last) {
    uint64_t sum = 0;
    size_t at = 0;
    for (size_t step = size_t{1} << 20; step != 0; step /= 2) {
      if (at + step < ranges.size() && ranges[at + step].first <= first) at += step;
    }
    for (uint64_t from = first; from < last; ++at) {
      const uint64_t to = smaller(last, uint64_t{ranges[at].last} + 1);
      sum += count(static_cast<uint32_t>(from), static_cast<uint32_t>(to), ranges[at]);
      from = to;
    }
    return sum;
  });
}

/// Adds up count(bits) over all NaN patterns.
template <typename Count>
uint64_t sweep_nans(Count count) {
  return sweep(uint64_t{kInfinityBits} + 1, uint64_t{kSignBit}, [&](uint64_t first, uint64_t last) {
    uint64_t sum = 0;
    for (uint64_t u = first; u < last; ++u) {
      sum += count(static_cast<uint32_t>(u)) + count(static_cast<uint32_t>(u) | kSignBit);
    }
    return sum;
  });
}

}  // namespace flamia::test
