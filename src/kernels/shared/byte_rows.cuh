// Where one row of one head begins in an output of bytes.
// Used by: the kernels that quantize() ends with, unpack.cu and quantize_rows.cu.
#pragma once

#include <cstdint>

#include "plan/kernel_info.h"

namespace flamia::kernels {

__device__ inline uint8_t* byte_row(const ByteOutput& output, int token, int head) {
  int64_t offset = head * output.head_stride;
  if (output.batch_length > 0) {
    offset += token / output.batch_length * output.batch_stride;
    token %= output.batch_length;
  }
  return output.data + offset + token * output.token_stride;
}

}  // namespace flamia::kernels
