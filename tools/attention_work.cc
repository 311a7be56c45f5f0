// How much work a call is: visible pairs and floating-point operations, counted exactly per
// document.

#include "tools/attention_work.h"

#include <algorithm>
#include <iterator>

#include "base/bits.h"
#include "problem/mask.h"
#include "problem/packed_layout.h"

namespace flamia::tools {

namespace {

int64_t keys_of_row(const DocumentMask& mask, int64_t i) {
  const KeyRange range = mask.visible_keys(i);
  return larger<int64_t>(0, range.end - range.begin);
}

// The keys of a row are a continuous, piecewise linear function of the row, so each piece is a
// trapezoid. Its corners lie where the left or the right end of the row's keys meets an end of the
// document.
double visible_pairs(const DocumentMask& mask) {
  const int64_t first_position = mask.keys - mask.queries;  // of row 0
  int64_t corners[5] = {0, mask.queries, 0, 0, 0};
  if (mask.window_right >= 0) {
    corners[2] = -mask.window_right - 1 - first_position;
    corners[3] = mask.keys - mask.window_right - 1 - first_position;
  }
  if (mask.window_left >= 0) corners[4] = mask.window_left - first_position;
  for (int64_t& corner : corners) corner = std::clamp<int64_t>(corner, 0, mask.queries);
  std::sort(std::begin(corners), std::end(corners));
  long double pairs = 0;  // 64 bits: exact for all lengths that can be run
  for (size_t piece = 0; piece + 1 < std::size(corners); ++piece) {
    const int64_t begin = corners[piece];
    const int64_t end = corners[piece + 1];
    if (begin == end) continue;
    const int64_t ends = keys_of_row(mask, begin) + keys_of_row(mask, end - 1);
    pairs += static_cast<long double>(end - begin) * static_cast<long double>(ends) / 2;
  }
  return static_cast<double>(pairs);
}

}  // namespace

AttentionWork count_work(const Problem& problem, const Mask& mask, const TensorView& cu_seqlens_q,
                         const TensorView& cu_seqlens_k) {
  DocumentMask document;
  if (mask.kind == MaskKind::kCausal) document.window_right = 0;
  if (mask.kind == MaskKind::kWindow) {
    document.window_left = mask.window_left;
    document.window_right = mask.window_right;
  }
  AttentionWork work;
  const PackedLayout layout(problem, cu_seqlens_q, cu_seqlens_k);
  for (int32_t i = 0; i < problem.documents; ++i) {
    const DocumentSpan span = layout.span(i);
    document.queries = span.queries();
    document.keys = span.keys();
    work.pairs += visible_pairs(document);
  }
  const double products = work.pairs * problem.heads * problem.head_dim;  // of one matrix product
  work.forward_flops = 4 * products;
  work.backward_flops = 10 * products;
  return work;
}

}  // namespace flamia::tools
