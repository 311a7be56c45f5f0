// Measured figures beside their targets: one table for people, one list for files.
// Used by: every benchmark.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace flamia::bench {

enum class Rule : uint8_t {
  kNear,     ///< |measured - target| <= tolerance
  kAtLeast,  ///< measured >= target
  kAtMost,   ///< measured <= target
  kNoted,    ///< no verdict; target is what a paper reports, 0 if nothing
};

struct Figure {
  std::string group;  ///< heading in the table, e.g. "cosines against FP64"
  std::string name;   ///< e.g. "mxfp8 causal O"
  double measured = 0;
  Rule rule = Rule::kNoted;
  double target = 0;
  double tolerance = 0;

  bool passed() const;
};

/// Figures of one case without a verdict, side by side.
struct Series {
  std::string group;
  std::string name;
  std::vector<std::pair<std::string, double>> values;  ///< column and value
};

class FigureTable {
 public:
  void add(Figure figure);
  /// Series of a group that follow each other must have the same columns.
  void add(Series series);
  /// A line below the group that is open, e.g. why a figure is missing.
  void note(const std::string& group, const std::string& text);

  /// Figures that have a verdict and failed it.
  int failures() const;
  /// Figures that have a verdict.
  int verdicts() const;
  std::string text() const;
  /// One object a figure: kind "figure", group, figure, measured, rule, target, tolerance, passed;
  /// one a series: kind "series", group, case, and its columns.
  nlohmann::ordered_json rows() const;

 private:
  struct Line {
    Figure figure;
    std::string note;                                    ///< instead of the figure
    std::vector<std::pair<std::string, double>> values;  ///< of a series, instead of the figure

    bool is_figure() const { return note.empty() && values.empty(); }
  };
  std::vector<Line> lines_;
};

/// 0.99880, 3.1e-04, 16: five decimals where they say enough.
std::string number_text(double value);

}  // namespace flamia::bench
