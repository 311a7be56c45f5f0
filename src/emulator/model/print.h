// The counters and the prediction of one launch, for people and as JSON.
// Depends on: predict.h. Used by: cudart/statistics.cc, tests.
#pragma once

#include <string>
#include <string_view>

#include "emulator/model/predict.h"

namespace flamia::emulator::model {

struct LaunchShapeText {
  std::string_view kernel;
  std::string_view grid, block, cluster;  ///< "132x1x1"
};

/// A few lines: the prediction with its pipes, then a line for every role.
std::string launch_table(const LaunchShapeText& shape, const ChipRates& chip,
                         const LaunchCounters& launch, double scale);

/// The members "ctas", "counters", "tensor", "roles", "prediction" of a launch, without braces.
/// docs/virtual-gpu.md has the schema.
std::string launch_json(const ChipRates& chip, const LaunchCounters& launch, double scale,
                        std::string_view indent);

}  // namespace flamia::emulator::model
