// One query head of one document of the oracle: forward and backward of its rows, tile by tile.
// A tile holds the scores of its rows against all keys they see, so softmax is two-pass and no
// running maximum is involved. Six products a tile: S, P V, dP, dQ, dV, dK.
#include "oracle/head.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace flamia::oracle {
namespace {

using Eigen::Index;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Rows of a tile: scores of 128 rows against 16k keys are 16 MB a thread.
constexpr int64_t kTileRows = 128;
/// Keys whose dP exists at a time: 128 x 512 doubles stay in a second-level cache.
constexpr int64_t kKeyChunk = 512;

/// Splits rows into tiles. A tile ends before its keys become mostly masked.
/// rows_per_tile 1 leaves nothing masked: a product then touches visible pairs only.
std::vector<Tile> tiles_of(const std::vector<int64_t>& rows, const Document& document,
                           const Mask& mask, int64_t rows_per_tile) {
  std::vector<Tile> tiles;
  int64_t widest = 0;
  for (const int64_t row : rows) {
    const Keys keys = keys_of_row(document, mask, row);
    if (keys.empty()) continue;
    const int64_t width = keys.end - keys.begin;
    if (!tiles.empty()) {
      Tile& tile = tiles.back();
      const Keys both{std::min(tile.keys.begin, keys.begin), std::max(tile.keys.end, keys.end)};
      const bool dense = both.end - both.begin <= 2 * std::max(widest, width) + 2 * kTileRows;
      if (dense && static_cast<int64_t>(tile.rows.size()) < rows_per_tile) {
        tile.rows.push_back(row);
        tile.row_keys.push_back(keys);
        tile.keys = both;
        widest = std::max(widest, width);
        continue;
      }
    }
    tiles.push_back({{row}, {keys}, keys});
    widest = width;
  }
  return tiles;
}

}  // namespace

void Head::load_keys() {
  const HeadRows k(call_.inputs.k, kv_head_);
  const HeadRows v(call_.inputs.v, kv_head_);
  k_.resize(document_.keys, dim_);
  v_.resize(document_.keys, dim_);
  for (int64_t j = 0; j < document_.keys; ++j) {
    k.decode(document_.key_begin + j, k_.row(j).data());
    v.decode(document_.key_begin + j, v_.row(j).data());
  }
  if (!call_.backward) return;
  const int64_t gradient_rows =
      sampled_ ? static_cast<int64_t>(key_sample_.size()) : document_.keys;
  dk_ = Matrix::Zero(gradient_rows, dim_);
  dv_ = Matrix::Zero(gradient_rows, dim_);
  if (!sampled_) return;
  sampled_k_.resize(gradient_rows, dim_);
  sampled_v_.resize(gradient_rows, dim_);
  for (int64_t s = 0; s < gradient_rows; ++s) {
    sampled_k_.row(s) = k_.row(key_sample_[static_cast<size_t>(s)]);
    sampled_v_.row(s) = v_.row(key_sample_[static_cast<size_t>(s)]);
  }
}

bool Head::finite() const {
  if (!k_.allFinite() || !v_.allFinite()) return false;
  for (int64_t i = 0; i < document_.queries; ++i) {
    const int64_t token = document_.query_begin + i;
    if (!q_.finite(token) || (call_.backward && !d_o_.finite(token))) return false;
  }
  return true;
}

size_t Head::lse_index(int64_t row) const {
  const Problem& problem = call_.problem;
  const int64_t token = document_.query_begin + row;
  if (problem.batch == 0) return static_cast<size_t>(head_ * problem.query_tokens + token);
  const int64_t length = problem.query_tokens / problem.batch;
  return static_cast<size_t>((token / length * problem.heads + head_) * length + token % length);
}

void Head::store_rows_without_keys(const std::vector<int64_t>& rows) const {
  for (const int64_t row : rows) {
    if (!keys_of_row(document_, call_.mask, row).empty()) continue;
    call_.result->lse[lse_index(row)] = -kInfinity;
    for (int64_t c = 0; c < dim_; ++c) {
      const size_t at = o_offset(row) + static_cast<size_t>(c);
      call_.result->o[at] = 0.0;
      if (call_.backward) call_.result->dq[at] = 0.0;
    }
  }
}

void Head::compute() {
  load_keys();
  store_rows_without_keys(query_sample_);
  if (!sampled_) return run(query_sample_, Want::kRowsAndKeys);
  run(query_sample_, Want::kRows);
  if (!call_.backward) return;
  std::vector<int64_t> rows;  // that see a sampled key
  for (int64_t i = 0; i < document_.queries; ++i) {
    const Keys keys = keys_of_row(document_, call_.mask, i);
    const auto first = std::lower_bound(key_sample_.begin(), key_sample_.end(), keys.begin);
    if (first != key_sample_.end() && *first < keys.end) rows.push_back(i);
  }
  run(rows, Want::kKeys);
}

void Head::run(const std::vector<int64_t>& rows, Want want) {
  // With Inf or NaN anywhere a masked product 0 * NaN would spread it: tiles of one row have no
  // masked products.
  const int64_t rows_per_tile = finite() ? kTileRows : 1;
  for (const Tile& tile : tiles_of(rows, document_, call_.mask, rows_per_tile)) {
    load_rows(tile);
    forward(tile, want != Want::kKeys);
    if (!call_.backward) continue;
    if (want == Want::kKeys) {
      backward_sampled_keys(tile);
    } else {
      backward(tile, want);
    }
  }
}

void Head::load_rows(const Tile& tile) {
  const Index rows = static_cast<Index>(tile.rows.size());
  q_tile_.resize(rows, dim_);
  if (call_.backward) d_o_tile_.resize(rows, dim_);
  for (Index r = 0; r < rows; ++r) {
    const int64_t token = document_.query_begin + tile.rows[static_cast<size_t>(r)];
    q_.decode(token, q_tile_.row(r).data());
    if (call_.backward) d_o_.decode(token, d_o_tile_.row(r).data());
  }
}

void Head::forward(const Tile& tile, bool store) {
  const Index rows = q_tile_.rows();
  const int64_t width = tile.keys.end - tile.keys.begin;
  p_tile_.resize(rows, width);
  p_tile_.noalias() = q_tile_ * k_.middleRows(tile.keys.begin, width).transpose();
  Vector lse(rows);
  for (Index r = 0; r < rows; ++r) {
    const Keys keys = tile.row_keys[static_cast<size_t>(r)];
    const Index begin = keys.begin - tile.keys.begin;
    const Index count = keys.end - keys.begin;
    auto visible = p_tile_.row(r).segment(begin, count).array();
    visible *= call_.softmax_scale;
    const double maximum = visible.maxCoeff<Eigen::PropagateNaN>();
    visible = (visible - maximum).exp();
    const double sum = visible.sum();
    visible *= 1.0 / sum;
    lse[r] = maximum + std::log(sum);
    p_tile_.row(r).head(begin).setZero();
    p_tile_.row(r).tail(width - begin - count).setZero();
  }
  o_tile_.noalias() = p_tile_ * v_.middleRows(tile.keys.begin, width);
  if (!store) return;
  for (Index r = 0; r < rows; ++r) {
    const int64_t row = tile.rows[static_cast<size_t>(r)];
    call_.result->lse[lse_index(row)] = lse[r];
    std::copy_n(o_tile_.row(r).data(), dim_, call_.result->o.data() + o_offset(row));
  }
}

void Head::backward(const Tile& tile, Want want) {
  const Index rows = q_tile_.rows();
  delta_ = (d_o_tile_.array() * o_tile_.array()).rowwise().sum();
  dq_tile_ = Matrix::Zero(rows, dim_);
  for (int64_t begin = tile.keys.begin; begin < tile.keys.end; begin += kKeyChunk) {
    const int64_t width = std::min(kKeyChunk, tile.keys.end - begin);
    const auto p = p_tile_.middleCols(begin - tile.keys.begin, width);
    dp_.resize(rows, width);
    dp_.noalias() = d_o_tile_ * v_.middleRows(begin, width).transpose();
    dp_.array() = p.array() * (dp_.colwise() - delta_).array();  // now dS
    dq_tile_.noalias() += dp_ * k_.middleRows(begin, width);
    if (want == Want::kRows) continue;
    dv_.middleRows(begin, width).noalias() += p.transpose() * d_o_tile_;
    dk_.middleRows(begin, width).noalias() += dp_.transpose() * q_tile_;
  }
  for (Index r = 0; r < rows; ++r) {
    double* dq = call_.result->dq.data() + o_offset(tile.rows[static_cast<size_t>(r)]);
    for (int64_t c = 0; c < dim_; ++c) dq[c] = call_.softmax_scale * dq_tile_(r, c);
  }
}

void Head::backward_sampled_keys(const Tile& tile) {
  const Index rows = q_tile_.rows();
  const auto first = std::lower_bound(key_sample_.begin(), key_sample_.end(), tile.keys.begin);
  const auto last = std::lower_bound(first, key_sample_.end(), tile.keys.end);
  const Index begin = first - key_sample_.begin();
  const Index width = last - first;
  Matrix p(rows, width);
  for (Index s = 0; s < width; ++s) {
    p.col(s) = p_tile_.col(key_sample_[static_cast<size_t>(begin + s)] - tile.keys.begin);
  }
  delta_ = (d_o_tile_.array() * o_tile_.array()).rowwise().sum();
  dp_.resize(rows, width);
  dp_.noalias() = d_o_tile_ * sampled_v_.middleRows(begin, width).transpose();
  dp_.array() = p.array() * (dp_.colwise() - delta_).array();  // now dS
  dv_.middleRows(begin, width).noalias() += p.transpose() * d_o_tile_;
  dk_.middleRows(begin, width).noalias() += dp_.transpose() * q_tile_;
}

void Head::add_key_gradients() const {
  if (!call_.backward) return;
  for (Index s = 0; s < dk_.rows(); ++s) {
    const int64_t key = sampled_ ? key_sample_[static_cast<size_t>(s)] : s;
    const int64_t row = (document_.key_begin + key) * call_.problem.kv_heads + kv_head_;
    double* dk = call_.result->dk.data() + row * dim_;
    double* dv = call_.result->dv.data() + row * dim_;
    for (int64_t c = 0; c < dim_; ++c) {
      dk[c] += call_.softmax_scale * dk_(s, c);
      dv[c] += dv_(s, c);
    }
  }
}

}  // namespace flamia::oracle
