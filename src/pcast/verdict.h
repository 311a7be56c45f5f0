// What figures of a cast mean, in words, and what to change.
// Paper: P-Cast 3.3 (mass at risk), 7.3 (recommendations). The thresholds are ours.
// Used by: predict, recommend.
#pragma once

#include <cstdint>
#include <string>

#include "pcast/cast_kernel.h"

namespace flamia::pcast {

enum class Verdict : uint8_t {
  kSafe,           ///< next to nothing is zeroed and the step is the smallest
  kLessPrecise,    ///< little is lost, but the output errs more than with S = 256
  kHarmlessZeros,  ///< keys are zeroed; together they carry next to no probability
  kCollapse,       ///< zeroed keys carry probability, or the output error shows it
  kSaturates,      ///< the largest probabilities are clipped
};

/// What was measured or predicted of one kernel.
struct CastOutcome {
  double zeroed_fraction = 0;
  double lost_mass = 0;
  double saturated_fraction = 0;
  double error_ratio = 1;  ///< output error over that of reverse order with S = 256 (rms)
};

/// Probability that may vanish before we call it a collapse. An output of values with a mean is
/// wrong by this fraction of the mean; E4M3 rounds single probabilities by 2.7 % rms.
inline constexpr double kCollapseMass = 0.02;
/// Ratio of output errors that is a collapse whatever the lost mass is.
inline constexpr double kCollapseRatio = 1.25;
/// Keys that may be zeroed without a remark, and an error ratio that is worth one.
inline constexpr double kRemarkedZeros = 0.01;
inline constexpr double kRemarkedRatio = 1.02;

Verdict judge(const CastOutcome& outcome);

/// "safe", "less precise", "harmless zeros", "collapse", "saturates".
const char* verdict_name(Verdict verdict);
/// One sentence without figures.
const char* verdict_words(Verdict verdict);
/// What to change in this kernel; "no change" where nothing helps.
std::string advice(Verdict verdict, const CastKernel& kernel);

}  // namespace flamia::pcast
