// One Hopper matrix product: 64 x 16 x 32 of E4M3 codes from shared memory, FP32 in registers.
// Used by: tests of the PTX parser and the interpreter.
#include <cstdint>

namespace {

// No swizzle: 8 x 16-byte core matrices, 128 bytes each.
__device__ uint64_t descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes) {
  const uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(tile));
  return ((address & 0x3ffff) >> 4) | static_cast<uint64_t>(leading_bytes >> 4) << 16 |
         static_cast<uint64_t>(stride_bytes >> 4) << 32;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128)
    product(const uint4* a, const uint4* b, float* out) {
  __shared__ alignas(128) uint4 a_tile[128];
  __shared__ alignas(128) uint4 b_tile[32];
  a_tile[threadIdx.x] = a[threadIdx.x];
  if (threadIdx.x < 32) b_tile[threadIdx.x] = b[threadIdx.x];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[8] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7])
      : "l"(descriptor(a_tile, 128, 256)), "l"(descriptor(b_tile, 128, 256)), "r"(0));
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = d[i];
}
