// A kernel that traps, in a program that does not look: vgpu-run must not end with 0.
__global__ void fail() { __trap(); }

int main() {
  fail<<<1, 32>>>();
  cudaDeviceSynchronize();
}
