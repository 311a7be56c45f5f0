// One call of the C ABI as bytes describe it: valid parameters first, then a list of faults.
// Used by: tests/fuzz/c_api_fuzz.cc. Tensors lie in allocations of exactly their extent, so that
// the sanitizers see any access beyond. Behind the end of the input all numbers are zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "flamia/c_api.h"

namespace flamia::fuzz {

constexpr size_t kFaultBytes = 10;  ///< kind, field, 64-bit value
constexpr int kMaxFaults = 6;
constexpr size_t kLargestAllocation = size_t{64} << 20;

/// Reads little-endian numbers; zeros behind the end.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  size_t left() const { return size_ - at_; }
  uint8_t next() { return at_ < size_ ? data_[at_++] : 0; }
  int64_t next64() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= uint64_t{next()} << (8 * i);
    return static_cast<int64_t>(value);
  }
  /// In [0, count).
  int32_t below(int32_t count) { return next() % count; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

enum Tensor {
  kQ,
  kK,
  kV,
  kLengthsQ,
  kLengthsK,
  kO,
  kResidual,
  kLse,
  kGradient,
  kLseGradient,
  kDq,
  kDk,
  kDv,
  kCodes,
  kExp,
  kScales,
  kTensors
};

/// One call of everything, as the bytes describe it.
struct Call {
  flamia_problem problem{};
  flamia_options options{};
  flamia_conventions conventions{};
  flamia_statistics statistics{};
  flamia_forward_tensors forward{};
  flamia_backward_tensors backward{};
  flamia_quantized_tensors quantized{};
  flamia_tensor tensor[kTensors] = {};
  bool given[kTensors] = {};
  std::vector<int64_t> lengths[2];
  std::vector<std::unique_ptr<unsigned char[]>> memory;
  int32_t role = 1;
  int32_t axis = 1;
  int32_t fill = 0;
  int32_t workspace_fault = 0;
  int64_t record_fault = -1;
  uint8_t record_byte = 0;
  void* stream = nullptr;
};

inline void set_sizes(Call* call) {
  call->problem.struct_size = sizeof(call->problem);
  call->options.struct_size = sizeof(call->options);
  call->conventions.struct_size = sizeof(call->conventions);
  call->statistics.struct_size = sizeof(call->statistics);
  call->forward.struct_size = sizeof(call->forward);
  call->backward.struct_size = sizeof(call->backward);
  call->quantized.struct_size = sizeof(call->quantized);
  for (flamia_tensor& tensor : call->tensor) tensor.struct_size = sizeof(tensor);
}

/// Shape of a dense tensor; padding elements follow each outermost row.
inline void set_shape(Call* call, Tensor which, int32_t dtype, std::initializer_list<int64_t> shape,
                      int64_t padding) {
  flamia_tensor& tensor = call->tensor[which];
  call->given[which] = true;
  tensor.dtype = dtype;
  tensor.rank = 0;
  for (const int64_t size : shape) tensor.shape[tensor.rank++] = size;
  int64_t stride = 1;
  for (int i = tensor.rank - 1; i >= 0; --i) {
    tensor.stride[i] = stride + (i == 0 && tensor.rank > 1 ? padding : 0);
    stride *= tensor.shape[i];
  }
}

inline void set_rows(Call* call, Tensor which, int32_t dtype, int64_t tokens, int64_t heads,
                     int64_t columns, int64_t padding) {
  const int64_t batch = call->problem.batch;
  if (batch > 0) {
    set_shape(call, which, dtype, {batch, tokens / batch, heads, columns}, padding);
  } else {
    set_shape(call, which, dtype, {tokens, heads, columns}, padding);
  }
}

inline void read_options(Bytes* bytes, flamia_options* options) {
  options->path = bytes->below(5);
  options->backend = bytes->below(3);
  options->emulate = bytes->below(3);
  options->mask = bytes->below(4);
  options->window_left = bytes->below(64) - 1;
  options->window_right = bytes->below(64) - 1;
  options->safety = bytes->below(3);
  options->determinism = bytes->below(3);
  options->hadamard = bytes->below(4);
  options->kv_order = bytes->below(3);
  options->exponential = bytes->below(5);
  options->row_sum = bytes->below(3);
  options->delta = bytes->below(3);
  options->accumulate = bytes->below(3);
  options->promote = bytes->below(3);
  options->score_accumulator = bytes->below(3);
  options->ds_format = bytes->below(3);
  options->grad_products = bytes->below(4);
  options->dq_accumulate = bytes->below(4);
  options->dq_scale = bytes->below(4);
  options->threads = 1 + bytes->below(3);
}

/// Sorted entries in [0, tokens], the first one 0.
inline void read_lengths(Bytes* bytes, int32_t documents, int64_t tokens,
                         std::vector<int64_t>* lengths) {
  lengths->assign(1, 0);
  for (int32_t b = 0; b < documents; ++b) {
    lengths->push_back(bytes->below(static_cast<int32_t>(tokens) + 1));
  }
  std::sort(lengths->begin(), lengths->end());
}

inline void read_parameters(Bytes* bytes, Call* call) {
  flamia_problem& problem = call->problem;
  const int32_t batch = bytes->below(4);
  const int32_t documents = bytes->below(6);
  problem.batch = batch;
  problem.documents = batch > 0 ? batch : documents;
  problem.query_tokens = bytes->below(49);
  problem.key_tokens = bytes->below(49);
  const bool own_keys = (bytes->next() & 1) != 0;
  if (!own_keys && batch == 0) problem.key_tokens = problem.query_tokens;
  if (batch > 0) {
    problem.query_tokens *= batch;
    problem.key_tokens *= batch;
  }
  problem.kv_heads = 1 + bytes->below(2);
  problem.heads = problem.kv_heads * (1 + bytes->below(3));
  problem.head_dim = bytes->below(4) == 0 ? 128 : 64;
  read_options(bytes, &call->options);
  const int64_t padding = bytes->below(3) * 64;
  const int32_t integers = bytes->below(2) == 0 ? FLAMIA_DTYPE_I32 : FLAMIA_DTYPE_I64;
  call->role = 1 + bytes->below(4);
  call->axis = 1 + bytes->below(2);
  call->fill = bytes->next();
  const int32_t optional = bytes->next();

  const int64_t tokens = problem.query_tokens;
  const int64_t keys = problem.key_tokens;
  const int64_t heads = problem.heads;
  const int64_t dim = problem.head_dim;
  for (const Tensor which : {kQ, kO, kResidual, kGradient, kDq}) {
    set_rows(call, which, FLAMIA_DTYPE_BF16, tokens, heads, dim, padding);
  }
  for (const Tensor which : {kK, kV, kDk, kDv}) {
    set_rows(call, which, FLAMIA_DTYPE_BF16, keys, problem.kv_heads, dim, padding);
  }
  for (const Tensor which : {kLse, kLseGradient}) {
    if (batch > 0) {
      set_shape(call, which, FLAMIA_DTYPE_F32, {batch, heads, tokens / batch}, padding);
    } else {
      set_shape(call, which, FLAMIA_DTYPE_F32, {heads, tokens}, padding);
    }
  }
  call->given[kResidual] = (optional & 1) == 0;
  call->given[kLseGradient] = (optional & 2) != 0;
  if (batch == 0) {
    read_lengths(bytes, documents, std::min(tokens, keys), &call->lengths[0]);
    read_lengths(bytes, documents, keys, &call->lengths[1]);
    const int64_t entries = documents + 1;
    set_shape(call, kLengthsQ, integers, {entries}, 0);
    if (own_keys) set_shape(call, kLengthsK, integers, {entries}, 0);
  }
  set_rows(call, kCodes, FLAMIA_DTYPE_U8, tokens, heads, dim, padding);
  if (batch > 0) {
    set_shape(call, kExp, FLAMIA_DTYPE_I8, {batch, tokens / batch, heads}, 0);
  } else {
    set_shape(call, kExp, FLAMIA_DTYPE_I8, {tokens, heads}, 0);
  }
  const int64_t columns[] = {0, dim / 16, dim / 32, dim};
  const int64_t scale_columns = columns[(optional >> 2) & 3];
  if (scale_columns > 0) {
    set_rows(call, kScales, FLAMIA_DTYPE_U8, tokens, heads, scale_columns, 0);
  }
}

inline float float_of(int64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &low, sizeof(value));
  return value;
}

inline void break_problem(flamia_problem* problem, uint8_t field, int64_t value) {
  const auto narrow = static_cast<int32_t>(value);
  switch (field % 8) {
    case 0:
      problem->query_tokens = value;
      break;
    case 1:
      problem->key_tokens = value;
      break;
    case 2:
      problem->batch = narrow;
      break;
    case 3:
      problem->documents = narrow;
      break;
    case 4:
      problem->heads = narrow;
      break;
    case 5:
      problem->kv_heads = narrow;
      break;
    case 6:
      problem->head_dim = narrow;
      break;
    default:
      // No larger than the struct unless refused: a larger size would promise memory.
      problem->struct_size = static_cast<size_t>(value);
      break;
  }
}

inline void break_options(flamia_options* options, uint8_t field, int64_t value) {
  int32_t flamia_options::*const integers[] = {
      &flamia_options::path,          &flamia_options::backend,
      &flamia_options::emulate,       &flamia_options::mask,
      &flamia_options::safety,        &flamia_options::determinism,
      &flamia_options::hadamard,      &flamia_options::kv_order,
      &flamia_options::exponential,   &flamia_options::row_sum,
      &flamia_options::delta,         &flamia_options::accumulate,
      &flamia_options::promote,       &flamia_options::score_accumulator,
      &flamia_options::ds_format,     &flamia_options::grad_products,
      &flamia_options::dq_accumulate, &flamia_options::dq_scale,
      &flamia_options::threads};
  constexpr uint8_t kIntegers = sizeof(integers) / sizeof(integers[0]);
  if (field < kIntegers) {
    options->*integers[field] = static_cast<int32_t>(value);
    return;
  }
  switch (field % 6) {
    case 0:
      options->has_softmax_scale = 1;
      options->softmax_scale = float_of(value);
      break;
    case 1:
      options->has_p_scale = 1;
      options->p_scale = float_of(value);
      break;
    case 2:
      options->has_tau = 1;
      options->tau = float_of(value);
      break;
    case 3:
      options->window_left = value;
      break;
    case 4:
      options->window_right = value;
      break;
    default:
      options->struct_size = static_cast<size_t>(value);
      break;
  }
}

inline void break_tensor(Call* call, uint8_t field, int64_t value) {
  const int which = field % kTensors;
  flamia_tensor& tensor = call->tensor[which];
  switch (static_cast<uint8_t>(value) % 13) {
    case 0:
      call->given[which] = !call->given[which];
      break;
    case 1:
      tensor.dtype = static_cast<int32_t>(value >> 8);
      break;
    case 2:
      tensor.rank = static_cast<int32_t>(value >> 8);
      break;
    case 3:
    case 4:
    case 5:
    case 6:
      tensor.shape[static_cast<uint8_t>(value) % 13 - 3] = value >> 8;
      break;
    case 7:
    case 8:
    case 9:
    case 10:
      tensor.stride[static_cast<uint8_t>(value) % 13 - 7] = value >> 8;
      break;
    case 11:
      tensor.struct_size = static_cast<size_t>(value >> 8);
      break;
    default:
      tensor.data = &tensor;  // stands for "no memory": see place()
      break;
  }
}

inline void read_fault(Bytes* bytes, Call* call) {
  const uint8_t kind = bytes->next();
  const uint8_t field = bytes->next();
  const int64_t value = bytes->next64();
  switch (kind % 9) {
    case 0:
      break_problem(&call->problem, field, value);
      break;
    case 1:
      break_options(&call->options, field, value);
      break;
    case 2:
    case 3:
      break_tensor(call, field, value);
      break;
    case 4: {
      std::vector<int64_t>& lengths = call->lengths[field & 1];
      if (!lengths.empty()) lengths[field / 2 % lengths.size()] = value;
      break;
    }
    case 5:
      call->record_fault = field % 64;
      call->record_byte = static_cast<uint8_t>(value);
      break;
    case 6:
      call->workspace_fault = 1 + field % 4;
      break;
    case 7: {
      size_t* const sizes[] = {&call->conventions.struct_size, &call->statistics.struct_size,
                               &call->forward.struct_size, &call->backward.struct_size,
                               &call->quantized.struct_size};
      *sizes[field % 5] = static_cast<size_t>(value);
      break;
    }
    default:
      if ((field & 1) != 0) call->role = static_cast<int32_t>(value);
      if ((field & 2) != 0) call->axis = static_cast<int32_t>(value);
      if ((field & 4) != 0) call->stream = call;
      break;
  }
}

inline int64_t bytes_of(int32_t dtype) {
  switch (dtype) {
    case FLAMIA_DTYPE_BF16:
    case FLAMIA_DTYPE_F16:
      return 2;
    case FLAMIA_DTYPE_F32:
    case FLAMIA_DTYPE_I32:
      return 4;
    case FLAMIA_DTYPE_I64:
      return 8;
    default:
      return 1;
  }
}

/// Gives a tensor an allocation of exactly its extent, or none where that would be large.
inline void place(Call* call, Tensor which) {
  flamia_tensor& tensor = call->tensor[which];
  const bool without_memory = tensor.data != nullptr;
  tensor.data = nullptr;
  if (without_memory || tensor.rank < 0 || tensor.rank > 4) return;
  double below = 0.0;
  double above = 1.0;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.shape[i] <= 0) return;
    const double reach =
        static_cast<double>(tensor.shape[i] - 1) * static_cast<double>(tensor.stride[i]);
    (reach < 0 ? below : above) += reach;
  }
  const auto element = static_cast<double>(bytes_of(tensor.dtype));
  if ((above - below) * element > static_cast<double>(kLargestAllocation >> 4)) return;
  const auto first = static_cast<size_t>(-below * element);
  const auto size = static_cast<size_t>((above - below) * element);
  call->memory.push_back(std::make_unique<unsigned char[]>(size));
  unsigned char* memory = call->memory.back().get();
  uint32_t seed = static_cast<uint32_t>(call->fill) * 16u + which;
  for (size_t i = 0; i < size; ++i) {
    seed = seed * 1664525u + 1013904223u;
    // Any bits at all, or magnitudes near one.
    const auto byte = static_cast<unsigned char>(seed >> 24);
    const bool high = i % 2 == 1;
    memory[i] =
        (call->fill & 1) != 0 || !high ? byte : static_cast<unsigned char>((byte & 0x80u) | 0x3fu);
  }
  tensor.data = memory + first;
  if (which != kLengthsQ && which != kLengthsK) return;
  const std::vector<int64_t>& lengths = call->lengths[which - kLengthsQ];
  const size_t width = static_cast<size_t>(bytes_of(tensor.dtype));
  for (size_t i = 0; i < lengths.size() && (i + 1) * width <= size; ++i) {
    std::memcpy(memory + i * width, &lengths[i], width);
  }
}

inline const flamia_tensor* pointer(const Call& call, Tensor which) {
  return call.given[which] ? &call.tensor[which] : nullptr;
}

inline void connect(Call* call) {
  for (int i = 0; i < kTensors; ++i) place(call, static_cast<Tensor>(i));
  const Call& c = *call;
  call->forward.q = call->backward.q = pointer(c, kQ);
  call->forward.k = call->backward.k = pointer(c, kK);
  call->forward.v = call->backward.v = pointer(c, kV);
  call->forward.cu_seqlens_q = call->backward.cu_seqlens_q = pointer(c, kLengthsQ);
  call->forward.cu_seqlens_k = call->backward.cu_seqlens_k = pointer(c, kLengthsK);
  call->forward.o = call->backward.o = pointer(c, kO);
  call->forward.o_residual = call->backward.o_residual = pointer(c, kResidual);
  call->forward.lse = call->backward.lse = pointer(c, kLse);
  call->backward.d_o = pointer(c, kGradient);
  call->backward.d_lse = pointer(c, kLseGradient);
  call->backward.dq = pointer(c, kDq);
  call->backward.dk = pointer(c, kDk);
  call->backward.dv = pointer(c, kDv);
  call->quantized.codes = pointer(c, kCodes);
  call->quantized.exp = pointer(c, kExp);
  call->quantized.scales = pointer(c, kScales);
}

/// The call that the bytes describe, with its memory.
inline void read_call(const uint8_t* data, size_t size, Call* call) {
  Bytes bytes(data, size);
  set_sizes(call);
  read_parameters(&bytes, call);
  for (int i = 0; i < kMaxFaults && bytes.left() >= kFaultBytes; ++i) read_fault(&bytes, call);
  connect(call);
}

}  // namespace flamia::fuzz
