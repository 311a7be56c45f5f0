// Causal leak: does a later token change earlier rows of O, LSE and dQ, or an earlier query later
// rows of dK and dV?
// Paper: FLAMIA 3.2, 4.5 (Table 5), A.3, A.4.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "audit/audit.h"
#include "audit/leak_trace.h"
#include "audit/probe_data.h"
#include "base/message.h"

namespace flamia::audit {
namespace {

constexpr const char* kName = "causal_leak";
constexpr float kSpike = 0x1p20f;                       ///< about 1e6
constexpr float kSmallerSpikes[] = {0x1p14f, 0x1p17f};  ///< about 1e4 and 1e5
constexpr int64_t kBlock = 32;
/// What FP16 sums with another prescale may change in dQ, of its largest entry: a BF16 step. The
/// sums themselves move it by up to 4e-3 under spikes of 2^20.
constexpr float kLargestDqRounding = 0x1p-7f;
/// Runs without a perturbation that tell how far the function repeats itself.
constexpr int kBaselines = 3;

bool earlier_rows(const OutputView& view) {
  return std::string_view(view.name).front() != 'd' || std::string_view(view.name) == "dq";
}

/// The longest document of the activations, as far as `rows`.
AuditInputs longest_document(const AuditInputs& given, int64_t rows) {
  size_t longest = 0;
  const auto length = [&](size_t b) { return given.cu_seqlens[b + 1] - given.cu_seqlens[b]; };
  for (size_t b = 1; b + 1 < given.cu_seqlens.size(); ++b) {
    if (length(b) > length(longest)) longest = b;
  }
  AuditInputs result = given;
  result.tokens = std::min<int64_t>(length(longest), rows);
  result.cu_seqlens = {0, static_cast<int32_t>(result.tokens)};
  for (const Operand operand : kOperands) {
    std::vector<uint16_t>& values = operand_of(&result, operand);
    const auto width = static_cast<std::ptrdiff_t>(values.size()) / given.tokens;
    const auto begin = values.begin() + width * given.cu_seqlens[longest];
    values = std::vector<uint16_t>(begin, begin + width * result.tokens);
  }
  return result;
}

/// First token of the tile that is perturbed at every offset: one in the middle.
int64_t dense_tile(int64_t rows) {
  return std::max<int64_t>(0, (rows - kProbeTile) / 2 / kProbeTile * kProbeTile);
}

/// Every offset of one tile in the middle; in all others those around the edges of 16-groups,
/// 32-blocks and 64-token tiles; the last token.
std::vector<int64_t> perturbed_tokens(int64_t rows) {
  static constexpr int64_t kEdges[] = {0, 1, 15, 16, 31, 32, 63, 64, 95, 96, 127};
  const int64_t dense = dense_tile(rows);
  std::vector<int64_t> tokens;
  for (int64_t t = 1; t < rows; ++t) {
    const bool all = t >= dense && t < dense + kProbeTile;
    const int64_t offset = t % kProbeTile;
    const bool edge = std::find(std::begin(kEdges), std::end(kEdges), offset) != std::end(kEdges);
    if (all || edge || t == rows - 1) tokens.push_back(t);
  }
  return tokens;
}

/// Rows of random inputs: the last tile is cut short where it would be whole.
int64_t causal_rows(int64_t tokens) {
  static constexpr int64_t kCut = 12;
  return tokens > kProbeTile && tokens % kProbeTile == 0 ? tokens - kCut : tokens;
}

class Search {
 public:
  Search(Audit* audit, AuditInputs inputs) : audit_(*audit), inputs_(std::move(inputs)) {
    const AuditPromise& promise = audit->options().promise;
    for (const OutputView& view : kOutputViews) {
      traces_.emplace_back(earlier_rows(view) ? promise.shared_tokens : promise.shared_queries,
                           inputs_.tokens);
    }
  }

  Status run();

 private:
  std::vector<Perturbation> trials() const;
  Status baseline();
  Status try_one(const Perturbation& trial);
  std::vector<float> steady_change(const std::vector<AuditOutputs>& afters,
                                   const OutputView& view) const;
  bool differs(const Perturbation& trial, const AuditOutputs& after) const;
  void compare(const Perturbation& trial, const std::vector<AuditOutputs>& afters,
               size_t view_index);
  LeakMap* map_of(size_t view_index);
  void report(size_t view_index);
  std::string reproduce(const Perturbation& worst) const;
  Status find_missing_mask();

  Audit& audit_;
  AuditInputs inputs_;
  AuditOutputs before_;                ///< of the first unperturbed run
  std::vector<AuditOutputs> repeats_;  ///< of the others, where runs may differ
  std::vector<float> noise_ = std::vector<float>(std::size(kOutputViews), 0.0f);
  std::vector<LeakTrace> traces_;
  std::vector<int64_t> rows_compared_ = std::vector<int64_t>(std::size(kOutputViews), 0);
  int64_t tokens_tried_ = 0;
  std::vector<LeakMap> maps_;
  bool missing_mask_ = false;
};

std::vector<Perturbation> Search::trials() const {
  const AuditOptions& options = audit_.options();
  std::vector<Perturbation> all;
  const auto add = [&](Operand operand, int64_t token, float factor) {
    if (operand == Operand::kDo && inputs_.d_o.empty()) return;
    if (!options.operand.empty() && options.operand != operand_name(operand)) return;
    all.push_back({operand, token, options.factor.value_or(factor)});
  };
  std::vector<int64_t> tokens = perturbed_tokens(inputs_.tokens);
  if (options.at >= 0) tokens = {options.at};
  const int64_t block =
      options.at >= 0 ? options.at / kBlock : dense_tile(inputs_.tokens) / kBlock + 1;
  for (const int64_t token : tokens) {
    for (const Operand operand : kOperands) {
      add(operand, token, kSpike);
      if (token / kBlock != block || options.factor) continue;
      for (const float factor : kSmallerSpikes) add(operand, token, factor);
    }
    add(Operand::kAll, token, 0.0f);
  }
  return all;
}

Status Search::baseline() {
  if (Status status = audit_.call(inputs_, &before_); !status.ok()) return status;
  for (int run = 1; run < kBaselines; ++run) {
    AuditOutputs again;
    if (Status status = audit_.call(inputs_, &again); !status.ok()) return status;
    for (size_t n = 0; n < std::size(kOutputViews); ++n) {
      const OutputView& view = kOutputViews[n];
      const std::vector<float> change = row_changes(before_.*view.tensor, again.*view.tensor,
                                                    layout_of(view, inputs_), view.norm);
      if (!change.empty()) {
        // Twice the largest seen in a few runs.
        noise_[n] = std::max(noise_[n], 2 * *std::max_element(change.begin(), change.end()));
      }
    }
    if (!audit_.options().promise.deterministic) repeats_.push_back(std::move(again));
  }
  return {};
}

LeakMap* Search::map_of(size_t view_index) {
  const std::string name = kOutputViews[view_index].name;
  if (name != "o" && name != "dq") return nullptr;
  for (LeakMap& map : maps_) {
    if (map.tensor == name) return &map;
  }
  maps_.push_back({name, {}, inputs_.tokens, {}});
  return &maps_.back();
}

/// The smallest change of each row over all pairs of an unperturbed and a perturbed run: what
/// chance alone changed is seldom changed in every pair.
std::vector<float> Search::steady_change(const std::vector<AuditOutputs>& afters,
                                         const OutputView& view) const {
  std::vector<float> smallest;
  const auto take = [&](const AuditOutputs& before, const AuditOutputs& after) {
    const std::vector<float> change =
        row_changes(before.*view.tensor, after.*view.tensor, layout_of(view, inputs_), view.norm);
    if (smallest.empty()) smallest = change;
    for (size_t row = 0; row < change.size(); ++row) {
      smallest[row] = std::min(smallest[row], change[row]);
    }
  };
  for (const AuditOutputs& after : afters) {
    take(before_, after);
    for (const AuditOutputs& before : repeats_) take(before, after);
  }
  return smallest;
}

/// Whether a view may show this perturbation at all.
bool shows(const OutputView& view, const Perturbation& trial) {
  // dK and dV of later keys depend on earlier k and v by right: only queries are out of bounds.
  return earlier_rows(view) || trial.operand == Operand::kQ || trial.operand == Operand::kDo;
}

/// Whether rows that must not change did, by bits, in one run.
bool Search::differs(const Perturbation& trial, const AuditOutputs& after) const {
  for (const OutputView& view : kOutputViews) {
    if ((before_.*view.tensor).empty() || !shows(view, trial)) continue;
    const std::vector<float> change = steady_change({after}, view);
    const auto at = change.begin() + trial.token;
    const bool earlier = earlier_rows(view);
    const auto begin = earlier ? change.begin() : at + 1;
    const auto end = earlier ? at : change.end();
    if (std::any_of(begin, end, [](float x) { return x != 0; })) return true;
  }
  return false;
}

void Search::compare(const Perturbation& trial, const std::vector<AuditOutputs>& afters,
                     size_t view_index) {
  const OutputView& view = kOutputViews[view_index];
  if ((before_.*view.tensor).empty() || !shows(view, trial)) return;
  const bool earlier = earlier_rows(view);
  const std::vector<float> change = steady_change(afters, view);
  const int64_t token = trial.token;
  const int64_t begin = earlier ? 0 : token + 1;
  const int64_t end = earlier ? token : inputs_.tokens;
  LeakMap* map = map_of(view_index);
  float* row_of_map = nullptr;
  if (map != nullptr) {
    if (map->tokens.empty() || map->tokens.back() != token) {
      map->tokens.push_back(token);
      map->change.resize(map->change.size() + static_cast<size_t>(map->rows), 0.0f);
    }
    row_of_map = map->change.data() + map->change.size() - static_cast<size_t>(map->rows);
  }
  for (int64_t row = begin; row < end; ++row) {
    const float seen = change[static_cast<size_t>(row)];
    if (seen == 0 || seen <= noise_[view_index]) continue;
    traces_[view_index].add(trial, row, seen);
    if (row_of_map != nullptr) row_of_map[row] = std::max(row_of_map[row], seen);
  }
  rows_compared_[view_index] += std::max<int64_t>(0, end - begin);
  traces_[view_index].note_span(token, earlier ? 0 : inputs_.tokens - 1);
}

Status Search::try_one(const Perturbation& trial) {
  AuditInputs changed = inputs_;
  apply(trial, &changed);
  std::vector<AuditOutputs> afters(1);
  if (Status status = audit_.call(changed, &afters[0]); !status.ok()) return status;
  while (!repeats_.empty() && afters.size() < kBaselines && differs(trial, afters.back())) {
    afters.emplace_back();
    if (Status status = audit_.call(changed, &afters.back()); !status.ok()) return status;
  }
  for (size_t n = 0; n < std::size(kOutputViews); ++n) compare(trial, afters, n);
  return {};
}

std::string Search::reproduce(const Perturbation& worst) const {
  char factor[32];
  std::snprintf(factor, sizeof factor, "%.9g", static_cast<double>(worst.factor));
  return concat(" --at ", worst.token, " --operand ", operand_name(worst.operand), " --factor ",
                factor);
}

/// A leak of everything may be no scale at all: the output of full attention.
Status Search::find_missing_mask() {
  Exact causal, full;
  AuditInputs inputs = inputs_;
  inputs.d_o.clear();
  if (Status status = exact_attention(inputs, 0, &causal); !status.ok()) return status;
  inputs.causal = false;
  if (Status status = exact_attention(inputs, 0, &full); !status.ok()) return status;
  missing_mask_ = relative_error(before_.o, full.o) < relative_error(before_.o, causal.o);
  return {};
}

void Search::report(size_t view_index) {
  const OutputView& view = kOutputViews[view_index];
  const LeakTrace& trace = traces_[view_index];
  if ((before_.*view.tensor).empty()) {
    audit_.add(kName, view.name, AuditOutcome::kNotTested,
               concat("the function does not return ", view.name));
    return;
  }
  if (rows_compared_[view_index] == 0) {
    audit_.add(kName, view.name, AuditOutcome::kNotTested,
               concat("no perturbation that was asked for may show in ", view.name));
    return;
  }
  const bool earlier = earlier_rows(view);
  const AuditPromise& promise = audit_.options().promise;
  if (!trace.found()) {
    std::string words = concat(earlier ? "no earlier" : "no later", " row changes, ",
                               counted(tokens_tried_, "token"), " tried");
    if (noise_[view_index] > 0) {
      words += concat(" by more than the run-to-run variation (",
                      amount(static_cast<double>(noise_[view_index])), ")");
    }
    audit_.add(kName, view.name, AuditOutcome::kPassed, std::move(words));
    return;
  }
  const bool is_rounding = std::string_view(view.name) == "dq" && promise.dq_rounding &&
                           trace.largest_outside() <= kLargestDqRounding;
  const bool promised = trace.reach_outside() == 0 || is_rounding;
  AuditFinding& finding =
      audit_.add(kName, view.name, promised ? AuditOutcome::kPromised : AuditOutcome::kFailed,
                 trace.words(view, earlier));
  finding.change = static_cast<double>(trace.largest());
  finding.reach = trace.reach();
  finding.cause = trace.cause();
  const bool of_forward =
      std::string_view(view.name) == "o" || std::string_view(view.name) == "lse";
  if (of_forward && trace.by_operand().contains(Operand::kDo)) {
    finding.cause = "state that is kept between calls, or chance: d_o changes the forward pass";
  }
  if (missing_mask_ && trace.reach() > kBlock) {
    finding.cause = "no causal mask: O is nearer to full attention than to causal attention";
  } else if (is_rounding && trace.reach_outside() > 0) {
    finding.cause = "rounding of FP16 sums, whose prescale comes from maxima of the document";
  }
  finding.reproduce += reproduce(trace.worst());
  finding.figures.push_back(
      {"change_outside_promise", static_cast<double>(trace.largest_outside())});
  finding.figures.push_back({"reach_outside_promise", static_cast<double>(trace.reach_outside())});
  for (const auto& [operand, change] : trace.by_operand()) {
    finding.figures.push_back(
        {concat("change_by_", operand_name(operand)), static_cast<double>(change)});
  }
}

Status Search::run() {
  if (Status status = baseline(); !status.ok()) return status;
  int64_t last_token = -1;
  for (const Perturbation& trial : trials()) {
    if (trial.token != last_token) ++tokens_tried_;
    last_token = trial.token;
    if (Status status = try_one(trial); !status.ok()) {
      audit_.add_refusal(
          kName, concat(operand_name(trial.operand), " of one token times ", trial.factor), status);
      return {};
    }
  }
  if (traces_[0].reach() > kBlock) {
    if (Status status = find_missing_mask(); !status.ok()) return status;
  }
  for (size_t n = 0; n < std::size(kOutputViews); ++n) report(n);
  for (LeakMap& map : maps_) audit_.report().leak_maps.push_back(std::move(map));
  return {};
}

}  // namespace

Status probe_causal_leak(Audit* audit) {
  const AuditOptions& options = audit->options();
  if (!options.causal) {
    audit->add(kName, "", AuditOutcome::kNotTested, "the mask is full: every row sees every key");
    return {};
  }
  audit->note(
      "causal_leak: one document (random inputs: 12 tokens short of a whole tile); one token's "
      "rows of "
      "one operand (q, k, v, d_o) times 2^20, and all operands times 0, at every offset of a "
      "128-token tile in the middle (so of every 16-group and 32-block), in all other tiles at "
      "offsets 0, 1, 15, 16, 31, 32, 63, 64, 95, 96, 127 and the last token; times 2^14 and 2^17 "
      "at "
      "every offset of one 32-block. Rows before the token (dk, dv: after it, for q and d_o only) "
      "are "
      "compared bitwise. Size: o by the norm of the row, the others by the largest entry");
  AuditInputs inputs = options.activations.tokens > 0
                           ? longest_document(options.activations, options.tokens)
                           : audit->inputs({causal_rows(options.tokens)}, 0, kCausalStream);
  if (!options.gradients) inputs.d_o.clear();
  if (inputs.tokens < 2 || options.at >= inputs.tokens) {
    audit->add(kName, "", AuditOutcome::kNotTested, "no document has enough tokens");
    return {};
  }
  return Search(audit, std::move(inputs)).run();
}

}  // namespace flamia::audit
