// How fast the passes and the quantizers of the CPU backend are, beside what the machine can do.
// Used by: flamia bench train, forward, backward, quantize.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "bench/figure_table.h"
#include "flamia/status.h"
#include "tools/attention_options.h"
#include "tools/progress.h"

namespace flamia::bench {

enum class TimedPass : uint8_t { kTrain, kForward, kBackward };

struct SpeedSettings {
  tools::AttentionArguments arguments;
  int repeat = 5;  ///< the median counts
};

/// Times a call and adds one figure a pass: its time over that of single-precision GEMM for the
/// same multiply-adds (visible pairs only), measured before and after on as many threads.
/// rows: one object a pass in the form of bench/README.md.
Status measure_passes(TimedPass pass, const SpeedSettings& settings, tools::Progress* progress,
                      FigureTable* table, nlohmann::ordered_json* rows);

/// Times every representation of every role of the path: GB/s of input read and codes and scales
/// written, over that of memcpy on as many threads.
Status measure_quantizers(const SpeedSettings& settings, tools::Progress* progress,
                          FigureTable* table, nlohmann::ordered_json* rows);

}  // namespace flamia::bench
