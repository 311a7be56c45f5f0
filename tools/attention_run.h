// One measured attention call: outputs, conventions, statistics, times.
// Depends on: the public API. Used by: attend, bench.
#pragma once

#include <cstdint>

#include "flamia/attention.h"
#include "tools/host_tensor.h"
#include "tools/progress.h"
#include "tools/workload.h"

namespace flamia::tools {

struct AttentionOutputs {
  HostTensor o, o_residual, lse;
  HostTensor dq, dk, dv;  ///< empty without a backward pass
};

/// Milliseconds of one pass, of the repetition with the median wall time.
struct PassTime {
  double quantize_ms = 0;   ///< 0 where the backend does not tell the parts apart
  double attention_ms = 0;  ///< all of it where the backend does not tell the parts apart
  double wall_ms = 0;
};

struct AttentionRun {
  Conventions conventions;
  AttentionOutputs outputs;
  PassTime forward_time, backward_time;
  PassStatistics forward_statistics, backward_statistics;
};

struct RunSettings {
  bool backward = true;
  int repeat = 1;
};

/// Bytes of outputs and workspaces of a run, as far as the library can tell.
Status run_bytes(const Problem& problem, const Options& options, bool backward, double* bytes);

/// One forward call on tensors in host memory, through device memory.
Status forward_on_device(const Problem& problem, const Options& options,
                         const ForwardTensors& tensors, Conventions* conventions);

/// Runs the forward pass, and the backward pass with the forward's conventions. Outputs are filled
/// with NaN before, so that a row that nobody wrote is seen. Tensors of a GPU backend are copied to
/// and from its memory outside the measured times.
Status run_attention(const Problem& problem, const Options& options, const AttentionInputs& inputs,
                     const RunSettings& settings, Progress* progress, AttentionRun* run);

}  // namespace flamia::tools
