// E4M3 codes of 32 values at a time, from floats or straight from BF16 bits: the rule of
// numerics/e4m3.h with one narrowing at the end, where the compiler's own vector code of the scalar
// rule narrows every intermediate. Proved equal for all 2^32 floats, and for every BF16 value and
// exponent, in tests/cpu/encode_vector_test.cc. Used by: the quantizers.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "numerics/e4m3.h"

namespace flamia::cpu {

/// Whether values may exceed 448 or be NaN.
enum class Domain : uint8_t { kAnyFloat, kUpToLargestCode };

/// Codes of eight floats, one in each 32-bit lane.
template <Domain kDomain>
inline __m256i encode_e4m3_lanes(__m256 x) {
  const auto constant = [](uint32_t bits) { return _mm256_set1_epi32(static_cast<int>(bits)); };
  constexpr uint32_t kSteps = 23 - kE4m3MantissaBits;
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i magnitude = _mm256_and_si256(bits, constant(~kFloatSignBit));
  const __m256i clamped = kDomain == Domain::kAnyFloat
                              ? _mm256_min_epu32(magnitude, constant(kE4m3MaxBits))
                              : magnitude;
  const __m256i start = _mm256_max_epu32(_mm256_and_si256(clamped, constant(kFloatInfinityBits)),
                                         constant(E4m3Rounding::kMinBinade));
  const __m256i magic = _mm256_add_epi32(start, constant(E4m3Rounding::kMagicShift));
  const __m256i sum =
      _mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(clamped), _mm256_castsi256_ps(magic)));
  const __m256i binades =
      _mm256_srli_epi32(_mm256_sub_epi32(start, constant(E4m3Rounding::kMinBinade)), kSteps);
  const __m256i code = _mm256_add_epi32(_mm256_sub_epi32(sum, magic), binades);
  const __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), constant(0x80u));
  const __m256i result = _mm256_or_si256(code, sign);
  if constexpr (kDomain == Domain::kUpToLargestCode) return result;
  const __m256i nan = _mm256_cmpgt_epi32(magnitude, constant(kFloatInfinityBits));
  return _mm256_blendv_epi8(result, constant(kE4m3Nan), nan);
}

template <Domain kDomain>
inline void encode_e4m3_floats(const float* x, float factor, int count, uint8_t* codes) {
  const __m256 scale = _mm256_set1_ps(factor);
  const auto lanes = [&](int c) {
    return encode_e4m3_lanes<kDomain>(_mm256_mul_ps(_mm256_loadu_ps(x + c), scale));
  };
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // undoes the packs' lane order
  for (int c = 0; c < count; c += 32) {
    const __m256i low = _mm256_packus_epi32(lanes(c), lanes(c + 8));
    const __m256i high = _mm256_packus_epi32(lanes(c + 16), lanes(c + 24));
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + c), bytes);
  }
}

/// codes[c] = encode_e4m3(x[c] * factor) for c in [0, count); count is a multiple of 32.
inline void encode_e4m3_row(const float* x, float factor, int count, uint8_t* codes) {
  encode_e4m3_floats<Domain::kAnyFloat>(x, factor, count, codes);
}
/// The same for |x[c] * factor| <= 448.
inline void encode_finite_e4m3_row(const float* x, float factor, int count, uint8_t* codes) {
  encode_e4m3_floats<Domain::kUpToLargestCode>(x, factor, count, codes);
}

/// Smallest exponent that encode_bf16_e4m3_row takes: below it BF16 subnormals could matter.
constexpr int kSmallestDirectExponent = -100;

/// Codes of sixteen BF16 values divided by 2^e, one in each 16-bit lane. bias = (e + 120) << 7.
/// BF16 and E4M3 differ by four mantissa bits and a bias, so everything stays in 16-bit integers:
/// w holds the result's exponent field and seven mantissa bits; below its smallest normal exponent
/// the significand is shifted by a power of two instead.
inline __m256i encode_bf16_lanes(__m256i bits, __m256i bias) {
  const auto constant = [](int value) { return _mm256_set1_epi16(static_cast<int16_t>(value)); };
  const __m256i one = constant(1);
  const __m256i magnitude = _mm256_and_si256(bits, constant(0x7fff));
  const __m256i w = _mm256_sub_epi16(magnitude, bias);
  // Normal results: nearest even from seven to three mantissa bits.
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(w, 4), one);
  const __m256i normal =
      _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(w, constant(7)), odd), 4);
  // Subnormal results: significand * 2^(3 + exponent field) in units of 2^-17, fields -3 to 0; a
  // smaller field has index < 0, for which the shuffle gives factor 0. The high byte is always 0.
  const __m256i factors = _mm256_setr_epi8(1, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                           1, 2, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  const __m256i field = _mm256_srai_epi16(_mm256_max_epi16(w, constant(-512)), 7);
  const __m256i index = _mm256_or_si256(_mm256_add_epi16(field, constant(3)), constant(-0x8000));
  const __m256i significand =
      _mm256_or_si256(_mm256_and_si256(bits, constant(0x7f)), constant(0x80));
  const __m256i scaled = _mm256_mullo_epi16(significand, _mm256_shuffle_epi8(factors, index));
  const __m256i odd_step = _mm256_and_si256(_mm256_srli_epi16(scaled, 8), one);
  const __m256i subnormal =
      _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(scaled, constant(127)), odd_step), 8);
  const __m256i is_normal = _mm256_cmpgt_epi16(w, constant(0x7f));
  const __m256i code = _mm256_blendv_epi8(subnormal, normal, is_normal);
  return _mm256_or_si256(code, _mm256_and_si256(_mm256_srli_epi16(bits, 8), constant(0x80)));
}

/// codes[c] = encode_e4m3(bf16[c] * 2^-e) for c in [0, count); count is a multiple of 32.
/// Requires finite values of at most 448 * 2^e and e >= kSmallestDirectExponent.
inline void encode_bf16_e4m3_row(const uint16_t* bf16, int e, int count, uint8_t* codes) {
  const __m256i bias = _mm256_set1_epi16(static_cast<int16_t>((e + 120) * 128));
  const auto lanes = [&](int c) {
    return encode_bf16_lanes(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bf16 + c)), bias);
  };
  for (int c = 0; c < count; c += 32) {
    const __m256i packed = _mm256_packus_epi16(lanes(c), lanes(c + 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + c),
                        _mm256_permute4x64_epi64(packed, 0xd8));
  }
}

/// Largest magnitude bits of count BF16 values (a multiple of 16); NaN counts as its bits.
inline uint16_t bf16_magnitude(const uint16_t* bf16, int count) {
  __m256i best = _mm256_setzero_si256();
  for (int c = 0; c < count; c += 16) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bf16 + c));
    best = _mm256_max_epu16(best, _mm256_and_si256(bits, _mm256_set1_epi16(0x7fff)));
  }
  alignas(32) uint16_t lanes[16];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), best);
  uint16_t result = 0;
  for (const uint16_t lane : lanes) result = lane > result ? lane : result;
  return result;
}

}  // namespace flamia::cpu
