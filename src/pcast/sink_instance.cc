// Random instances and their exact attention.

#include "pcast/sink_instance.h"

#include <cmath>

#include "base/bits.h"
#include "base/philox.h"
#include "numerics/online_softmax.h"
#include "pcast/matrix_product.h"

namespace flamia::pcast {

namespace {

// Streams of one seed.
enum : uint64_t { kQueryStream = 0, kKeyStream = 1, kValueStream = 2 };

// One row of `channels` normal values: entries depend on the row and channel alone.
void fill_row(uint64_t seed, uint64_t stream, int64_t row, int64_t channels, float* out) {
  const int64_t groups = ceil_div<int64_t>(channels, 4);
  for (int64_t group = 0; group < groups; ++group) {
    const Philox4 bits = philox(seed, stream, static_cast<uint64_t>(row * groups + group));
    const NormalPair a = normal_pair(bits.word[0], bits.word[1]);
    const NormalPair b = normal_pair(bits.word[2], bits.word[3]);
    const double values[4] = {a.first, a.second, b.first, b.second};
    for (int64_t i = 0; i < 4 && group * 4 + i < channels; ++i) {
      out[group * 4 + i] = static_cast<float>(values[i]);
    }
  }
}

}  // namespace

SinkInstance::SinkInstance(const InstanceShape& shape, uint64_t seed)
    : shape_(shape), stride_(round_up(shape.keys, kProductColumns)) {
  const int64_t channels = shape.channels;
  std::vector<float> q(static_cast<size_t>(shape.rows * channels));
  for (int64_t row = 0; row < shape.rows; ++row) {
    fill_row(seed, kQueryStream, row, channels, q.data() + row * channels);
  }
  // score_multiplier / sqrt(channels): base 2, folded into q, so that scores need no other pass.
  const float multiplier = score_multiplier(1.0f / std::sqrt(static_cast<float>(channels)));
  for (float& value : q) value *= multiplier;

  scores_.resize(static_cast<size_t>(shape.rows * stride_));
  v_.resize(static_cast<size_t>(shape.keys * channels));
  std::vector<float> key(static_cast<size_t>(channels));
  std::vector<float> keys(static_cast<size_t>(channels * kProductColumns));
  for (int64_t begin = 0; begin < stride_; begin += kProductColumns) {
    for (int64_t j = 0; j < kProductColumns; ++j) {
      if (begin + j < shape.keys) fill_row(seed, kKeyStream, begin + j, channels, key.data());
      for (int64_t c = 0; c < channels; ++c) {
        keys[static_cast<size_t>(c * kProductColumns + j)] = key[static_cast<size_t>(c)];
      }
    }
    multiply(q.data(), channels, keys.data(), kProductColumns, scores_.data() + begin, stride_,
             shape.rows, channels, kProductColumns);
  }
  for (int64_t j = 0; j < shape.keys; ++j) {
    fill_row(seed, kValueStream, j, channels, v_.data() + j * channels);
  }
}

ScoreRows SinkInstance::scores(int64_t sinks, double sink) const {
  ScoreRows rows;
  rows.scores = scores_.data();
  rows.stride = stride_;
  rows.rows = shape_.rows;
  rows.keys = shape_.keys;
  rows.sinks = sinks;
  rows.sink_raise = static_cast<float>(sink * kLog2EDouble);
  return rows;
}

SinkCase::SinkCase(const SinkInstance& instance, int64_t sinks, double sink)
    : instance_(instance),
      scores_(instance.scores(sinks, sink)),
      exact_(static_cast<size_t>(instance.shape().rows * instance.shape().channels)) {
  std::vector<double> masses(static_cast<size_t>(scores_.rows));
  run_exact(scores_, instance.v(), instance.shape().channels, exact_.data(), masses.data());
  for (const double mass : masses) other_mass_ += mass / static_cast<double>(scores_.rows);
}

KernelFigures SinkCase::run(const CastKernel& kernel) const {
  const int64_t channels = instance_.shape().channels;
  std::vector<float> o(exact_.size());
  std::vector<CastRow> rows(static_cast<size_t>(scores_.rows));
  run_cast_kernel(kernel, scores_, instance_.v(), channels, o.data(), rows.data());
  KernelFigures figures;
  for (size_t i = 0; i < o.size(); ++i) {
    const double error = static_cast<double>(o[i]) - exact_[i];
    figures.mse += error * error / static_cast<double>(o.size());
  }
  int64_t others = 0, zeroed = 0, saturated = 0;
  for (const CastRow& row : rows) {
    others += row.others;
    zeroed += row.zeroed;
    saturated += row.saturated;
    figures.lost_mass += row.lost_mass / static_cast<double>(rows.size());
  }
  figures.zeroed_fraction =
      others > 0 ? static_cast<double>(zeroed) / static_cast<double>(others) : 0;
  figures.saturated_fraction =
      static_cast<double>(saturated) / static_cast<double>(scores_.rows * scores_.keys);
  return figures;
}

}  // namespace flamia::pcast
