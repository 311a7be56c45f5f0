// Both passes: are they attention at all, do they repeat themselves, do they agree on P and D?
// Paper: FLAMIA 3.3, 4.5 (training stability).
#include <algorithm>
#include <cmath>

#include "audit/audit.h"
#include "audit/probe_data.h"
#include "base/message.h"
#include "numerics/bf16.h"

namespace flamia::audit {
namespace {

/// Below it an output is not a low-precision version of attention, but something else. The paper's
/// coarsest gradients have a cosine of 0.94.
constexpr double kLeastCosine = 0.9;
/// <x, exact> / <exact, exact> may be off by this: 4-bit gradients by 0.05.
constexpr double kLargestGainError = 0.15;
/// LSE may err by this many nats, and by so many times the relative error of O: low-precision
/// scores move both.
constexpr double kLseError = 0.02;
constexpr double kLseErrorOfO = 4;

struct ExactView {
  const char* name;
  std::vector<float> AuditOutputs::*ours;
  std::vector<double> Exact::*exact;
};
constexpr ExactView kExactViews[] = {{"o", &AuditOutputs::o, &Exact::o},
                                     {"dq", &AuditOutputs::dq, &Exact::dq},
                                     {"dk", &AuditOutputs::dk, &Exact::dk},
                                     {"dv", &AuditOutputs::dv, &Exact::dv}};

/// What else the output may be, when it is not the attention that was asked for.
Status likely_mistake(const AuditInputs& inputs, const AuditOutputs& outputs, std::string* cause) {
  struct Guess {
    const char* words;
    bool flip_mask;
    float scale;
  };
  const Guess guesses[] = {{"the other mask (causal for full, or full for causal)", true, 1.0f},
                           {"scores that are not divided by sqrt(head_dim)", false,
                            std::sqrt(static_cast<float>(inputs.head_dim))},
                           {"scores divided twice by sqrt(head_dim)", false,
                            1.0f / std::sqrt(static_cast<float>(inputs.head_dim))}};
  for (const Guess& guess : guesses) {
    AuditInputs other = inputs;
    other.d_o.clear();
    other.causal = inputs.causal != guess.flip_mask;
    other.softmax_scale *= guess.scale;
    Exact exact;
    if (Status status = exact_attention(other, 0, &exact); !status.ok()) return status;
    if (cosine(outputs.o, exact.o) > kLeastCosine) *cause = guess.words;
  }
  return {};
}

}  // namespace

Status probe_accuracy(Audit* audit) {
  static constexpr const char* kName = "accuracy";
  audit->note(
      concat("accuracy: one document of N(0, 1) against exact attention in FP64; fails "
             "below a cosine of 0.9"));
  const AuditInputs inputs = audit->inputs({audit->options().tokens}, 0, kAccuracyStream);
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) return status;
  Exact exact;
  if (Status status = exact_attention(inputs, 0, &exact); !status.ok()) return status;
  for (const ExactView& view : kExactViews) {
    const std::vector<float>& ours = outputs.*view.ours;
    if (ours.empty()) continue;
    const double similar = cosine(ours, exact.*view.exact);
    const double error = relative_error(ours, exact.*view.exact);
    const double size = gain(ours, exact.*view.exact);
    const bool good = similar >= kLeastCosine && std::abs(size - 1) <= kLargestGainError;
    AuditFinding& finding = audit->add(
        kName, view.name, good ? AuditOutcome::kPassed : AuditOutcome::kFailed,
        concat(good ? "relative error " : "not the attention that was asked for: relative error ",
               amount(error)));
    finding.change = error;
    finding.figures = {{"cosine", similar}, {"gain", size}, {"rel_l2", error}};
    if (!good && similar >= kLeastCosine) {
      finding.cause = concat("right in direction, but ", short_number(size),
                             " times as large: a softmax scale that is missing, or applied twice");
    }
    if (!good && view.ours == &AuditOutputs::o) {
      if (Status status = likely_mistake(inputs, outputs, &finding.cause); !status.ok()) {
        return status;
      }
    }
  }
  if (outputs.lse.empty()) return {};
  double worst = 0;
  for (size_t n = 0; n < outputs.lse.size(); ++n) {
    worst = std::max(worst, std::abs(static_cast<double>(outputs.lse[n]) - exact.lse[n]));
  }
  const double limit = kLseError + kLseErrorOfO * audit->o_error();
  const bool good = worst <= limit;
  AuditFinding& finding =
      audit->add(kName, "lse", good ? AuditOutcome::kPassed : AuditOutcome::kFailed,
                 concat("largest error ", amount(worst), " nats (limit ", amount(limit), ")"));
  finding.change = worst;
  if (!good) finding.cause = "not the natural logarithm of the sum of exponentials per [head, row]";
  return {};
}

Status probe_determinism(Audit* audit) {
  static constexpr const char* kName = "determinism";
  static constexpr int kRuns = 5;
  audit->note(concat("determinism: the same inputs ", kRuns, " times, compared bitwise"));
  const AuditInputs inputs = audit->inputs({audit->options().tokens}, 0, kAccuracyStream);
  AuditOutputs first;
  if (Status status = audit->call(inputs, &first); !status.ok()) return status;
  double change[std::size(kOutputViews)] = {};
  for (int run = 1; run < kRuns; ++run) {
    AuditOutputs again;
    if (Status status = audit->call(inputs, &again); !status.ok()) return status;
    for (size_t n = 0; n < std::size(kOutputViews); ++n) {
      const OutputView& view = kOutputViews[n];
      for (const float x : row_changes(first.*view.tensor, again.*view.tensor,
                                       layout_of(view, inputs), view.norm)) {
        change[n] = std::max(change[n], static_cast<double>(x));
      }
    }
  }
  for (size_t n = 0; n < std::size(kOutputViews); ++n) {
    const OutputView& view = kOutputViews[n];
    if ((first.*view.tensor).empty()) continue;
    if (change[n] == 0) {
      audit->add(kName, view.name, AuditOutcome::kPassed,
                 concat("the same bits in ", kRuns, " runs"));
      continue;
    }
    const bool failed = audit->options().promise.deterministic;
    AuditFinding& finding =
        audit->add(kName, view.name, failed ? AuditOutcome::kFailed : AuditOutcome::kPromised,
                   concat(view.name, " differs from run to run (", amount(change[n]), ")"));
    finding.change = change[n];
    finding.cause =
        "sums in an order that is left to chance (atomics), random rounding, or "
        "memory that is read before it is written";
  }
  return {};
}

namespace {

// Where dP is the same for all keys, dS = P (dP - D) must vanish. D from a BF16 O leaves 1e-3 of
// dQ; one operand rounded to 8 bits on one side only leaves 3e-2: AuditPromise::delta_mismatch.

/// Probabilities of the backward pass sum to 1 within this times their largest rounding.
constexpr double kSumErrorPerStep = 0.8;
/// O from the probabilities of the backward pass against O of the forward pass, relative error of
/// the worst row, in their largest rounding: rows of few keys meet it whole.
constexpr double kProbabilityErrorPerStep = 2;
/// Row sums of dS likewise: those of 8-bit probabilities leave 0.03 of what a channel carries.
constexpr double kRowSumPerStep = 1.6;

constexpr uint16_t kOne = 0x3f80;  // BF16
constexpr uint16_t kMinusOne = 0xbf80;

double norm(const std::vector<float>& values) {
  double squares = 0;
  for (const float x : values) squares += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(squares);
}

/// D mismatch: V is the same row for all keys, so O is that row, dP is one number per query, and
/// dS = P (dP - D) vanishes if D is made of the same dO, V and O as dP.
Status check_delta(Audit* audit, const AuditInputs& random, const AuditOutputs& reference) {
  static constexpr const char* kName = "consistency";
  AuditInputs inputs = random;
  const auto width = static_cast<size_t>(inputs.kv_heads) * static_cast<size_t>(inputs.head_dim);
  for (size_t n = width; n < inputs.v.size(); ++n) inputs.v[n] = inputs.v[n - width];
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) {
    audit->add_refusal(kName, "one row of V for all keys", status);
    return {};
  }
  const double left = norm(outputs.dq) / norm(reference.dq);
  const bool good = left <= audit->options().promise.delta_mismatch;
  AuditFinding& finding = audit->add(
      kName, "dq", good ? AuditOutcome::kPassed : AuditOutcome::kFailed,
      concat("with one V for all keys, where dQ must vanish, ", amount(left), " of it remains"));
  finding.change = left;
  finding.figures = {{"delta_mismatch", left}};
  if (!good) {
    finding.cause =
        "D = rowsum(dO O) is made of another dO, V or O than dP: both must be the "
        "quantized ones";
  }
  return {};
}

/// Row sums of dS: with one channel of K constant, that channel of dQ is the row sum of dS times
/// the constant and the softmax scale, whatever q is (the channel adds one number to all scores).
Status check_row_sums(Audit* audit, const AuditInputs& random) {
  static constexpr const char* kName = "consistency";
  static constexpr float kConstant = 8.0f;
  AuditInputs inputs = random;
  const auto dim = static_cast<size_t>(inputs.head_dim);
  for (size_t n = 0; n < inputs.k.size(); n += dim) inputs.k[n] = float_to_bf16(kConstant);
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) {
    audit->add_refusal(kName, "a constant channel of K", status);
    return {};
  }
  double sums = 0;
  double others = 0;
  for (size_t n = 0; n < outputs.dq.size(); ++n) {
    const auto x = static_cast<double>(outputs.dq[n]);
    (n % dim == 0 ? sums : others) += x * x;
  }
  const auto constant = static_cast<double>(kConstant);
  // Per entry of K: the row sum against what a channel of N(0, 1) carries.
  const double residual =
      std::sqrt(sums) / constant / std::sqrt(others / static_cast<double>(dim - 1));
  const bool good = residual <= kRowSumPerStep * audit->options().promise.p_step;
  AuditFinding& finding =
      audit->add(kName, "dq", good ? AuditOutcome::kPassed : AuditOutcome::kFailed,
                 concat("row sums of dS, which must vanish, are ", amount(residual),
                        " of what one channel of dQ carries"));
  finding.change = residual;
  finding.figures = {{"ds_row_sum", residual}};
  if (!good) finding.cause = "P of the backward pass is not that of the forward pass, or D is not";
  return {};
}

/// P of the backward pass, row by row: dO is one at one channel of each of head_dim query rows and
/// zero elsewhere, so that channel c of dV_j is P of the c-th chosen row. V is +-1, exact in every
/// format, so that O of these rows can be rebuilt.
struct BackwardProbabilities {
  double sum_error = 0;
  double o_error = 0;
};

BackwardProbabilities compare_probabilities(const AuditInputs& inputs, const AuditOutputs& outputs,
                                            const std::vector<int64_t>& rows) {
  BackwardProbabilities worst;
  const int64_t dim = inputs.head_dim;
  const int64_t group = inputs.heads / inputs.kv_heads;
  // One query head of each group has a gradient, so dV is not a sum over heads.
  for (int64_t kv_head = 0; kv_head < inputs.kv_heads; ++kv_head) {
    for (size_t c = 0; c < rows.size(); ++c) {
      double sum = 0;
      std::vector<double> o(static_cast<size_t>(dim), 0);
      for (int64_t j = 0; j < inputs.tokens; ++j) {
        const int64_t key_row = (j * inputs.kv_heads + kv_head) * dim;
        const auto p = static_cast<double>(outputs.dv[static_cast<size_t>(key_row) + c]);
        sum += p;
        for (int64_t d = 0; d < dim; ++d) {
          const auto v =
              static_cast<double>(bf16_to_float(inputs.v[static_cast<size_t>(key_row + d)]));
          o[static_cast<size_t>(d)] += p * v;
        }
      }
      const int64_t query_row = (rows[c] * inputs.heads + kv_head * group) * dim;
      double error = 0;
      double size = 0;
      for (int64_t d = 0; d < dim; ++d) {
        const auto forward = static_cast<double>(outputs.o[static_cast<size_t>(query_row + d)]);
        const double delta = o[static_cast<size_t>(d)] - forward;
        error += delta * delta;
        size += forward * forward;
      }
      worst.sum_error = std::max(worst.sum_error, std::abs(sum - 1));
      worst.o_error = std::max(worst.o_error, std::sqrt(error / size));
    }
  }
  return worst;
}

Status check_probabilities(Audit* audit, const AuditInputs& random) {
  static constexpr const char* kName = "consistency";
  AuditInputs inputs = random;
  std::transform(inputs.v.begin(), inputs.v.end(), inputs.v.begin(),
                 [](uint16_t x) { return (x & 0x8000u) != 0 ? kMinusOne : kOne; });
  std::fill(inputs.d_o.begin(), inputs.d_o.end(), uint16_t{0});
  const int64_t dim = inputs.head_dim;
  const int64_t count = std::min<int64_t>(dim, inputs.tokens);
  std::vector<int64_t> rows;
  for (int64_t c = 0; c < count; ++c) {
    const int64_t row = inputs.tokens - 1 - c * inputs.tokens / count;
    rows.push_back(row);
    for (int64_t h = 0; h < inputs.kv_heads; ++h) {
      const int64_t head = h * (inputs.heads / inputs.kv_heads);
      inputs.d_o[static_cast<size_t>((row * inputs.heads + head) * dim + c)] = kOne;
    }
  }
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) {
    audit->add_refusal(kName, "dO of single ones", status);
    return {};
  }
  const BackwardProbabilities worst = compare_probabilities(inputs, outputs, rows);
  const double step = audit->options().promise.p_step;
  const bool sums = worst.sum_error <= kSumErrorPerStep * step;
  AuditFinding& of_sums = audit->add(
      kName, "dv", sums ? AuditOutcome::kPassed : AuditOutcome::kFailed,
      concat("probabilities of the backward pass sum to 1 within ", amount(worst.sum_error)));
  of_sums.change = worst.sum_error;
  of_sums.figures = {{"probability_sum_error", worst.sum_error}};
  if (!sums) of_sums.cause = "the backward pass normalizes by another LSE, or masks other keys";
  const bool same = worst.o_error <= kProbabilityErrorPerStep * step;
  AuditFinding& of_rows =
      audit->add(kName, "dv", same ? AuditOutcome::kPassed : AuditOutcome::kFailed,
                 concat("O rebuilt from probabilities of the backward pass differs by ",
                        amount(worst.o_error), " in the worst row"));
  of_rows.change = worst.o_error;
  of_rows.figures = {{"probability_error", worst.o_error}};
  if (!same) of_rows.cause = "both passes compute different probabilities in some row";
  return {};
}

Status check_conventions(Audit* audit) {
  static constexpr const char* kName = "consistency";
  const auto& check = audit->options().conventions;
  if (!check) return {};
  const Status status = check();
  AuditFinding& finding = audit->add(
      kName, "", status.ok() ? AuditOutcome::kPassed : AuditOutcome::kFailed,
      status.ok() ? "backward refuses records that are not its forward's" : status.message());
  if (!status.ok()) finding.cause = "a record of conventions that is not checked";
  return {};
}

}  // namespace

Status probe_consistency(Audit* audit) {
  static constexpr const char* kName = "consistency";
  if (!audit->options().gradients) {
    audit->add(kName, "", AuditOutcome::kNotTested, "gradients are not asked for");
    return {};
  }
  audit->note(
      "consistency: (1) one row of V for all keys: norm of dQ over its norm with random V; (2) one "
      "channel of K is 8: that channel of dQ over 8, against an average other channel; (3) V is "
      "+-1 and dO is 1 at one channel of head_dim rows, 0 elsewhere: dV holds their probabilities, "
      "summed and multiplied with V; (4) the library's own backward: records of other calls");
  const AuditInputs inputs = audit->inputs({audit->options().tokens}, 0, kConsistencyStream);
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) return status;
  if (outputs.dq.empty()) {
    audit->add(kName, "dq", AuditOutcome::kNotTested, "the function does not return dq");
  } else {
    if (Status status = check_delta(audit, inputs, outputs); !status.ok()) return status;
    if (Status status = check_row_sums(audit, inputs); !status.ok()) return status;
  }
  if (outputs.dv.empty()) {
    audit->add(kName, "dv", AuditOutcome::kNotTested, "the function does not return dv");
  } else if (Status status = check_probabilities(audit, inputs); !status.ok()) {
    return status;
  }
  return check_conventions(audit);
}

}  // namespace flamia::audit
