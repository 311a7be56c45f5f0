// What part of P the cast to E4M3 sets to zero, from the strength of a sink and the scale alone.
// Paper: P-Cast 3.2 (Proposition 1), 3.3 (Corollary 2), 4.1, 4.2 (Theorem 4), 7.2 (Delta_c).
// Scores are natural logarithms, N(0, 1) but for the sinks, which stand `sink` higher.
// Used by: predictions and tables of the pcast command.
#pragma once

#include <cstdint>

#include "numerics/e4m3.h"

namespace flamia::pcast {

enum class KeyOrder : uint8_t { kForward, kReverse };

/// The largest value that E4M3 rounds to zero is 2^-10: half its smallest code (a tie, to even).
constexpr int kZeroedLog2 = kE4m3MinExponent - kE4m3MantissaBits - 1;
static_assert(kZeroedLog2 == -10);

/// 10 ln 2 + ln S: a key whose score lies farther than this below the running maximum is zeroed.
double underflow_depth(double scale);

/// F(Delta, S) = Phi(Delta + delta_k - 10 ln 2 - ln S): the zeroed fraction of the keys that are no
/// sinks, in forward order. The maximum is taken at its mean (Corollary 2).
double zeroed_fraction(double sink, double scale, double sinks);

/// Delta_c = 10 ln 2 + ln S - delta_k, where F is one half.
double critical_sink(double scale, double sinks);

/// What a prediction depends on.
struct CastProblem {
  double sink = 7.0;
  double scale = 1.0;
  int64_t sinks = 4;
  int64_t keys = 4096;
  int64_t block = 64;
  KeyOrder order = KeyOrder::kForward;
};

/// As F, with the distribution of the running maximum in place of its mean, block by block, in
/// either order. The sinks are the first keys.
double zeroed_fraction_exact(const CastProblem& problem);

/// Probability mass of the keys that are no sinks, to leading order:
/// (N - k) / (N - k + k exp(Delta)).
double mass_at_risk(const CastProblem& problem);

/// Probability mass that the cast drops in forward order, to leading order: mass_at_risk times the
/// share of exp(s) below the threshold, Phi(Delta + delta_k - 10 ln 2 - ln S - 1). The paper's
/// "effective information loss" uses the fraction F of keys instead, which is larger: the zeroed
/// keys are the smallest.
double lost_mass(const CastProblem& problem);

/// Theorem 4: the chance that a key is zeroed before the sinks arrive, in reverse order, with the
/// maximum at its asymptotic value sqrt(2 ln N).
double reverse_underflow_bound(double scale, double keys);
/// The same at a given maximum.
double underflow_probability(double maximum, double scale);

}  // namespace flamia::pcast
