// A generated attention call with its exact results.
// Used by: the groups of bench accuracy.
#pragma once

#include <cstdint>
#include <vector>

#include "flamia/attention.h"
#include "oracle/oracle.h"
#include "tools/workload.h"

namespace flamia::bench {

struct GeneratedCall {
  tools::AttentionInputs inputs;
  Problem problem;

  /// Tensors for spec, dO too.
  Status generate(const tools::WorkloadSpec& spec);
  /// Exact outputs for a mask.
  Status exact(const Mask& mask, bool backward, int threads, oracle::Result* result) const;
};

/// Equal documents, as many query heads as key heads, head_dim 128.
tools::WorkloadSpec documents_spec(int documents, int64_t length, int32_t heads, int threads);

/// Options of a path with exact accumulation and default choices.
Options path_options(Path path, MaskKind mask, Family family, int threads);

}  // namespace flamia::bench
