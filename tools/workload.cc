// Generated inputs: packed documents of BF16 rows.

#include "tools/workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "base/bits.h"
#include "base/philox.h"
#include "numerics/bf16.h"
#include "tools/errors.h"
#include "tools/parallel.h"

namespace flamia::tools {

namespace {

using Kind = DistributionPart::Kind;

// Streams of the random numbers. Adding one changes no other.
enum class Stream : uint64_t {
  kQ = 1,
  kK = 2,
  kV = 3,
  kDo = 4,
  kSinkDirection = 5,
  kOutlierChannel = 6,
  kMagnitudeV = 7,
  kMagnitudeDo = 8,
};

constexpr int kSinkKeys = 4;

void fill_normal(uint64_t seed, Stream stream, uint64_t row, std::span<double> values) {
  const uint64_t blocks = ceil_div<uint64_t>(values.size(), 4);
  for (uint64_t block = 0; block < blocks; ++block) {
    const Philox4 bits = philox(seed, static_cast<uint64_t>(stream), row * blocks + block);
    const NormalPair low = normal_pair(bits.word[0], bits.word[1]);
    const NormalPair high = normal_pair(bits.word[2], bits.word[3]);
    const double four[4] = {low.first, low.second, high.first, high.second};
    const size_t first = static_cast<size_t>(block) * 4;
    const size_t count = std::min<size_t>(4, values.size() - first);
    std::copy_n(four, count, values.begin() + static_cast<std::ptrdiff_t>(first));
  }
}

double uniform(uint64_t seed, Stream stream, uint64_t index) {
  return uniform_double(philox(seed, static_cast<uint64_t>(stream), index).word[0]);
}

// What all rows of a head share.
struct HeadShape {
  std::vector<double> sink_direction;  // of unit length
  std::vector<size_t> outlier_channels;
};

std::vector<HeadShape> head_shapes(const WorkloadSpec& spec) {
  std::vector<HeadShape> shapes(static_cast<size_t>(spec.kv_heads));
  const auto dim = static_cast<size_t>(spec.head_dim);
  for (size_t head = 0; head < shapes.size(); ++head) {
    std::vector<double>& direction = shapes[head].sink_direction;
    direction.resize(dim);
    fill_normal(spec.seed, Stream::kSinkDirection, head, direction);
    double norm =
        std::sqrt(std::inner_product(direction.begin(), direction.end(), direction.begin(), 0.0));
    for (double& value : direction) value /= norm;
    // A shuffle whose first channels are the outliers.
    std::vector<size_t>& channels = shapes[head].outlier_channels;
    channels.resize(dim);
    std::iota(channels.begin(), channels.end(), size_t{0});
    for (size_t i = 0; i + 1 < dim; ++i) {
      const double u = uniform(spec.seed, Stream::kOutlierChannel, head * dim + i);
      std::swap(channels[i], channels[i + static_cast<size_t>(u * static_cast<double>(dim - i))]);
    }
  }
  return shapes;
}

// True for the first keys of each document.
std::vector<bool> sink_tokens(const std::vector<int64_t>& lengths) {
  std::vector<bool> result;
  for (const int64_t length : lengths) {
    for (int64_t i = 0; i < length; ++i) result.push_back(i < kSinkKeys);
  }
  return result;
}

struct TensorPlan {
  Stream stream = Stream::kQ;
  Stream magnitude = Stream::kMagnitudeV;
  int64_t tokens = 0;
  int32_t heads = 0;
};

// Applies the distribution's steps to one row, in their order.
class RowShaper {
 public:
  RowShaper(const WorkloadSpec& spec, const std::vector<int64_t>& key_lengths)
      : spec_(spec), heads_(head_shapes(spec)), sinks_(sink_tokens(key_lengths)) {}

  void shape(const TensorPlan& plan, int64_t token, int32_t head, std::span<double> row) const {
    for (const DistributionPart& part : spec_.distribution) {
      switch (part.kind) {
        case Kind::kSinks:
          add_sink(plan, part, token, head, row);
          break;
        case Kind::kOutliers:
          if (plan.stream == Stream::kK) scale_outliers(part, head, row);
          break;
        case Kind::kValueMean:
          if (is_value(plan)) {
            for (double& value : row) value += part.amount;
          }
          break;
        case Kind::kHeavy:
          if (is_value(plan)) scale_magnitude(plan, part, token, head, row);
          break;
      }
    }
  }

 private:
  static bool is_value(const TensorPlan& plan) {
    return plan.stream == Stream::kV || plan.stream == Stream::kDo;
  }

  void add_sink(const TensorPlan& plan, const DistributionPart& part, int64_t token, int32_t head,
                std::span<double> row) const {
    const bool query = plan.stream == Stream::kQ;
    const bool key = plan.stream == Stream::kK && sinks_[static_cast<size_t>(token)];
    if (!query && !key) return;
    const int32_t kv_head = query ? head / (spec_.heads / spec_.kv_heads) : head;
    const double scale =
        spec_.softmax_scale > 0 ? spec_.softmax_scale : 1 / std::sqrt(spec_.head_dim);
    const double length = std::sqrt(std::fabs(part.amount) / scale);
    const double signed_length = key && part.amount < 0 ? -length : length;
    const std::vector<double>& u = heads_[static_cast<size_t>(kv_head)].sink_direction;
    for (size_t c = 0; c < row.size(); ++c) row[c] += signed_length * u[c];
  }

  void scale_outliers(const DistributionPart& part, int32_t head, std::span<double> row) const {
    const std::vector<size_t>& channels = heads_[static_cast<size_t>(head)].outlier_channels;
    const size_t count = std::min(static_cast<size_t>(part.channels), channels.size());
    for (size_t i = 0; i < count; ++i) row[channels[i]] *= part.amount;
  }

  void scale_magnitude(const TensorPlan& plan, const DistributionPart& part, int64_t token,
                       int32_t head, std::span<double> row) const {
    const auto index = static_cast<uint64_t>(token * plan.heads + head);
    const double x = part.amount * (uniform(spec_.seed, plan.magnitude, index) - 0.5);
    const double factor = std::pow(10.0, x);
    for (double& value : row) value *= factor;
  }

  const WorkloadSpec& spec_;
  std::vector<HeadShape> heads_;
  std::vector<bool> sinks_;
};

Status fill_tensor(const WorkloadSpec& spec, const TensorPlan& plan, const RowShaper& shaper,
                   HostTensor* tensor) {
  Status allocated =
      HostTensor::allocate(ElementType::kBF16, {plan.tokens, plan.heads, spec.head_dim}, tensor);
  if (!allocated.ok()) return allocated;
  constexpr int64_t kChunkTokens = 64;
  const auto dim = static_cast<size_t>(spec.head_dim);
  auto* const out = tensor->as<uint16_t>();
  parallel_chunks(plan.tokens, kChunkTokens, spec.threads,
                  [&](int64_t, int64_t begin, int64_t end) {
                    std::vector<double> row(dim);
                    for (int64_t token = begin; token < end; ++token) {
                      for (int32_t head = 0; head < plan.heads; ++head) {
                        const auto index = static_cast<uint64_t>(token * plan.heads + head);
                        fill_normal(spec.seed, plan.stream, index, row);
                        shaper.shape(plan, token, head, row);
                        uint16_t* to = out + index * dim;
                        for (size_t c = 0; c < dim; ++c) {
                          to[c] = float_to_bf16(static_cast<float>(row[c]));
                        }
                      }
                    }
                  });
  return Status();
}

Status cumulative_lengths(const std::vector<int64_t>& lengths, HostTensor* tensor) {
  const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const bool narrow = total <= INT32_MAX;
  const auto entries = static_cast<int64_t>(lengths.size()) + 1;
  Status allocated =
      HostTensor::allocate(narrow ? ElementType::kI32 : ElementType::kI64, {entries}, tensor);
  if (!allocated.ok()) return allocated;
  int64_t sum = 0;
  for (int64_t i = 0; i < entries; ++i) {
    if (narrow) {
      tensor->as<int32_t>()[i] = static_cast<int32_t>(sum);
    } else {
      tensor->as<int64_t>()[i] = sum;
    }
    if (i + 1 < entries) sum += lengths[static_cast<size_t>(i)];
  }
  return Status();
}

Status check_spec(const WorkloadSpec& spec) {
  if (spec.heads <= 0 || spec.kv_heads <= 0 || spec.head_dim <= 0) {
    return bad_input("heads, kv_heads and head_dim must be positive; got {}, {}, {}", spec.heads,
                     spec.kv_heads, spec.head_dim);
  }
  if (spec.heads % spec.kv_heads != 0) {
    return bad_input("heads must be a multiple of kv_heads; got {} and {}", spec.heads,
                     spec.kv_heads);
  }
  if (!spec.key_lengths.empty() && spec.key_lengths.size() != spec.query_lengths.size()) {
    return bad_input("key documents must be as many as query documents; got {} and {}",
                     spec.key_lengths.size(), spec.query_lengths.size());
  }
  for (const DistributionPart& part : spec.distribution) {
    if (part.kind == Kind::kOutliers && part.channels > spec.head_dim) {
      return bad_input("outliers must have at most head_dim channels; got {} of {}", part.channels,
                       spec.head_dim);
    }
  }
  return Status();
}

}  // namespace

Status generate_lengths(const WorkloadSpec& spec, AttentionInputs* inputs) {
  inputs->cu_seqlens_k = HostTensor();
  if (!spec.key_lengths.empty()) {
    Status status = cumulative_lengths(spec.key_lengths, &inputs->cu_seqlens_k);
    if (!status.ok()) return status;
  }
  return cumulative_lengths(spec.query_lengths, &inputs->cu_seqlens_q);
}

Status generate_inputs(const WorkloadSpec& spec, bool with_output_gradient,
                       AttentionInputs* inputs) {
  if (Status status = check_spec(spec); !status.ok()) return status;
  const std::vector<int64_t>& queries = spec.query_lengths;
  const std::vector<int64_t>& keys = spec.key_lengths.empty() ? queries : spec.key_lengths;
  const int64_t query_tokens = std::accumulate(queries.begin(), queries.end(), int64_t{0});
  const int64_t key_tokens = std::accumulate(keys.begin(), keys.end(), int64_t{0});
  const RowShaper shaper(spec, keys);

  const std::pair<TensorPlan, HostTensor*> tensors[] = {
      {{Stream::kQ, Stream::kMagnitudeV, query_tokens, spec.heads}, &inputs->q},
      {{Stream::kK, Stream::kMagnitudeV, key_tokens, spec.kv_heads}, &inputs->k},
      {{Stream::kV, Stream::kMagnitudeV, key_tokens, spec.kv_heads}, &inputs->v},
      {{Stream::kDo, Stream::kMagnitudeDo, query_tokens, spec.heads}, &inputs->d_o},
  };
  for (const auto& [plan, tensor] : tensors) {
    if (plan.stream == Stream::kDo && !with_output_gradient) continue;
    if (Status status = fill_tensor(spec, plan, shaper, tensor); !status.ok()) return status;
  }
  return generate_lengths(spec, inputs);
}

Status generate_output_gradient(const HostTensor& q, uint64_t seed, int threads, HostTensor* d_o) {
  Status allocated = HostTensor::allocate(ElementType::kBF16, q.shape(), d_o);
  if (!allocated.ok() || q.elements() == 0) return allocated;
  const int64_t dim = q.shape().back();
  auto* const out = d_o->as<uint16_t>();
  constexpr int64_t kChunkRows = 1024;
  parallel_chunks(q.elements() / dim, kChunkRows, threads,
                  [&](int64_t, int64_t begin, int64_t end) {
                    std::vector<double> row(static_cast<size_t>(dim));
                    for (int64_t index = begin; index < end; ++index) {
                      fill_normal(seed, Stream::kDo, static_cast<uint64_t>(index), row);
                      for (int64_t c = 0; c < dim; ++c) {
                        const double value = row[static_cast<size_t>(c)];
                        out[index * dim + c] = float_to_bf16(static_cast<float>(value));
                      }
                    }
                  });
  return Status();
}

}  // namespace flamia::tools
