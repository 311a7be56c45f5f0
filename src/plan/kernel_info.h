// The contract of host and device: what a kernel is, and the arguments of every launch.
// Paper: 3.5.1 (quantizers), 3.6 (packed layout, work lists). Used by: kernels, and the host side
// that launches them (src/cuda), which knows kernels only as these rows.
// All pointers are device pointers. Tokens fit 32 bits, element offsets do not.
#pragma once

#include <cstdint>

#include "problem/token_blocks.h"
#include "schedule/work_item.h"

namespace flamia {

/// One compiled kernel.
struct KernelInfo {
  const char* name;   ///< as profilers and the virtual GPU show it
  const void* entry;  ///< for cudaLaunchKernelExC
  int threads;        ///< of a CTA
  int shared_bytes;   ///< dynamic shared memory of a CTA
};

/// Documents of one side (queries or keys) as the caller gives them.
struct DocumentsArgs {
  const void* cu_seqlens;  ///< [documents + 1]; null: a batch
  int64_t stride;          ///< elements between entries
  int32_t wide;            ///< 1: entries are I64, 0: I32
  int32_t batch_length;    ///< tokens of each document of a batch
  int32_t tokens;
  int32_t documents;
};

/// The layout and the work list of one set of lengths: built once, read by every layer.
struct Schedule {
  ScheduleCounts* counts;
  TokenBlockRange* query_blocks;  ///< [token_block_capacity(query_tokens, documents)]
  TokenBlockRange* key_blocks;    ///< likewise; the same table if both sides have the same lengths
  ForwardItem* items;             ///< [forward_item_capacity(...)], by decreasing cost, then by
                                  ///< document, then by row
};

struct ScheduleArgs {
  DocumentsArgs queries;
  DocumentsArgs keys;
  int64_t window_left;  ///< resolved, as in Conventions
  int64_t window_right;
  Schedule schedule;
  void* scratch;
};

/// A BF16 tensor [tokens, heads, head_dim] or, with batch_length > 0, [batch, length, heads, dim].
struct Bf16Tensor {
  const uint16_t* data;
  int64_t batch_stride;  ///< elements; all strides are multiples of 8
  int64_t token_stride;
  int64_t head_stride;
  int32_t batch_length;  ///< 0: packed
  int32_t heads;
};

/// E4M3 codes and exponents of one tensor, in blocks of 32 tokens (problem/token_blocks.h).
struct QuantizedOperand {
  uint8_t* row_codes;         ///< [heads][blocks][32 x head_dim] row-major; null: not wanted
  uint8_t* transposed_codes;  ///< [heads][blocks][head_dim x 32]; null: not wanted
  int8_t* exponents;          ///< [heads][blocks]; with exponents per token [heads][blocks][32]
  int64_t blocks;             ///< capacity of a head
};

/// What a quantizer launch makes of a tensor.
enum class QuantizeForm : int32_t {
  kE4m3,   ///< codes and exponents of blocks or tokens
  kNvfp4,  ///< E2M1 codes times their scales, exact in BF16; no exponents
  kBf16,   ///< the input itself in the layout of blocks
};

/// One tensor of a quantizer launch.
struct QuantizeTensor {
  Bf16Tensor input;
  QuantizedOperand output;
  const TokenBlockRange* blocks;  ///< [output.blocks], 8-byte aligned; {0, 0} past the last block
  int32_t hadamard;               ///< 1: rotate the head channels first
  int32_t per_token;              ///< 1: an exponent for every token (exact causal safety)
  int32_t headroom_exponent;      ///< added to every exponent
  int32_t order;                  ///< TokenOrder of transposed_codes
  QuantizeForm form;
  uint16_t* row_bf16;  ///< [heads][blocks][32 x head_dim] of forms kNvfp4 and kBf16
};

/// Up to three tensors in one launch.
struct QuantizeArgs {
  QuantizeTensor tensors[3];
  int32_t count;
};

/// Kernels that take a QuantizeArgs (src/kernels/shared/quantize.cu): all tensors of form kE4m3, or
/// any forms. Grid: x shares of the heads, y blocks of a head, z = count x runs of y blocks.
extern const KernelInfo kQuantizeD128;
extern const KernelInfo kQuantizeD64;
extern const KernelInfo kQuantizeFormsD128;
extern const KernelInfo kQuantizeFormsD64;

/// Bytes of [tokens, heads, head_dim] or, with batch_length > 0, [batch, length, heads, head_dim];
/// without channels for exponents. Strides count bytes.
struct ByteOutput {
  uint8_t* data;
  int64_t batch_stride;
  int64_t token_stride;
  int64_t head_stride;
  int32_t batch_length;
};

/// Quantized blocks in the order of the tensor.
struct UnpackArgs {
  QuantizedOperand operand;       ///< row-major codes
  const TokenBlockRange* blocks;  ///< [operand.blocks]
  const ScheduleCounts* counts;   ///< rows outside [query_begin, query_end) get no codes
  ByteOutput codes;
  ByteOutput exponents;
  int32_t tokens;
  int32_t heads;
  int32_t head_dim;
  int32_t per_token;  ///< 1: an exponent for every token
};
/// Takes an UnpackArgs (src/kernels/shared/unpack.cu). Grid: x blocks, y heads; any sizes do.
extern const KernelInfo kUnpackBlocks;

/// NVFP4 codes, block scales and exponents of tokens, in the order of the tensor.
struct QuantizeRowsArgs {
  Bf16Tensor input;
  const ScheduleCounts* counts;  ///< as in UnpackArgs
  ByteOutput codes;
  ByteOutput scales;
  ByteOutput exponents;
  int32_t tokens;
  int32_t heads;
  int32_t head_dim;
  int32_t hadamard;  ///< 1: rotate the head channels first
};
/// Takes a QuantizeRowsArgs (src/kernels/shared/quantize_rows.cu). Grid: x tokens, y heads; any
/// sizes do.
extern const KernelInfo kQuantizeRows;

/// A BF16 result [tokens, heads, head_dim], strides as in Bf16Tensor.
struct Bf16Output {
  uint16_t* data;  ///< null: not wanted
  int64_t batch_stride;
  int64_t token_stride;
  int64_t head_stride;
};

/// The FP32 log-sum-exp [heads, tokens] or [batch, heads, length].
struct LseOutput {
  float* data;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t token_stride;
};

/// What a forward launch multiplies.
enum class ForwardForm : int32_t {
  kMxfp8,  ///< E4M3 codes of Q, K, V and P
  kNvfp4,  ///< Q and K in QuantizeForm::kNvfp4, E4M3 codes of V and P
  kBf16,   ///< Q, K and V in QuantizeForm::kBf16, P in BF16
};

/// Operands in BF16 are what the quantizer calls row_bf16, in place of codes.
struct ForwardArgs {
  QuantizedOperand q;  ///< row-major codes
  QuantizedOperand k;  ///< row-major codes
  QuantizedOperand v;  ///< transposed codes, TokenOrder::kAccumulator; in BF16 row-major
  Schedule schedule;
  uint32_t* next_work;  ///< 0 at the start of the launch; work index = item * heads + head
  Bf16Output o;
  Bf16Output o_residual;
  LseOutput lse;
  int64_t window_left;
  int64_t window_right;
  int32_t tokens;        ///< of q
  int32_t batch_length;  ///< 0: packed
  int32_t heads;
  int32_t heads_per_kv_head;
  int32_t alternating;     ///< 1: CTAs have their shares of the work from the start
  float score_multiplier;  ///< softmax scale * log2 e, >= 0
  float p_log2;            ///< c = log2 S
  float tau;
  int32_t reverse;   ///< 1: key tiles from the last to the first
  int32_t sum_of_p;  ///< 1: row sums add un-quantized probabilities
  ForwardForm form;  ///< which kernel; the kernel itself does not read it
};
/// Kernels that take a ForwardArgs (src/kernels/hopper/forward*.cu). Grid: at most one CTA per SM.
extern const KernelInfo kForwardMxfp8D128;
extern const KernelInfo kForwardMxfp8D64;
/// Scores with binary16 accumulators: codes of q and k are at most 14 (kHalfAccumulatorHeadroom)
/// and score_multiplier has 11 significant bits.
extern const KernelInfo kForwardMxfp8HalfD128;
extern const KernelInfo kForwardMxfp8HalfD64;
/// The same in other variants (src/kernels/hopper/forward_forms.cu). Exact: exponents of q, k and v
/// are those of tokens. Polynomial, Schraudolph: the exponential of some columns.
extern const KernelInfo kForwardMxfp8ExactD128;
extern const KernelInfo kForwardMxfp8ExactD64;
extern const KernelInfo kForwardMxfp8PolynomialD128;
extern const KernelInfo kForwardMxfp8PolynomialD64;
extern const KernelInfo kForwardMxfp8SchraudolphD128;
extern const KernelInfo kForwardMxfp8SchraudolphD64;
extern const KernelInfo kForwardMxfp8ExactPolynomialD128;
extern const KernelInfo kForwardMxfp8ExactPolynomialD64;
extern const KernelInfo kForwardMxfp8ExactSchraudolphD128;
extern const KernelInfo kForwardMxfp8ExactSchraudolphD64;
extern const KernelInfo kForwardBf16D128;
extern const KernelInfo kForwardBf16D64;
extern const KernelInfo kForwardNvfp4D128;
extern const KernelInfo kForwardNvfp4D64;
extern const KernelInfo kForwardNvfp4ExactD128;  ///< exponents of V, too, are those of tokens
extern const KernelInfo kForwardNvfp4ExactD64;

}  // namespace flamia
