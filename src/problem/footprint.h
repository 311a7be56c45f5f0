// Which bytes a tensor view touches, and whether two views touch the same ones.
// Used by: validation. Slices of one buffer that interleave (q, k, v of a fused projection) share a
// range of addresses but no byte; this is where they are told apart from overlapping tensors.
#pragma once

#include <cstdint>

#include "flamia/problem.h"

namespace flamia {

/// Bytes of one element; 0 for values outside the enum.
constexpr int64_t dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kU8:
    case DType::kI8:
      return 1;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kI64:
      return 8;
  }
  return 0;
}

/// Whether the view has no elements. Shapes must not be negative.
bool is_empty(const TensorView& view);

/// Whether every element lies inside the address space: no stride wraps around.
/// Shapes must be in [0, 2^48].
bool is_addressable(const TensorView& view);

/// Whether two indices of the view may name the same element (zero or interleaving strides).
bool may_overlap_itself(const TensorView& view);

/// Bytes in the common part of the two address ranges; 0 if no byte belongs to both views. Exact
/// for slices of one buffer with equal strides; where strides differ so much that the proof would
/// take too long, an overlap is assumed. Views must be addressable.
int64_t shared_bytes(const TensorView& a, const TensorView& b);

}  // namespace flamia
