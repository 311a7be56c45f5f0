// Sums of P V: do they saturate, lose small probabilities, or drift with the length?
// Paper: FLAMIA 3.4 (c and tau), P-Cast 3 (underflow under sinks).
#include <algorithm>
#include <cmath>

#include "audit/audit.h"
#include "audit/probe_data.h"
#include "base/message.h"
#include "base/philox.h"
#include "numerics/bf16.h"
#include "numerics/online_softmax.h"

namespace flamia::audit {
namespace {

constexpr uint16_t kOne = 0x3f80;  // BF16

/// Inputs whose scores are set: q is g times a random row, a key has `on[j]` entries of that row's
/// signs, of random sizes around 1, and zeros. Its score is near g * on[j] * softmax_scale. Sizes
/// differ so that the rounding of a narrow format averages out instead of scaling all scores.
class SetScores {
 public:
  SetScores(const Audit& audit, int64_t tokens, bool causal)
      : inputs_(audit.inputs({tokens}, 0, kSumStream)), seed_(audit.options().seed) {
    inputs_.causal = causal;
    inputs_.d_o.clear();
  }

  AuditInputs& inputs() { return inputs_; }

  /// bits[j]: wanted score of key j in base 2, up to a constant. Random rounding of on[j] leaves
  /// keys of one score up to one step apart.
  void set(const std::vector<double>& bits) {
    const double range = *std::max_element(bits.begin(), bits.end());
    const auto dim = static_cast<size_t>(inputs_.head_dim);
    const double steps = static_cast<double>(dim) * 0.9;
    // One channel more adds `step` bits.
    const double step = std::max(range / steps, 0.02);
    const float g =
        static_cast<float>(step / kLog2EDouble / static_cast<double>(inputs_.softmax_scale));
    fill_signs(&inputs_.q, 0, g);
    for (int64_t j = 0; j < inputs_.tokens; ++j) {
      const Philox4 random = philox(seed_, kSumStream + 1000, static_cast<uint64_t>(j));
      const double wanted =
          bits[static_cast<size_t>(j)] / step + static_cast<double>(uniform_float(random.word[0]));
      const auto on = std::min(static_cast<size_t>(wanted), dim);
      fill_signs(&inputs_.k, j, 1.0f);
      clear_some(j, dim - on);
    }
  }

 private:
  static constexpr double kSpread = 0.25;  ///< of the sizes around 1
  static bool negative(size_t channel) { return (0x9e3779b9u * (channel + 1) >> 16 & 1u) != 0; }

  /// All rows of q (token 0 given) or one token of k become signs times g.
  void fill_signs(std::vector<uint16_t>* values, int64_t token, float g) {
    const auto dim = static_cast<size_t>(inputs_.head_dim);
    const bool keys = values == &inputs_.k;
    const size_t width = dim * static_cast<size_t>(keys ? inputs_.kv_heads : inputs_.heads);
    const size_t begin = keys ? static_cast<size_t>(token) * width : 0;
    const size_t end = keys ? begin + width : values->size();
    const uint64_t stream = kSumStream + (keys ? 3000u : 4000u);
    for (size_t n = begin; n < end; ++n) {
      // One row of q for all tokens and heads; every key has its own sizes.
      const Philox4 random = philox(seed_, stream, keys ? n : n % dim);
      const double size = 1 + kSpread * normal_pair(random.word[0], random.word[1]).first;
      const float value = g * static_cast<float>(size);
      (*values)[n] = float_to_bf16(negative(n % dim) ? -value : value);
    }
  }

  /// Zeroes `count` channels of a key, others for every key.
  void clear_some(int64_t token, size_t count) {
    const auto dim = static_cast<size_t>(inputs_.head_dim);
    std::vector<size_t> order(dim);
    for (size_t c = 0; c < dim; ++c) order[c] = c;
    for (size_t c = 0; c < count; ++c) {
      const Philox4 random = philox(seed_, kSumStream + 2000 + static_cast<uint64_t>(token), c);
      std::swap(order[c], order[c + random.word[0] % (dim - c)]);
      for (int64_t h = 0; h < inputs_.kv_heads; ++h) {
        const int64_t row = (token * inputs_.kv_heads + h) * inputs_.head_dim;
        inputs_.k[static_cast<size_t>(row) + order[c]] = 0;
      }
    }
  }

  AuditInputs inputs_;
  uint64_t seed_;
};

/// V of key j is one at channel segment(j) and zero elsewhere: channel s of O is the probability of
/// segment s.
template <typename Segment>
void mark_segments(AuditInputs* inputs, const Segment& segment) {
  std::fill(inputs->v.begin(), inputs->v.end(), uint16_t{0});
  for (int64_t j = 0; j < inputs->tokens; ++j) {
    for (int64_t h = 0; h < inputs->kv_heads; ++h) {
      const int64_t row = (j * inputs->kv_heads + h) * inputs->head_dim;
      inputs->v[static_cast<size_t>(row + segment(j))] = kOne;
    }
  }
}

double largest_error(const std::vector<float>& ours, const std::vector<double>& exact) {
  double largest = 0;
  for (size_t n = 0; n < ours.size(); ++n) {
    if (!std::isfinite(exact[n])) continue;
    const double error = std::abs(static_cast<double>(ours[n]) - exact[n]);
    largest = std::isnan(error) ? HUGE_VAL : std::max(largest, error);
  }
  return largest;
}

/// A part of the probability that may move between segments, and so much of the relative error of O
/// on ordinary inputs: rounded scores and probabilities move it by half of that, clamping half a
/// bit by 0.1.
constexpr double kLargestShift = 0.03;
constexpr double kShiftOfO = 0.6;
/// Bits of three rises one after the other.
constexpr double kLongestOfThree = 4;

struct Rise {
  double lag = 0;
  int segments = 0;
  bool falling = false;
  double error = 0;
};

Status try_rise(Audit* audit, Rise* rise) {
  const int64_t tokens = audit->options().tokens;
  SetScores scores(*audit, tokens, false);
  const auto segment = [&](int64_t j) { return j * rise->segments / tokens; };
  std::vector<double> bits(static_cast<size_t>(tokens));
  for (int64_t j = 0; j < tokens; ++j) {
    const int64_t s = rise->falling ? rise->segments - 1 - segment(j) : segment(j);
    bits[static_cast<size_t>(j)] = rise->lag * static_cast<double>(s);
  }
  scores.set(bits);
  mark_segments(&scores.inputs(), segment);
  scores.inputs().causal = audit->options().causal;
  AuditOutputs outputs;
  if (Status status = audit->call(scores.inputs(), &outputs); !status.ok()) return status;
  Exact exact;
  if (Status status = exact_attention(scores.inputs(), 0, &exact); !status.ok()) return status;
  rise->error = largest_error(outputs.o, exact.o);
  return {};
}

}  // namespace

Status probe_saturation(Audit* audit) {
  static constexpr const char* kName = "saturation";
  const double range = audit->options().cast_range;
  audit->note(concat(
      "saturation: (1) V = 1 and random scores of 3 nats: O against 1; (2) scores that rise, or "
      "fall, by a lag from one half or quarter of the keys to the next, V one-hot: probabilities "
      "of the parts against exact ones; lags 0.5 to 12 bits (quarters: to 4) by 0.5, and ",
      short_number(range), " bits +- 0.125, 0.25 and 1 (the range of the cast)"));
  AuditInputs inputs = audit->inputs({audit->options().tokens}, 0, kSumStream);
  inputs.d_o.clear();
  fill_normal(&inputs.q, audit->options().seed, kSumStream + 7, 3.0, 0.0);
  std::fill(inputs.v.begin(), inputs.v.end(), kOne);
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) {
    audit->add_refusal(kName, "V = 1", status);
    return {};
  }
  double worst = 0;
  for (const float x : outputs.o) {
    const double error = std::abs(static_cast<double>(x) - 1);
    worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
  }
  // E4M3 rounds one probability by up to 1/16, a row with one key by as much if it is not in the
  // row sum.
  static constexpr double kLargestGain = 0.07;
  const bool ones = worst <= kLargestGain;
  AuditFinding& of_ones =
      audit->add(kName, "o", ones ? AuditOutcome::kPassed : AuditOutcome::kFailed,
                 concat("with V = 1, O is 1 within ", amount(worst)));
  of_ones.change = worst;
  if (!ones && is_attention(audit->report()))
    of_ones.cause = "the row sum counts probabilities that the product with V does not";

  std::vector<double> lags;
  for (int n = 1; n <= 24; ++n) lags.push_back(0.5 * n);
  for (const double off : {-1.0, -0.25, -0.125, 0.125, 0.25, 1.0}) lags.push_back(range + off);
  Rise most;
  for (const double lag : lags) {
    for (const int segments : {2, 4}) {
      // Three rises far apart would measure the rounding of large scores instead.
      if (segments == 4 && lag > kLongestOfThree) continue;
      for (const bool falling : {false, true}) {
        Rise rise = {lag, segments, falling, 0};
        if (Status status = try_rise(audit, &rise); !status.ok()) {
          audit->add_refusal(kName, concat("scores that rise by ", lag, " bits"), status);
          return {};
        }
        if (rise.error > most.error) most = rise;
      }
    }
  }
  const bool good = most.error <= kLargestShift + kShiftOfO * audit->o_error();
  AuditFinding& finding = audit->add(
      kName, "o", good ? AuditOutcome::kPassed : AuditOutcome::kFailed,
      concat("probabilities of parts whose scores ", most.falling ? "fall" : "rise", " by ",
             short_number(most.lag), " bits ", most.segments == 2 ? "once" : "three times",
             " err by ", amount(most.error), ", the most of all lags"));
  finding.change = most.error;
  finding.figures = {{"lag_bits", most.lag}, {"probability_error", most.error}};
  if (!good) {
    finding.cause =
        "P is clamped while the running maximum lags behind: c + tau exceeds the range "
        "of the cast";
  }
  return {};
}

namespace {

/// Part of the diffuse probability that may be missing, and so many times the relative error of O
/// on ordinary inputs: rounded scores move it, a flush loses nearly all of it.
constexpr double kLargestLoss = 0.15;
constexpr double kLossOfO = 1.5;

struct Dilution {
  double mass = 0;    ///< wanted probability of the diffuse keys
  double bits = 0;    ///< of the hot key above them
  bool late = false;  ///< the hot key is among the last keys instead of the first
  double exact = 0;   ///< mean over rows
  double measured = 0;
  double lost() const { return exact == 0 ? 0 : (exact - measured) / exact; }
};

Status try_dilution(Audit* audit, Dilution* dilution) {
  const int64_t keys = audit->options().context;
  AuditInputs inputs = audit->inputs({keys}, 0, kUnderflowStream);
  inputs.d_o.clear();
  // Diffuse scores are q k scale of N(0, 1) at a tenth; the hot key points along q.
  const double gap = std::log(static_cast<double>(keys) * (1 - dilution->mass) / dilution->mass);
  dilution->bits = gap * kLog2EDouble;
  const int64_t hot = dilution->late ? keys - 64 : 0;
  const auto dim = static_cast<size_t>(inputs.head_dim);
  // Every row of q has the same signs and its own sizes, so that rounding averages out over rows.
  const auto negative = [](size_t c) { return (c * 0x9e3779b9u >> 16 & 1u) != 0; };
  fill_normal(&inputs.q, audit->options().seed, kUnderflowStream + 3000, 0.25, 1.0);
  for (size_t n = 0; n < inputs.q.size(); ++n) {
    if (negative(n % dim)) inputs.q[n] ^= 0x8000u;
  }
  fill_normal(&inputs.k, audit->options().seed, kUnderflowStream + 1000, 0.1, 0.0);
  std::fill(inputs.v.begin(), inputs.v.end(), kOne);
  // Sizes differ by channel so that the rounding of a narrow format averages out.
  std::vector<double> sizes(dim);
  double total = 0;
  for (size_t c = 0; c < dim; ++c) {
    const Philox4 random = philox(audit->options().seed, kUnderflowStream + 2000, c);
    sizes[c] = 1 + 0.25 * normal_pair(random.word[0], random.word[1]).first;
    total += sizes[c];
  }
  const double length = gap / static_cast<double>(inputs.softmax_scale) / total;
  for (int64_t h = 0; h < inputs.kv_heads; ++h) {
    const auto row = static_cast<size_t>((hot * inputs.kv_heads + h) * inputs.head_dim);
    for (size_t c = 0; c < dim; ++c) {
      const double sign = negative(c) ? -1 : 1;
      inputs.k[row + c] = float_to_bf16(static_cast<float>(sign * length * sizes[c]));
      inputs.v[row + c] = 0;
    }
  }
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) return status;
  static constexpr int64_t kRows = 64;
  Exact exact;
  if (Status status = exact_attention(inputs, kRows, &exact); !status.ok()) return status;
  const auto width = static_cast<size_t>(inputs.heads) * dim;
  // Rows that see the hot key and all other thousands.
  const auto first = static_cast<size_t>(dilution->late ? hot : keys / 2) * width;
  double count = 0;
  for (size_t n = first; n < outputs.o.size(); ++n) {
    if (!std::isfinite(exact.o[n])) continue;
    dilution->exact += exact.o[n];
    dilution->measured += static_cast<double>(outputs.o[n]);
    ++count;
  }
  dilution->exact /= count;
  dilution->measured /= count;
  return {};
}

double largest_loss(const Audit& audit) { return kLargestLoss + kLossOfO * audit.o_error(); }

void report_dilution(Audit* audit, const Dilution& dilution, AuditOutcome outcome) {
  AuditFinding& finding = audit->add(
      "underflow", "o", outcome,
      concat("a probability of ", amount(dilution.exact), " on diffuse keys, ",
             static_cast<int64_t>(dilution.bits), " bits below a hot ",
             dilution.late ? "late" : "first", " key, comes out as ", amount(dilution.measured),
             " (limit: ", short_number(100 * largest_loss(*audit)), " % off)"));
  finding.change = std::abs(dilution.lost());
  finding.figures = {{"exact_mass", dilution.exact},
                     {"measured_mass", dilution.measured},
                     {"lost_fraction", dilution.lost()},
                     {"bits", dilution.bits}};
  finding.reproduce += concat(" --context ", audit->options().context);
  if (outcome == AuditOutcome::kPassed || !is_attention(audit->report())) return;
  finding.cause =
      dilution.lost() > 0
          ? "P of diffuse keys is cast to zero: the factor S of P is too small, or keys "
            "are visited from the wrong end"
          : "the row sum lacks probabilities that the product with V has";
}

}  // namespace

Status probe_underflow(Audit* audit) {
  static constexpr const char* kName = "underflow";
  audit->note(
      concat("underflow: ", audit->options().context,
             " keys with V = 1, one of them hot (the first, or the 64th last) with V = 0, "
             "so that the others share 10 %, 30 %, 50 %, 90 % of the probability: O against "
             "exact O, mean over rows that see the hot key and half of the others"));
  Dilution most, promised;
  const double flush_bits = audit->options().promise.flush_bits;
  for (const double mass : {0.1, 0.3, 0.5, 0.9}) {
    for (const bool late : {false, true}) {
      Dilution dilution;
      dilution.mass = mass;
      dilution.late = late;
      if (Status status = try_dilution(audit, &dilution); !status.ok()) {
        audit->add_refusal(kName, "one hot key among diffuse ones", status);
        return {};
      }
      // Half a bit for the spread of the scores.
      const bool may_vanish = flush_bits > 0 && dilution.bits > flush_bits - 0.5;
      Dilution* const worst = may_vanish ? &promised : &most;
      const bool worse = !(std::abs(dilution.lost()) <= std::abs(worst->lost()));
      if (worst->mass == 0 || worse) *worst = dilution;
    }
  }
  for (const Dilution& dilution : {most, promised}) {
    if (dilution.mass == 0) continue;
    const bool good = std::abs(dilution.lost()) <= largest_loss(*audit);
    const bool allowed = &dilution == &promised || dilution.bits == promised.bits;
    report_dilution(audit, dilution,
                    good      ? AuditOutcome::kPassed
                    : allowed ? AuditOutcome::kPromised
                              : AuditOutcome::kFailed);
  }
  return {};
}

namespace {

/// Gain of O: quantized scores and probabilities cost 0.003, sums in few bits grow with the length
/// (0.03 at 4096 keys).
constexpr double kLargestGainError = 0.01;
constexpr double kMean = 0.5;

Status measure_context(Audit* audit, int64_t keys, ContextPoint* point) {
  AuditInputs inputs = audit->inputs({keys}, 0, kContextStream);
  inputs.d_o.clear();
  inputs.causal = audit->options().causal;
  fill_normal(&inputs.v, audit->options().seed, kContextStream + 1000, 1.0, kMean);
  AuditOutputs outputs;
  if (Status status = audit->call(inputs, &outputs); !status.ok()) return status;
  static constexpr int64_t kRows = 128;
  Exact exact;
  if (Status status = exact_attention(inputs, kRows, &exact); !status.ok()) return status;
  const auto width = static_cast<size_t>(inputs.heads) * static_cast<size_t>(inputs.head_dim);
  double product = 0;
  double size = 0;
  double error = 0;
  for (size_t n = static_cast<size_t>(keys / 2) * width; n < outputs.o.size(); ++n) {
    if (!std::isfinite(exact.o[n])) continue;
    const auto x = static_cast<double>(outputs.o[n]);
    product += x * exact.o[n];
    size += exact.o[n] * exact.o[n];
    error += (x - exact.o[n]) * (x - exact.o[n]);
  }
  *point = {keys, product / size, std::sqrt(error / size)};
  return {};
}

}  // namespace

Status probe_context(Audit* audit) {
  static constexpr const char* kName = "context";
  audit->note(
      concat("context: V of N(0.5, 1), 512 keys and twice as many until ", audit->options().context,
             ": gain <O, exact> / <exact, exact> over 128 sampled rows of the second half"));
  ContextPoint last;
  for (int64_t keys = 512; keys <= audit->options().context; keys *= 2) {
    if (Status status = measure_context(audit, keys, &last); !status.ok()) {
      audit->add_refusal(kName, counted(keys, "key"), status);
      return {};
    }
    audit->report().context.push_back(last);
  }
  const double worst = std::abs(last.gain - 1);
  const bool good = worst <= kLargestGainError;
  AuditFinding& finding =
      audit->add(kName, "o", good ? AuditOutcome::kPassed : AuditOutcome::kFailed,
                 concat("gain of O at ", last.keys, " keys is off by ", amount(worst),
                        ", relative error ", amount(last.rel_l2)));
  finding.change = worst;
  finding.figures = {{"gain", last.gain}, {"rel_l2", last.rel_l2}};
  finding.reproduce += concat(" --context ", audit->options().context);
  if (!good) {
    finding.cause =
        "sums of P V are kept in few bits over the whole sequence (FP8 tensor cores "
        "truncate); move them to FP32 every tile";
  }
  return {};
}

}  // namespace flamia::audit
