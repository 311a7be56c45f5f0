// Simulation of the cast of P, block by block, for a few rows at once.

#include "pcast/cast_kernel.h"

#include <cmath>
#include <vector>

#include "base/bits.h"
#include "numerics/e4m3.h"
#include "numerics/online_softmax.h"
#include "pcast/matrix_product.h"

namespace flamia::pcast {

namespace {

int64_t visible_keys(const ScoreRows& scores, int64_t row) {
  return scores.visible == nullptr ? scores.keys : scores.visible[row];
}

// Partial sums in a fixed number of lanes: the compiler may use vectors, the order is fixed.
constexpr int64_t kLanes = 8;

float block_maximum(const float* x, int64_t count) {
  float result = -kFloatInfinity;
  for (int64_t j = 0; j < count; ++j) result = max_number(result, x[j]);
  return result;
}

float block_sum(const float* x, int64_t count) {
  float lanes[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    for (int64_t i = 0; i < kLanes; ++i) lanes[i] += x[j + i];
  }
  for (int64_t i = 0; j < count; ++i, ++j) lanes[i] += x[j];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// One row between blocks. Masses are kept relative to the running maximum, like the row sum.
struct RowState {
  float maximum = -kFloatInfinity;
  float row_sum = 0;
  double mass = 0;
  double other_mass = 0;
  double lost_mass = 0;
};

struct BlockBuffers {
  std::vector<float> x, p, p_cast;
};

// Lines 4 to 9 for `count` visible keys from `begin`; returns the factor of line 10.
float cast_block(const CastKernel& kernel, const ScoreRows& scores, int64_t row, int64_t begin,
                 int64_t count, BlockBuffers* buffers, float* p_cast, RowState* state,
                 CastRow* result) {
  float* x = buffers->x.data();
  float* p = buffers->p.data();
  const float* source = scores.scores + row * scores.stride + begin;
  for (int64_t j = 0; j < count; ++j) x[j] = source[j];
  const int64_t sinks = smaller(larger<int64_t>(scores.sinks - begin, 0), count);
  for (int64_t j = 0; j < sinks; ++j) x[j] += scores.sink_raise;

  const float maximum = next_row_max(state->maximum, block_maximum(x, count), kernel.tau);
  const float alpha = rescale_factor(state->maximum, maximum);
  for (int64_t j = 0; j < count; ++j) p[j] = exp2_exact(x[j] - maximum);
  for (int64_t j = 0; j < count; ++j) p_cast[j] = round_e4m3(p[j] * kernel.scale);

  double mass = 0, lost = 0, sink_mass = 0;
  for (int64_t j = 0; j < count; ++j) mass += static_cast<double>(p[j]);
  for (int64_t j = 0; j < sinks; ++j) sink_mass += static_cast<double>(p[j]);
  for (int64_t j = sinks; j < count; ++j) {
    const bool zeroed = p_cast[j] == 0.0f;
    result->zeroed += zeroed ? 1 : 0;
    lost += zeroed ? static_cast<double>(p[j]) : 0.0;
  }
  for (int64_t j = 0; j < count; ++j) {
    result->saturated += p[j] * kernel.scale > kE4m3Max ? 1 : 0;
  }
  result->others += count - sinks;
  const double factor = static_cast<double>(alpha);
  state->mass = state->mass * factor + mass;
  state->other_mass = state->other_mass * factor + (mass - sink_mass);
  state->lost_mass = state->lost_mass * factor + lost;
  const float sum =
      kernel.sum_cast_p ? block_sum(p_cast, count) / kernel.scale : block_sum(p, count);
  state->row_sum = state->row_sum * alpha + sum;
  state->maximum = maximum;
  return alpha;
}

}  // namespace

void run_cast_kernel(const CastKernel& kernel, const ScoreRows& scores, const float* v,
                     int64_t channels, float* o, CastRow* rows_out) {
  const int64_t rows = scores.rows;
  const int64_t blocks = ceil_div(scores.keys, kernel.block);
  BlockBuffers buffers;
  buffers.x.resize(static_cast<size_t>(kernel.block));
  buffers.p.resize(static_cast<size_t>(kernel.block));
  buffers.p_cast.resize(static_cast<size_t>(rows * kernel.block));
  std::vector<RowState> states(static_cast<size_t>(rows));
  std::vector<float> alpha(static_cast<size_t>(rows));
  std::vector<float> product(static_cast<size_t>(o != nullptr ? rows * channels : 0));
  for (int64_t row = 0; row < rows; ++row) rows_out[row] = CastRow();
  for (int64_t i = 0; o != nullptr && i < rows * channels; ++i) o[i] = 0.0f;

  for (int64_t visited = 0; visited < blocks; ++visited) {
    const int64_t block = kernel.order == KeyOrder::kForward ? visited : blocks - 1 - visited;
    const int64_t begin = block * kernel.block;
    const int64_t end = smaller(begin + kernel.block, scores.keys);
    for (int64_t row = 0; row < rows; ++row) {
      float* p_cast = buffers.p_cast.data() + row * kernel.block;
      const int64_t count = larger<int64_t>(0, smaller(visible_keys(scores, row), end) - begin);
      for (int64_t j = count; j < end - begin; ++j) p_cast[j] = 0.0f;
      const size_t r = static_cast<size_t>(row);
      alpha[r] = count == 0 ? 1.0f
                            : cast_block(kernel, scores, row, begin, count, &buffers, p_cast,
                                         &states[r], &rows_out[row]);
    }
    if (o == nullptr) continue;
    multiply(buffers.p_cast.data(), kernel.block, v + begin * channels, channels, product.data(),
             channels, rows, end - begin, channels);
    for (int64_t row = 0; row < rows; ++row) {
      const float factor = alpha[static_cast<size_t>(row)];
      const float* source = product.data() + row * channels;
      float* target = o + row * channels;
      for (int64_t c = 0; c < channels; ++c) target[c] = target[c] * factor + source[c];
    }
  }

  for (int64_t row = 0; row < rows; ++row) {
    const RowState& state = states[static_cast<size_t>(row)];
    CastRow& result = rows_out[row];
    result.row_sum = state.row_sum;
    if (state.mass > 0) {
      result.other_mass = state.other_mass / state.mass;
      result.lost_mass = state.lost_mass / state.mass;
    }
    const float divisor = kernel.scale * state.row_sum;
    for (int64_t c = 0; o != nullptr && divisor > 0 && c < channels; ++c) {
      o[row * channels + c] /= divisor;
    }
  }
}

void run_exact(const ScoreRows& scores, const float* v, int64_t channels, double* o,
               double* other_mass) {
  constexpr int64_t kBlock = 64;
  const int64_t rows = scores.rows;
  std::vector<double> maximum(static_cast<size_t>(rows), -INFINITY);
  const auto score = [&](int64_t row, int64_t key) {
    const float raise = key < scores.sinks ? scores.sink_raise : 0.0f;
    return static_cast<double>(scores.scores[row * scores.stride + key] + raise);
  };
  for (int64_t row = 0; row < rows; ++row) {
    double& top = maximum[static_cast<size_t>(row)];
    for (int64_t key = 0; key < visible_keys(scores, row); ++key) {
      top = larger(top, score(row, key));
    }
    other_mass[row] = 0;
  }
  std::vector<double> sum(static_cast<size_t>(rows), 0.0);
  std::vector<float> p(static_cast<size_t>(rows * kBlock));
  std::vector<float> product(static_cast<size_t>(o != nullptr ? rows * channels : 0));
  for (int64_t i = 0; o != nullptr && i < rows * channels; ++i) o[i] = 0;
  for (int64_t begin = 0; begin < scores.keys; begin += kBlock) {
    const int64_t end = smaller(begin + kBlock, scores.keys);
    for (int64_t row = 0; row < rows; ++row) {
      const size_t r = static_cast<size_t>(row);
      for (int64_t key = begin; key < end; ++key) {
        const bool visible = key < visible_keys(scores, row);
        const double value = visible ? std::exp2(score(row, key) - maximum[r]) : 0.0;
        p[r * kBlock + static_cast<size_t>(key - begin)] = static_cast<float>(value);
        sum[r] += value;
        if (key >= scores.sinks) other_mass[row] += value;
      }
    }
    if (o == nullptr) continue;
    multiply(p.data(), kBlock, v + begin * channels, channels, product.data(), channels, rows,
             end - begin, channels);
    for (int64_t i = 0; i < rows * channels; ++i) {
      o[i] += static_cast<double>(product[static_cast<size_t>(i)]);
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    const double total = sum[static_cast<size_t>(row)];
    if (!(total > 0)) continue;
    other_mass[row] /= total;
    for (int64_t c = 0; o != nullptr && c < channels; ++c) o[row * channels + c] /= total;
  }
}

}  // namespace flamia::pcast
