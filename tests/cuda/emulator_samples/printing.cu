// Calls of the device runtime: printf, assert, trap.
// Used by: tests of the PTX parser and the interpreter.
#include <cassert>
#include <cstdio>

extern "C" __global__ void print(const float* in, int n) {
  const int i = static_cast<int>(threadIdx.x);
  assert(i < n);
  if (in[i] > 1.0f) {
    printf("lane %d: %f of %d, %s\n", i, static_cast<double>(in[i]), n, "large");
  } else if (in[i] < -1.0f) {
    __trap();
  }
  printf("done\n");
}
