// Hopper's warpgroup matrix products on FP8 codes, one function per instruction form.
// Used by: the attention kernels of sm_90a. A warpgroup of four warps executes them together.
// Accumulators: element i of thread t is row 16 (t/32) + (t%32)/4 + 8 ((i/2)%2), column
// 8 (i/4) + 2 (t%4) + i%2. The caller fences, commits and waits; accumulators may not be touched
// in between, and the compiler must be told so by pin() after a wait. Operands in shared memory are
// lower words of descriptors (ptx/descriptors.h); the upper ones follow from the bytes of a row.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "ptx/descriptors.h"

namespace flamia::ptx {

/// Before the first product, and after registers that it reads or adds to were written.
FLAMIA_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Closes the group of products issued since the last commit.
FLAMIA_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most kPending of the newest groups have not completed.
template <int kPending>
FLAMIA_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving uses of registers above the wait for the products that write
/// them.
template <int kCount>
FLAMIA_DEVICE void pin(float (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int kCount>
FLAMIA_DEVICE void pin(uint32_t (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

/// D[64 x 128] (+)= A[64 x 32] B[128 x 32]^T, both in shared memory.
template <int kRowBytes>
FLAMIA_DEVICE void wgmma_m64n128k32(float (&d)[64], uint32_t a, uint32_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 descriptor_a, descriptor_b;\nsetp.ne.b32 p, %66, 0;\n"
      "mov.b64 descriptor_a, {%64, %67};\nmov.b64 descriptor_b, {%65, %67};\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, descriptor_a, descriptor_b, p, 1, 1;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "r"(a), "r"(b), "r"(static_cast<int>(accumulate)), "n"(wgmma_descriptor_high(kRowBytes)));
}

/// The same with binary16 accumulators, in pairs: d[i] holds elements 2 i and 2 i + 1.
template <int kRowBytes>
FLAMIA_DEVICE void wgmma_m64n128k32_f16(uint32_t (&d)[32], uint32_t a, uint32_t b,
                                        bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 descriptor_a, descriptor_b;\nsetp.ne.b32 p, %34, 0;\n"
      "mov.b64 descriptor_a, {%32, %35};\nmov.b64 descriptor_b, {%33, %35};\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.f16.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, descriptor_a, descriptor_b, p, 1, 1;\n}\n"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]),
        "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]),
        "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]),
        "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]),
        "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31])
      : "r"(a), "r"(b), "r"(static_cast<int>(accumulate)), "n"(wgmma_descriptor_high(kRowBytes)));
}

/// D[64 x 136] (+)= A[64 x 32] B[136 x 32]^T, A in registers.
template <int kRowBytesB>
FLAMIA_DEVICE void wgmma_m64n136k32(float (&d)[68], const uint32_t (&a)[4], uint32_t b,
                                    bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 descriptor_b;\nsetp.ne.b32 p, %73, 0;\n"
      "mov.b64 descriptor_b, {%72, %74};\n"
      "wgmma.mma_async.sync.aligned.m64n136k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67"
      "}, {%68, %69, %70, %71}, descriptor_b, p, 1, 1;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63]), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<int>(accumulate)),
        "n"(wgmma_descriptor_high(kRowBytesB)));
}

/// D[64 x 64] (+)= A[64 x 32] B[64 x 32]^T, A in registers.
template <int kRowBytesB>
FLAMIA_DEVICE void wgmma_m64n64k32(float (&d)[32], const uint32_t (&a)[4], uint32_t b,
                                   bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 descriptor_b;\nsetp.ne.b32 p, %37, 0;\n"
      "mov.b64 descriptor_b, {%36, %38};\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, descriptor_b, p, 1, 1;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<int>(accumulate)),
        "n"(wgmma_descriptor_high(kRowBytesB)));
}

/// D[64 x 72] (+)= A[64 x 32] B[72 x 32]^T, A in registers.
template <int kRowBytesB>
FLAMIA_DEVICE void wgmma_m64n72k32(float (&d)[36], const uint32_t (&a)[4], uint32_t b,
                                   bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 descriptor_b;\nsetp.ne.b32 p, %41, 0;\n"
      "mov.b64 descriptor_b, {%40, %42};\n"
      "wgmma.mma_async.sync.aligned.m64n72k32.f32.e4m3.e4m3 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35"
      "}, {%36, %37, %38, %39}, descriptor_b, p, 1, 1;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(static_cast<int>(accumulate)),
        "n"(wgmma_descriptor_high(kRowBytesB)));
}

}  // namespace flamia::ptx
