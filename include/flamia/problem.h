// Nouns of a call: shapes and tensors. Plain data without behaviour.
// Paper: 3.6.1 (packed layout).
#pragma once

#include <cstddef>
#include <cstdint>

namespace flamia {

enum class DType : uint8_t { kBF16, kF16, kF32, kI32, kI64, kU8, kI8 };

/// A strided view of memory owned by the caller. Strides count elements, not bytes.
/// data == nullptr means "not given" where a tensor is optional.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kBF16;
  int32_t rank = 0;
  int64_t shape[4] = {0, 0, 0, 0};
  int64_t stride[4] = {0, 0, 0, 0};
};

/// Shapes of one attention call.
/// Packed: q is [query_tokens, heads, head_dim], documents are given by cumulative lengths,
/// rows past the last document belong to nobody (output 0, LSE -inf, gradients 0).
/// Batched (batch > 0): q is [batch, query_tokens / batch, heads, head_dim], no cumulative lengths.
struct Problem {
  int64_t query_tokens = 0;  ///< T of q, o, do, dq (all batch entries together)
  int64_t key_tokens = 0;    ///< T of k, v, dk, dv
  int32_t batch = 0;         ///< 0: packed; otherwise the number of equally long sequences
  int32_t documents = 0;     ///< packed: entries of cu_seqlens minus one; batched: equals batch
  int32_t heads = 0;         ///< query heads, a multiple of kv_heads
  int32_t kv_heads = 0;
  int32_t head_dim = 0;  ///< 64 or 128
};

/// Tensors of the forward pass. Shapes are those of Problem; a unit last stride is required.
struct ForwardTensors {
  TensorView q;             ///< [T, Hq, D] BF16 (batched: [B, L, Hq, D])
  TensorView k;             ///< [Tk, Hkv, D] BF16
  TensorView v;             ///< [Tk, Hkv, D] BF16
  TensorView cu_seqlens_q;  ///< [documents + 1] I32 or I64, starts at 0, never decreases
  TensorView cu_seqlens_k;  ///< optional; the same as cu_seqlens_q when not given
  TensorView o;             ///< out: [T, Hq, D] BF16
  TensorView lse;           ///< out: [Hq, T] F32 (batched: [B, Hq, L]), natural log; -inf for
                            ///< rows without keys
  TensorView o_residual;    ///< out: [T, Hq, D] BF16, O before rounding minus O; needed when the
                            ///< conventions say Delta::kOResidual and a backward will follow
};

/// Tensors of the backward pass.
struct BackwardTensors {
  TensorView q, k, v;                     ///< as in the forward pass
  TensorView cu_seqlens_q, cu_seqlens_k;  ///< as in the forward pass
  TensorView o;                           ///< O of the forward pass
  TensorView o_residual;                  ///< required with Delta::kOResidual
  TensorView lse;                         ///< LSE of the forward pass
  TensorView d_o;                         ///< gradient of O: [T, Hq, D] BF16
  TensorView d_lse;                       ///< optional gradient of LSE: shape of lse, F32
  TensorView dq, dk, dv;                  ///< out: shapes of q, k, v, BF16
};

/// Memory lent by the caller for one call; size from workspace_size().
struct Workspace {
  void* data = nullptr;
  size_t bytes = 0;
};

}  // namespace flamia
