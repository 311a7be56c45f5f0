// Conversions to and from packed narrow formats, and packed arithmetic: one function per
// instruction. Used by: softmax, quantizers. Values: numerics/e4m3.h and others, equal on an H200
// for every input.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace flamia::ptx {

/// Four E4M3 codes, the first argument in the lowest byte: nearest even, saturating, NaN 0x7f.
FLAMIA_DEVICE uint32_t pack_e4m3x4(float a, float b, float c, float d) {
  uint32_t codes;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n}\n"
      : "=r"(codes)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return codes;
}

/// The same of two pairs of binary16 values.
FLAMIA_DEVICE uint32_t pack_e4m3x4(uint32_t low_pair, uint32_t high_pair) {
  uint32_t codes;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f16x2 low, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f16x2 high, %2;\n"
      "mov.b32 %0, {low, high};\n}\n"
      : "=r"(codes)
      : "r"(low_pair), "r"(high_pair));
  return codes;
}

/// max(a, |b|) of pairs of BF16 values; NaN is ignored.
FLAMIA_DEVICE uint32_t max_magnitude_bf16x2(uint32_t a, uint32_t b) {
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

/// Two BF16 values, the first argument in the low half: nearest even.
FLAMIA_DEVICE uint32_t pack_bf16x2(float a, float b) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(pair) : "f"(a), "f"(b));
  return pair;
}

/// The two binary16 pairs of four E4M3 codes: exact.
FLAMIA_DEVICE void unpack_e4m3x4(uint32_t codes, uint32_t* low_pair, uint32_t* high_pair) {
  asm("{\n.reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\n"
      "cvt.rn.f16x2.e4m3x2 %1, high;\n}\n"
      : "=r"(*low_pair), "=r"(*high_pair)
      : "r"(codes));
}

}  // namespace flamia::ptx
