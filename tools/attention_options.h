// The options that attend, explain and audit share: what is computed, and how.
// Depends on: spellings of enums. Used by: attend, explain, audit.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "flamia/options.h"

namespace flamia::tools {

/// Where the tensors come from: a file, or a generated workload.
struct InputArguments {
  std::string input;  ///< empty: generate
  std::string documents = "4x4096";
  std::string key_documents;  ///< empty: as documents
  int32_t heads = 16;
  std::optional<int32_t> kv_heads;  ///< as heads when not given
  int32_t head_dim = 128;
  uint64_t seed = 0;
  std::string distribution = "normal";
  std::string generated_option;  ///< the last option given that only a workload has
};

struct AttentionArguments {
  InputArguments input;
  Options options;
  bool forward_only = false;
};

/// Adds every shared option. arguments must outlive the parse.
void add_attention_options(CLI::App& app, AttentionArguments* arguments);

/// Only how it is computed: for commands with inputs of their own.
void add_choice_options(CLI::App& app, AttentionArguments* arguments);

}  // namespace flamia::tools
