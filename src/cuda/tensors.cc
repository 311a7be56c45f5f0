// Strides of views, as kernels name them.
#include "cuda/tensors.h"

#include <cuda_runtime_api.h>

#include "base/refusals.h"
#include "problem/footprint.h"

namespace flamia::cuda {

namespace {

constexpr int64_t kRowElements = 8;  ///< BF16 elements in 16 bytes
constexpr uintptr_t kRowBytes = 16;

void check_rows_of(const char* name, const TensorView& view, Refusals* refusals) {
  if (view.data == nullptr || is_empty(view)) return;
  const auto past = static_cast<int>(reinterpret_cast<uintptr_t>(view.data) % kRowBytes);
  if (past != 0) {
    refusals->unsupported(concat(name, ".data"), "be aligned to 16 bytes for backend hopper",
                          concat("an address ", past, " past a multiple"));
  }
  for (int i = 0; i + 1 < view.rank; ++i) {
    if (view.shape[i] == 1 || view.stride[i] % kRowElements == 0) continue;
    refusals->unsupported(concat(name, ".stride[", i, "]"),
                          "be a multiple of 8 elements for backend hopper", concat(view.stride[i]),
                          concat("copy ", name, " to a contiguous layout"));
  }
}

Status check_memory_of(const char* function, const char* name, const void* data,
                       const Device& device) {
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, data);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return {StatusCode::kDeviceError,
            concat(function, ": memory of ", name, ": ", cudaGetErrorString(error))};
  }
  switch (attributes.type) {
    case cudaMemoryTypeDevice:
      if (attributes.device == device.number) return {};
      return invalid_argument(function, concat(name, ".data"),
                              concat("be on the current GPU, number ", device.number),
                              concat("memory of number ", attributes.device));
    case cudaMemoryTypeUnregistered:
      if (device.reads_host_memory) return {};
      return invalid_argument(function, concat(name, ".data"), "be in device memory",
                              "an address of the host",
                              concat("copy ", name, " to the GPU, or use backend cpu"));
    default:  // page-locked and managed memory
      return {};
  }
}

}  // namespace

Status check_memory(const char* function, std::span<const NamedView> tensors, Workspace workspace,
                    const Device& device) {
  for (const NamedView& one : tensors) {
    if (one.view->data == nullptr || is_empty(*one.view)) continue;
    Status status = check_memory_of(function, one.name, one.view->data, device);
    if (!status.ok()) return status;
  }
  return check_memory_of(function, "workspace", workspace.data, device);
}

Status check_memory(const char* function, const ForwardTensors& tensors, Workspace workspace,
                    const Device& device) {
  const NamedView all[] = {
      {"q", &tensors.q},
      {"k", &tensors.k},
      {"v", &tensors.v},
      {"cu_seqlens_q", &tensors.cu_seqlens_q},
      {"cu_seqlens_k", &tensors.cu_seqlens_k},
      {"o", &tensors.o},
      {"lse", &tensors.lse},
      {"o_residual", &tensors.o_residual},
  };
  return check_memory(function, all, workspace, device);
}

Status check_rows(const char* function, std::span<const NamedView> tensors) {
  Refusals refusals;
  for (const NamedView& one : tensors) check_rows_of(one.name, *one.view, &refusals);
  return refusals.status(function);
}

Status check_rows(const char* function, const ForwardTensors& tensors) {
  const NamedView all[] = {{"q", &tensors.q},
                           {"k", &tensors.k},
                           {"v", &tensors.v},
                           {"o", &tensors.o},
                           {"o_residual", &tensors.o_residual}};
  return check_rows(function, all);
}

Bf16Tensor bf16_input(const TensorView& view) {
  Bf16Tensor result{};
  const int token = view.rank == 4 ? 1 : 0;
  result.data = static_cast<const uint16_t*>(view.data);
  result.batch_stride = token == 1 ? view.stride[0] : 0;
  result.token_stride = view.stride[token];
  result.head_stride = view.stride[token + 1];
  result.batch_length = token == 1 ? static_cast<int32_t>(view.shape[1]) : 0;
  result.heads = static_cast<int32_t>(view.shape[token + 1]);
  return result;
}

Bf16Output bf16_output(const TensorView& view) {
  Bf16Output result{};
  if (view.data == nullptr) return result;
  const int token = view.rank == 4 ? 1 : 0;
  result.data = static_cast<uint16_t*>(view.data);
  result.batch_stride = token == 1 ? view.stride[0] : 0;
  result.token_stride = view.stride[token];
  result.head_stride = view.stride[token + 1];
  return result;
}

ByteOutput byte_output(const TensorView& view, bool last_axis) {
  ByteOutput result{};
  const int token = view.rank == (last_axis ? 4 : 3) ? 1 : 0;
  result.data = static_cast<uint8_t*>(view.data);
  result.batch_stride = token == 1 ? view.stride[0] : 0;
  result.token_stride = view.stride[token];
  result.head_stride = view.stride[token + 1];
  result.batch_length = token == 1 ? static_cast<int32_t>(view.shape[1]) : 0;
  return result;
}

LseOutput lse_output(const TensorView& view) {
  const int head = view.rank == 3 ? 1 : 0;
  return {static_cast<float*>(view.data), head == 1 ? view.stride[0] : 0, view.stride[head],
          view.stride[head + 1]};
}

DocumentsArgs documents_of(const Problem& problem, int64_t tokens, const TensorView& cu_seqlens) {
  DocumentsArgs result{};
  result.tokens = static_cast<int32_t>(tokens);
  result.documents = problem.documents;
  if (problem.batch > 0) {
    result.batch_length = static_cast<int32_t>(tokens / problem.batch);
    return result;
  }
  result.cu_seqlens = cu_seqlens.data;
  result.stride = 1;  // validated; of a single entry the view may say anything
  result.wide = cu_seqlens.dtype == DType::kI64 ? 1 : 0;
  return result;
}

}  // namespace flamia::cuda
