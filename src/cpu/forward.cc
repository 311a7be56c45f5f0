// O and LSE in the order and with the numbers of a GPU kernel: 128 x 128 tiles, online softmax,
// P-hat, products promoted tile by tile.
// Paper: 3.1-3.4, B.1. Rules: docs/numerics.md. Used by: the CPU backend.
#include "cpu/forward.h"

#include <chrono>
#include <cmath>
#include <vector>

#include "cpu/buffers.h"
#include "cpu/p_hat_row.h"
#include "cpu/parallel.h"
#include "cpu/quantize.h"
#include "cpu/row_output.h"
#include "numerics/f16.h"
#include "numerics/key_fold.h"
#include "numerics/online_softmax.h"
#include "plan/conventions.h"
#include "problem/packed_layout.h"
#include "schedule/work_list.h"

namespace flamia::cpu {
namespace {

struct Item {
  int32_t document;
  int32_t head;
  int64_t first_row;
  int64_t first_tile;  ///< of keys: [first_tile, last_tile)
  int64_t last_tile;
};

class ForwardPass {
 public:
  ForwardPass(const Plan& plan, const ForwardTensors& tensors, const ForwardBuffers& buffers)
      : plan_(plan),
        conventions_(plan.conventions),
        tensors_(tensors),
        buffers_(buffers),
        layout_(plan.problem, tensors.cu_seqlens_q, tensors.cu_seqlens_k),
        form_(p_form(plan.conventions)),
        folds_(folds_exponents(plan.conventions)),
        half_arguments_(has_half_arguments(plan.conventions)),
        score_base_(score_multiplier_of(plan.conventions)),
        p_scale_(plan.conventions.p_scale),
        log2_scale_(static_cast<float>(std::log2(static_cast<double>(p_scale_)))),
        score_model_(score_product_model(plan.conventions)),
        value_model_(product_model(plan.conventions, value_width(plan.conventions))) {}

  /// Query tiles of all documents and heads, the most expensive ones first.
  std::vector<Item> items() const {
    const WorkList list =
        build_work_list(layout_, conventions_.window_left, conventions_.window_right);
    const auto heads = static_cast<size_t>(plan_.problem.heads);
    std::vector<Item> items;
    items.reserve(list.items.size() * heads);
    for (size_t i = 0; i < list.items.size(); ++i) {
      const ItemOrigin& origin = list.origins[i];
      const ForwardItem& item = list.items[i];
      for (int32_t head = 0; head < plan_.problem.heads; ++head) {
        items.push_back({origin.document, head, origin.first_row, item.tile_begin, item.tile_end});
      }
    }
    return items;
  }

  void run(const Item& item, const TileScratch& scratch) const;

 private:
  /// State of the rows of one query tile.
  struct Rows {
    float m[kQueryTile];
    float l[kQueryTile];
    int reference[kQueryTile];  ///< E: O is in units of 2^E
    int lowest[kQueryTile];     ///< how far E may fall
    float factor[kQueryTile];   ///< applied to O before the tile's product is added
  };
  struct Tile {
    int64_t first_row;  ///< document-relative
    int rows;
    int64_t first_key;  ///< document-relative
    int keys;
    const int8_t* query_exp;
    const int8_t* key_exp;
    const int8_t* value_exp;  ///< null where exponents are not folded
  };

  DocumentMask document_mask(const DocumentSpan& span) const {
    return {span.queries(), span.keys(), conventions_.window_left, conventions_.window_right};
  }
  void softmax(const DocumentMask& mask, const Tile& tile, const TileScratch& scratch,
               Rows* rows) const;
  void add_product(const Tile& tile, const TileScratch& scratch, const Rows& rows) const;
  void store(const Item& item, const DocumentSpan& span, int rows, const Rows& state,
             const float* o) const;

  /// The maximum of a row whose arguments are binary16: products as the kernels round them.
  float next_half_row_max(float m, const float* mult, const float* x, int count) const {
    float largest = -kFloatInfinity;
    for (int j = 0; j < count; ++j) {
      const bool narrow = round_f16(mult[j]) == mult[j] && magnitude(x[j]) < kHalfExactLimit;
      largest = max_number(largest, narrow ? round_f16(x[j]) : x[j]);
    }
    const bool renew = largest - m > conventions_.tau || m == -kFloatInfinity;
    if (!renew || largest == -kFloatInfinity) return m;
    return log2_scale_ - half_row_base(largest, log2_scale_);
  }

  const Plan& plan_;
  const Conventions& conventions_;
  const ForwardTensors& tensors_;
  const ForwardBuffers& buffers_;
  PackedLayout layout_;
  PForm form_;
  bool folds_;
  bool half_arguments_;  ///< of the exponentials
  float score_base_;
  float p_scale_;
  float log2_scale_;
  ProductModel score_model_;
  ProductModel value_model_;
};

/// Largest exponent of the keys that a row sees in the tile.
int largest_exponent(const int8_t* exponents, Columns visible) {
  int best = -128;
  for (int j = visible.begin; j < visible.end; ++j) best = larger<int>(best, exponents[j]);
  return best;
}

void ForwardPass::softmax(const DocumentMask& mask, const Tile& tile, const TileScratch& scratch,
                          Rows* rows) const {
  alignas(32) float mult[kKeyTile];
  alignas(32) float x[kKeyTile];
  KeyFolds folds;
  if (tile.value_exp == nullptr) folds.set(nullptr, 0, kKeyTile);
  const int count = round_up(tile.keys, kLanes);
  int multiplier_exponent = 1 << 20;  // none yet
  for (int i = 0; i < tile.rows; ++i) {
    float* p = scratch.p + i * kKeyTile;
    const float* acc = scratch.s + i * kKeyTile;
    const Columns visible = visible_columns(mask, tile.first_row + i, tile.first_key, tile.keys);
    rows->factor[i] = 1.0f;
    if (visible.begin >= visible.end) {
      for (int j = 0; j < count; ++j) p[j] = 0.0f;
      continue;
    }
    const int row_exponent = tile.query_exp == nullptr ? 0 : tile.query_exp[i];
    if (row_exponent != multiplier_exponent) {
      score_multipliers(score_base_, row_exponent, tile.key_exp, count, mult);
      multiplier_exponent = row_exponent;
    }
    for (int j = 0; j < count; ++j) x[j] = acc[j] * mult[j];
    mask_row(x, visible, count, -kFloatInfinity);
    const float m_old = rows->m[i];
    const float m = half_arguments_ ? next_half_row_max(m_old, mult, x, count)
                                    : next_row_max(m_old, row_max(x, count), conventions_.tau);
    const float alpha = rescale_factor(m_old, m);
    rows->m[i] = m;
    rows->factor[i] = alpha;
    if (tile.value_exp != nullptr) {
      const int wanted = largest_exponent(tile.value_exp, visible);
      const bool first = m_old == -kFloatInfinity;
      const int reference = first ? wanted : larger(wanted, rows->lowest[i]);
      const int lowest = reference - kMaxReferenceDrop;
      rows->lowest[i] = first ? lowest : larger(lowest, rows->lowest[i]);
      if (!first) rows->factor[i] = alpha * pow2(rows->reference[i] - reference);
      rows->reference[i] = reference;
      folds.set(tile.value_exp, reference, count);
    }
    if (m == -kFloatInfinity) {  // every visible score is -inf: no mass yet
      for (int j = 0; j < count; ++j) p[j] = 0.0f;
      continue;
    }
    const PRow row{acc,
                   mult,
                   visible,
                   count,
                   m,
                   log2_scale_,
                   conventions_.exponential,
                   conventions_.row_sum,
                   &folds,
                   half_arguments_};
    rows->l[i] = fma_f32(rows->l[i], alpha, quantize_p_row(form_, row, x, p));
  }
}

void ForwardPass::add_product(const Tile& tile, const TileScratch& scratch,
                              const Rows& rows) const {
  const int dim = plan_.problem.head_dim;
  const MatrixIn p{scratch.p, kKeyTile};
  const MatrixIn v{scratch.v, dim};
  if (conventions_.promote == Promote::kNone) {
    for (int i = 0; i < tile.rows; ++i) {
      float* o = scratch.first + i * dim;
      for (int c = 0; c < dim; ++c) o[c] *= rows.factor[i];
    }
    product_ab(value_model_, scratch.hardware, p, v, tile.rows, dim, tile.keys, scratch.first, dim,
               true);
    return;
  }
  product_ab(value_model_, scratch.hardware, p, v, tile.rows, dim, tile.keys, scratch.product, dim,
             false);
  for (int i = 0; i < tile.rows; ++i) {
    float* __restrict o = scratch.first + i * dim;
    const float* __restrict part = scratch.product + i * dim;
    const float factor = rows.factor[i];
    for (int c = 0; c < dim; ++c) o[c] = fma_f32(o[c], factor, part[c]);
  }
}

void ForwardPass::store(const Item& item, const DocumentSpan& span, int rows, const Rows& state,
                        const float* o) const {
  const int dim = plan_.problem.head_dim;
  float values[kQueryTile];
  for (int i = 0; i < rows; ++i) {
    const int64_t token = span.query_begin + item.first_row + i;
    const bool empty = state.m[i] == -kFloatInfinity;
    const float scale = pow2(state.reference[i]);
    for (int c = 0; c < dim; ++c) {
      values[c] = empty ? 0.0f : o[i * dim + c] / state.l[i] * scale;
    }
    store_output(tensors_, item.head, token, dim, values);
    *lse_entry(tensors_.lse, item.head, token) =
        empty ? kEmptyLse : log_sum_exp(state.m[i], state.l[i] / p_scale_);
  }
}

void ForwardPass::run(const Item& item, const TileScratch& scratch) const {
  const DocumentSpan span = layout_.span(item.document);
  const DocumentMask mask = document_mask(span);
  const int dim = plan_.problem.head_dim;
  const int kv_head = item.head / (plan_.problem.heads / plan_.problem.kv_heads);
  const int rows = static_cast<int>(smaller<int64_t>(kQueryTile, span.queries() - item.first_row));
  const int64_t first_token = span.query_begin + item.first_row;
  const Exponents value_exponents = folds_ ? Exponents::kLeave : Exponents::kApply;

  load_tile(buffers_.q, item.head, first_token, rows, Exponents::kLeave, scratch.q);
  int8_t query_exponents[kPaddedExponents];
  const int8_t* query_exp =
      buffers_.q.padded_exponents(item.head, first_token, rows, query_exponents);
  Rows state;
  for (int i = 0; i < rows; ++i) {
    state.m[i] = -kFloatInfinity;
    state.l[i] = 0.0f;
    state.reference[i] = 0;
    state.lowest[i] = 0;
  }
  for (int x = 0; x < rows * dim; ++x) scratch.first[x] = 0.0f;

  for (int64_t step = 0; step < item.last_tile - item.first_tile; ++step) {
    const int64_t t = conventions_.kv_order == KvOrder::kReverse ? item.last_tile - 1 - step
                                                                 : item.first_tile + step;
    Tile tile;
    tile.first_row = item.first_row;
    tile.rows = rows;
    tile.first_key = t * kKeyTile;
    tile.keys = static_cast<int>(smaller<int64_t>(kKeyTile, span.keys() - tile.first_key));
    const bool whole = mask.forward_tile_is_whole(item.first_row, tile.first_key, tile.keys);
    const Operand& value = whole ? buffers_.v : buffers_.v_diagonal;
    const int64_t first_key = span.key_begin + tile.first_key;
    int8_t key_exp[kPaddedExponents];
    int8_t value_exp[kPaddedExponents];
    tile.query_exp = query_exp;
    tile.key_exp = buffers_.k.padded_exponents(kv_head, first_key, tile.keys, key_exp);
    tile.value_exp =
        folds_ ? value.padded_exponents(kv_head, first_key, tile.keys, value_exp) : nullptr;

    load_tile(buffers_.k, kv_head, first_key, tile.keys, Exponents::kLeave, scratch.k);
    load_tile(value, kv_head, first_key, tile.keys, value_exponents, scratch.v);
    product_abt(score_model_, scratch.hardware, {scratch.q, dim}, {scratch.k, dim}, rows, tile.keys,
                dim, scratch.s, kKeyTile, false);
    if (conventions_.score_accumulator == ScoreAccumulator::kF16) {
      round_scores_f16(scratch.s, static_cast<int64_t>(rows) * kKeyTile);
    }
    softmax(mask, tile, scratch, &state);
    add_product(tile, scratch, state);
  }
  store(item, span, rows, state, scratch.first);
}

}  // namespace

void forward(const Plan& plan, const ForwardTensors& tensors, Workspace workspace,
             PassStatistics* statistics) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Arena arena(workspace.data);
  const ForwardBuffers buffers = carve_forward(plan, tensors, arena);
  const PackedLayout layout(plan.problem, tensors.cu_seqlens_q, tensors.cu_seqlens_k);
  const std::vector<TokenRange> queries = token_ranges(layout, Side::kQueries);
  const std::vector<TokenRange> keys = token_ranges(layout, Side::kKeys);
  quantize_operand(buffers.q, queries, plan.threads);
  quantize_operand(buffers.k, keys, plan.threads);
  quantize_operand(buffers.v, keys, plan.threads);
  if (buffers.v_diagonal.codes != buffers.v.codes) {
    quantize_operand(buffers.v_diagonal, keys, plan.threads);
  }
  const auto quantized = Clock::now();

  const ForwardPass pass(plan, tensors, buffers);
  const std::vector<Item> items = pass.items();
  parallel_for(static_cast<int64_t>(items.size()), plan.threads, [&](int64_t item, int worker) {
    pass.run(items[static_cast<size_t>(item)], buffers.workers[worker]);
  });
  clear_unowned_rows(plan.problem, layout, tensors);
  if (statistics != nullptr) {
    const auto end = Clock::now();
    statistics->quantize_ms = std::chrono::duration<double, std::milli>(quantized - start).count();
    statistics->attention_ms = std::chrono::duration<double, std::milli>(end - quantized).count();
  }
}

}  // namespace flamia::cpu
