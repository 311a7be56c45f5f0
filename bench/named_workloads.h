// The packed and dense workloads that results name: W1 to W9, D1 to D3.
// Used by: flamia bench, with --workload. 16 query heads each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "flamia/status.h"
#include "tools/attention_options.h"

namespace flamia::bench {

struct NamedWorkload {
  std::string_view name;
  std::string_view documents;  ///< in the grammar of tools/document_list.h
  int32_t kv_heads = 16;
  bool causal_only = false;
};

inline constexpr int32_t kWorkloadHeads = 16;

/// One entry of a list of workloads.
struct WorkloadChoice {
  std::string name;       ///< as it was written
  std::string documents;  ///< in the grammar of tools/document_list.h
  int32_t kv_heads = kWorkloadHeads;
  bool causal_only = false;

  /// Puts documents and heads into the input of a call.
  void apply(tools::InputArguments* input) const;
};

/// Reads "W1,W5,4x4096" or "all": names, or documents without commas.
Status parse_workloads(std::string_view text, std::vector<WorkloadChoice>* choices);

}  // namespace flamia::bench
