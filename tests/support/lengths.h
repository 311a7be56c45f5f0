// Cumulative lengths of documents in the forms that callers may give.
// Used by: tests of the work list, on the CPU and on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "problem/packed_layout.h"

namespace flamia::test {

/// Cumulative lengths of one side. Entries may be bad on purpose.
struct Lengths {
  std::vector<int64_t> cumulative;  ///< [documents + 1]
  int64_t tokens = 0;
  int64_t stride = 1;
  bool wide = false;

  int32_t documents() const { return static_cast<int32_t>(cumulative.size()) - 1; }

  /// Entries as the caller's memory holds them; what lies between entries is nonsense.
  template <typename Entry>
  std::vector<Entry> stored() const {
    std::vector<Entry> result((cumulative.size() - 1) * static_cast<size_t>(stride) + 1,
                              Entry{-77});
    for (size_t i = 0; i < cumulative.size(); ++i) {
      result[i * static_cast<size_t>(stride)] = static_cast<Entry>(cumulative[i]);
    }
    return result;
  }
};

/// Documents of these lengths, one after the other, and `unowned` tokens behind them.
inline Lengths lengths_of(const std::vector<int64_t>& documents, int64_t unowned = 0) {
  Lengths lengths;
  lengths.cumulative.push_back(0);
  for (const int64_t length : documents) {
    lengths.cumulative.push_back(lengths.cumulative.back() + length);
  }
  lengths.tokens = lengths.cumulative.back() + unowned;
  return lengths;
}

/// The layout of two sides; owns the memory that it reads.
class OwnedLayout {
 public:
  OwnedLayout(const Lengths& queries, const Lengths& keys)
      : queries_(queries.stored<int64_t>()),
        keys_(keys.stored<int64_t>()),
        layout_(problem(queries, keys), view(queries_, queries), view(keys_, keys)) {}
  OwnedLayout(const OwnedLayout&) = delete;
  OwnedLayout& operator=(const OwnedLayout&) = delete;

  const PackedLayout& get() const { return layout_; }

 private:
  static Problem problem(const Lengths& queries, const Lengths& keys) {
    Problem result;
    result.query_tokens = queries.tokens;
    result.key_tokens = keys.tokens;
    result.documents = queries.documents();
    return result;
  }
  static TensorView view(std::vector<int64_t>& entries, const Lengths& lengths) {
    TensorView result;
    result.data = entries.data();
    result.dtype = DType::kI64;
    result.rank = 1;
    result.shape[0] = static_cast<int64_t>(lengths.cumulative.size());
    result.stride[0] = lengths.stride;
    return result;
  }

  std::vector<int64_t> queries_;
  std::vector<int64_t> keys_;
  PackedLayout layout_;
};

/// The layout of a batch, which reads no lengths.
inline PackedLayout batch_layout(int32_t batch, int64_t queries, int64_t keys) {
  Problem problem;
  problem.batch = batch;
  problem.documents = batch;
  problem.query_tokens = batch * queries;
  problem.key_tokens = batch * keys;
  return PackedLayout(problem, {}, {});
}

}  // namespace flamia::test
