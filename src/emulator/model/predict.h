// How long a launch takes on a chip, from what its warps did: the slowest pipe decides.
// Depends on: counters.h, chips.h. Used by: print.cc, tests.
// The model knows throughput only. It ignores latency, dependencies, barriers, bank conflicts of
// registers, the L1, uneven CTAs and power limits: it says how fast the launch could be.
#pragma once

#include <string>
#include <vector>

#include "emulator/model/chips.h"

namespace flamia::emulator::model {

struct Bound {
  std::string pipe;
  double clocks = 0;
  Trust trust = Trust::kAssumed;
};

struct Prediction {
  uint64_t ctas = 0;        ///< after scaling
  uint64_t ctas_of_sm = 0;  ///< of the busiest SM, one after the other or together
  double clocks = 0;        ///< of the slowest pipe
  double clock_ghz = 0;
  double microseconds = 0;    ///< with the start of the launch
  std::vector<Bound> bounds;  ///< slowest first; those above zero
};

/// scale: the launch that is predicted has so many times as many equal CTAs.
Prediction predict(const ChipRates& chip, const LaunchCounters& launch, double scale = 1);

/// The same as if only these warps had run: what bounds a role.
Prediction predict_role(const ChipRates& chip, const LaunchCounters& launch, const Role& role,
                        double scale = 1);

/// Clocks of the tensor cores of one SM for a sum over SMs.
double tensor_clocks(const ChipRates& chip, const TensorCount& count);

}  // namespace flamia::emulator::model
