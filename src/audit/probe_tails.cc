// Tails and gaps: are all lengths right, row by row, and what stands in rows of no document?
// Paper: FLAMIA 3.6 (packed documents).
#include <algorithm>
#include <cmath>

#include "audit/audit.h"
#include "audit/documents.h"
#include "audit/probe_data.h"
#include "base/message.h"

namespace flamia::audit {
namespace {

constexpr const char* kName = "tails";
/// Lengths around the edges of 16-groups, 32-blocks and tiles, and documents without tokens.
const std::vector<int64_t> kLengths = {0,  1,  2,  15, 0,  16,  17,  31,  32, 33,
                                       63, 64, 65, 0,  96, 127, 128, 129, 0};
constexpr int64_t kGap = 5;
/// Relative error of one row: a row that is missing has 1, the worst rows of 8-bit gradients 0.4,
/// of 4-bit ones more than 1: single rows cannot be judged there. Rows smaller than this part of
/// the pack's mean are measured against that: what must cancel in the first rows of a document
/// leaves rounding.
constexpr double kRowError = 0.75;
constexpr double kFourBitRowError = 1.6;
constexpr double kSmallRow = 0.2;
constexpr double kFourBitSmallRow = 1;
/// Relative error of the pack as a whole: 4-bit gradients have 0.4.
constexpr double kPackError = 0.6;
/// LSE, nats, and so many times the relative error of O on ordinary inputs.
constexpr double kLseError = 0.02;
constexpr double kLseErrorOfO = 8;
constexpr double kEightBitStep = 1.0 / 16;

struct Tensor {
  const char* name;
  std::vector<float> AuditOutputs::*ours;
  std::vector<double> Exact::*exact;
};
constexpr Tensor kTensors[] = {{"o", &AuditOutputs::o, &Exact::o},
                               {"lse", &AuditOutputs::lse, &Exact::lse},
                               {"dq", &AuditOutputs::dq, &Exact::dq},
                               {"dk", &AuditOutputs::dk, &Exact::dk},
                               {"dv", &AuditOutputs::dv, &Exact::dv}};

/// The worst row of a pack, and the error of all of it.
struct TailError {
  double worst = 0;
  int64_t length = 0;    ///< of the document that holds the worst row
  int64_t position = 0;  ///< of the row in it
  double error = 0;      ///< squares, of all rows
  double size = 0;

  double whole() const { return size == 0 ? std::sqrt(error) : std::sqrt(error / size); }
};

struct RowSquares {
  double error = 0;
  double size = 0;
  double largest = 0;  ///< largest |difference|
};

RowSquares squares_of_row(const std::vector<float>& ours, const std::vector<double>& exact,
                          const RowLayout& layout, int64_t row) {
  RowSquares squares;
  const auto entries = static_cast<int64_t>(ours.size()) / layout.rows;
  for (int64_t n = 0; n < entries; ++n) {
    const auto at =
        static_cast<size_t>(layout.row_major ? row * layout.inner + n : n * layout.rows + row);
    const double delta = static_cast<double>(ours[at]) - exact[at];
    squares.error += delta * delta;
    squares.size += exact[at] * exact[at];
    squares.largest = std::max(squares.largest, std::abs(delta));
    if (std::isnan(delta)) squares.error = squares.largest = HUGE_VAL;
  }
  return squares;
}

void add_document(const std::vector<float>& ours, const std::vector<double>& exact,
                  const RowLayout& layout, const RowRange& rows, double least_size, bool nats,
                  TailError* total) {
  std::vector<RowSquares> squares;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    squares.push_back(squares_of_row(ours, exact, layout, row));
    total->error += squares.back().error;
    total->size += squares.back().size;
  }
  for (size_t n = 0; n < squares.size(); ++n) {
    const double least = std::max(squares[n].size, least_size);
    const double error = nats ? squares[n].largest : std::sqrt(squares[n].error / least);
    if (error <= total->worst) continue;
    total->worst = error;
    total->length = rows.end - rows.begin;
    total->position = static_cast<int64_t>(n);
  }
}

/// Rows of nobody: O and gradients 0, LSE -inf.
bool gap_is_neutral(const std::vector<float>& values, const RowLayout& layout, const RowRange& gap,
                    bool nats) {
  const std::vector<float> rows = slice(values, layout, gap);
  const float neutral = nats ? -HUGE_VALF : 0.0f;
  return std::all_of(rows.begin(), rows.end(), [&](float x) { return x == neutral; });
}

bool has_four_bits(const Audit& audit) { return audit.options().promise.p_step > kEightBitStep; }

void report(Audit* audit, const Tensor& tensor, const TailError& total, bool nats) {
  const double limit = nats ? kLseError + kLseErrorOfO * audit->o_error()
                            : (has_four_bits(*audit) ? kFourBitRowError : kRowError);
  const bool good = total.worst <= limit && (nats || total.whole() <= kPackError);
  AuditFinding& finding = audit->add(
      kName, tensor.name, good ? AuditOutcome::kPassed : AuditOutcome::kFailed,
      concat("worst row: ", nats ? "nats off " : "relative error ", amount(total.worst), " (limit ",
             short_number(limit), "), row ", total.position, " of ", counted(total.length, "token"),
             "; all rows together ", amount(total.whole())));
  finding.change = total.worst;
  if (!good && is_attention(audit->report())) {
    finding.cause = "a wrong mask or a missing row at the edge of a document or a tile";
  }
}

void report_gap(Audit* audit, bool neutral) {
  if (neutral) {
    audit->add(kName, "", AuditOutcome::kPassed, "rows past the last document are 0 (LSE -inf)");
    return;
  }
  const bool failed = audit->options().promise.zero_gaps;
  audit->add(kName, "", failed ? AuditOutcome::kFailed : AuditOutcome::kNotTested,
             "rows past the last document are not 0 (LSE -inf), of which nothing is promised");
}

}  // namespace

Status probe_tails(Audit* audit) {
  audit->note(
      "tails: one pack of documents of 0, 1, 2, 15, 0, 16, 17, 31, 32, 33, 63, 64, 65, 0, 96, 127, "
      "128, 129, 0 tokens and 5 rows of nobody; every row against exact attention, relative to its "
      "norm or a fifth (4-bit P: all) of the mean norm of all rows, if that is larger");
  const AuditInputs inputs = audit->inputs(kLengths, kGap, kTailStream);
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) {
    audit->add_refusal(kName, "documents of 0 to 129 tokens", status);
    return {};
  }
  Exact exact;
  if (Status status = exact_attention(inputs, 0, &exact); !status.ok()) return status;
  bool gap_neutral = true;
  for (size_t n = 0; n < std::size(kTensors); ++n) {
    const std::vector<float>& ours = outputs.*kTensors[n].ours;
    if (ours.empty()) continue;
    const RowLayout layout = layout_of(kOutputViews[n], inputs);
    const bool nats = std::string_view(kTensors[n].name) == "lse";
    TailError total;
    double size = 0;
    for (const double x : exact.*kTensors[n].exact) size += std::isfinite(x) ? x * x : 0;
    const double small = has_four_bits(*audit) ? kFourBitSmallRow : kSmallRow;
    const double least_size = small * small * size / static_cast<double>(inputs.tokens);
    for (size_t b = 0; b < kLengths.size(); ++b) {
      add_document(ours, exact.*kTensors[n].exact, layout, rows_of(inputs, b), least_size, nats,
                   &total);
    }
    report(audit, kTensors[n], total, nats);
    gap_neutral =
        gap_neutral && gap_is_neutral(ours, layout, rows_of(inputs, kLengths.size()), nats);
  }
  report_gap(audit, gap_neutral);
  return {};
}

}  // namespace flamia::audit
