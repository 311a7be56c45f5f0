// A view is an arithmetic progression of progressions of runs of bytes. Two views are compared from
// the largest stride inwards: only a few relative positions can meet at each level.
#include "problem/footprint.h"

#include <algorithm>
#include <cstddef>

namespace flamia {

namespace {

__extension__ using Wide = __int128;  // addresses and extents of 64 bits, added and multiplied

/// Steps of the comparison of two views before an overlap is assumed.
constexpr int kComparisonSteps = 1 << 16;

constexpr int kMaxRank = 4;

struct Progression {
  Wide stride = 0;  ///< bytes, positive
  Wide count = 1;   ///< at least 2
};

struct Footprint {
  Wide begin = 0;  ///< lowest address
  Wide run = 0;    ///< contiguous bytes
  int levels = 0;
  Progression level[kMaxRank];  ///< strides descending

  /// Bytes from the first to past the last of levels [first, levels).
  Wide span(int first) const {
    Wide bytes = run;
    for (int i = first; i < levels; ++i) bytes += level[i].stride * (level[i].count - 1);
    return bytes;
  }
};

Wide floor_div(Wide a, Wide b) {
  const Wide quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

Footprint footprint(const TensorView& view) {
  const Wide bytes = dtype_bytes(view.dtype);
  Footprint result;
  result.begin = static_cast<Wide>(reinterpret_cast<uintptr_t>(view.data));
  result.run = bytes;
  for (int i = 0; i < view.rank; ++i) {
    Progression axis{static_cast<Wide>(view.stride[i]) * bytes, view.shape[i]};
    if (axis.count < 2 || axis.stride == 0) continue;
    if (axis.stride < 0) {
      result.begin += axis.stride * (axis.count - 1);
      axis.stride = -axis.stride;
    }
    int at = result.levels++;
    for (; at > 0 && result.level[at - 1].stride < axis.stride; --at) {
      result.level[at] = result.level[at - 1];
    }
    result.level[at] = axis;
  }
  while (result.levels > 0 && result.level[result.levels - 1].stride == result.run) {
    result.run *= result.level[--result.levels].count;
  }
  return result;
}

/// Whether levels [level_a..] of a and [level_b..] of b touch a common byte when b starts distance
/// bytes after a. Assumes so when steps run out.
bool meet(const Footprint& a, int level_a, const Footprint& b, int level_b, Wide distance,
          int* steps) {
  if (--*steps < 0) return true;
  if (distance >= a.span(level_a) || -distance >= b.span(level_b)) return false;
  const bool a_done = level_a == a.levels;
  const bool b_done = level_b == b.levels;
  if (a_done && b_done) return true;
  const Wide stride_a = a_done ? 0 : a.level[level_a].stride;
  const Wide stride_b = b_done ? 0 : b.level[level_b].stride;
  const Wide stride = std::max(stride_a, stride_b);
  const bool step_a = stride_a == stride;
  const bool step_b = stride_b == stride;
  const int inner_a = level_a + (step_a ? 1 : 0);
  const int inner_b = level_b + (step_b ? 1 : 0);
  const Wide last_a = step_a ? a.level[level_a].count - 1 : 0;
  const Wide last_b = step_b ? b.level[level_b].count - 1 : 0;
  // Steps of b minus steps of a for which the inner parts come close enough to meet.
  const Wide low = std::max(-last_a, floor_div(-b.span(inner_b) - distance, stride) + 1);
  const Wide high = std::min(last_b, -floor_div(distance - a.span(inner_a), stride) - 1);
  for (Wide offset = low; offset <= high; ++offset) {
    if (meet(a, inner_a, b, inner_b, distance + offset * stride, steps)) return true;
  }
  return false;
}

}  // namespace

bool is_empty(const TensorView& view) {
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 0) return true;
  }
  return false;
}

bool is_addressable(const TensorView& view) {
  constexpr Wide kEnd = static_cast<Wide>(INT64_MAX);
  const Footprint bytes = footprint(view);
  return bytes.begin >= 0 && bytes.begin <= kEnd && bytes.begin + bytes.span(0) <= kEnd;
}

bool may_overlap_itself(const TensorView& view) {
  Footprint bytes = footprint(view);
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] > 1 && view.stride[i] == 0) return true;
  }
  for (int i = 0; i < bytes.levels; ++i) {
    if (bytes.level[i].stride < bytes.span(i + 1)) return true;
  }
  return false;
}

int64_t shared_bytes(const TensorView& a, const TensorView& b) {
  if (is_empty(a) || is_empty(b)) return 0;
  const Footprint x = footprint(a);
  const Footprint y = footprint(b);
  const Wide begin = std::max(x.begin, y.begin);
  const Wide end = std::min(x.begin + x.span(0), y.begin + y.span(0));
  if (begin >= end) return 0;
  int steps = kComparisonSteps;
  if (!meet(x, 0, y, 0, y.begin - x.begin, &steps)) return 0;
  return static_cast<int64_t>(end - begin);
}

}  // namespace flamia
