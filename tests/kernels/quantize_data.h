// Inputs for tests of the quantizer: random values of many scales, and every special value.
// Used by: quantize_test.cc, quantize_forms_test.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "numerics/bf16.h"
#include "tests/kernels/quantize_model.h"

namespace flamia::test {

/// About normal, with a scale for each group of 8 elements: 2^-spread to 2^spread.
inline uint16_t random_value(uint64_t seed, size_t i, int spread) {
  const Philox4 bits = philox(seed, 1, i);
  const Philox4 group = philox(seed, 2, i / 8);
  const auto uniform = [](uint32_t u) { return static_cast<float>(u >> 8) * 0x1p-24f; };
  const float normal = uniform(bits.word[0]) + uniform(bits.word[1]) + uniform(bits.word[2]) +
                       uniform(bits.word[3]) - 2.0f;
  const int exponent = static_cast<int>(group.word[0] % static_cast<uint32_t>(2 * spread + 1));
  return float_to_bf16(normal * std::ldexp(1.0f, exponent - spread));
}

inline QuantizeCase filled(QuantizeCase one, uint64_t seed, int spread = 3) {
  one.storage.resize(one.extent());
  for (size_t i = 0; i < one.storage.size(); ++i) one.storage[i] = random_value(seed, i, spread);
  return one;
}

/// Zeros of both signs, NaN, infinities, subnormals, the largest values: of each kind a block of 32
/// tokens that holds nothing else, and one where they lie among ordinary values. One head of 128.
inline QuantizeCase with_special_values(uint64_t seed) {
  const std::vector<uint16_t> specials = {0x0000, 0x8000, 0x7fc0, 0xffff, 0x7f80, 0xff80,
                                          0x0001, 0x807f, 0x7f7f, 0xff7f, 0x0080, 0x7f62};
  QuantizeCase one;
  one.lengths = {static_cast<int>(specials.size()) * 64};
  one = filled(one, seed);
  for (size_t i = 0; i < specials.size(); ++i) {
    const size_t alone = i * 64 * 128;
    std::fill_n(one.storage.begin() + static_cast<int64_t>(alone), 32 * 128, specials[i]);
    for (size_t element = 37 * i; element < 32 * 128; element += 1531) {
      one.storage[alone + 32 * 128 + element] = specials[i];
    }
  }
  return one;
}

}  // namespace flamia::test
