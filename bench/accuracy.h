// The figures of accuracy that this library must reach, each measured against its target.
// Paper: 4.2, 4.3, A.3, A.4; the targets of each group are in its file.
// Used by: flamia bench accuracy.
#pragma once

#include <string>
#include <vector>

#include "bench/figure_table.h"
#include "flamia/options.h"
#include "flamia/status.h"
#include "tools/progress.h"

namespace flamia::bench {

struct AccuracySettings {
  bool quick = false;  ///< less data, looser targets: a check, not a measurement
  std::vector<Family> families = {Family::kHopper};
  std::string capture;  ///< a safetensors file with q, k, v, do of a trained model
  int threads = 0;
};

/// Cosines of O, dQ, dK, dV on N(0,1), every path and mask.
Status add_gaussian_figures(const AccuracySettings& settings, tools::Progress* progress,
                            FigureTable* table);
/// dK of documents beside one that is 1e4 times larger.
Status add_scaled_document_figures(const AccuracySettings& settings, tools::Progress* progress,
                                   FigureTable* table);
/// Causal leaks with every safety level.
Status add_leak_figures(const AccuracySettings& settings, tools::Progress* progress,
                        FigureTable* table);
/// Gain of O at long context with the tensor core's sums, promoted and not.
Status add_promotion_figures(const AccuracySettings& settings, tools::Progress* progress,
                             FigureTable* table);
/// Row sums of dS and what its quantization flushes.
Status add_ds_figures(const AccuracySettings& settings, tools::Progress* progress,
                      FigureTable* table);
/// Every path, with both choices of D, on the captured tensors. Does nothing without the file.
Status add_capture_figures(const AccuracySettings& settings, tools::Progress* progress,
                           FigureTable* table);

}  // namespace flamia::bench
