/* The library in C: the calls of flamia/attention.h over plain structs.
 *
 * Conventions of this header:
 *  - Every struct starts with struct_size, which the caller sets to sizeof of the struct it was
 *    compiled with. A smaller size is an older caller: the fields beyond it are zero. A size of
 *    zero, or a larger one than the library knows, is refused.
 *  - In every enum 0 is the default, so a struct of zeros (with struct_size) asks for the defaults.
 *  - Pointers to structs may be null only where a comment says so.
 *  - Every call that can fail returns a flamia_status; flamia_last_error() has the sentence.
 *  - No call throws, prints or exits. Calls may run on several threads at once.
 *  - Memory belongs to the caller. The CPU backend reads and writes host memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FLAMIA_API __attribute__((visibility("default")))
#else
#define FLAMIA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Result of a call: 0 or one of the codes of flamia/status.h. */
typedef int32_t flamia_status;
enum {
  FLAMIA_OK = 0,
  FLAMIA_INVALID_ARGUMENT = 1,
  FLAMIA_UNSUPPORTED = 2,
  FLAMIA_OUT_OF_MEMORY = 3,
  FLAMIA_DEVICE_ERROR = 4,
  FLAMIA_INTERNAL = 5
};

enum {
  FLAMIA_DTYPE_BF16 = 1, /* no default */
  FLAMIA_DTYPE_F16 = 2,
  FLAMIA_DTYPE_F32 = 3,
  FLAMIA_DTYPE_I32 = 4,
  FLAMIA_DTYPE_I64 = 5,
  FLAMIA_DTYPE_U8 = 6,
  FLAMIA_DTYPE_I8 = 7
};
enum {
  FLAMIA_PATH_BF16 = 1,
  FLAMIA_PATH_MXFP8 = 2,
  FLAMIA_PATH_NVFP4 = 3,
  FLAMIA_PATH_ALL4BIT = 4
};
enum {
  FLAMIA_BACKEND_AUTO = 1,
  FLAMIA_BACKEND_CPU = 2,
  FLAMIA_BACKEND_HOPPER = 3,
  FLAMIA_BACKEND_BLACKWELL = 4
};
enum { FLAMIA_FAMILY_HOPPER = 1, FLAMIA_FAMILY_BLACKWELL = 2 };
enum { FLAMIA_MASK_FULL = 1, FLAMIA_MASK_CAUSAL = 2, FLAMIA_MASK_WINDOW = 3 };
enum { FLAMIA_SAFETY_DEFAULT = 1, FLAMIA_SAFETY_EXACT = 2 };
enum { FLAMIA_DETERMINISM_ANY = 1, FLAMIA_DETERMINISM_DETERMINISTIC = 2 };
enum { FLAMIA_HADAMARD_AUTO = 1, FLAMIA_HADAMARD_ON = 2, FLAMIA_HADAMARD_OFF = 3 };
enum { FLAMIA_KV_ORDER_REVERSE = 1, FLAMIA_KV_ORDER_FORWARD = 2 };
enum {
  FLAMIA_EXPONENTIAL_EXACT = 1,
  FLAMIA_EXPONENTIAL_POLYNOMIAL = 2,
  FLAMIA_EXPONENTIAL_SCHRAUDOLPH = 3,
  FLAMIA_EXPONENTIAL_MITCHELL = 4
};
enum { FLAMIA_ROW_SUM_P_HAT = 1, FLAMIA_ROW_SUM_P = 2 };
enum { FLAMIA_DELTA_O_RESIDUAL = 1, FLAMIA_DELTA_O_BF16 = 2 };
enum { FLAMIA_ACCUMULATE_EXACT = 1, FLAMIA_ACCUMULATE_HARDWARE = 2, FLAMIA_ACCUMULATE_AUTO = 3 };
enum { FLAMIA_PROMOTE_TILE = 1, FLAMIA_PROMOTE_NONE = 2 };
enum { FLAMIA_SCORE_ACCUMULATOR_F32 = 1, FLAMIA_SCORE_ACCUMULATOR_F16 = 2 };
enum { FLAMIA_DS_FORMAT_E4M3 = 1, FLAMIA_DS_FORMAT_E5M2 = 2 };
enum { FLAMIA_GRAD_PRODUCTS_AUTO = 1, FLAMIA_GRAD_PRODUCTS_FP8 = 2, FLAMIA_GRAD_PRODUCTS_BF16 = 3 };
enum {
  FLAMIA_DQ_ACCUMULATE_AUTO = 1,
  FLAMIA_DQ_ACCUMULATE_FP16 = 2,
  FLAMIA_DQ_ACCUMULATE_FP32 = 3
};
enum { FLAMIA_DQ_SCALE_AUTO = 1, FLAMIA_DQ_SCALE_DOCUMENT = 2, FLAMIA_DQ_SCALE_CAUSAL = 3 };
enum { FLAMIA_ASSIGNMENT_DYNAMIC = 1, FLAMIA_ASSIGNMENT_ALTERNATING = 2 };
enum { FLAMIA_PASS_FORWARD = 1, FLAMIA_PASS_BACKWARD = 2 }; /* no default */
enum {
  FLAMIA_ROLE_Q = 1,
  FLAMIA_ROLE_K = 2,
  FLAMIA_ROLE_V = 3,
  FLAMIA_ROLE_DO = 4
};                                                         /* no default */
enum { FLAMIA_AXIS_HEAD_DIM = 1, FLAMIA_AXIS_TOKENS = 2 }; /* no default */

/* A strided view; strides count elements. A null data pointer of an optional tensor, or a null
 * pointer to its view, means "not given". */
typedef struct flamia_tensor {
  size_t struct_size;
  void* data;
  int32_t dtype; /* FLAMIA_DTYPE_* */
  int32_t rank;  /* 0 to 4 */
  int64_t shape[4];
  int64_t stride[4];
} flamia_tensor;

/* Shapes of a call, as flamia::Problem. batch 0 means packed. */
typedef struct flamia_problem {
  size_t struct_size;
  int64_t query_tokens;
  int64_t key_tokens;
  int32_t batch;
  int32_t documents;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t reserved; /* 0 */
} flamia_problem;

/* Choices of a call, as flamia::Options: each field holds a value of the enum of its name, or 0. */
typedef struct flamia_options {
  size_t struct_size;
  int32_t path;              /* default mxfp8 */
  int32_t backend;           /* default auto */
  int32_t emulate;           /* FLAMIA_FAMILY_*, default hopper */
  int32_t mask;              /* default full */
  int64_t window_left;       /* read with FLAMIA_MASK_WINDOW only; -1: unlimited */
  int64_t window_right;      /* likewise */
  int32_t has_softmax_scale; /* 0: 1 / sqrt(head_dim) */
  float softmax_scale;
  int32_t has_p_scale; /* 0: the default of path and family */
  float p_scale;
  int32_t has_tau; /* 0: the default of path and family */
  float tau;
  int32_t safety;
  int32_t determinism;
  int32_t hadamard;
  int32_t kv_order;
  int32_t exponential;
  int32_t row_sum;
  int32_t delta;
  int32_t accumulate;
  int32_t promote;
  int32_t score_accumulator;
  int32_t ds_format;
  int32_t grad_products;
  int32_t dq_accumulate;
  int32_t dq_scale;
  int32_t threads;    /* CPU backend; 0: one per core */
  int32_t assignment; /* GPU backends, default dynamic */
} flamia_options;

/* Every numeric choice of a forward call, for its backward call. Opaque: copy, store, pass back. */
typedef struct flamia_conventions {
  size_t struct_size;
  unsigned char record[64];
} flamia_conventions;

/* Tensors of the forward pass; shapes and dtypes as in flamia/problem.h. */
typedef struct flamia_forward_tensors {
  size_t struct_size;
  const flamia_tensor* q;            /* [T, Hq, D] BF16, batched [B, L, Hq, D] */
  const flamia_tensor* k;            /* [Tk, Hkv, D] BF16 */
  const flamia_tensor* v;            /* [Tk, Hkv, D] BF16 */
  const flamia_tensor* cu_seqlens_q; /* [documents + 1] I32 or I64; null for a batch */
  const flamia_tensor* cu_seqlens_k; /* optional; as cu_seqlens_q when not given */
  const flamia_tensor* o;            /* out: [T, Hq, D] BF16 */
  const flamia_tensor* lse;          /* out: [Hq, T] F32, batched [B, Hq, L]; natural log */
  const flamia_tensor* o_residual;   /* out, optional without a backward pass: [T, Hq, D] BF16 */
} flamia_forward_tensors;

/* Tensors of the backward pass. */
typedef struct flamia_backward_tensors {
  size_t struct_size;
  const flamia_tensor* q; /* the first five as in the forward pass */
  const flamia_tensor* k;
  const flamia_tensor* v;
  const flamia_tensor* cu_seqlens_q;
  const flamia_tensor* cu_seqlens_k;
  const flamia_tensor* o;          /* O of the forward pass */
  const flamia_tensor* o_residual; /* of the forward pass; needed unless its delta was o_bf16 */
  const flamia_tensor* lse;        /* LSE of the forward pass */
  const flamia_tensor* d_o;        /* gradient of O: [T, Hq, D] BF16 */
  const flamia_tensor* d_lse;      /* optional gradient of LSE: shape of lse, F32 */
  const flamia_tensor* dq;         /* out: shape of q, BF16 */
  const flamia_tensor* dk;         /* out: shape of k, BF16 */
  const flamia_tensor* dv;         /* out: shape of v, BF16 */
} flamia_backward_tensors;

/* One quantized representation, dense. */
typedef struct flamia_quantized_tensors {
  size_t struct_size;
  const flamia_tensor* codes;  /* out: [T, H, D] U8, one code a byte */
  const flamia_tensor* exp;    /* out: [T, H] I8 */
  const flamia_tensor* scales; /* out: U8, for representations with block scales; else null */
} flamia_quantized_tensors;

/* Figures of a call; zero where not measured. */
typedef struct flamia_statistics {
  size_t struct_size;
  double quantize_ms;
  double attention_ms;
  int64_t ds_nonzero;
  int64_t ds_flushed;
  double ds_row_sum_residual;
} flamia_statistics;

/* Memory lent for one call, aligned to 64 bytes; size from flamia_workspace_size(). */
typedef struct flamia_workspace {
  size_t struct_size;
  void* data;
  size_t bytes;
} flamia_workspace;

/* "major.minor.patch"; a static string. */
FLAMIA_API const char* flamia_version(void);

/* The sentence of the last failed call of this thread; empty after a successful one. Valid until
 * the next call of this thread. */
FLAMIA_API const char* flamia_last_error(void);

/* Shapes of a call from its q, k and cumulative lengths; data pointers are not needed.
 * problem->struct_size must be set. */
FLAMIA_API flamia_status flamia_problem_from_tensors(const flamia_forward_tensors* tensors,
                                                     flamia_problem* problem);

/* Whether the call can run; the error text has every reason. options may be null: all defaults. */
FLAMIA_API flamia_status flamia_is_supported(const flamia_problem* problem,
                                             const flamia_options* options);

/* The record that a forward call with these options returns. options may be null.
 * conventions->struct_size must be set. */
FLAMIA_API flamia_status flamia_resolve_conventions(const flamia_problem* problem,
                                                    const flamia_options* options,
                                                    flamia_conventions* conventions);

/* Bytes of workspace for one pass (FLAMIA_PASS_*). options may be null. */
FLAMIA_API flamia_status flamia_workspace_size(const flamia_problem* problem,
                                               const flamia_options* options, int32_t pass,
                                               size_t* bytes);

/* O and LSE. options, workspace (if its size is 0), stream, conventions (without a backward pass)
 * and statistics may be null. On a GPU backend tensors and workspace are in device memory, stream
 * is a cudaStream_t, and the call returns when its work is enqueued. */
FLAMIA_API flamia_status flamia_attention_forward(const flamia_problem* problem,
                                                  const flamia_options* options,
                                                  const flamia_forward_tensors* tensors,
                                                  const flamia_workspace* workspace, void* stream,
                                                  flamia_conventions* conventions,
                                                  flamia_statistics* statistics);

/* Parts of a forward call on a GPU backend, see flamia::attention_forward_parts(). parts: a sum of
 * FLAMIA_PART_*. conventions may be null. */
enum {
  FLAMIA_PART_WORK_LIST = 1,
  FLAMIA_PART_QUANTIZE = 2,
  FLAMIA_PART_ATTEND = 4,
  FLAMIA_PART_ALL = 7
};
FLAMIA_API flamia_status flamia_attention_forward_parts(const flamia_problem* problem,
                                                        const flamia_options* options,
                                                        const flamia_forward_tensors* tensors,
                                                        const flamia_workspace* workspace,
                                                        void* stream, uint32_t parts,
                                                        flamia_conventions* conventions);

/* dQ, dK, dV, with the conventions of the forward call. workspace, stream and statistics as there.
 * threads: as in flamia_options. */
FLAMIA_API flamia_status flamia_attention_backward(const flamia_problem* problem,
                                                   const flamia_conventions* conventions,
                                                   const flamia_backward_tensors* tensors,
                                                   const flamia_workspace* workspace, void* stream,
                                                   int32_t threads, flamia_statistics* statistics);

/* Codes and scales of one tensor. input: [T, H, D] BF16 with cu_seqlens, or [B, L, H, D] without.
 * role: FLAMIA_ROLE_*, axis: FLAMIA_AXIS_*. options may be null; workspace and stream too on the
 * CPU backend. */
FLAMIA_API flamia_status flamia_quantize(const flamia_tensor* input,
                                         const flamia_tensor* cu_seqlens, int32_t role,
                                         int32_t axis, const flamia_options* options,
                                         const flamia_quantized_tensors* output,
                                         const flamia_workspace* workspace, void* stream);

/* Bytes of workspace for such a call; data pointers are not needed. */
FLAMIA_API flamia_status flamia_quantize_workspace_size(const flamia_tensor* input,
                                                        const flamia_tensor* cu_seqlens,
                                                        int32_t role, int32_t axis,
                                                        const flamia_options* options,
                                                        size_t* bytes);

/* What a call would do, as lines "key: value". Writes at most size bytes to buffer, the last one
 * a zero; length (may be null) receives the length of the whole text without the zero.
 * buffer may be null if size is 0. options may be null. */
FLAMIA_API flamia_status flamia_explain(const flamia_problem* problem,
                                        const flamia_options* options, char* buffer, size_t size,
                                        size_t* length);

/* ---- Audit of an attention function, see flamia/audit.h and docs/audit.md ---- */

/* One call of the audited function: packed self-attention in host memory, dense. The function
 * writes O and what else it has, sets the bits of `given`, and returns 0; or it writes a sentence
 * to `message` and returns another number. Buffers live until it returns. */
enum {
  FLAMIA_AUDIT_O = 1, /* required */
  FLAMIA_AUDIT_LSE = 2,
  FLAMIA_AUDIT_DQ = 4,
  FLAMIA_AUDIT_DK = 8,
  FLAMIA_AUDIT_DV = 16
};
typedef struct flamia_audit_call {
  size_t struct_size;
  int64_t tokens;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t documents;
  int32_t causal; /* 1 or 0 */
  float softmax_scale;
  const int32_t* cu_seqlens; /* [documents + 1] */
  const uint16_t* q;         /* BF16 bits [tokens, heads, head_dim] */
  const uint16_t* k;         /* BF16 bits [tokens, kv_heads, head_dim] */
  const uint16_t* v;         /* BF16 bits [tokens, kv_heads, head_dim] */
  const uint16_t* d_o;       /* as q; null: no gradients are asked for */
  float* o;                  /* out: [tokens, heads, head_dim] */
  float* lse;                /* out: [heads, tokens], natural log */
  float* dq;                 /* out: as o; null without d_o */
  float* dk;                 /* out: [tokens, kv_heads, head_dim]; null without d_o */
  float* dv;                 /* out: as dk */
  int32_t given;             /* out: FLAMIA_AUDIT_* bits */
  int32_t reserved;
  char message[512]; /* out: why it failed, zero-terminated */
} flamia_audit_call;
typedef int32_t (*flamia_audit_function)(void* user, flamia_audit_call* call);

/* Fields as in flamia::AuditOptions; 0 or null asks for the default. */
typedef struct flamia_audit_options {
  size_t struct_size;
  const char* name;
  const char* reproduce;
  const char* probes; /* names separated by commas */
  int64_t tokens;
  int64_t context;
  int32_t heads;
  int32_t kv_heads;
  int32_t head_dim;
  int32_t full_mask;    /* 1: audit with a full mask instead of a causal one */
  int32_t forward_only; /* 1: no gradients */
  int32_t shared_tokens;
  int32_t dq_rounding;           /* 1: promised residue */
  int32_t not_deterministic;     /* 1: two runs may differ */
  int32_t not_packing_invariant; /* 1: bits may depend on the packing */
  int32_t has_at;                /* 1: the causal probes perturb token `at` only */
  int64_t at;
  const char* operand; /* "q", "k", "v", "d_o": only this one */
  int32_t has_factor;  /* 1: only `factor` */
  float factor;
  uint64_t seed;
  double cast_range; /* bits; 0: log2 of the largest E4M3 value */
  /* Activations of the causal probes instead of random ones, BF16; null: random. tokens, heads,
   * kv_heads and head_dim are then those of q and k. */
  const flamia_tensor* q;
  const flamia_tensor* k;
  const flamia_tensor* v;
  const flamia_tensor* d_o;
  const flamia_tensor* cu_seqlens;
} flamia_audit_options;

/* Receives a text without a terminating zero: the report, or the name of the probe that starts. */
typedef void (*flamia_audit_text)(void* user, const char* text, size_t length);

/* Audits `function`; or, if it is null, the library's own attention with `own` (null: defaults),
 * whose promise then replaces that of `options`. `report` receives one JSON object. options,
 * progress and user may be null. passed: 1 if no probe failed. */
FLAMIA_API flamia_status flamia_audit(flamia_audit_function function, const flamia_options* own,
                                      const flamia_audit_options* options, flamia_audit_text report,
                                      flamia_audit_text progress, void* user, int32_t* passed);

#ifdef __cplusplus
}
#endif
