// Attention calls for tests.
#include "tests/support/attention_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "numerics/bf16.h"
#include "tests/support/call_tensors.h"

namespace flamia::test {
namespace {

std::vector<int32_t> cumulative(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> result{0};
  for (const int32_t length : lengths) result.push_back(result.back() + length);
  return result;
}

std::vector<uint16_t> normal_values(int64_t count, std::mt19937_64* random) {
  std::normal_distribution<float> normal;
  std::vector<uint16_t> result(static_cast<size_t>(count));
  for (uint16_t& x : result) x = float_to_bf16(normal(*random));
  return result;
}

}  // namespace

Case::Case(const Shape& shape, uint64_t seed) : shape_(shape) {
  cu_q = cumulative(shape.lengths);
  cu_k = cumulative(shape.lengths_k.empty() ? shape.lengths : shape.lengths_k);
  query_tokens_ = cu_q.back() + shape.tail;
  key_tokens_ = cu_k.back() + shape.tail;
  std::mt19937_64 random(seed);
  const int64_t query_values = query_tokens_ * shape.heads * shape.dim;
  const int64_t key_values = key_tokens_ * shape.kv_heads * shape.dim;
  q_data = normal_values(query_values, &random);
  k_data = normal_values(key_values, &random);
  v_data = normal_values(key_values, &random);
  d_o_data = normal_values(query_values, &random);
}

Case Case::repeated(int times) const {
  Shape shape = shape_;
  shape.lengths.clear();
  shape.lengths_k.clear();
  shape.tail = 0;
  Case result(shape);
  const auto append = [times](auto* to, const auto& from) {
    to->reserve(from.size() * static_cast<size_t>(times));
    for (int time = 0; time < times; ++time) to->insert(to->end(), from.begin(), from.end());
  };
  append(&result.shape_.lengths, shape_.lengths);
  append(&result.shape_.lengths_k, shape_.lengths_k);
  result.cu_q = cumulative(result.shape_.lengths);
  result.cu_k =
      cumulative(shape_.lengths_k.empty() ? result.shape_.lengths : result.shape_.lengths_k);
  result.query_tokens_ = result.cu_q.back();
  result.key_tokens_ = result.cu_k.back();
  append(&result.q_data, q_data);
  append(&result.k_data, k_data);
  append(&result.v_data, v_data);
  return result;
}

Problem Case::problem() const {
  Problem problem;
  problem.query_tokens = query_tokens_;
  problem.key_tokens = key_tokens_;
  problem.documents = static_cast<int32_t>(shape_.lengths.size());
  problem.heads = shape_.heads;
  problem.kv_heads = shape_.kv_heads;
  problem.head_dim = shape_.dim;
  return problem;
}

uint16_t& Case::q(int64_t token, int head, int channel) {
  return q_data[static_cast<size_t>((token * shape_.heads + head) * shape_.dim + channel)];
}
uint16_t& Case::d_o(int64_t token, int head, int channel) {
  return d_o_data[static_cast<size_t>((token * shape_.heads + head) * shape_.dim + channel)];
}
uint16_t& Case::k(int64_t token, int head, int channel) {
  return k_data[static_cast<size_t>((token * shape_.kv_heads + head) * shape_.dim + channel)];
}
uint16_t& Case::v(int64_t token, int head, int channel) {
  return v_data[static_cast<size_t>((token * shape_.kv_heads + head) * shape_.dim + channel)];
}

void Case::scale_key_token(int64_t token, float factor) {
  for (int head = 0; head < shape_.kv_heads; ++head) {
    for (int c = 0; c < shape_.dim; ++c) {
      k(token, head, c) = float_to_bf16(bf16_to_float(k(token, head, c)) * factor);
      v(token, head, c) = float_to_bf16(bf16_to_float(v(token, head, c)) * factor);
    }
  }
}

void Case::fill_v(float value) {
  for (uint16_t& x : v_data) x = float_to_bf16(value);
}
void Case::add_to_v(float value) {
  for (uint16_t& x : v_data) x = float_to_bf16(bf16_to_float(x) + value);
}

ForwardTensors Case::forward_tensors() {
  ForwardTensors t;
  const std::vector<int64_t> queries{query_tokens_, shape_.heads, shape_.dim};
  const std::vector<int64_t> keys{key_tokens_, shape_.kv_heads, shape_.dim};
  t.q = dense_view(q_data.data(), DType::kBF16, queries);
  t.k = dense_view(k_data.data(), DType::kBF16, keys);
  t.v = dense_view(v_data.data(), DType::kBF16, keys);
  t.cu_seqlens_q = dense_view(cu_q.data(), DType::kI32, {static_cast<int64_t>(cu_q.size())});
  t.cu_seqlens_k = dense_view(cu_k.data(), DType::kI32, {static_cast<int64_t>(cu_k.size())});
  return t;
}

Outputs Case::run(const Options& options, bool with_backward) {
  constexpr uint16_t kNan = 0x7fff;
  const Problem shape = problem();
  Outputs out;
  out.o.assign(q_data.size(), kNan);
  std::vector<uint16_t> residual(q_data.size(), kNan);
  out.lse.assign(static_cast<size_t>(query_tokens_ * shape_.heads), std::nanf(""));
  ForwardTensors forward = forward_tensors();
  const std::vector<int64_t> queries{query_tokens_, shape_.heads, shape_.dim};
  forward.o = dense_view(out.o.data(), DType::kBF16, queries);
  forward.o_residual = dense_view(residual.data(), DType::kBF16, queries);
  forward.lse = dense_view(out.lse.data(), DType::kF32, {shape_.heads, query_tokens_});

  size_t bytes = 0;
  Status status = workspace_size(shape, options, Pass::kForward, &bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  AlignedBytes workspace(bytes);
  status = attention_forward(shape, options, forward, {workspace.as<void>(), bytes}, nullptr,
                             &out.conventions, &out.statistics);
  EXPECT_TRUE(status.ok()) << status.message();
  if (!with_backward || !status.ok()) return out;

  out.dq.assign(q_data.size(), kNan);
  out.dk.assign(k_data.size(), kNan);
  out.dv.assign(v_data.size(), kNan);
  BackwardTensors backward;
  backward.q = forward.q;
  backward.k = forward.k;
  backward.v = forward.v;
  backward.cu_seqlens_q = forward.cu_seqlens_q;
  backward.cu_seqlens_k = forward.cu_seqlens_k;
  backward.o = forward.o;
  backward.o_residual = forward.o_residual;
  backward.lse = forward.lse;
  backward.d_o = dense_view(d_o_data.data(), DType::kBF16, queries);
  const std::vector<int64_t> keys{key_tokens_, shape_.kv_heads, shape_.dim};
  backward.dq = dense_view(out.dq.data(), DType::kBF16, queries);
  backward.dk = dense_view(out.dk.data(), DType::kBF16, keys);
  backward.dv = dense_view(out.dv.data(), DType::kBF16, keys);
  status = workspace_size(shape, options, Pass::kBackward, &bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  AlignedBytes memory(bytes);
  status = attention_backward(shape, out.conventions, backward, {memory.as<void>(), bytes}, nullptr,
                              options.threads, &out.statistics);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

oracle::Result Case::reference(const Options& options, bool with_backward) {
  oracle::Settings settings;
  settings.backward = with_backward;
  oracle::Result result;
  const std::vector<int64_t> queries{query_tokens_, shape_.heads, shape_.dim};
  const double scale = options.softmax_scale.has_value()
                           ? static_cast<double>(*options.softmax_scale)
                           : 1.0 / std::sqrt(static_cast<double>(shape_.dim));
  const Status status =
      oracle::attention(problem(), options.mask, scale, forward_tensors(),
                        dense_view(d_o_data.data(), DType::kBF16, queries), settings, &result);
  EXPECT_TRUE(status.ok()) << status.message();
  return result;
}

std::vector<double> decoded(const std::vector<uint16_t>& bf16) {
  std::vector<double> result;
  result.reserve(bf16.size());
  for (const uint16_t x : bf16) result.push_back(static_cast<double>(bf16_to_float(x)));
  return result;
}

namespace {

struct Products {
  double actual_expected = 0;
  double actual_actual = 0;
  double expected_expected = 0;
  double difference = 0;
};

Products products(const std::vector<uint16_t>& actual, const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  Products p;
  for (size_t x = 0; x < actual.size(); ++x) {
    const auto a = static_cast<double>(bf16_to_float(actual[x]));
    p.actual_expected += a * expected[x];
    p.actual_actual += a * a;
    p.expected_expected += expected[x] * expected[x];
    p.difference += (a - expected[x]) * (a - expected[x]);
  }
  return p;
}

}  // namespace

double cosine(const std::vector<uint16_t>& actual, const std::vector<double>& expected) {
  const Products p = products(actual, expected);
  return p.actual_expected / std::sqrt(p.actual_actual * p.expected_expected);
}
double gain(const std::vector<uint16_t>& actual, const std::vector<double>& expected) {
  const Products p = products(actual, expected);
  return p.actual_expected / p.expected_expected;
}
double relative_error(const std::vector<uint16_t>& actual, const std::vector<double>& expected) {
  const Products p = products(actual, expected);
  return std::sqrt(p.difference / p.expected_expected);
}

Options options_of(Path path, MaskKind mask) {
  Options options;
  options.path = path;
  options.mask.kind = mask;
  return options;
}

const std::vector<Path>& all_paths() {
  static const std::vector<Path> paths{Path::kBf16, Path::kMxfp8, Path::kNvfp4, Path::kAll4Bit};
  return paths;
}

const char* path_name(Path path) {
  switch (path) {
    case Path::kBf16:
      return "bf16";
    case Path::kMxfp8:
      return "mxfp8";
    case Path::kNvfp4:
      return "nvfp4";
    case Path::kAll4Bit:
      return "all4bit";
  }
  return "?";
}

}  // namespace flamia::test
