// dQ, dK, dV in the order and with the numbers of a GPU kernel: one work item a key tile, looping
// over query tiles; dK and dV promoted tile by tile, dQ partials added in the order of key tiles.
// Over 500 lines because the steps of one pass share its tile.
// Paper: 3.3, 3.5.3, A.3-A.5. Rules: docs/numerics.md. Used by: the CPU backend.
#include "cpu/backward.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "cpu/backward_rows.h"
#include "cpu/gradient_operands.h"
#include "cpu/p_hat_row.h"
#include "cpu/parallel.h"
#include "cpu/quantize.h"
#include "cpu/row_output.h"
#include "numerics/f16.h"
#include "numerics/online_softmax.h"
#include "plan/conventions.h"

namespace flamia::cpu {
namespace {

struct Item {
  int32_t document;
  int32_t kv_head;
  int64_t key_tile;
};

/// Exponents of the rows of a tile, padded; null where a representation has none.
struct Exponents8 {
  int8_t storage[kPaddedExponents];
  const int8_t* values = nullptr;

  void set(const Operand& operand, int head, int64_t token, int count) {
    values = operand.padded_exponents(head, token, count, storage);
  }
};

/// The exponents that one query tile against one key tile needs.
struct TileExponents {
  Exponents8 k, v_grad, k_grad, v, v_diagonal;  ///< of the key tile
  Exponents8 q, d_o, d_o_keys, q_grad;          ///< of the query tile
};

/// One query tile against the item's key tile.
struct Tile {
  DocumentSpan span;
  DocumentMask mask;
  int32_t document;
  int head;
  int kv_head;
  int64_t query_tile;
  int64_t first_row;  ///< document-relative
  int rows;
  int64_t first_key;  ///< document-relative
  int keys;
  int64_t query_token;  ///< global
  int64_t key_token;    ///< global
  TileExponents exponents;
};

/// Sums of dS and |dS| of the rows of one tile.
struct RowSums {
  float sum[kKeyTile];
  float magnitude[kKeyTile];
};

class BackwardPass {
 public:
  BackwardPass(const Plan& plan, const BackwardTensors& tensors, const BackwardBuffers& buffers,
               const PackedLayout& layout);

  const std::vector<Item>& items() const { return items_; }
  FlushCount run(const Item& item, const TileScratch& scratch) const;

 private:
  void load_keys(Tile* tile, const TileScratch& scratch) const;
  void load_queries(Tile* tile, const TileScratch& scratch) const;
  void probabilities(const Tile& tile, const TileScratch& scratch, RowSums* sums) const;
  void row_probabilities(const Tile& tile, const float* acc, const float* mult, Columns visible,
                         float lse2, KeyFolds* folds, float* p, float* p_for_ds) const;
  void add_key_products(const Tile& tile, const TileScratch& scratch, FlushCount* flush) const;
  void add_product(const ProductModel& model, const TileScratch& scratch, const float* operand,
                   const float* other, int rows, int keys, const ProductExponents& exponents,
                   float* sum) const;
  void add_query_product(const Tile& tile, const TileScratch& scratch, const RowSums& sums,
                         FlushCount* flush) const;
  void add_partial(const Tile& tile, const TileScratch& scratch,
                   const ProductExponents& exponents) const;
  void store(const Tile& tile, const TileScratch& scratch) const;

  const Plan& plan_;
  const Conventions& conventions_;
  const BackwardTensors& tensors_;
  const BackwardBuffers& buffers_;
  const PackedLayout& layout_;
  int query_tile_;
  int dim_;
  float score_base_;
  bool folds_;
  ProductModel score_model_, value_model_, gradient_model_;
  std::vector<int64_t> first_turn_;  ///< per document: its first query tile in the turn counters
  std::vector<Item> items_;
};

BackwardPass::BackwardPass(const Plan& plan, const BackwardTensors& tensors,
                           const BackwardBuffers& buffers, const PackedLayout& layout)
    : plan_(plan),
      conventions_(plan.conventions),
      tensors_(tensors),
      buffers_(buffers),
      layout_(layout),
      query_tile_(backward_query_tile(plan.conventions)),
      dim_(plan.problem.head_dim),
      score_base_(score_multiplier_of(plan.conventions)),
      folds_(folds_exponents(plan.conventions)),
      score_model_(score_product_model(plan.conventions)),
      value_model_(product_model(plan.conventions, value_width(plan.conventions))),
      gradient_model_(
          product_model(plan.conventions, conventions_.grad_products == GradProducts::kBf16 ||
                                                  value_width(plan.conventions) == Narrow::kWide
                                              ? Narrow::kWide
                                              : Narrow::kFp8Gradient)) {
  // Long documents first; inside a document key tiles ascend, which the turn counters rely on.
  std::vector<int32_t> order(static_cast<size_t>(layout.documents()));
  first_turn_.resize(order.size());
  int64_t turns = 0;
  for (int32_t document = 0; document < layout.documents(); ++document) {
    order[static_cast<size_t>(document)] = document;
    first_turn_[static_cast<size_t>(document)] = turns;
    turns += ceil_div<int64_t>(layout.span(document).queries(), query_tile_);
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const DocumentSpan x = layout.span(a);
    const DocumentSpan y = layout.span(b);
    return x.queries() * x.keys() > y.queries() * y.keys();
  });
  for (const int32_t document : order) {
    const int64_t tiles = ceil_div<int64_t>(layout.span(document).keys(), kKeyTile);
    for (int32_t head = 0; head < plan.problem.kv_heads; ++head) {
      for (int64_t t = 0; t < tiles; ++t) items_.push_back({document, head, t});
    }
  }
}

void BackwardPass::load_keys(Tile* tile, const TileScratch& scratch) const {
  const auto load = [&](const Operand& operand, Exponents exponents, float* out, Exponents8* exp) {
    load_tile(operand, tile->kv_head, tile->key_token, tile->keys, exponents, out);
    exp->set(operand, tile->kv_head, tile->key_token, tile->keys);
  };
  TileExponents& e = tile->exponents;
  load(buffers_.k, Exponents::kLeave, scratch.k, &e.k);
  load(buffers_.v_grad, Exponents::kLeave, scratch.v_grad, &e.v_grad);
  load(buffers_.k_grad, folds_ ? Exponents::kLeave : Exponents::kApply, scratch.k_grad, &e.k_grad);
  if (conventions_.path == Path::kAll4Bit) {
    e.v.set(buffers_.v, tile->kv_head, tile->key_token, tile->keys);
    e.v_diagonal.set(buffers_.v_diagonal, tile->kv_head, tile->key_token, tile->keys);
  }
}

void BackwardPass::load_queries(Tile* tile, const TileScratch& scratch) const {
  const auto load = [&](const Operand& operand, Exponents exponents, float* out, Exponents8* exp) {
    load_tile(operand, tile->head, tile->query_token, tile->rows, exponents, out);
    exp->set(operand, tile->head, tile->query_token, tile->rows);
  };
  const Exponents gradient = folds_ ? Exponents::kLeave : Exponents::kApply;
  TileExponents& e = tile->exponents;
  // Where the gradient products use the codes of the scores or of dP, the tile is copied.
  const auto load_again = [&](const Operand& operand, const Operand& loaded, const float* values,
                              float* out, Exponents8* exp) {
    if (!folds_ || operand.codes == nullptr || operand.codes != loaded.codes) {
      load(operand, gradient, out, exp);
      return;
    }
    std::copy_n(values, tile->rows * dim_, out);
    exp->set(operand, tile->head, tile->query_token, tile->rows);
  };
  load(buffers_.q, Exponents::kLeave, scratch.q, &e.q);
  load(buffers_.d_o, Exponents::kLeave, scratch.d_o, &e.d_o);
  load_again(buffers_.d_o_keys, buffers_.d_o, scratch.d_o, scratch.d_o_keys, &e.d_o_keys);
  load_again(buffers_.q_grad, buffers_.q, scratch.q, scratch.q_grad, &e.q_grad);
}

void BackwardPass::row_probabilities(const Tile& tile, const float* acc, const float* mult,
                                     Columns visible, float lse2, KeyFolds* folds, float* p,
                                     float* p_for_ds) const {
  const int count = round_up(tile.keys, kLanes);
  float bias[kKeyTile];
  for (int j = 0; j < kKeyTile; ++j) bias[j] = -lse2;
  exponentials(conventions_.exponential, acc, mult, bias, count, p);
  mask_row(p, visible, count, 0.0f);
  if (conventions_.path != Path::kAll4Bit || visible.begin >= visible.end) return;
  // All-4-bit: dS is formed with the 4-bit P-hat of the forward, rebuilt with its folds.
  const bool whole = tile.mask.forward_tile_is_whole(tile.first_row, tile.first_key, tile.keys);
  const int8_t* value_exp = (whole ? tile.exponents.v : tile.exponents.v_diagonal).values;
  int reference = -128;
  for (int j = visible.begin; j < visible.end; ++j)
    reference = larger<int>(reference, value_exp[j]);
  folds->set(value_exp, reference, count);
  float x[kKeyTile];
  for (int j = 0; j < count; ++j) x[j] = acc[j] * mult[j];
  mask_row(x, visible, count, -kFloatInfinity);
  const PRow row{acc,           mult, visible, count, lse2, 0.0f, conventions_.exponential,
                 RowSum::kPHat, folds};
  if (std::isfinite(lse2)) {
    quantize_p_row(PForm::kE2m1Group, row, x, p_for_ds);
    for (int j = 0; j < count; ++j) p_for_ds[j] *= folds->inverse[j];
  } else {
    for (int j = 0; j < count; ++j) p_for_ds[j] = 0.0f;
  }
}

/// P into scratch.p and dS into scratch.ds (which holds dP before).
void BackwardPass::probabilities(const Tile& tile, const TileScratch& scratch,
                                 RowSums* sums) const {
  const int count = round_up(tile.keys, kLanes);
  const int8_t* query_exp = tile.exponents.q.values;
  const int8_t* do_exp = tile.exponents.d_o.values;
  const int64_t row0 = tile.head * plan_.problem.query_tokens + tile.query_token;
  alignas(32) float mult[kKeyTile];
  alignas(32) float dp_mult[kKeyTile];
  alignas(32) float rebuilt[kKeyTile];
  KeyFolds folds;
  int last_query_exp = 1 << 20;
  int last_do_exp = 1 << 20;
  for (int i = 0; i < tile.rows; ++i) {
    float* __restrict p = scratch.p + i * kKeyTile;
    float* __restrict ds = scratch.ds + i * kKeyTile;
    const Columns visible =
        visible_columns(tile.mask, tile.first_row + i, tile.first_key, tile.keys);
    const int q_exp = query_exp == nullptr ? 0 : query_exp[i];
    const int o_exp = do_exp == nullptr ? 0 : do_exp[i];
    if (q_exp != last_query_exp) {
      score_multipliers(score_base_, q_exp, tile.exponents.k.values, count, mult);
    }
    if (o_exp != last_do_exp) {
      score_multipliers(1.0f, o_exp, tile.exponents.v_grad.values, count, dp_mult);
    }
    last_query_exp = q_exp;
    last_do_exp = o_exp;
    const float lse = *lse_entry(tensors_.lse, tile.head, tile.query_token + i);
    row_probabilities(tile, scratch.s + i * kKeyTile, mult, visible, lse_to_log2(lse), &folds, p,
                      rebuilt);
    const float* weight = conventions_.path == Path::kAll4Bit ? rebuilt : p;
    const float delta = buffers_.delta[row0 + i];
    float magnitudes[kKeyTile];
    for (int j = 0; j < count; ++j) ds[j] = weight[j] * fma_f32(ds[j], dp_mult[j], -delta);
    mask_row(ds, visible, count, 0.0f);
    for (int j = 0; j < count; ++j) magnitudes[j] = magnitude(ds[j]);
    sums->sum[i] = row_sum(ds, count);
    sums->magnitude[i] = row_sum(magnitudes, count);
  }
}

/// sum += 2^exponent * part, one row.
void add_scaled_row(const float* __restrict part, int exponent, int dim, float* __restrict sum) {
  const float factor = pow2(smaller(exponent, 127));
  for (int c = 0; c < dim; ++c) sum[c] = fma_f32(part[c], factor, sum[c]);
}

/// Whether a row of sums stays finite in units of 2^exponent. Tiles of zero dO have exponents far
/// below any sum.
bool fits_unit(const float* sum, int dim, int exponent) {
  constexpr float kLargest = 0x1p100f;
  return row_magnitude(sum, dim) * pow2(smaller(-exponent, 127)) < kLargest;
}

/// sum += 2^exponent * (operand^T * other), one key row at a time.
void BackwardPass::add_product(const ProductModel& model, const TileScratch& scratch,
                               const float* operand, const float* other, int rows, int keys,
                               const ProductExponents& exponents, float* sum) const {
  const bool promoted = conventions_.promote == Promote::kTile;
  bool fits[kKeyTile];
  bool all_fit = !promoted;
  for (int j = 0; j < keys && !promoted; ++j) {
    fits[j] = fits_unit(sum + j * dim_, dim_, exponents.exponent[j]);
    all_fit = all_fit && fits[j];
  }
  if (!all_fit) {
    product_atb(model, scratch.hardware, {operand, kKeyTile}, {other, dim_}, keys, dim_, rows,
                scratch.product, dim_, false);
  }
  if (promoted) {
    for (int j = 0; j < keys; ++j) {
      add_scaled_row(scratch.product + j * dim_, exponents.exponent[j], dim_, sum + j * dim_);
    }
    return;
  }
  // One accumulator for the sequence: the sum itself moves to the unit of each tile and back. A row
  // that would overflow there takes the tile's product as if promoted.
  std::vector<float> kept;
  if (!all_fit) kept.assign(sum, sum + keys * dim_);
  for (int j = 0; j < keys; ++j) {
    const float unit = fits[j] ? pow2(-exponents.exponent[j]) : 0.0f;
    for (int c = 0; c < dim_; ++c) sum[j * dim_ + c] *= unit;
  }
  product_atb(model, scratch.hardware, {operand, kKeyTile}, {other, dim_}, keys, dim_, rows, sum,
              dim_, true);
  for (int j = 0; j < keys; ++j) {
    float* const row = sum + j * dim_;
    if (fits[j]) {
      for (int c = 0; c < dim_; ++c) row[c] *= pow2(exponents.exponent[j]);
    } else {
      std::copy_n(kept.data() + j * dim_, dim_, row);
      add_scaled_row(scratch.product + j * dim_, exponents.exponent[j], dim_, row);
    }
  }
}

uint64_t random_stream(const Tile& tile) {
  return (static_cast<uint64_t>(tile.head) << 48) ^
         (static_cast<uint64_t>(tile.first_row / kKeyTile) << 24) ^
         static_cast<uint64_t>(tile.first_key / kKeyTile) ^
         (static_cast<uint64_t>(tile.first_row % kKeyTile) << 40);
}

void BackwardPass::add_key_products(const Tile& tile, const TileScratch& scratch,
                                    FlushCount* flush) const {
  const int columns = round_up(tile.keys, kLanes);
  ProductExponents exponents;
  GradientSpec spec;
  spec.contraction = Contraction::kQueries;
  spec.scale = value_gradient_scale(conventions_);
  spec.fold = folds_ ? tile.exponents.d_o_keys.values : nullptr;
  quantize_gradient(spec, {scratch.p, tile.rows, columns}, scratch.operand, &exponents, nullptr);
  ProductModel model = gradient_model_;
  if (conventions_.ds_format == DsFormat::kE5M2) model.min_exponent_a = value_model_.min_exponent_a;
  add_product(model, scratch, scratch.operand, scratch.d_o_keys, tile.rows, tile.keys, exponents,
              scratch.second);

  spec.scale = key_gradient_scale(conventions_);
  spec.e5m2 = conventions_.ds_format == DsFormat::kE5M2;
  spec.fold = folds_ ? tile.exponents.q_grad.values : nullptr;
  spec.random_stream = random_stream(tile);
  quantize_gradient(spec, {scratch.ds, tile.rows, columns}, scratch.operand, &exponents, flush);
  add_product(gradient_model_, scratch, scratch.operand, scratch.q_grad, tile.rows, tile.keys,
              exponents, scratch.first);
}

void BackwardPass::add_query_product(const Tile& tile, const TileScratch& scratch,
                                     const RowSums& sums, FlushCount* flush) const {
  ProductExponents exponents;
  GradientSpec spec;
  spec.contraction = Contraction::kKeys;
  spec.scale = query_gradient_scale(conventions_);
  spec.e5m2 = conventions_.ds_format == DsFormat::kE5M2;
  spec.fold = folds_ ? tile.exponents.k_grad.values : nullptr;
  quantize_gradient(spec, {scratch.ds, tile.rows, round_up(tile.keys, kLanes)}, scratch.operand,
                    &exponents, flush);
  product_ab(gradient_model_, scratch.hardware, {scratch.operand, kKeyTile}, {scratch.k_grad, dim_},
             tile.rows, dim_, tile.keys, scratch.product, dim_, false);

  // Key tiles add to a row in ascending order, whatever the number of workers.
  const int64_t turn_index = tile.head * backward_query_tiles(plan_) +
                             first_turn_[static_cast<size_t>(tile.document)] + tile.query_tile;
  std::atomic_ref<int32_t> turn(buffers_.turn[turn_index]);
  const int64_t first_key_tile =
      tile.mask.visible_keys(tile.first_row, tile.first_row + tile.rows).begin / kKeyTile;
  const auto mine = static_cast<int32_t>(tile.first_key / kKeyTile - first_key_tile);
  while (turn.load(std::memory_order_acquire) != mine) std::this_thread::yield();
  add_partial(tile, scratch, exponents);
  const int64_t row0 = tile.head * plan_.problem.query_tokens + tile.query_token;
  for (int i = 0; i < tile.rows; ++i) {
    buffers_.ds_sum[row0 + i] += sums.sum[i];
    buffers_.ds_magnitude[row0 + i] += sums.magnitude[i];
  }
  turn.store(mine + 1, std::memory_order_release);
}

void BackwardPass::add_partial(const Tile& tile, const TileScratch& scratch,
                               const ProductExponents& exponents) const {
  const int64_t row0 = tile.head * plan_.problem.query_tokens + tile.query_token;
  for (int i = 0; i < tile.rows; ++i) {
    const float* __restrict part = scratch.product + i * dim_;
    if (buffers_.dq16 != nullptr) {
      uint16_t* __restrict sum = buffers_.dq16 + (row0 + i) * dim_;
      const float factor =
          pow2(smaller(exponents.exponent[i] + buffers_.dq_exponent[row0 + i], 127));
      for (int c = 0; c < dim_; ++c) {
        sum[c] = float_to_f16(f16_to_float(sum[c]) + round_f16(part[c] * factor));
      }
    } else {
      float* __restrict sum = buffers_.dq32 + (row0 + i) * dim_;
      const float factor = pow2(smaller(exponents.exponent[i], 127));
      for (int c = 0; c < dim_; ++c) sum[c] = fma_f32(part[c], factor, sum[c]);
    }
  }
}

void BackwardPass::store(const Tile& tile, const TileScratch& scratch) const {
  for (int j = 0; j < tile.keys; ++j) {
    store_gradient(tensors_.dk, tile.kv_head, tile.key_token + j, dim_,
                   buffers_.q_grad.spec.hadamard, conventions_.softmax_scale,
                   scratch.first + j * dim_);
    store_gradient(tensors_.dv, tile.kv_head, tile.key_token + j, dim_, false, 1.0f,
                   scratch.second + j * dim_);
  }
}

FlushCount BackwardPass::run(const Item& item, const TileScratch& scratch) const {
  FlushCount flush;
  Tile tile;
  tile.document = item.document;
  tile.span = layout_.span(item.document);
  tile.mask = {tile.span.queries(), tile.span.keys(), conventions_.window_left,
               conventions_.window_right};
  tile.kv_head = item.kv_head;
  tile.first_key = item.key_tile * kKeyTile;
  tile.keys = static_cast<int>(smaller<int64_t>(kKeyTile, tile.span.keys() - tile.first_key));
  tile.key_token = tile.span.key_begin + tile.first_key;
  load_keys(&tile, scratch);
  std::fill_n(scratch.first, tile.keys * dim_, 0.0f);
  std::fill_n(scratch.second, tile.keys * dim_, 0.0f);

  const int group = plan_.problem.heads / plan_.problem.kv_heads;
  const int64_t query_tiles = ceil_div<int64_t>(tile.span.queries(), query_tile_);
  for (int member = 0; member < group; ++member) {
    tile.head = item.kv_head * group + member;
    for (int64_t t = 0; t < query_tiles; ++t) {
      tile.query_tile = t;
      tile.first_row = t * query_tile_;
      tile.rows =
          static_cast<int>(smaller<int64_t>(query_tile_, tile.span.queries() - tile.first_row));
      tile.query_token = tile.span.query_begin + tile.first_row;
      const KeyRange range = tile.mask.visible_keys(tile.first_row, tile.first_row + tile.rows);
      // The same set of key tiles for which the turn counter of this query tile counts.
      if (range.begin >= range.end || tile.first_key + kKeyTile <= range.begin ||
          tile.first_key >= range.end) {
        continue;
      }
      load_queries(&tile, scratch);
      product_abt(score_model_, scratch.hardware, {scratch.q, dim_}, {scratch.k, dim_}, tile.rows,
                  tile.keys, dim_, scratch.s, kKeyTile, false);
      if (conventions_.score_accumulator == ScoreAccumulator::kF16) {
        round_scores_f16(scratch.s, static_cast<int64_t>(tile.rows) * kKeyTile);
      }
      product_abt(value_model_, scratch.hardware, {scratch.d_o, dim_}, {scratch.v_grad, dim_},
                  tile.rows, tile.keys, dim_, scratch.ds, kKeyTile, false);
      RowSums sums;
      probabilities(tile, scratch, &sums);
      add_key_products(tile, scratch, &flush);
      add_query_product(tile, scratch, sums, &flush);
    }
  }
  store(tile, scratch);
  return flush;
}

/// rms over rows of sum_j dS_ij, relative to the mean over rows of sum_j |dS_ij|.
double row_sum_residual(const Plan& plan, const PackedLayout& layout,
                        const BackwardBuffers& buffers) {
  double squares = 0.0;
  double magnitudes = 0.0;
  int64_t rows = 0;
  for (int32_t document = 0; document < layout.documents(); ++document) {
    const DocumentSpan span = layout.span(document);
    for (int head = 0; head < plan.problem.heads; ++head) {
      for (int64_t token = span.query_begin; token < span.query_end; ++token) {
        const int64_t at = head * plan.problem.query_tokens + token;
        squares +=
            static_cast<double>(buffers.ds_sum[at]) * static_cast<double>(buffers.ds_sum[at]);
        magnitudes += static_cast<double>(buffers.ds_magnitude[at]);
        ++rows;
      }
    }
  }
  if (magnitudes == 0.0) return 0.0;  // NaN inputs give NaN, not a perfect score
  return std::sqrt(squares * static_cast<double>(rows)) / magnitudes;
}

/// Each representation once, although uses share them.
void quantize_all(const Plan& plan, const PackedLayout& layout, const BackwardBuffers& buffers) {
  std::vector<const uint8_t*> done;
  const auto once = [&](const Operand& operand, Side side) {
    if (operand.codes == nullptr ||
        std::find(done.begin(), done.end(), operand.codes) != done.end()) {
      return;
    }
    done.push_back(operand.codes);
    quantize_operand(operand, token_ranges(layout, side), plan.threads);
  };
  for (const Operand* operand : {&buffers.q, &buffers.q_grad, &buffers.d_o, &buffers.d_o_keys}) {
    once(*operand, Side::kQueries);
  }
  for (const Operand* operand :
       {&buffers.k, &buffers.k_grad, &buffers.v_grad, &buffers.v, &buffers.v_diagonal}) {
    once(*operand, Side::kKeys);
  }
}

}  // namespace

void backward(const Plan& plan, const BackwardTensors& tensors, Workspace workspace,
              PassStatistics* statistics) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Arena arena(workspace.data);
  const BackwardBuffers buffers = carve_backward(plan, tensors, arena);
  const PackedLayout layout(plan.problem, tensors.cu_seqlens_q, tensors.cu_seqlens_k);
  quantize_all(plan, layout, buffers);
  prepare_rows(plan, tensors, layout, buffers);
  const auto quantized = Clock::now();

  const BackwardPass pass(plan, tensors, buffers, layout);
  std::vector<FlushCount> flush(static_cast<size_t>(plan.threads));
  parallel_for(static_cast<int64_t>(pass.items().size()), plan.threads,
               [&](int64_t item, int worker) {
                 const FlushCount count =
                     pass.run(pass.items()[static_cast<size_t>(item)], buffers.workers[worker]);
                 flush[static_cast<size_t>(worker)].nonzero += count.nonzero;
                 flush[static_cast<size_t>(worker)].flushed += count.flushed;
               });
  finish_query_gradients(plan, tensors, layout, buffers);
  clear_unowned_rows(plan.problem, layout, tensors);
  if (statistics != nullptr) {
    const auto end = Clock::now();
    statistics->quantize_ms = std::chrono::duration<double, std::milli>(quantized - start).count();
    statistics->attention_ms = std::chrono::duration<double, std::milli>(end - quantized).count();
    for (const FlushCount& count : flush) {
      statistics->ds_nonzero += count.nonzero;
      statistics->ds_flushed += count.flushed;
    }
    statistics->ds_row_sum_residual = row_sum_residual(plan, layout, buffers);
  }
}

}  // namespace flamia::cpu
