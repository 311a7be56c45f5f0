// Which tokens a document has, read from the caller's cumulative lengths: PackedLayout's rules
// (problem/packed_layout.h) in device code.
// Paper: 3.6.1. Used by: the schedule's kernels.
#pragma once

#include <cstdint>

#include "base/bits.h"
#include "plan/kernel_info.h"

namespace flamia {

/// [begin, begin + length), inside [0, tokens) whatever the lengths say.
struct DocumentTokens {
  int64_t begin;
  int64_t length;
};

__device__ inline int64_t document_offset(const DocumentsArgs& side, int64_t index) {
  const int64_t at = index * side.stride;
  const int64_t value = side.wide != 0 ? static_cast<const int64_t*>(side.cu_seqlens)[at]
                                       : static_cast<const int32_t*>(side.cu_seqlens)[at];
  return smaller(larger<int64_t>(value, 0), int64_t{side.tokens});
}

__device__ inline DocumentTokens document_tokens(const DocumentsArgs& side, int64_t document) {
  if (side.cu_seqlens == nullptr) return {document * side.batch_length, side.batch_length};
  const int64_t begin = document_offset(side, document);
  return {begin, larger<int64_t>(0, document_offset(side, document + 1) - begin)};
}

}  // namespace flamia
