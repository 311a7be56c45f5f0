// Generated inputs: packed documents of BF16 rows drawn from N(0,1) and shaped like the hard cases
// of trained models.
// Depends on: Philox (base). Used by: attend, bench.
// Every value is a function of (seed, tensor, row, channel): thread count and machine change none.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "flamia/status.h"
#include "tools/host_tensor.h"

namespace flamia::tools {

/// One step on top of N(0,1).
struct DistributionPart {
  enum class Kind : uint8_t {
    /// sinks:DELTA. q += a u and k += a u in the first 4 keys of each document, where u is a random
    /// unit direction of the KV head and a * a * scale = DELTA: their logits rise by DELTA nats on
    /// average. A negative DELTA lowers them.
    kSinks,
    /// outliers:CHANNELS,GAIN. That many random channels of each head of K, times GAIN.
    kOutliers,
    /// vmean:MU. V and dO plus MU.
    kValueMean,
    /// heavy:DECADES. Rows of V and of dO times 10^x, x uniform over DECADES and centred at 0,
    /// drawn for each token and head.
    kHeavy,
  };
  Kind kind = Kind::kValueMean;
  double amount = 0;     ///< DELTA, GAIN, MU or DECADES
  int64_t channels = 0;  ///< of kOutliers
};

/// Steps in the order in which they apply; none is N(0,1) itself.
using Distribution = std::vector<DistributionPart>;

/// Reads "normal", "sinks:8", "outliers:4,48", "vmean:0.5", "heavy:3", joined by +; each kind once
/// at most. option names it in messages.
Status parse_distribution(std::string_view option, std::string_view text, Distribution* result);

struct WorkloadSpec {
  std::vector<int64_t> query_lengths;
  std::vector<int64_t> key_lengths;  ///< as many entries; empty: the same as query_lengths
  int32_t heads = 16;
  int32_t kv_heads = 16;
  int32_t head_dim = 128;
  uint64_t seed = 0;
  Distribution distribution;
  double softmax_scale = 0;  ///< used by sinks; 0 means 1 / sqrt(head_dim)
  int threads = 0;
};

/// Tensors of one attention call.
struct AttentionInputs {
  HostTensor q, k, v, d_o;
  HostTensor cu_seqlens_q;  ///< empty for batches
  HostTensor cu_seqlens_k;  ///< empty: the same as cu_seqlens_q
};

/// Cumulative lengths: I32, or I64 where tokens need it. Those of keys only if key_lengths are
/// given.
Status generate_lengths(const WorkloadSpec& spec, AttentionInputs* inputs);

/// Lengths and q, k, v [tokens, heads, head_dim] BF16, and dO if asked for. Refused: heads that are
/// no multiple of kv_heads, key lengths for another number of documents.
Status generate_inputs(const WorkloadSpec& spec, bool with_output_gradient,
                       AttentionInputs* inputs);

/// N(0,1) of the shape of q in BF16: the dO of inputs that came without one. The same values as
/// generate_inputs() draws for that seed.
Status generate_output_gradient(const HostTensor& q, uint64_t seed, int threads, HostTensor* d_o);

}  // namespace flamia::tools
