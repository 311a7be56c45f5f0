// Variables of the device: initial values, copies by symbol, addresses, constants.
#include "check.h"

__device__ int counter = 40;
__device__ float table[4] = {1, 2, 3, 4};
__constant__ int factors[3];

__global__ void count(int* out) {
  counter += 2;
  table[3] = table[0] + 7;
  for (int i = 0; i < 3; ++i) out[i] = factors[i] * counter;
}

int main() {
  const int values[3] = {1, 10, 100};
  int* out = nullptr;
  EXPECT_OK(cudaMalloc(&out, sizeof(values)));
  EXPECT_OK(cudaMemcpyToSymbol(factors, values, sizeof(values)));
  count<<<1, 1>>>(out);
  EXPECT_OK(cudaDeviceSynchronize());
  int results[3] = {};
  EXPECT_OK(cudaMemcpy(results, out, sizeof(results), cudaMemcpyDeviceToHost));
  EXPECT(results[0] == 42 && results[1] == 420 && results[2] == 4200);
  float last = 0;
  EXPECT_OK(cudaMemcpyFromSymbol(&last, table, sizeof(last), 3 * sizeof(float)));
  EXPECT(last == 8.0f);
  void* address = nullptr;
  size_t bytes = 0;
  EXPECT_OK(cudaGetSymbolAddress(&address, counter));
  EXPECT_OK(cudaGetSymbolSize(&bytes, table));
  EXPECT(bytes == 16);
  const int reset = -1;
  EXPECT_OK(cudaMemcpy(address, &reset, sizeof(reset), cudaMemcpyHostToDevice));
  count<<<1, 1>>>(out);
  EXPECT_OK(cudaMemcpy(results, out, sizeof(results), cudaMemcpyDeviceToHost));
  EXPECT(results[2] == 100);
  EXPECT_CODE(cudaMemcpyToSymbol(factors, values, 13), cudaErrorInvalidValue);
  std::printf("passed\n");
}
