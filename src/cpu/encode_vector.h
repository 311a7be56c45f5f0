// E4M3 codes of 32 floats at a time: the rule of numerics/e4m3.h with one narrowing at the end,
// where the compiler's own vector code of the scalar rule narrows every intermediate. Proved equal
// for all 2^32 floats in tests/cpu/encode_vector_test.cc. Used by: the quantizers.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "numerics/e4m3.h"

namespace flamia::cpu {

/// Codes of eight floats, one in each 32-bit lane.
inline __m256i encode_e4m3_lanes(__m256 x) {
  const auto constant = [](uint32_t bits) { return _mm256_set1_epi32(static_cast<int>(bits)); };
  constexpr uint32_t kSteps = 23 - kE4m3MantissaBits;
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i magnitude = _mm256_and_si256(bits, constant(~kFloatSignBit));
  const __m256i clamped = _mm256_min_epu32(magnitude, constant(kE4m3MaxBits));
  const __m256i start = _mm256_max_epu32(_mm256_and_si256(clamped, constant(kFloatInfinityBits)),
                                         constant(E4m3Rounding::kMinBinade));
  const __m256i magic = _mm256_add_epi32(start, constant(E4m3Rounding::kMagicShift));
  const __m256i sum =
      _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(clamped), _mm256_castsi256_ps(magic)));
  const __m256i binades =
      _mm256_srli_epi32(_mm256_sub_epi32(start, constant(E4m3Rounding::kMinBinade)), kSteps);
  const __m256i code = _mm256_add_epi32(_mm256_sub_epi32(sum, magic), binades);
  const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), constant(0x80u));
  const __m256i nan = _mm256_cmpgt_epi32(magnitude, constant(kFloatInfinityBits));
  return _mm256_blendv_epi8(_mm256_or_si256(code, sign), constant(kE4m3Nan), nan);
}

/// codes[c] = encode_e4m3(x[c] * factor) for c in [0, count); count is a multiple of 32.
inline void encode_e4m3_row(const float* x, float factor, int count, uint8_t* codes) {
  const __m256 scale = _mm256_set1_ps(factor);
  const auto lanes = [&](int c) {
    return encode_e4m3_lanes(_mm256_mul_ps(_mm256_loadu_ps(x + c), scale));
  };
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // undoes the packs' lane order
  for (int c = 0; c < count; c += 32) {
    const __m256i low = _mm256_packus_epi32(lanes(c), lanes(c + 8));
    const __m256i high = _mm256_packus_epi32(lanes(c + 16), lanes(c + 24));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + c), bytes);
  }
}

}  // namespace flamia::cpu
