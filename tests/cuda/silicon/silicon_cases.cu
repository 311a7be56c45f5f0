// Runs every case of the tables below on a GPU and writes the outputs to the file named first; with
// a second name also all outputs unhashed, for finding a difference.
// Depends on: the case tables, which the host test reads too. Used by: hand, on an H200
// (tests/emulator/silicon/README.md).
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/cuda/silicon/case_inputs.h"
#include "tests/cuda/silicon/case_syntax.h"

namespace {

using namespace flamia;
using namespace flamia::silicon;

struct Case {
  const char* name;
  uint32_t count;
  int width_bytes;
  Kind kinds[3];
  void (*run)(uint64_t* results, const uint64_t* a, const uint64_t* b, const uint64_t* c,
              uint32_t count);
};

#define FLAMIA_KERNEL(name, out, ka, kb, kc, text, operands)                                  \
  __global__ void kernel_##name(uint64_t* results, const uint64_t* as, const uint64_t* bs,    \
                                const uint64_t* cs, uint32_t count) {                         \
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;                                 \
    if (i >= count) return;                                                                   \
    const TYPE_##ka a = static_cast<TYPE_##ka>(as[i]);                                        \
    const TYPE_##kb b = static_cast<TYPE_##kb>(bs[i]);                                        \
    const TYPE_##kc c = static_cast<TYPE_##kc>(cs[i]);                                        \
    TYPE_##out r;                                                                             \
    (void)b;                                                                                  \
    (void)c;                                                                                  \
    asm volatile("{" text "}" : "=" REG_##out(r) : operands);                                 \
    results[i] = r;                                                                           \
  }                                                                                           \
  void run_##name(uint64_t* results, const uint64_t* a, const uint64_t* b, const uint64_t* c, \
                  uint32_t count) {                                                           \
    kernel_##name<<<(count + 255) / 256, 256>>>(results, a, b, c, count);                     \
  }
#define FLAMIA_AND ,
#define UNARY(name, count, out, ka, text, model) \
  FLAMIA_KERNEL(name, out, ka, none, none, text, REG_##ka(a))
#define BINARY(name, count, out, ka, kb, text, model) \
  FLAMIA_KERNEL(name, out, ka, kb, none, text, REG_##ka(a) FLAMIA_AND REG_##kb(b))
#define TERNARY(name, count, out, ka, kb, kc, text, model) \
  FLAMIA_KERNEL(name, out, ka, kb, kc, text,               \
                REG_##ka(a) FLAMIA_AND REG_##kb(b) FLAMIA_AND REG_##kc(c))
#include "tests/cuda/silicon/all_cases.def"
#undef UNARY
#undef BINARY
#undef TERNARY

const Case kCases[] = {
#define UNARY(name, count, out, ka, text, model) \
  {#name, count, sizeof(TYPE_##out), {KIND_##ka, KIND_none, KIND_none}, run_##name},
#define BINARY(name, count, out, ka, kb, text, model) \
  {#name, count, sizeof(TYPE_##out), {KIND_##ka, KIND_##kb, KIND_none}, run_##name},
#define TERNARY(name, count, out, ka, kb, kc, text, model) \
  {#name, count, sizeof(TYPE_##out), {KIND_##ka, KIND_##kb, KIND_##kc}, run_##name},
#include "tests/cuda/silicon/all_cases.def"
};

void must(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "silicon_cases: %s failed: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

std::FILE* open_or_exit(const char* name) {
  std::FILE* file = std::fopen(name, "wb");
  if (file == nullptr) {
    std::fprintf(stderr, "silicon_cases: %s must be writable\n", name);
    std::exit(1);
  }
  return file;
}

/// One record: name length and name, width, count, hash, then the first outputs.
void write_record(std::FILE* file, const Case& c, const std::vector<uint64_t>& outputs) {
  uint64_t hash = kHashStart;
  for (const uint64_t value : outputs) hash = hash_step(hash, value);
  const uint8_t length = static_cast<uint8_t>(std::strlen(c.name));
  const uint8_t width = static_cast<uint8_t>(c.width_bytes);
  std::fwrite(&length, 1, 1, file);
  std::fwrite(c.name, 1, length, file);
  std::fwrite(&width, 1, 1, file);
  std::fwrite(&c.count, sizeof c.count, 1, file);
  std::fwrite(&hash, sizeof hash, 1, file);
  for (uint32_t i = 0; i < kVerbatim; ++i) std::fwrite(&outputs[i], width, 1, file);
}

/// The operands of one kind and place in device memory, made once.
const uint64_t* operands_on_device(Kind kind, int place) {
  static uint64_t* made[16][3] = {};
  uint64_t*& there = made[static_cast<int>(kind)][place];
  if (there != nullptr) return there;
  std::vector<uint64_t> values(kFullCount);
  for (uint32_t i = 0; i < kFullCount; ++i) {
    values[i] = case_operand(kind, static_cast<uint64_t>(place), i);
  }
  must(cudaMalloc(&there, kFullCount * sizeof(uint64_t)), "cudaMalloc");
  must(cudaMemcpy(there, values.data(), kFullCount * sizeof(uint64_t), cudaMemcpyHostToDevice),
       "cudaMemcpy");
  return there;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: silicon_cases OUTPUT [ALL_OUTPUTS]\n");
    return 2;
  }
  std::FILE* file = open_or_exit(argv[1]);
  std::FILE* all = argc > 2 ? open_or_exit(argv[2]) : nullptr;
  uint64_t* device = nullptr;
  must(cudaMalloc(&device, kFullCount * sizeof(uint64_t)), "cudaMalloc");
  for (const Case& c : kCases) {
    must(cudaMemset(device, 0xa5, c.count * sizeof(uint64_t)), "cudaMemset");
    c.run(device, operands_on_device(c.kinds[0], 0), operands_on_device(c.kinds[1], 1),
          operands_on_device(c.kinds[2], 2), c.count);
    must(cudaGetLastError(), c.name);
    must(cudaDeviceSynchronize(), c.name);
    std::vector<uint64_t> outputs(c.count);
    must(cudaMemcpy(outputs.data(), device, c.count * sizeof(uint64_t), cudaMemcpyDeviceToHost),
         "cudaMemcpy");
    write_record(file, c, outputs);
    if (all == nullptr) continue;
    for (const uint64_t value : outputs) std::fwrite(&value, c.width_bytes, 1, all);
  }
  std::fclose(file);
  if (all != nullptr) std::fclose(all);
  int driver = 0;
  cudaDeviceProp properties;
  must(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  must(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  std::printf("%zu cases on %s, driver API %d\n", sizeof kCases / sizeof kCases[0], properties.name,
              driver);
  return 0;
}
