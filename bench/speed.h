// How fast the passes, the quantizers and the work list are, beside what the machine can do.
// Used by: flamia bench train, forward, backward, quantize, worklist.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/figure_table.h"
#include "flamia/status.h"
#include "tools/attention_options.h"
#include "tools/progress.h"

namespace flamia::bench {

enum class TimedPass : uint8_t { kTrain, kForward, kBackward };

struct SpeedSettings {
  tools::AttentionArguments arguments;
  std::string workload;                     ///< in rows and tables; empty: documents and heads
  int repeat = 0;                           ///< the median counts; 0: as the benchmark sees fit
  std::string regimes = "burst,sustained";  ///< GPU: what the clock may do
  std::string passes;                       ///< GPU, forward: only these; empty: all

  int repetitions(int usual) const { return repeat > 0 ? repeat : usual; }
  /// "W1", or "4x4096 h16/16 d128".
  std::string workload_name() const;
};

/// Where the figures of one measurement go.
struct SpeedOutput {
  tools::Progress* progress;
  FigureTable* table;
  nlohmann::ordered_json* rows;  ///< one object a time, in the form of bench/README.md
};

/// Times a call on the CPU and adds one figure a pass: its time over that of single-precision GEMM
/// for the same multiply-adds (visible pairs only), measured before and after on as many threads.
Status measure_passes(TimedPass pass, const SpeedSettings& settings, const SpeedOutput& output);

/// Times every representation of every role of the path on the CPU: GB/s of input read and codes
/// and scales written, over that of memcpy on as many threads.
Status measure_quantizers(const SpeedSettings& settings, const SpeedOutput& output);

/// Times the parts of a forward call on the GPU, alone and together, once their results have been
/// compared with FP64. The memory of the call is noted beside them.
Status measure_gpu_forward(const SpeedSettings& settings, const SpeedOutput& output);

}  // namespace flamia::bench
