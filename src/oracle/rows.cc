// Rows of the oracle: documents, visible keys, sampled rows and decoded tensors.
#include "oracle/rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace flamia::oracle {
namespace {

int64_t cumulative_length(const TensorView& cu_seqlens, int64_t index) {
  const int64_t at = index * cu_seqlens.stride[0];
  if (cu_seqlens.dtype == DType::kI64) return static_cast<const int64_t*>(cu_seqlens.data)[at];
  return static_cast<const int32_t*>(cu_seqlens.data)[at];
}

void clamped_span(const TensorView& cu_seqlens, int64_t index, int64_t tokens, int64_t* begin,
                  int64_t* length) {
  *begin = std::clamp<int64_t>(cumulative_length(cu_seqlens, index), 0, tokens);
  const int64_t end = std::clamp<int64_t>(cumulative_length(cu_seqlens, index + 1), 0, tokens);
  *length = std::max<int64_t>(end - *begin, 0);
}

/// SplitMix64: well-mixed bits of a counter.
uint64_t mixed_bits(uint64_t counter) {
  uint64_t z = counter + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double decode_bf16(uint16_t code) {
  const uint32_t bits = static_cast<uint32_t>(code) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<double>(value);
}

}  // namespace

std::vector<Document> documents_of(const Problem& problem, const ForwardTensors& inputs) {
  std::vector<Document> documents(static_cast<size_t>(problem.documents));
  const TensorView& cu_q = inputs.cu_seqlens_q;
  const TensorView& cu_k = inputs.cu_seqlens_k.data != nullptr ? inputs.cu_seqlens_k : cu_q;
  for (int64_t b = 0; b < problem.documents; ++b) {
    Document& document = documents[static_cast<size_t>(b)];
    if (problem.batch > 0) {
      document.queries = problem.query_tokens / problem.batch;
      document.keys = problem.key_tokens / problem.batch;
      document.query_begin = b * document.queries;
      document.key_begin = b * document.keys;
      continue;
    }
    clamped_span(cu_q, b, problem.query_tokens, &document.query_begin, &document.queries);
    clamped_span(cu_k, b, problem.key_tokens, &document.key_begin, &document.keys);
  }
  return documents;
}

Keys keys_of_row(const Document& document, const Mask& mask, int64_t row) {
  Keys keys{0, document.keys};
  const int64_t last_key = document.keys - document.queries + row;  // the row's own position
  if (mask.kind == MaskKind::kCausal) keys.end = std::min(keys.end, last_key + 1);
  if (mask.kind == MaskKind::kWindow) {
    // Compared before adding: a window may be as wide as int64 allows.
    if (mask.window_left >= 0 && mask.window_left < last_key) {
      keys.begin = last_key - mask.window_left;
    }
    if (mask.window_right >= 0 && mask.window_right < document.keys - 1 - last_key) {
      keys.end = last_key + mask.window_right + 1;
    }
  }
  return keys.begin < keys.end ? keys : Keys{};
}

std::vector<int64_t> sample_rows(int64_t rows, int64_t count, uint64_t seed) {
  std::vector<int64_t> sample;
  if (count <= 0 || rows <= count) {
    for (int64_t row = 0; row < rows; ++row) sample.push_back(row);
    return sample;
  }
  sample.push_back(0);
  if (count == 1) return sample;
  const int64_t strata = count - 2;
  const int64_t inner_rows = rows - 2;  // >= strata, so no stratum is empty
  for (int64_t s = 0; s < strata; ++s) {
    const int64_t begin = inner_rows * s / strata;
    const int64_t end = inner_rows * (s + 1) / strata;
    const uint64_t bits = mixed_bits(mixed_bits(seed) ^ static_cast<uint64_t>(s));
    sample.push_back(1 + begin + static_cast<int64_t>(bits % static_cast<uint64_t>(end - begin)));
  }
  sample.push_back(rows - 1);
  return sample;
}

HeadRows::HeadRows(const TensorView& view, int32_t head)
    : view_(view),
      channels_(view.shape[view.rank - 1]),
      head_offset_(head * view.stride[view.rank - 2]) {}

const void* HeadRows::row(int64_t token) const {
  int64_t offset = head_offset_;
  if (view_.rank == 4) {
    offset += token / view_.shape[1] * view_.stride[0] + token % view_.shape[1] * view_.stride[1];
  } else {
    offset += token * view_.stride[0];
  }
  if (view_.dtype == DType::kF32) return static_cast<const float*>(view_.data) + offset;
  return static_cast<const uint16_t*>(view_.data) + offset;
}

void HeadRows::decode(int64_t token, double* out) const {
  const void* source = row(token);
  for (int64_t c = 0; c < channels_; ++c) {
    out[c] = view_.dtype == DType::kF32 ? static_cast<double>(static_cast<const float*>(source)[c])
                                        : decode_bf16(static_cast<const uint16_t*>(source)[c]);
  }
}

bool HeadRows::finite(int64_t token) const {
  const void* source = row(token);
  for (int64_t c = 0; c < channels_; ++c) {
    const bool finite = view_.dtype == DType::kF32
                            ? std::isfinite(static_cast<const float*>(source)[c])
                            : (static_cast<const uint16_t*>(source)[c] & 0x7f80u) != 0x7f80u;
    if (!finite) return false;
  }
  return true;
}

}  // namespace flamia::oracle
