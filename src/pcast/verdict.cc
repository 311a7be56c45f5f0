// Verdicts on casts of P.

#include "pcast/verdict.h"

#include "base/message.h"
#include "numerics/p_hat.h"

namespace flamia::pcast {

namespace {

// The scale of every recommendation: the largest power of two that fits (Theorem 7).
constexpr float kBestScale = kHopperPHat.multiplier;

}  // namespace

Verdict judge(const CastOutcome& outcome) {
  if (outcome.saturated_fraction > 0) return Verdict::kSaturates;
  if (outcome.lost_mass >= kCollapseMass || outcome.error_ratio >= kCollapseRatio) {
    return Verdict::kCollapse;
  }
  if (outcome.error_ratio >= kRemarkedRatio) return Verdict::kLessPrecise;
  return outcome.zeroed_fraction >= kRemarkedZeros ? Verdict::kHarmlessZeros : Verdict::kSafe;
}

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSafe:
      return "safe";
    case Verdict::kLessPrecise:
      return "less precise";
    case Verdict::kHarmlessZeros:
      return "harmless zeros";
    case Verdict::kCollapse:
      return "collapse";
    case Verdict::kSaturates:
      break;
  }
  return "saturates";
}

const char* verdict_words(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSafe:
      return "next to no probability is cast to zero, and the rounding is that of S = 256";
    case Verdict::kLessPrecise:
      return "no collapse, but the output errs more than with S = 256";
    case Verdict::kHarmlessZeros:
      return "keys are cast to zero, but together they carry next to no probability";
    case Verdict::kCollapse:
      return "keys that are cast to zero carry probability that the output lacks";
    case Verdict::kSaturates:
      break;
  }
  return "P times S exceeds the largest code: the largest probabilities are clipped";
}

std::string advice(Verdict verdict, const CastKernel& kernel) {
  const std::string best = concat("S = ", kBestScale);
  switch (verdict) {
    case Verdict::kSafe:
    case Verdict::kHarmlessZeros:
      break;
    case Verdict::kLessPrecise:
      if (kernel.tau > 0) return concat("use ", best, " with tau = 0");
      return kernel.scale == kBestScale ? "no change" : concat("use ", best);
    case Verdict::kCollapse:
      if (kernel.tau > 0) return concat("use ", best, " with tau = 0");
      if (kernel.scale != kBestScale && kernel.order == KeyOrder::kForward) {
        return concat("use ", best, ", or visit key blocks in reverse order");
      }
      if (kernel.scale != kBestScale) return concat("use ", best);
      return kernel.order == KeyOrder::kForward ? "visit key blocks in reverse order"
                                                : "keep P in 16 bits: no static scale helps";
    case Verdict::kSaturates:
      return concat("use ", best);
  }
  return "no change";
}

}  // namespace flamia::pcast
