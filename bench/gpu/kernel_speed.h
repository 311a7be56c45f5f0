// Times of single kernels that no public call runs alone. Part of builds with device code.
// Used by: flamia bench quantize, worklist on a GPU.
#pragma once

#include "bench/speed.h"
#include "flamia/status.h"

namespace flamia::bench {

/// The quantizer launch for Q, K and V together, for each set of outputs that a pass wants, beside
/// the rate of a copy in device memory. Blocks are compared with the CPU's quantizer first.
Status measure_gpu_quantizer(const SpeedSettings& settings, const SpeedOutput& output);

/// build_schedule(), once its lists have been compared with the CPU's. Latency: one build alone, in
/// a graph; stream and graph: builds back to back.
Status measure_gpu_work_list(const SpeedSettings& settings, const SpeedOutput& output);

}  // namespace flamia::bench
