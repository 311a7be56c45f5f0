// The leak table: how much earlier rows change when a later token does, scheme by scheme.

#include "audit/leak_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "audit/offender_tile.h"
#include "base/message.h"
#include "base/philox.h"
#include "numerics/bf16.h"
#include "numerics/token_block_scale.h"

namespace flamia::audit {

namespace {

// How the magnitudes of blocks of 32 tokens spread.
constexpr double kValueDecades = 1.6;
constexpr double kKeyDecades = 0.6;
constexpr double kQuerySize = 0.8;
constexpr int kDenseFactor = 1;  // 2^10
constexpr int64_t kDenseBlock = 192;
constexpr int64_t kSparseTokens[] = {127, 128, 192, 207, 223, 255};

size_t size(int64_t n) { return static_cast<size_t>(n); }

bool moves_o(Operand operand) { return operand == Operand::kK || operand == Operand::kV; }

// Perturbed with every operand and factor; the others are there for the figures of O alone.
bool is_sparse(int64_t token) {
  return std::find(std::begin(kSparseTokens), std::end(kSparseTokens), token) !=
         std::end(kSparseTokens);
}

// Columns of O and of dQ in the order of `zone`.
int column_index(bool of_dq, int zone) { return (of_dq ? 3 : 0) + zone; }

// 0: the token's own 32 rows, 1: earlier ones of its tile, 2: earlier tiles.
int zone_of(int64_t row, int64_t token) {
  if (row / kTokenBlock == token / kTokenBlock) return 0;
  return row / kOffenderTile == token / kOffenderTile ? 1 : 2;
}

std::vector<float> changes(const std::vector<float>& before, const std::vector<float>& after,
                           const AuditInputs& inputs, RowNorm norm) {
  const RowLayout layout = {inputs.tokens * inputs.heads, inputs.head_dim, true};
  return row_changes(before, after, layout, norm);
}

class LeakMeasurement {
 public:
  LeakMeasurement(const Scheme& scheme, const AuditInputs& inputs)
      : scheme_(scheme), inputs_(inputs) {}

  Status run(LeakRow* row) {
    row_ = row;
    Status status = run_offender(scheme_, inputs_, Gradients::kQueries, &before_);
    for (const Operand operand : kOperands) {
      for (int factor = 0; factor < kLeakFactorCount; ++factor) {
        for (const int64_t token : leak_tokens(operand, factor)) {
          if (status.ok()) status = perturb(operand, factor, token);
        }
      }
    }
    return status;
  }

 private:
  Status perturb(Operand operand, int factor, int64_t token) {
    AuditInputs changed = inputs_;
    apply({operand, token, kLeakFactors[factor]}, &changed);
    AuditOutputs after;
    const bool gradients = is_sparse(token);
    Status status =
        run_offender(scheme_, changed, gradients ? Gradients::kQueries : Gradients::kNone, &after);
    if (!status.ok()) return status;
    const auto note = [&](bool of_dq, const std::vector<float>& rows) {
      for (int64_t row = 0; row < token * inputs_.heads; ++row) {
        const int column = column_index(of_dq, zone_of(row / inputs_.heads, token));
        LeakCell& cell = row_->cells[column][factor];
        const double change = static_cast<double>(rows[size(row)]);
        if (change > cell.change) cell = {change, operand, token};
        row_->most[column] = std::max(row_->most[column], change);
      }
    };
    if (moves_o(operand)) note(false, changes(before_.o, after.o, inputs_, RowNorm::kRow));
    if (gradients) note(true, changes(before_.dq, after.dq, inputs_, RowNorm::kTensor));
    return Status();
  }

  const Scheme& scheme_;
  const AuditInputs& inputs_;
  AuditOutputs before_;
  LeakRow* row_ = nullptr;
};

// How one tensor of the heavy-tailed inputs is drawn.
struct Draw {
  uint64_t stream;
  double decades;
  double size;
};

std::vector<uint16_t> draw(uint64_t seed, const Draw& how) {
  constexpr int64_t kWidth = int64_t{kLeakHeads} * kLeakHeadDim;
  constexpr uint64_t kMagnitudes = 8;  // streams of magnitudes follow those of entries
  std::vector<uint16_t> values(size(kLeakTokens * kWidth));
  for (int64_t n = 0; n < kLeakTokens * kWidth; n += 2) {
    const int64_t block = n / kWidth / kTokenBlock;
    const int64_t head = n % kWidth / kLeakHeadDim;
    const auto counter = static_cast<uint64_t>(block * kLeakHeads + head);
    const Philox4 of_block = philox(seed, how.stream + kMagnitudes, counter);
    const double u = how.decades * (uniform_double(of_block.word[0]) - 0.5);
    const double factor = how.size * std::pow(10.0, u);
    const Philox4 words = philox(seed, how.stream, static_cast<uint64_t>(n));
    const NormalPair pair = normal_pair(words.word[0], words.word[1]);
    values[size(n)] = float_to_bf16(static_cast<float>(pair.first * factor));
    values[size(n + 1)] = float_to_bf16(static_cast<float>(pair.second * factor));
  }
  return values;
}

}  // namespace

const char* column_name(LeakColumn column) {
  static constexpr const char* kNames[] = {"o_block",  "o_tile",  "o_earlier",
                                           "dq_block", "dq_tile", "dq_earlier"};
  return kNames[static_cast<int>(column)];
}

double figure(const LeakFigures& figures, LeakColumn column) {
  const double values[] = {figures.o_block,  figures.o_tile,  figures.o_earlier,
                           figures.dq_block, figures.dq_tile, figures.dq_earlier};
  return values[static_cast<int>(column)];
}

int figure_factor(LeakColumn column) {
  switch (column) {
    case LeakColumn::kOBlock:
    case LeakColumn::kOTile:
      return kDenseFactor;
    case LeakColumn::kOEarlier:
    case LeakColumn::kDqEarlier:
      return 3;
    case LeakColumn::kDqBlock:
    case LeakColumn::kDqTile:
      break;
  }
  return 0;
}

LeakRow combine(std::span<const LeakRow> rows) {
  LeakRow result;
  if (rows.empty()) return result;
  std::vector<LeakCell> cells(rows.size());
  for (size_t column = 0; column < kLeakColumnCount; ++column) {
    for (size_t factor = 0; factor < kLeakFactorCount; ++factor) {
      for (size_t n = 0; n < rows.size(); ++n) cells[n] = rows[n].cells[column][factor];
      std::stable_sort(cells.begin(), cells.end(),
                       [](const LeakCell& a, const LeakCell& b) { return a.change < b.change; });
      result.cells[column][factor] = cells[(cells.size() - 1) / 2];
    }
    for (const LeakRow& row : rows) {
      result.most[column] = std::max(result.most[column], row.most[column]);
    }
  }
  return result;
}

std::vector<int64_t> leak_tokens(Operand operand, int factor) {
  std::vector<int64_t> tokens(std::begin(kSparseTokens), std::end(kSparseTokens));
  if (factor != kDenseFactor || !moves_o(operand)) return tokens;
  for (int64_t token = kDenseBlock; token < kDenseBlock + kTokenBlock; ++token) {
    if (!is_sparse(token)) tokens.push_back(token);
  }
  return tokens;
}

AuditInputs heavy_tailed_inputs(uint64_t seed) {
  AuditInputs inputs;
  inputs.tokens = kLeakTokens;
  inputs.heads = inputs.kv_heads = kLeakHeads;
  inputs.head_dim = kLeakHeadDim;
  inputs.softmax_scale = 1 / std::sqrt(static_cast<float>(kLeakHeadDim));
  inputs.cu_seqlens = {0, static_cast<int32_t>(kLeakTokens)};
  inputs.q = draw(seed, {0, 0, kQuerySize});
  inputs.k = draw(seed, {1, kKeyDecades, 1});
  inputs.v = draw(seed, {2, kValueDecades, 1});
  inputs.d_o = draw(seed, {3, kValueDecades, 1});
  return inputs;
}

Status measure_leak(const Scheme& scheme, const AuditInputs& inputs, LeakRow* row) {
  const bool one_document = inputs.cu_seqlens.size() == 2 && inputs.cu_seqlens[0] == 0 &&
                            inputs.cu_seqlens[1] == inputs.tokens;
  if (!one_document || inputs.tokens != kLeakTokens || !inputs.causal || inputs.d_o.empty()) {
    return Status(
        StatusCode::kInvalidArgument,
        "measure_leak: " +
            refusal("inputs", concat("be one causal document of ", kLeakTokens, " tokens with d_o"),
                    concat(inputs.tokens, " tokens")));
  }
  *row = LeakRow();
  return LeakMeasurement(scheme, inputs).run(row);
}

Agreement agreement(const LeakRow& row, const LeakFigures& reference, LeakColumn column) {
  const double expected = figure(reference, column);
  if (std::isnan(expected)) return Agreement::kNoReference;
  if (expected == 0) return row.largest(column) == 0 ? Agreement::kAgrees : Agreement::kLeaks;
  const auto within = [&](double ours) {
    return ours >= expected / kLeakTolerance && ours <= expected * kLeakTolerance;
  };
  const double ours = row.measured(column);
  if (within(ours)) return Agreement::kAgrees;
  for (const LeakCell& cell : row.cells[static_cast<int>(column)]) {
    if (within(cell.change)) return Agreement::kOtherFactor;
  }
  return ours < expected ? Agreement::kSmaller : Agreement::kLarger;
}

const char* agreement_name(Agreement agreement) {
  static constexpr const char* kNames[] = {"no reference", "agrees", "leaks",
                                           "smaller",      "larger", "at another factor"};
  return kNames[static_cast<int>(agreement)];
}

std::vector<std::string> leak_protocol() {
  return {
      concat("one causal document of ", kLeakTokens, " tokens, ", kLeakHeads, " heads of ",
             kLeakHeadDim, "; tiles of ", kOffenderTile, ", blocks of ", kTokenBlock),
      "one token's rows of one operand times a factor: k or v for O; q, k, v or d_o for dQ",
      "factors 8, 2^10, 2^14, 2^20, 0",
      "figures: O in block and tile 2^10, O and dQ in earlier tiles 2^20, dQ in block and tile 8",
      "tokens 127, 128, 192, 207, 223, 255; with 2^10 on k and v all of 192..223",
      "rows before the token are compared: O by the norm of a row, dQ by its largest entry",
      "figure: largest change over operands and tokens, median over inputs",
      "0 means equal bits under every factor and input",
  };
}

}  // namespace flamia::audit
