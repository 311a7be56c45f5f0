// Documents: does one see its neighbour, does it depend on what it is packed with, are all lengths
// right?
// Paper: FLAMIA 3.6 (packed documents), 3.2.
#include <algorithm>
#include <cmath>
#include <limits>

#include "audit/audit.h"
#include "audit/documents.h"
#include "audit/probe_data.h"
#include "base/message.h"

namespace flamia::audit {
namespace {

constexpr float kHuge = 0x1p20f;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Disturbance {
  const char* words;
  float factor;
};
constexpr Disturbance kDisturbances[] = {
    {"times 2^20", kHuge}, {"zero", 0.0f}, {"NaN", kNan}, {"Inf", kInfinity}};

/// Documents that start anywhere, one of them empty, and rows that belong to nobody.
const std::vector<int64_t> kNeighbours = {45, 70, 0, 33, 64, 21};
constexpr int64_t kGap = 7;
/// Tokens from the disturbed document within which a straddling block could explain a change.
constexpr int64_t kStraddle = 32;

/// What one tensor showed over all disturbances.
struct NeighbourTrace {
  double change = 0;
  int64_t reach = 0;
  std::string kinds;

  void add(double size, int64_t distance, const Disturbance& kind) {
    change = std::max(change, size);
    reach = std::max(reach, distance);
    if (kinds.find(kind.words) == std::string::npos) {
      kinds += concat(kinds.empty() ? "" : ", ", kind.words);
    }
  }
};

/// Distance in tokens from a row to the nearest row of a range.
int64_t distance(int64_t row, const RowRange& rows) {
  return row < rows.begin ? rows.begin - row : row - rows.end + 1;
}

class NeighbourSearch {
 public:
  explicit NeighbourSearch(Audit* audit)
      : audit_(*audit), inputs_(audit->inputs(kNeighbours, kGap, kDocumentStream)) {}

  Status run() {
    if (Status status = audit_.call(inputs_, &before_); !status.ok()) {
      audit_.add_refusal(kName, "packed documents, one of them empty", status);
      return {};
    }
    for (size_t culprit = 0; culprit <= kNeighbours.size(); ++culprit) {
      const RowRange rows = rows_of(inputs_, culprit);
      if (rows.begin == rows.end) continue;
      for (const Disturbance& kind : kDisturbances) {
        if (!disturb(rows, kind)) return {};
      }
    }
    for (size_t n = 0; n < std::size(kOutputViews); ++n) report(n);
    return {};
  }

 private:
  static constexpr const char* kName = "document_leak";

  bool disturb(const RowRange& rows, const Disturbance& kind) {
    AuditInputs changed = inputs_;
    scale_rows(rows, kind.factor, &changed);
    AuditOutputs after;
    if (Status status = audit_.call(changed, &after); !status.ok()) {
      audit_.add_refusal(kName, concat("a document of ", kind.words), status);
      return false;
    }
    const int64_t owned = inputs_.cu_seqlens.back();
    for (size_t n = 0; n < std::size(kOutputViews); ++n) {
      const OutputView& view = kOutputViews[n];
      const std::vector<float> change = row_changes(before_.*view.tensor, after.*view.tensor,
                                                    layout_of(view, inputs_), view.norm);
      for (int64_t row = 0; row < static_cast<int64_t>(change.size()) && row < owned; ++row) {
        const float size = change[static_cast<size_t>(row)];
        if (size == 0 || (row >= rows.begin && row < rows.end)) continue;
        traces_[n].add(static_cast<double>(size), distance(row, rows), kind);
      }
    }
    return true;
  }

  void report(size_t n) {
    const char* const tensor = kOutputViews[n].name;
    const NeighbourTrace& trace = traces_[n];
    if ((before_.*kOutputViews[n].tensor).empty()) {
      audit_.add(kName, tensor, AuditOutcome::kNotTested,
                 concat("the function does not return ", tensor));
      return;
    }
    if (trace.reach == 0) {
      audit_.add(kName, tensor, AuditOutcome::kPassed, "no document sees another one");
      return;
    }
    AuditFinding& finding = audit_.add(
        kName, tensor, AuditOutcome::kFailed,
        concat(tensor, " of other documents changes (", amount(trace.change), ", up to ",
               counted(trace.reach, "token"), " away) when one document is ", trace.kinds));
    finding.change = trace.change;
    finding.reach = trace.reach;
    finding.cause = trace.reach <= kStraddle ? "a scale block that straddles two documents"
                                             : "a scale or a mask that spans documents";
  }

  Audit& audit_;
  AuditInputs inputs_;
  AuditOutputs before_;
  NeighbourTrace traces_[std::size(kOutputViews)];
};

/// Sizes below which a dependence on the packing is rounding: a few BF16 steps.
constexpr double kPackingRounding = 0x1p-6;

}  // namespace

Status probe_document_leak(Audit* audit) {
  audit->note(concat("document_leak: documents of 45, 70, 0, 33, 64, 21 tokens and ", kGap,
                     " rows of nobody; all operands of one of them times 2^20, zero, NaN, Inf; "
                     "rows of all others compared bitwise"));
  return NeighbourSearch(audit).run();
}

Status probe_packing(Audit* audit) {
  static constexpr const char* kName = "packing";
  audit->note(
      "packing: documents of 1, 33, 129, 200 tokens, each alone and as the second document after "
      "one of 77 and before one of 19 tokens; compared bitwise");
  double change[std::size(kOutputViews)] = {};
  bool given[std::size(kOutputViews)] = {};
  for (const int64_t length : {1, 33, 129, 200}) {
    const AuditInputs alone = audit->inputs({length}, 0, kPackingStream);
    AuditInputs packed = audit->inputs({77, length, 19}, 0, kPackingStream + 100);
    const RowRange rows = rows_of(packed, 1);
    copy_document(alone, 0, rows, &packed);
    AuditOutputs by_itself, in_pack;
    Status status = audit->call(alone, &by_itself);
    if (status.ok()) status = audit->call(packed, &in_pack);
    if (!status.ok()) {
      audit->add_refusal(kName, concat("a document of ", counted(length, "token")), status);
      return {};
    }
    for (size_t n = 0; n < std::size(kOutputViews); ++n) {
      const OutputView& view = kOutputViews[n];
      if ((by_itself.*view.tensor).empty()) continue;
      given[n] = true;
      const std::vector<float> part = slice(in_pack.*view.tensor, layout_of(view, packed), rows);
      const std::vector<float> changes =
          row_changes(by_itself.*view.tensor, part, layout_of(view, alone), view.norm);
      for (const float x : changes) change[n] = std::max(change[n], static_cast<double>(x));
    }
  }
  const bool promised = audit->options().promise.packing_invariant;
  for (size_t n = 0; n < std::size(kOutputViews); ++n) {
    const char* const tensor = kOutputViews[n].name;
    if (!given[n]) continue;
    if (change[n] == 0) {
      audit->add(kName, tensor, AuditOutcome::kPassed, "the same bits alone and packed");
      continue;
    }
    const bool rounding = change[n] <= kPackingRounding && !promised;
    AuditFinding& finding =
        audit->add(kName, tensor, rounding ? AuditOutcome::kPromised : AuditOutcome::kFailed,
                   concat(tensor, " of a document depends on what it is packed with (",
                          amount(change[n]), ")"));
    finding.change = change[n];
    finding.cause = change[n] <= kPackingRounding
                        ? "another order of sums, or tiles that start elsewhere"
                        : "a scale that covers the whole pack";
  }
  return {};
}

namespace {

/// Lengths around the edges of 16-groups, 32-blocks and tiles, and documents without tokens.
const std::vector<int64_t> kLengths = {0,  1,  2,  15, 0,  16,  17,  31,  32, 33,
                                       63, 64, 65, 0,  96, 127, 128, 129, 0};
constexpr int64_t kTailGap = 5;
/// A document may err so many times as much as the whole call, and one token by this much.
constexpr double kTailFactor = 4;
constexpr double kTailError = 0.5;

/// Rows of nobody: O and gradients 0, LSE -inf.
bool gap_is_neutral(const AuditOutputs& outputs, const AuditInputs& inputs, size_t n) {
  const OutputView& view = kOutputViews[n];
  const std::vector<float> rows = slice(outputs.*view.tensor, layout_of(view, inputs),
                                        rows_of(inputs, inputs.cu_seqlens.size() - 1));
  const float neutral = std::string_view(view.name) == "lse" ? -kInfinity : 0.0f;
  return std::all_of(rows.begin(), rows.end(), [&](float x) { return x == neutral; });
}

/// Relative; of LSE, which may be near 0, in nats.
double error_of_slice(const std::vector<float>& ours, const std::vector<double>& exact,
                      bool absolute) {
  double error = 0;
  double size = 0;
  for (size_t n = 0; n < ours.size(); ++n) {
    const double delta = static_cast<double>(ours[n]) - exact[n];
    error += delta * delta;
    size += exact[n] * exact[n];
  }
  if (std::isnan(error)) return HUGE_VAL;
  if (absolute) size = static_cast<double>(ours.size());
  if (size == 0) return error == 0 ? 0 : HUGE_VAL;
  return std::sqrt(error / size);
}

/// dQ and dK of a document of one token are zero: there is no error relative to them.
bool is_zero(const std::vector<double>& exact) {
  return std::all_of(exact.begin(), exact.end(), [](double x) { return std::abs(x) < 1e-9; });
}

}  // namespace

Status probe_tails(Audit* audit) {
  static constexpr const char* kName = "tails";
  audit->note(
      "tails: one pack of documents of 0, 1, 2, 15, 0, 16, 17, 31, 32, 33, 63, 64, 65, 0, 96, 127, "
      "128, 129, 0 tokens and 5 rows of nobody; each document against exact attention");
  const AuditInputs inputs = audit->inputs(kLengths, kTailGap, kTailStream);
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) {
    audit->add_refusal(kName, "documents of 0 to 129 tokens", status);
    return {};
  }
  Exact exact;
  if (Status status = exact_attention(inputs, 0, &exact); !status.ok()) return status;
  const std::vector<double> Exact::*exact_of[] = {&Exact::o, &Exact::lse, &Exact::dq, &Exact::dk,
                                                  &Exact::dv};
  bool gap_neutral = true;
  for (size_t n = 0; n < std::size(kOutputViews); ++n) {
    const OutputView& view = kOutputViews[n];
    const std::vector<float>& ours = outputs.*view.tensor;
    if (ours.empty()) continue;
    const bool nats = std::string_view(view.name) == "lse";
    gap_neutral = gap_neutral && gap_is_neutral(outputs, inputs, n);
    const std::vector<double>& theirs = exact.*exact_of[n];
    const std::vector<float> theirs_float(theirs.begin(), theirs.end());
    const RowLayout layout = layout_of(view, inputs);
    std::vector<float> owned = slice(ours, layout, {0, inputs.cu_seqlens.back()});
    std::vector<float> owned_exact = slice(theirs_float, layout, {0, inputs.cu_seqlens.back()});
    const double whole =
        error_of_slice(owned, std::vector<double>(owned_exact.begin(), owned_exact.end()), nats);
    const double limit = std::max(kTailError, kTailFactor * whole);
    double worst = 0;
    int64_t worst_length = 0;
    for (size_t b = 0; b < kLengths.size(); ++b) {
      if (kLengths[b] == 0) continue;
      const std::vector<float> part = slice(ours, layout, rows_of(inputs, b));
      const std::vector<float> part_exact = slice(theirs_float, layout, rows_of(inputs, b));
      const std::vector<double> wanted(part_exact.begin(), part_exact.end());
      if (is_zero(wanted) && all_finite(part)) continue;
      const double error = error_of_slice(part, wanted, nats);
      if (error <= worst) continue;
      worst = error;
      worst_length = kLengths[b];
    }
    const bool good = worst <= limit && std::isfinite(whole);
    AuditFinding& finding =
        audit->add(kName, view.name, good ? AuditOutcome::kPassed : AuditOutcome::kFailed,
                   concat(nats ? "largest error in nats " : "largest relative error ",
                          amount(worst), ", of the document of ", counted(worst_length, "token"),
                          "; all together ", amount(whole)));
    finding.change = worst;
    if (!good) finding.cause = "rows beyond a document, or a wrong mask at its edge";
  }
  if (!gap_neutral) {
    const bool failed = audit->options().promise.zero_gaps;
    audit->add(kName, "", failed ? AuditOutcome::kFailed : AuditOutcome::kPromised,
               "rows past the last document are written: not 0 (LSE -inf)");
  } else {
    audit->add(kName, "", AuditOutcome::kPassed, "rows past the last document are 0 (LSE -inf)");
  }
  return {};
}

}  // namespace flamia::audit
