/* Packed attention from C: three documents, forward and backward, on the CPU backend.
 *
 * Build against an installed library:
 *   cc -std=c11 03_c_abi.c -lflamia -o 03_c_abi            (the static library also needs
 *                                                          -lstdc++ -lm -lpthread)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flamia/c_api.h"

enum { kTokens = 300, kHeads = 4, kKvHeads = 2, kHeadDim = 64 };

/* Ends the program with the library's own sentence. */
static void require(flamia_status status) {
  if (status == FLAMIA_OK) return;
  fprintf(stderr, "%s\n", flamia_last_error());
  exit(1);
}

/* Memory at a multiple of 64 bytes. */
static void* allocate(size_t bytes) {
  void* memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (memory == NULL) exit(1);
  memset(memory, 0, bytes);
  return memory;
}

/* BF16 is the upper half of a float. */
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
static float from_bf16(uint16_t value) {
  const uint32_t bits = (uint32_t)value << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

/* A dense tensor [tokens, heads, head_dim] in BF16; seed 0 leaves zeros. */
static flamia_tensor rows(int64_t heads, unsigned seed) {
  flamia_tensor tensor = {.struct_size = sizeof(flamia_tensor)};
  const size_t count = (size_t)(kTokens * heads * kHeadDim);
  uint16_t* values = allocate(count * sizeof(uint16_t));
  for (size_t i = 0; seed != 0 && i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = to_bf16((float)(seed >> 8) / 8388608.0f - 1.0f);
  }
  tensor.data = values;
  tensor.dtype = FLAMIA_DTYPE_BF16;
  tensor.rank = 3;
  tensor.shape[0] = kTokens;
  tensor.shape[1] = heads;
  tensor.shape[2] = kHeadDim;
  tensor.stride[0] = heads * kHeadDim;
  tensor.stride[1] = kHeadDim;
  tensor.stride[2] = 1;
  return tensor;
}

static flamia_workspace workspace_for(const flamia_problem* problem, const flamia_options* options,
                                      int32_t pass) {
  flamia_workspace workspace = {.struct_size = sizeof(flamia_workspace)};
  require(flamia_workspace_size(problem, options, pass, &workspace.bytes));
  workspace.data = allocate(workspace.bytes);
  return workspace;
}

int main(void) {
  /* Documents of 100, 0 and 180 tokens; the last 20 rows belong to nobody. */
  int32_t starts[4] = {0, 100, 100, 280};
  flamia_tensor cu_seqlens = {.struct_size = sizeof(flamia_tensor)};
  cu_seqlens.data = starts;
  cu_seqlens.dtype = FLAMIA_DTYPE_I32;
  cu_seqlens.rank = 1;
  cu_seqlens.shape[0] = 4;
  cu_seqlens.stride[0] = 1;

  flamia_tensor q = rows(kHeads, 1), k = rows(kKvHeads, 2), v = rows(kKvHeads, 3);
  flamia_tensor o = rows(kHeads, 0), o_residual = rows(kHeads, 0), d_o = rows(kHeads, 4);
  flamia_tensor dq = rows(kHeads, 0), dk = rows(kKvHeads, 0), dv = rows(kKvHeads, 0);
  flamia_tensor lse = {.struct_size = sizeof(flamia_tensor)};
  lse.data = allocate(kHeads * kTokens * sizeof(float));
  lse.dtype = FLAMIA_DTYPE_F32;
  lse.rank = 2;
  lse.shape[0] = kHeads;
  lse.shape[1] = kTokens;
  lse.stride[0] = kTokens;
  lse.stride[1] = 1;

  flamia_forward_tensors forward = {.struct_size = sizeof(forward)};
  forward.q = &q;
  forward.k = &k;
  forward.v = &v;
  forward.cu_seqlens_q = &cu_seqlens;
  forward.o = &o;
  forward.lse = &lse;
  forward.o_residual = &o_residual;

  flamia_problem problem = {.struct_size = sizeof(problem)};
  require(flamia_problem_from_tensors(&forward, &problem));

  /* Zero means the default in every field. */
  flamia_options options = {.struct_size = sizeof(options)};
  options.backend = FLAMIA_BACKEND_CPU; /* takes tensors in host memory */
  options.path = FLAMIA_PATH_MXFP8;
  options.mask = FLAMIA_MASK_CAUSAL;
  require(flamia_is_supported(&problem, &options));

  flamia_conventions conventions = {.struct_size = sizeof(conventions)};
  flamia_workspace workspace = workspace_for(&problem, &options, FLAMIA_PASS_FORWARD);
  require(
      flamia_attention_forward(&problem, &options, &forward, &workspace, NULL, &conventions, NULL));
  free(workspace.data);

  flamia_backward_tensors backward = {.struct_size = sizeof(backward)};
  backward.q = &q;
  backward.k = &k;
  backward.v = &v;
  backward.cu_seqlens_q = &cu_seqlens;
  backward.o = &o;
  backward.o_residual = &o_residual;
  backward.lse = &lse;
  backward.d_o = &d_o;
  backward.dq = &dq;
  backward.dk = &dk;
  backward.dv = &dv;
  workspace = workspace_for(&problem, &options, FLAMIA_PASS_BACKWARD);
  require(flamia_attention_backward(&problem, &conventions, &backward, &workspace, NULL, 0, NULL));
  free(workspace.data);

  printf("flamia %s\n", flamia_version());
  printf("o[0][0][0]   = %g (v: %g)\n", (double)from_bf16(*(uint16_t*)o.data),
         (double)from_bf16(*(uint16_t*)v.data));
  printf("lse[0][299]  = %g (a row of nobody)\n", (double)((float*)lse.data)[299]);
  printf("dv[0][0][0]  = %g\n", (double)from_bf16(*(uint16_t*)dv.data));

  /* A refusal: one sentence, before any work. */
  options.path = FLAMIA_PATH_BF16;
  options.hadamard = FLAMIA_HADAMARD_ON;
  if (flamia_is_supported(&problem, &options) != FLAMIA_OK) printf("%s\n", flamia_last_error());

  void* owned[] = {q.data,   k.data,  v.data,  o.data,  o_residual.data,
                   d_o.data, dq.data, dk.data, dv.data, lse.data};
  for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); ++i) free(owned[i]);
  return 0;
}
