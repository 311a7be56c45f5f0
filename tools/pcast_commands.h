// What the subcommands of `flamia pcast` do, behind their options.
// Paper: P-Cast. Depends on: src/pcast. Used by: pcast.cc, tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "flamia/options.h"
#include "flamia/status.h"
#include "pcast/closed_form.h"

namespace flamia::tools {

struct PcastArguments {
  std::string json;
  std::optional<int32_t> seeds;  ///< default: as many as the paper took
  uint64_t first_seed = 0;
  int32_t threads = 0;
};

struct PredictArguments {
  PcastArguments common;
  pcast::CastProblem problem;
};

struct RecommendArguments {
  PcastArguments common;
  std::string file;
  MaskKind mask = MaskKind::kCausal;
  int32_t sinks = 4;
  int32_t rows = 512;  ///< of each document and head, evenly spread; 0: all
  std::optional<float> softmax_scale;
};

struct CodesArguments {
  PcastArguments common;
  std::string input;  ///< captured tensors to measure as well; empty: generated ones only
};

/// Each prints its table on standard output, then writes the JSON file if one is asked for. passed
/// becomes false if a figure misses the paper's by more than the tolerance; which one is marked in
/// the table and counted on standard error.
Status pcast_table1(const PcastArguments& arguments, bool* passed);
Status pcast_table2(const PcastArguments& arguments, bool* passed);
Status pcast_dp(const PcastArguments& arguments, bool* passed);
Status pcast_sweep(const PcastArguments& arguments, bool* passed);
Status pcast_appendix_b(const PcastArguments& arguments, bool* passed);
/// Here passed is about Mitchell-P on generated inputs; the paper does not specify Direct-P.
Status pcast_codes(const CodesArguments& arguments, bool* passed);
Status pcast_predict(const PredictArguments& arguments);
Status pcast_recommend(const RecommendArguments& arguments);

}  // namespace flamia::tools
