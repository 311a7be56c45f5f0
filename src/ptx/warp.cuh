// Register budgets of a warpgroup and special-function instructions.
// Used by: kernels with producer and consumer warps.
#pragma once

#include <cstdint>

#include "base/macros.h"

namespace flamia::ptx {

/// All warps of the warpgroup give up registers beyond kRegisters.
template <int kRegisters>
FLAMIA_DEVICE void decrease_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
/// All warps of the warpgroup wait for and take registers up to kRegisters.
template <int kRegisters>
FLAMIA_DEVICE void increase_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// A value that all lanes of the warp hold, so that the compiler knows it: it then lives in a
/// uniform register, and what is computed from it, matrix descriptors above all, costs no vector
/// registers.
FLAMIA_DEVICE uint32_t uniform(uint32_t value) { return __reduce_max_sync(0xffffffffu, value); }

/// Bytes that selectors of four bits name; with their upper bit, eight copies of a byte's sign.
FLAMIA_DEVICE uint32_t signs_of_bytes(uint32_t x, uint32_t selectors) {
  uint32_t y;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(y) : "r"(x), "r"(selectors));
  return y;
}

/// 2^x within 2 ulp; 0 below -149 and subnormal results flushed, which codes of 8 bits do not see.
FLAMIA_DEVICE float exp2_approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// The same for a pair of binary16 values, within 2^-10.
FLAMIA_DEVICE uint32_t exp2_approximate_f16x2(uint32_t x) {
  uint32_t y;
  asm("ex2.approx.f16x2 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
/// 1 / x within 1 ulp.
FLAMIA_DEVICE float reciprocal_approximate(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// log2(x), absolute error below 2^-22 near 1, relative elsewhere.
FLAMIA_DEVICE float log2_approximate(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace flamia::ptx
