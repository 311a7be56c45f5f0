// Divergence: data-dependent loops, early exits, nested branches, indirect calls, warp votes.
// Used by: tests of the PTX parser, of control-flow analysis, and the interpreter.
#include <cstdint>

using Step = uint32_t (*)(uint32_t);
__device__ __noinline__ uint32_t halve(uint32_t x) { return x / 2; }
__device__ __noinline__ uint32_t triple(uint32_t x) { return 3 * x + 1; }
__device__ Step steps[2] = {halve, triple};

extern "C" __global__ void collatz(const uint32_t* in, uint32_t* out) {
  uint32_t x = in[threadIdx.x];
  uint32_t length = 0;
  while (x > 1) {
    x = x % 2 == 0 ? x / 2 : 3 * x + 1;
    if (++length == 1000) break;
  }
  out[threadIdx.x] = length;
}

extern "C" __global__ void indirect(const uint32_t* in, uint32_t* out, int rounds) {
  uint32_t x = in[threadIdx.x];
  for (int i = 0; i < rounds; ++i) x = steps[x & 1](x);
  out[threadIdx.x] = x;
}

extern "C" __global__ void votes(const int* in, unsigned* out) {
  const int x = in[threadIdx.x];
  if (x < 0) return;
  const unsigned active = __activemask();
  unsigned result = __ballot_sync(active, x & 1);
  if (x > 10) {
    for (int i = 0; i < x; ++i) {
      if ((i * x) % 7 == 3) continue;
      result += static_cast<unsigned>(i);
    }
  } else if (__any_sync(__activemask(), x == 5)) {
    result ^= __match_any_sync(__activemask(), x);
  }
  out[threadIdx.x] = result;
}
