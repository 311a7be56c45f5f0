// Documents in a row: where each one starts and ends, for queries and for keys.
// Paper: 3.6.1. Used by: quantizers, both passes, the oracle of the work list.
// Offsets are clamped into [0, T] and made non-decreasing, so bad cumulative lengths can give wrong
// rows but never an access out of bounds.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "flamia/problem.h"

namespace flamia {

struct DocumentSpan {
  int64_t query_begin = 0;
  int64_t query_end = 0;
  int64_t key_begin = 0;
  int64_t key_end = 0;

  int64_t queries() const { return query_end - query_begin; }
  int64_t keys() const { return key_end - key_begin; }
};

/// Reads spans from cumulative lengths in place; owns nothing.
class PackedLayout {
 public:
  /// cu_seqlens_*: [documents + 1] I32 or I64 (packed); ignored for batched problems.
  /// cu_seqlens_k without data means the same as cu_seqlens_q.
  PackedLayout(const Problem& problem, const TensorView& cu_seqlens_q,
               const TensorView& cu_seqlens_k)
      : problem_(problem),
        cu_q_(cu_seqlens_q),
        cu_k_(cu_seqlens_k.data != nullptr ? cu_seqlens_k : cu_seqlens_q) {}

  int32_t documents() const { return problem_.documents; }
  int64_t query_tokens() const { return problem_.query_tokens; }
  int64_t key_tokens() const { return problem_.key_tokens; }

  DocumentSpan span(int32_t document) const {
    DocumentSpan result;
    if (problem_.batch > 0) {
      const int64_t length_q = problem_.query_tokens / problem_.batch;
      const int64_t length_k = problem_.key_tokens / problem_.batch;
      result.query_begin = document * length_q;
      result.query_end = result.query_begin + length_q;
      result.key_begin = document * length_k;
      result.key_end = result.key_begin + length_k;
      return result;
    }
    result.query_begin = offset(cu_q_, document, problem_.query_tokens);
    result.query_end =
        larger(result.query_begin, offset(cu_q_, document + 1, problem_.query_tokens));
    result.key_begin = offset(cu_k_, document, problem_.key_tokens);
    result.key_end = larger(result.key_begin, offset(cu_k_, document + 1, problem_.key_tokens));
    return result;
  }

 private:
  static int64_t offset(const TensorView& cu, int32_t index, int64_t tokens) {
    const int64_t at = index * cu.stride[0];
    const int64_t value = cu.dtype == DType::kI64 ? static_cast<const int64_t*>(cu.data)[at]
                                                  : static_cast<const int32_t*>(cu.data)[at];
    return smaller(larger<int64_t>(value, 0), tokens);
  }

  Problem problem_;
  TensorView cu_q_;
  TensorView cu_k_;
};

}  // namespace flamia
