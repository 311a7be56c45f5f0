// Conversions between number formats and packed arithmetic: one function per instruction.
// Used by: kernels. Values: numerics/e4m3.h, proved equal on an H200 for every binary32 input.
#pragma once

#include <cstdint>

namespace flamia::ptx {

/// E4M3 codes of four values, the first in the lowest byte: nearest even, saturating, NaN 0x7f.
__device__ __forceinline__ uint32_t e4m3x4(float x0, float x1, float x2, float x3) {
  uint32_t codes;
  asm("{\n"
      ".reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n"
      "}"
      : "=r"(codes)
      : "f"(x0), "f"(x1), "f"(x2), "f"(x3));
  return codes;
}

/// max(a, |b|) of pairs of BF16 values; NaN is ignored.
__device__ __forceinline__ uint32_t max_magnitude_bf16x2(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("{\n"
      ".reg .b32 magnitude;\n"
      "abs.bf16x2 magnitude, %2;\n"
      "max.bf16x2 %0, %1, magnitude;\n"
      "}"
      : "=r"(result)
      : "r"(a), "r"(b));
  return result;
}

}  // namespace flamia::ptx
