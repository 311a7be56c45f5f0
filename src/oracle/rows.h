// Rows of the oracle: documents, visible keys, sampled rows and decoded tensors.
// Depends on: the public structs only (see oracle.h for why). Used by: oracle.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "flamia/options.h"
#include "flamia/problem.h"

namespace flamia::oracle {

struct Document {
  int64_t query_begin = 0;
  int64_t queries = 0;
  int64_t key_begin = 0;
  int64_t keys = 0;
};

/// Documents of a problem; offsets are clamped into the tensors and never decrease.
std::vector<Document> documents_of(const Problem& problem, const ForwardTensors& inputs);

/// Half-open range of a document's keys, {0, 0} when empty.
struct Keys {
  int64_t begin = 0;
  int64_t end = 0;
  bool empty() const { return begin >= end; }
};

/// Keys that query row `row` of the document sees: bottom-right aligned, see Mask.
Keys keys_of_row(const Document& document, const Mask& mask, int64_t row);

/// At most `count` of [0, rows): first, last, and one random row of each stratum between;
/// all of them when count is 0 or rows <= count. Ascending.
std::vector<int64_t> sample_rows(int64_t rows, int64_t count, uint64_t seed);

/// One head of a packed or batched tensor of BF16 or F32 rows.
class HeadRows {
 public:
  /// tokens_per_sequence: L of a batched tensor, ignored for rank 3.
  HeadRows(const TensorView& view, int32_t head);

  int64_t channels() const { return channels_; }
  /// Writes the channels of one token.
  void decode(int64_t token, double* out) const;
  bool finite(int64_t token) const;

 private:
  const void* row(int64_t token) const;

  const TensorView& view_;
  int64_t channels_;
  int64_t head_offset_;
};

}  // namespace flamia::oracle
