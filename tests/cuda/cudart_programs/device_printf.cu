// Text that device code prints comes out once the host waits, between its own lines.
#include "check.h"

__global__ void hello(int number, double value) {
  if (threadIdx.x == 0) printf("block %d: %d %.2f %s\n", blockIdx.x, number, value, "text");
}

int main() {
  std::printf("before\n");
  std::fflush(stdout);
  hello<<<1, 32>>>(-7, 2.5);
  EXPECT_OK(cudaDeviceSynchronize());
  std::printf("passed\n");
}
