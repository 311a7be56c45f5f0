// Where the tensors of an attention call come from: described first, loaded when the call is known
// to be possible.
// Depends on: tensor files, generated workloads. Used by: attend, explain.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "flamia/attention.h"
#include "tools/attention_options.h"
#include "tools/tensor_file.h"
#include "tools/workload.h"

namespace flamia::tools {

class InputSource {
 public:
  /// Reads the header of the file, or the grammar of the workload: shapes and lengths, no tensors.
  /// softmax_scale of the options shapes generated sinks.
  Status open(const InputArguments& arguments, const Options& options);

  /// Shapes of the call.
  const Problem& problem() const { return problem_; }
  /// Cumulative lengths; views without data where there are none.
  TensorView cu_seqlens_q() const { return inputs_.cu_seqlens_q.view(); }
  TensorView cu_seqlens_k() const { return inputs_.cu_seqlens_k.view(); }
  /// What a person wants to read: the file or the grammar, and the documents.
  std::string text() const;
  const std::map<std::string, std::string>& metadata() const { return file_.metadata(); }

  /// Reads or generates the tensors; dO only if asked for.
  Status load(bool with_output_gradient);
  /// Whether load() made up dO because the file has none.
  bool output_gradient_generated() const { return output_gradient_generated_; }
  const AttentionInputs& inputs() const { return inputs_; }

 private:
  Status open_file();
  Status open_workload(const Options& options);
  Status load_file(bool with_output_gradient);
  Status find_tensor(const char* name, const TensorInfo** tensor) const;
  Status read_lengths(const char* name, HostTensor* lengths) const;

  InputArguments arguments_;
  int threads_ = 0;
  TensorFile file_;
  WorkloadSpec workload_;
  Problem problem_;
  AttentionInputs inputs_;
  bool output_gradient_generated_ = false;
};

/// Views of q, k, v and the lengths for a forward call.
ForwardTensors forward_inputs(const AttentionInputs& inputs);

}  // namespace flamia::tools
