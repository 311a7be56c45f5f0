// Packed binary16 arithmetic on the scores of a tile: maxima, masks, arguments, exponentials.
// Paper: 3.4. Used by: forward_half.cuh.
//
// A thread has 32 registers of two neighbouring columns each, of two rows in turn.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/hopper/forward_config.h"
#include "kernels/hopper/forward_rows.cuh"
#include "numerics/online_softmax.h"
#include "ptx/convert.cuh"
#include "ptx/warp.cuh"

namespace flamia::hopper {

inline constexpr int kScorePairs = kKeyTile / 4;  // of S per thread
inline constexpr uint32_t kMinusInfinities = 0xfc00fc00u;

/// Arguments of a tile's exponentials are scores * multiplier + bias.
struct Line {
  __half2 multiplier[kBlocksPerTile / 2];  ///< of key blocks 0 and 1, 2 and 3
  __half2 bias[kBlocksPerTile];            ///< of row 0, row 1
};
/// Twice the half of a pair, which instructions choose at no cost.
FLAMIA_DEVICE __half2 both(__half2 x, int half) {
  return half == 0 ? __low2half2(x) : __high2half2(x);
}
FLAMIA_DEVICE __half2 multiplier_of(const __half2 (&pairs)[kBlocksPerTile / 2], int block) {
  return both(pairs[block / 2], block % 2);
}

FLAMIA_DEVICE __half2 pair(uint32_t bits) { return *reinterpret_cast<const __half2*>(&bits); }
FLAMIA_DEVICE uint32_t bits(__half2 pair) { return *reinterpret_cast<uint32_t*>(&pair); }
/// Register i of a row half and key block.
FLAMIA_DEVICE constexpr int score_index(int half, int block, int i) {
  return 8 * block + 2 * i + half;
}

/// Largest score of a row half and key block: even columns low, odd ones high.
FLAMIA_DEVICE __half2 largest_of_block(const uint32_t (&s)[kScorePairs], int half, int block) {
  const __half2 first =
      __hmax2(__hmax2(pair(s[score_index(half, block, 0)]), pair(s[score_index(half, block, 1)])),
              pair(s[score_index(half, block, 2)]));
  return __hmax2(first, pair(s[score_index(half, block, 3)]));
}

/// Pairs (row 0, row 1): the larger of two columns of each.
FLAMIA_DEVICE __half2 across_columns(__half2 row0, __half2 row1) {
  return __hmax2(__lows2half2(row0, row1), __highs2half2(row0, row1));
}
FLAMIA_DEVICE __half2 across_lanes(__half2 x) {
  x = __hmax2(x, __shfl_xor_sync(kWholeWarp, x, 1));
  return __hmax2(x, __shfl_xor_sync(kWholeWarp, x, 2));
}

/// Largest scores of the two rows among this thread's columns, in base 2, as a pair.
FLAMIA_DEVICE __half2 largest_scores(const uint32_t (&s)[kScorePairs],
                                     const __half2 (&multiplier)[kBlocksPerTile / 2]) {
  __half2 largest[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    __half2 scaled[kBlocksPerTile];
#pragma unroll
    for (int g = 0; g < kBlocksPerTile; ++g) {
      scaled[g] = __hmul2(largest_of_block(s, half, g), multiplier_of(multiplier, g));
    }
    largest[half] = __hmax2(__hmax2(__hmax2(scaled[0], scaled[1]), scaled[2]), scaled[3]);
  }
  return across_columns(largest[0], largest[1]);
}

/// Bits of the first `count` of a thread's 32 columns. Column e of register 2 k + a of a row half
/// has bit k + 8 e + 16 a: the four of one k then reach the sign bits of bytes by one shift.
FLAMIA_DEVICE uint32_t first_columns(int count) {
  uint32_t columns = 0;
#pragma unroll
  for (int byte = 0; byte < 4; ++byte) {
    const int in_byte = (count + 3 - byte / 2 * 2 - byte % 2) >> 2;
    columns |= ((1u << in_byte) - 1) << (byte * 8);
  }
  return columns;
}

/// Scores outside what the rows see become -inf.
FLAMIA_DEVICE void mask(uint32_t (&s)[kScorePairs], const VisibleKeys (&seen)[2], int quad) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t visible = first_columns(columns_below(seen[half].end - quad * 2)) &
                             ~first_columns(columns_below(seen[half].begin - quad * 2));
#pragma unroll
    for (int r = 0; r < kKeyTile / 8; ++r) {
      const uint32_t keep =
          ptx::signs_of_bytes(visible << (7 - r / 2), r % 2 == 0 ? 0x9988 : 0xbbaa);
      uint32_t& x = s[2 * r + half];
      x = (x & keep) | (~keep & kMinusInfinities);
    }
  }
}

/// A pair of arguments: in binary16 where its parts are exact there, else in FP32.
FLAMIA_DEVICE __half2 arguments(uint32_t s, float multiplier, float bias, bool narrow) {
  if (narrow && magnitude(bias) <= kHalfExactLimit) {
    return __hfma2(pair(s), __float2half2_rn(multiplier), __float2half2_rn(bias));
  }
  const float2 x = __half22float2(pair(s));
  return __floats2half2_rn(fma_f32(x.x, multiplier, bias), fma_f32(x.y, multiplier, bias));
}

/// Largest score of a row half in base 2: products in binary16 where they are usual there.
FLAMIA_DEVICE float largest_wide(const uint32_t (&s)[kScorePairs], int half,
                                 const float* multiplier, uint32_t narrow) {
  float largest = -kFloatInfinity;
#pragma unroll
  for (int g = 0; g < kBlocksPerTile; ++g) {
    const __half2 block = largest_of_block(s, half, g);
    const __half x = __hmax(__low2half(block), __high2half(block));
    float value = __half2float(x) * multiplier[g];
    if ((narrow >> g & 1) != 0 && magnitude(value) < kHalfExactLimit) {
      value = __half2float(__float2half_rn(value));  // both factors have 11 bits: exact before
    }
    largest = max_number(largest, value);
  }
  return largest;
}

/// P-hat of a tile. kBounded: keeps the compiler from starting so many exponentials at once that
/// registers run short.
template <bool kBounded>
FLAMIA_DEVICE void exponentials(const uint32_t (&s)[kScorePairs], const Line& line,
                                uint32_t (&p)[4][4]) {
#pragma unroll
  for (int word = 0; word < 16; ++word) {
    const int block = word / 4;
    const int half = word % 2;
    __half2 bias = line.bias[block];
    if (kBounded && block >= 3) {
      // Signs of codes are clear, which the compiler does not know: not too many at a time.
      uint32_t signs = 0;
#pragma unroll
      for (int w = 4 - 2; w < 4; ++w) signs |= p[block - 3][w];
      bias = pair(bits(bias) | (signs & 0x80808080u));
    }
    uint32_t x[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const uint32_t score = s[score_index(half, block, word % 4 / 2 * 2 + k)];
      x[k] = ptx::exp2_approximate_f16x2(
          bits(__hfma2(pair(score), multiplier_of(line.multiplier, block), both(bias, half))));
    }
    p[block][word % 4] = ptx::pack_e4m3x4(x[0], x[1]);
  }
}

}  // namespace flamia::hopper
