// Whole attention calls on packed documents, with inputs that a test may edit before running.
// Used by: tests of the CPU backend, parity and properties.
#pragma once

#include <cstdint>
#include <vector>

#include "flamia/attention.h"
#include "oracle/oracle.h"

namespace flamia::test {

/// Documents of one call. lengths_k empty: keys have the lengths of the queries.
struct Shape {
  std::vector<int32_t> lengths;
  std::vector<int32_t> lengths_k;
  int heads = 1;
  int kv_heads = 1;
  int dim = 64;
  int tail = 0;  ///< rows past the last document
};

struct Outputs {
  std::vector<uint16_t> o, dq, dk, dv;
  std::vector<float> lse;
  PassStatistics statistics;
  Conventions conventions;
};

/// Inputs of a shape: N(0, 1) in BF16, the same for the same seed.
class Case {
 public:
  explicit Case(const Shape& shape, uint64_t seed = 1);

  /// This case's documents `times` times, one after the other; without d_o.
  Case repeated(int times) const;

  const Shape& shape() const { return shape_; }
  int64_t query_tokens() const { return query_tokens_; }
  int64_t key_tokens() const { return key_tokens_; }
  Problem problem() const;

  /// Element (token, head, channel) of an input.
  uint16_t& q(int64_t token, int head, int channel);
  uint16_t& k(int64_t token, int head, int channel);
  uint16_t& v(int64_t token, int head, int channel);
  uint16_t& d_o(int64_t token, int head, int channel);
  /// Multiplies the rows of one key token in k and v by factor.
  void scale_key_token(int64_t token, float factor);
  void fill_v(float value);
  void add_to_v(float value);

  /// Runs forward and, if asked, backward; fails the test on an error status. Output buffers start
  /// as NaN, so that unwritten entries show.
  Outputs run(const Options& options, bool with_backward = true);
  /// The FP64 reference on the same inputs.
  oracle::Result reference(const Options& options, bool with_backward = true);
  ForwardTensors forward_tensors();

  std::vector<uint16_t> q_data, k_data, v_data, d_o_data;
  std::vector<int32_t> cu_q, cu_k;

 private:
  Shape shape_;
  int64_t query_tokens_ = 0;
  int64_t key_tokens_ = 0;
};

/// Cosine of the flattened tensors.
double cosine(const std::vector<uint16_t>& actual, const std::vector<double>& expected);
/// <actual, expected> / <expected, expected>.
double gain(const std::vector<uint16_t>& actual, const std::vector<double>& expected);
/// |actual - expected| / |expected|.
double relative_error(const std::vector<uint16_t>& actual, const std::vector<double>& expected);
std::vector<double> decoded(const std::vector<uint16_t>& bf16);

Options options_of(Path path, MaskKind mask = MaskKind::kCausal);
const std::vector<Path>& all_paths();
const char* path_name(Path path);

}  // namespace flamia::test
