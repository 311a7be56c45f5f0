// Philox4x32-10: random bits as a pure function of (seed, stream, counter).
// Paper: A.5 (stochastic rounding). Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".
// Used by: stochastic rounding (bits that do not depend on the launch shape), tests, examples.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace flamia {

struct Philox4 {
  uint32_t word[4];
};

/// The Philox4x32-10 block function of a 128-bit counter and a 64-bit key.
FLAMIA_HD constexpr Philox4 philox_block(Philox4 counter, uint32_t key0, uint32_t key1) {
  uint32_t c0 = counter.word[0], c1 = counter.word[1];
  uint32_t c2 = counter.word[2], c3 = counter.word[3];
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(0xd2511f53u) * c0;
    const uint64_t product1 = static_cast<uint64_t>(0xcd9e8d57u) * c2;
    const uint32_t high0 = static_cast<uint32_t>(product0 >> 32);
    const uint32_t high1 = static_cast<uint32_t>(product1 >> 32);
    c0 = high1 ^ c1 ^ key0;
    c1 = static_cast<uint32_t>(product1);
    c2 = high0 ^ c3 ^ key1;
    c3 = static_cast<uint32_t>(product0);
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Four independent words for each (seed, stream, counter): seed is the key, counter the low and
/// stream the high half of the block counter.
FLAMIA_HD constexpr Philox4 philox(uint64_t seed, uint64_t stream, uint64_t counter) {
  const Philox4 block = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                          static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}};
  return philox_block(block, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

/// Uniform in [0, 1), a multiple of 2^-24.
FLAMIA_HD constexpr float uniform_float(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

/// Uniform in (0, 1), centred in cells of 2^-32: never 0, so that its logarithm is finite.
constexpr double uniform_double(uint32_t bits) {
  return (static_cast<double>(bits) + 0.5) * (1.0 / 4294967296.0);
}

/// Two standard normal values from two words (Box-Muller in binary64). Host only.
struct NormalPair {
  double first, second;
};
inline NormalPair normal_pair(uint32_t bits0, uint32_t bits1) {
  constexpr double two_pi = 6.283185307179586;
  const double radius = __builtin_sqrt(-2.0 * __builtin_log(uniform_double(bits0)));
  const double angle = two_pi * uniform_double(bits1);
  return {radius * __builtin_cos(angle), radius * __builtin_sin(angle)};
}

/// Known answers of the Random123 distribution.
constexpr bool equal(const Philox4& a, const Philox4& b) {
  return a.word[0] == b.word[0] && a.word[1] == b.word[1] && a.word[2] == b.word[2] &&
         a.word[3] == b.word[3];
}
static_assert(equal(philox_block({{0, 0, 0, 0}}, 0, 0),
                    {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}}));
static_assert(equal(philox_block({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u),
                    {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}}));
static_assert(equal(philox_block({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}},
                                 0xa4093822u, 0x299f31d0u),
                    {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}}));
static_assert(equal(philox(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u),
                    {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}}));
static_assert(uniform_float(0xffffffffu) < 1.0f && uniform_float(0) == 0.0f);

}  // namespace flamia
