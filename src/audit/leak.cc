// Causal leak probe: does a future token change earlier rows through a shared scale?
// Promise of each level: docs/numerics.md, "causal safety".
#include "audit/leak.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>

#include "audit/probe.h"
#include "base/message.h"
#include "flamia/attention.h"
#include "numerics/bf16.h"

namespace flamia::audit {
namespace {

constexpr int64_t kMaxRows = 384;
constexpr int64_t kBlock = 32;      ///< tokens that may share a scale
constexpr float kGrowth = 0x1p20f;  ///< about 1e6
/// Step of BF16 relative to the value: what two roundings of nearly the same value differ by.
constexpr double kBf16Step = 0x1p-7;

bool shows_no_later_key(const Mask& mask) {
  return mask.kind == MaskKind::kCausal ||
         (mask.kind == MaskKind::kWindow && mask.window_right == 0);
}

/// Offsets 0, 1, 15, 16, 31 of a 32-token block, at the start, beside tile edges, and at the end.
std::vector<int64_t> default_tokens(int64_t rows) {
  return {1, 31, 47, 64, 127, 128, 209, 257, 320, rows - 1};
}

/// What the options promise about rows before the perturbed token.
struct Promise {
  bool nothing = false;  ///< not even inside the block
  bool dq_stays_inside = false;
  std::string words;
};

Promise promise_of(const Conventions& conventions) {
  Promise promise;
  if (conventions.path == Path::kBf16 || conventions.safety == Safety::kExact) {
    promise.nothing = true;
    promise.dq_stays_inside = true;
    promise.words = "no earlier row changes";
    return promise;
  }
  promise.dq_stays_inside =
      conventions.dq_scale == DqScale::kCausal || conventions.dq_accumulate == DqAccumulate::kFp32;
  promise.words = promise.dq_stays_inside
                      ? "earlier rows change inside the 32-token block only"
                      : "O changes inside the 32-token block only, dQ before it by the rounding "
                        "of its FP16 accumulator";
  return promise;
}

double value_of(uint16_t bits) { return static_cast<double>(bf16_to_float(bits)); }
double value_of(float x) { return static_cast<double>(x); }

template <typename Element>
double largest_magnitude(const std::vector<Element>& values) {
  double largest = 0;
  for (const Element x : values) {
    const double magnitude = std::abs(value_of(x));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  }
  return largest;
}

/// How far rows before a token changed, over all probes of one tensor.
class Change {
 public:
  /// Compares entries whose row, (index / inner) % rows, lies before the token. rounding: what
  /// rounding alone may change in an entry, before that entry is rounded itself.
  template <typename Element>
  void compare(const std::vector<Element>& before, const std::vector<Element>& after, int64_t inner,
               int64_t rows, int64_t token, double rounding) {
    const double unit = largest_magnitude(before);
    for (size_t n = 0; n < before.size(); ++n) {
      const int64_t row = static_cast<int64_t>(n) / inner % rows;
      if (row >= token || std::memcmp(&before[n], &after[n], sizeof(Element)) == 0) continue;
      const double a = value_of(before[n]);
      const double b = value_of(after[n]);
      const double difference = a == b ? 0 : std::abs(a - b);  // 0 and -0 differ in bits only
      const double step = kBf16Step * std::max(std::abs(a), std::abs(b));
      add(token, row, difference == 0 ? 0 : difference / unit, difference <= step + rounding);
    }
  }

  int64_t reach = 0;
  double largest = 0;  ///< relative to the largest |entry| of the unperturbed tensor
  int64_t reach_before_block = 0;
  double largest_before_block = 0;
  bool only_rounding_before_block = true;

 private:
  void add(int64_t token, int64_t row, double relative, bool rounding) {
    if (std::isnan(relative)) relative = std::numeric_limits<double>::infinity();
    reach = std::max(reach, token - row);
    largest = std::max(largest, relative);
    if (row / kBlock == token / kBlock) return;
    reach_before_block = std::max(reach_before_block, token - row);
    largest_before_block = std::max(largest_before_block, relative);
    only_rounding_before_block = only_rounding_before_block && rounding;
  }
};

/// All probes with one set of options.
class Search {
 public:
  Search(Probe* probe, const Options& options) : probe_(*probe), options_(options) {}

  Status run(const std::vector<int64_t>& tokens) {
    Status status = probe_.run(options_, &before_);
    if (!status.ok()) return status;
    for (const int64_t token : tokens) {
      if (token < 1 || token >= probe_.rows()) continue;
      // One operand at a time: all four at once would drive the prescale of dQ to its limit.
      for (const Operand operand : operands()) {
        probe_.scale_token(operand, token, kGrowth);
        status = compare_rows_before(token);
        if (!status.ok()) return status;
      }
      for (const Operand operand : operands()) probe_.scale_token(operand, token, 0.0f);
      status = compare_rows_before(token);
      if (!status.ok()) return status;
    }
    return status;
  }

  const Conventions& conventions() const { return before_.conventions; }
  const Change& o() const { return o_; }
  const Change& dq() const { return dq_; }

 private:
  std::vector<Operand> operands() const {
    std::vector<Operand> all = {Operand::kQ, Operand::kK, Operand::kV};
    if (probe_.has_gradient()) all.push_back(Operand::kDo);
    return all;
  }

  Status compare_rows_before(int64_t token) {
    Probe::Outputs after;
    const Status status = probe_.run(options_, &after);
    const auto scale = static_cast<double>(after.conventions.softmax_scale);
    double rounding = probe_.dq_rounding_bound(scale);
    probe_.restore();
    rounding += probe_.dq_rounding_bound(scale);
    if (!status.ok()) return status;
    const int64_t width = probe_.heads() * probe_.head_dim();
    const int64_t rows = probe_.rows();
    o_.compare(before_.o, after.o, width, rows, token, 0.0);
    o_.compare(before_.lse, after.lse, 1, rows, token, 0.0);
    dq_.compare(before_.dq, after.dq, width, rows, token, rounding);
    return status;
  }

  Probe& probe_;
  const Options& options_;
  Probe::Outputs before_;
  Change o_, dq_;
};

/// "changes of dQ reach 31 positions back (3.1e-04 of its largest entry)"
std::string reach_words(const char* tensor, int64_t reach, double largest) {
  char amount[32];
  std::snprintf(amount, sizeof amount, "%.1e", largest);
  return concat("changes of ", tensor, " reach ", reach, reach == 1 ? " position" : " positions",
                " back (", amount, " of its largest entry)");
}

std::string words_of(const Change& o, const Change& dq, bool dq_is_rounding) {
  std::string words;
  const auto add = [&](const std::string& sentence) {
    words += words.empty() ? sentence : "; " + sentence;
  };
  const char* const shared_scale = ": a scale shared by 32 tokens";
  if (o.reach > 0) {
    add(reach_words("O", o.reach, o.largest) +
        (o.reach_before_block == 0 ? shared_scale : ": beyond the 32-token block"));
  }
  if (dq.reach > 0 && dq.reach_before_block == 0) {
    add(reach_words("dQ", dq.reach, dq.largest) + shared_scale);
  }
  if (dq.reach_before_block > 0) {
    add(reach_words("dQ", dq.reach_before_block, dq.largest_before_block) +
        (dq_is_rounding ? ": rounding of the FP16 accumulator, scaled by maxima of the document"
                        : ": beyond the 32-token block"));
  }
  return words.empty() ? "no earlier row changes" : words;
}

/// Whether what changed in dQ before the block is the prescale of the document alone: with the
/// causal prescale nothing changes there.
Status is_prescale(Probe* probe, const Options& options, const std::vector<int64_t>& tokens,
                   bool* prescale) {
  Options causal = options;
  causal.dq_scale = DqScale::kCausal;
  Search search(probe, causal);
  const Status status = search.run(tokens);
  *prescale = search.dq().reach_before_block == 0;
  return status;
}

Status judge(Probe* probe, const Options& options, const std::vector<int64_t>& tokens,
             LeakVerdict* verdict) {
  Search search(probe, options);
  Status status = search.run(tokens);
  if (!status.ok()) return status;
  const Promise promise = promise_of(search.conventions());
  const Change& o = search.o();
  const Change& dq = search.dq();
  bool dq_is_rounding = false;
  if (dq.reach_before_block > 0 && !promise.dq_stays_inside) {
    status = is_prescale(probe, options, tokens, &dq_is_rounding);
    if (!status.ok()) return status;
    dq_is_rounding = dq_is_rounding && dq.only_rounding_before_block;
  }
  verdict->tested = true;
  verdict->o_reach = o.reach;
  verdict->dq_reach = dq.reach;
  verdict->o_change = o.largest;
  verdict->dq_change = dq.largest;
  verdict->dq_change_before_block = dq.largest_before_block;
  verdict->promise = promise.words;
  verdict->words = words_of(o, dq, dq_is_rounding);
  const bool nothing_changed = o.reach == 0 && dq.reach == 0;
  const bool inside = o.reach_before_block == 0 && (dq.reach_before_block == 0 || dq_is_rounding);
  verdict->passed = promise.nothing ? nothing_changed : inside;
  return status;
}

Status check_inputs(const ForwardTensors& inputs, const TensorView& d_o) {
  for (const TensorView& view : {inputs.q, inputs.k, inputs.v, d_o}) {
    if (view.data == nullptr) continue;
    if (view.dtype != DType::kBF16 || view.rank < 3 || view.rank > 4) {
      return Status(StatusCode::kInvalidArgument,
                    "causal_leak: q, k, v, d_o must be BF16 of rank 3 or 4; got another tensor");
    }
  }
  return Status();
}

}  // namespace

Status causal_leak_at(const Problem& problem, const Options& options, const ForwardTensors& inputs,
                      const TensorView& d_o, const std::vector<int64_t>& tokens,
                      LeakVerdict* verdict, const HostForward& forward) {
  *verdict = LeakVerdict();
  Status status = is_supported(problem, options);
  if (!status.ok()) return status;
  status = check_inputs(inputs, d_o);
  if (!status.ok()) return status;
  if (!shows_no_later_key(options.mask)) {
    verdict->words = "not tested: the mask lets rows see later keys";
    return status;
  }
  try {
    Probe probe(problem, inputs, d_o, kMaxRows, forward);
    if (probe.rows() < 2) {
      verdict->words = "not tested: no document has two tokens";
      return status;
    }
    return judge(&probe, options, tokens.empty() ? default_tokens(probe.rows()) : tokens, verdict);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory,
                  "causal_leak: must allocate a copy of 384 tokens; got no memory");
  }
}

Status causal_leak(const Problem& problem, const Options& options, const ForwardTensors& inputs,
                   const TensorView& d_o, LeakVerdict* verdict, const HostForward& forward) {
  return causal_leak_at(problem, options, inputs, d_o, {}, verdict, forward);
}

}  // namespace flamia::audit
