// One Blackwell matrix product: 128 x 64 x 32 of E4M3 codes, accumulated in tensor memory.
// Used by: tests of the PTX parser and the interpreter.
#include <cstdint>

namespace {

__device__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// No swizzle: 8 x 16-byte core matrices, 128 bytes each; version 1 of the descriptor.
__device__ uint64_t descriptor(const void* tile, uint32_t leading_bytes, uint32_t stride_bytes) {
  return ((static_cast<uint64_t>(shared_address(tile)) & 0x3ffff) >> 4) |
         static_cast<uint64_t>(leading_bytes >> 4) << 16 |
         static_cast<uint64_t>(stride_bytes >> 4) << 32 | uint64_t{1} << 46;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128)
    product(const uint4* a, const uint4* b, float* out) {
  __shared__ alignas(128) uint4 a_tile[256];
  __shared__ alignas(128) uint4 b_tile[128];
  __shared__ alignas(8) uint64_t done;
  __shared__ uint32_t column;
  for (int i = 0; i < 2; ++i) a_tile[threadIdx.x + 128 * i] = a[threadIdx.x + 128 * i];
  b_tile[threadIdx.x] = b[threadIdx.x];
  if (threadIdx.x < 32) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(
                     shared_address(&column))
                 : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
  }
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&done)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  const uint32_t accumulator = column;
  if (threadIdx.x == 0) {
    // D FP32, A and B E4M3, N = 64, M = 128.
    constexpr uint32_t kInstruction = 1u << 4 | (64u / 8) << 17 | (128u / 16) << 24;
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %4, 0;\n"
        "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p;\n"
        "}\n" ::"r"(accumulator),
        "l"(descriptor(a_tile, 128, 256)), "l"(descriptor(b_tile, 128, 256)), "r"(kInstruction),
        "r"(0));
    asm volatile(
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
            shared_address(&done))
        : "memory");
  }
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], 0;\n"
      "@!complete bra again;\n"
      "}\n" ::"r"(shared_address(&done))
      : "memory");
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  const uint32_t rows = accumulator + ((threadIdx.x / 32) << 21);
  for (uint32_t c = 0; c < 64; c += 4) {
    uint32_t d[4];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(rows + c));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    for (uint32_t i = 0; i < 4; ++i) out[threadIdx.x * 64 + c + i] = __uint_as_float(d[i]);
  }
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();
  if (threadIdx.x < 32) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(accumulator));
  }
}
