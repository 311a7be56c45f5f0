// One random instance of the paper's experiment: q, k, v ~ N(0, 1), a few sink tokens first.
// Paper: P-Cast 6.1, 6.3. Depends on: Philox (an instance is a function of its seed), cast_kernel.
// Used by: tables 1 and 2, sweeps, appendix B, predictions.
#pragma once

#include <cstdint>
#include <vector>

#include "pcast/cast_kernel.h"

namespace flamia::pcast {

struct InstanceShape {
  int64_t keys = 4096;
  int64_t rows = 32;       ///< query rows
  int64_t channels = 128;  ///< head_dim, a multiple of 16
};

/// Scores and values. An instance of fewer keys is the start of a longer one with the same seed.
class SinkInstance {
 public:
  SinkInstance(const InstanceShape& shape, uint64_t seed);

  const InstanceShape& shape() const { return shape_; }
  const float* v() const { return v_.data(); }
  /// Scores q k / sqrt(channels) in base 2; the first `sinks` of each row are raised by `sink`, in
  /// natural units.
  ScoreRows scores(int64_t sinks, double sink) const;

 private:
  InstanceShape shape_;
  int64_t stride_ = 0;
  std::vector<float> scores_;
  std::vector<float> v_;
};

/// Figures of one kernel on one instance, over all its rows.
struct KernelFigures {
  double mse = 0;              ///< against the exact output, mean over rows and channels
  double zeroed_fraction = 0;  ///< of the keys that are no sinks
  double lost_mass = 0;        ///< probability of the zeroed keys, mean over rows
  double saturated_fraction = 0;
};

/// An instance with a sink strength, and its exact attention.
class SinkCase {
 public:
  /// The instance must outlive the case.
  SinkCase(const SinkInstance& instance, int64_t sinks, double sink);

  /// Exact probability of the keys that are no sinks, mean over rows.
  double other_mass() const { return other_mass_; }
  KernelFigures run(const CastKernel& kernel) const;

 private:
  const SinkInstance& instance_;
  ScoreRows scores_;
  std::vector<double> exact_;
  double other_mass_ = 0;
};

}  // namespace flamia::pcast
