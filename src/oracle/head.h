// One query head of one document of the oracle: forward and backward of its rows, tile by tile.
// Depends on: Eigen for the products. Used by: oracle.cc, which hands heads to threads.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "oracle/oracle.h"
#include "oracle/rows.h"

namespace flamia::oracle {

/// Everything that is the same for all heads.
struct Call {
  const Problem& problem;
  const Mask& mask;
  double softmax_scale;
  const ForwardTensors& inputs;
  const TensorView& d_o;
  bool backward;
  std::vector<Document> documents;
  std::vector<std::vector<int64_t>> query_samples;  ///< per document, document-relative
  std::vector<std::vector<int64_t>> key_samples;
  Result* result;

  bool sampled(size_t document) const {
    return static_cast<int64_t>(query_samples[document].size()) < documents[document].queries ||
           static_cast<int64_t>(key_samples[document].size()) < documents[document].keys;
  }
};

/// Rows of one tile with the keys that any of them sees.
struct Tile {
  std::vector<int64_t> rows;  ///< document-relative, ascending, each with at least one key
  std::vector<Keys> row_keys;
  Keys keys;
};

/// One query head of one document.
class Head {
 public:
  Head(const Call& call, size_t document_index, int32_t head)
      : call_(call),
        document_(call.documents[document_index]),
        head_(head),
        kv_head_(head / (call.problem.heads / call.problem.kv_heads)),
        dim_(call.problem.head_dim),
        q_(call.inputs.q, head),
        d_o_(call.backward ? call.d_o : call.inputs.q, head),
        query_sample_(call.query_samples[document_index]),
        key_sample_(call.key_samples[document_index]),
        sampled_(call.sampled(document_index)) {}

  void compute();
  /// Adds this head's gradients of keys and values to those of its key-value head.
  void add_key_gradients() const;

 private:
  enum class Want { kRows, kKeys, kRowsAndKeys };

  void load_keys();
  bool finite() const;
  void store_rows_without_keys(const std::vector<int64_t>& rows) const;
  void run(const std::vector<int64_t>& rows, Want want);
  void load_rows(const Tile& tile);
  void forward(const Tile& tile, bool store);
  void backward(const Tile& tile, Want want);
  void backward_sampled_keys(const Tile& tile);

  size_t o_offset(int64_t row) const {
    const int64_t token = document_.query_begin + row;
    return static_cast<size_t>((token * call_.problem.heads + head_) * dim_);
  }
  size_t lse_index(int64_t row) const;

  const Call& call_;
  const Document& document_;
  int32_t head_;
  int32_t kv_head_;
  int64_t dim_;
  HeadRows q_;
  HeadRows d_o_;
  const std::vector<int64_t>& query_sample_;
  const std::vector<int64_t>& key_sample_;
  bool sampled_;

  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::VectorXd;

  Matrix k_, v_, dk_, dv_;  ///< [keys, D]; sampled: gradients of the sampled keys only
  Matrix sampled_k_, sampled_v_;
  Matrix q_tile_, d_o_tile_;  ///< [rows, D]
  Matrix p_tile_, o_tile_;    ///< [rows, keys of the tile], [rows, D]
  Matrix dp_, dq_tile_;
  Vector delta_;  ///< rowsum(dO * O)
};

}  // namespace flamia::oracle
