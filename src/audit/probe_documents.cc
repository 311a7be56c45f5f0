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
/// Documents that start at multiples of 16, 32, 64 and 128, as padded packs have them.
const std::vector<int64_t> kAlignedNeighbours = {16, 16, 32, 64, 128, 64};
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
  explicit NeighbourSearch(Audit* audit) : audit_(*audit) {}

  Status run() {
    if (!search(kNeighbours, kGap) || !search(kAlignedNeighbours, 0)) return {};
    for (size_t n = 0; n < std::size(kOutputViews); ++n) report(n);
    return {};
  }

 private:
  static constexpr const char* kName = "document_leak";

  bool search(const std::vector<int64_t>& lengths, int64_t gap) {
    inputs_ = audit_.inputs(lengths, gap, kDocumentStream);
    if (Status status = audit_.call(inputs_, &before_); !status.ok()) {
      audit_.add_refusal(kName, "packed documents, one of them empty", status);
      return false;
    }
    for (size_t culprit = 0; culprit <= lengths.size(); ++culprit) {
      const RowRange rows = rows_of(inputs_, culprit);
      if (rows.begin == rows.end) continue;
      for (const Disturbance& kind : kDisturbances) {
        if (!disturb(rows, kind)) return false;
      }
    }
    return true;
  }

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
                     " rows of nobody; documents of 16, 16, 32, 64, 128, 64 tokens; all operands "
                     "of one of them times 2^20, zero, NaN, Inf; "
                     "rows of all others compared bitwise"));
  return NeighbourSearch(audit).run();
}

Status probe_packing(Audit* audit) {
  static constexpr const char* kName = "packing";
  audit->note(
      "packing: documents of 1, 33, 129, 200 tokens, each alone and as the second document after "
      "one of 77, 32 or 128 and before one of 19 tokens; compared bitwise");
  double change[std::size(kOutputViews)] = {};
  bool given[std::size(kOutputViews)] = {};
  for (const int64_t length : {1, 33, 129, 200}) {
    const AuditInputs alone = audit->inputs({length}, 0, kPackingStream);
    AuditOutputs by_itself;
    Status status = audit->call(alone, &by_itself);
    for (const int64_t before : {77, 32, 128}) {
      AuditInputs packed = audit->inputs({before, length, 19}, 0, kPackingStream + 100);
      const RowRange rows = rows_of(packed, 1);
      copy_document(alone, 0, rows, &packed);
      AuditOutputs in_pack;
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
        for (const float x :
             row_changes(by_itself.*view.tensor, part, layout_of(view, alone), view.norm)) {
          change[n] = std::max(change[n], static_cast<double>(x));
        }
      }
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
                    : std::isfinite(change[n]) ? "a scale or a mask that covers the whole pack"
                                               : "rows that become NaN in one of the two";
  }
  return {};
}

}  // namespace flamia::audit
