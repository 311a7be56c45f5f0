// What the cast of P does to the real scores of a file, head by head and kernel by kernel.
// Paper: P-Cast 7.1, 7.3 (diagnosis of a given model). Depends on: tensor files, src/pcast.
// Used by: recommend.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pcast/known_kernels.h"
#include "pcast/score_statistics.h"
#include "tools/pcast_commands.h"

namespace flamia::tools {

/// One kernel on one head, over the measured rows.
struct HeadKernel {
  double closed_form = 0;  ///< zeroed fraction from the gaps alone, mean over rows
  int64_t others = 0;
  int64_t zeroed = 0;
  int64_t saturated = 0;
  double lost_mass = 0;        ///< sum over rows
  double worst_lost_mass = 0;  ///< of one row
  double error = 0;            ///< squared norm of the output's error

  double zeroed_fraction() const;
};

struct HeadFigures {
  int64_t rows = 0;
  int64_t sink_is_largest = 0;                             ///< rows whose maximum is at a sink
  double sink_mass = 0;                                    ///< sum over rows
  double output = 0;                                       ///< squared norm of the exact output
  std::vector<double> sink_gap, other_top_gap, deviation;  ///< [row]
  pcast::ScoreHistogram scores;
  std::vector<HeadKernel> kernels;  ///< as known_kernels()

  double relative_error(size_t kernel) const;
  void merge(const HeadFigures& other);
};

struct FileFigures {
  std::string text;  ///< the file and its documents
  std::vector<HeadFigures> heads;
  int64_t skipped_documents = 0;  ///< too short to have keys besides the sinks
  HeadFigures all() const;
};

/// Rows that see fewer keys than the sinks and this many others are left out: they have no
/// distribution to speak of.
inline constexpr int64_t kFewestOthers = 16;

/// Errors name the file and the tensor: missing, of another type or shape, not finite.
Status measure_file(const RecommendArguments& arguments, FileFigures* figures);

}  // namespace flamia::tools
