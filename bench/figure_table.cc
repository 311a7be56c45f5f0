// Measured figures beside their targets: one table for people, one list for files.
#include "bench/figure_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace flamia::bench {
namespace {

std::string target_text(const Figure& figure) {
  switch (figure.rule) {
    case Rule::kNear:
      return fmt::format("{} +-{:g}", number_text(figure.target), figure.tolerance);
    case Rule::kAtLeast:
      return ">= " + number_text(figure.target);
    case Rule::kAtMost:
      return "<= " + number_text(figure.target);
    case Rule::kNoted:
      break;
  }
  return figure.target == 0 ? "" : fmt::format("({})", number_text(figure.target));
}

const char* rule_name(Rule rule) {
  switch (rule) {
    case Rule::kNear:
      return "near";
    case Rule::kAtLeast:
      return "at_least";
    case Rule::kAtMost:
      return "at_most";
    case Rule::kNoted:
      break;
  }
  return "noted";
}

nlohmann::ordered_json number_or_null(double value) {
  if (std::isfinite(value)) return value;
  return nullptr;
}

}  // namespace

bool Figure::passed() const {
  switch (rule) {
    case Rule::kNear:
      return std::abs(measured - target) <= tolerance;
    case Rule::kAtLeast:
      return measured >= target;
    case Rule::kAtMost:
      return measured <= target;
    case Rule::kNoted:
      break;
  }
  return true;
}

std::string number_text(double value) {
  const double magnitude = std::abs(value);
  if (value == std::floor(value) && magnitude < 1e6) return fmt::format("{:.0f}", value);
  if (magnitude >= 0.01 && magnitude < 10) return fmt::format("{:.5f}", value);
  if (magnitude >= 10 && magnitude < 1e5) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2e}", value);
}

void FigureTable::add(Figure figure) { lines_.push_back({std::move(figure), "", {}}); }

void FigureTable::add(Series series) {
  Line line;
  line.figure.group = std::move(series.group);
  line.figure.name = std::move(series.name);
  line.values = std::move(series.values);
  lines_.push_back(std::move(line));
}

void FigureTable::note(const std::string& group, const std::string& text) {
  Line line;
  line.figure.group = group;
  line.note = text;
  lines_.push_back(std::move(line));
}

int FigureTable::failures() const {
  int count = 0;
  for (const Line& line : lines_) count += line.is_figure() && !line.figure.passed() ? 1 : 0;
  return count;
}

int FigureTable::verdicts() const {
  int count = 0;
  for (const Line& line : lines_) {
    count += line.is_figure() && line.figure.rule != Rule::kNoted ? 1 : 0;
  }
  return count;
}

std::string FigureTable::text() const {
  size_t width = 0;  // of the first column
  for (const Line& line : lines_) {
    width = std::max({width, line.figure.name.size() + 2, line.figure.group.size()});
  }
  std::string text;
  std::string group;
  for (const Line& line : lines_) {
    const Figure& figure = line.figure;
    if (figure.group != group) {
      group = figure.group;
      text += fmt::format("{}{:<{}}", text.empty() ? "" : "\n", group, width);
      if (line.values.empty()) text += fmt::format("{:>12}  target", "measured");
      for (const auto& [column, value] : line.values) text += fmt::format("{:>11}", column);
      text += "\n";
    }
    if (!line.values.empty()) {
      text += fmt::format("  {:<{}}", figure.name, width - 2);
      for (const auto& [column, value] : line.values) {
        text += fmt::format("{:>11}", number_text(value));
      }
      text += "\n";
      continue;
    }
    if (!line.note.empty()) {
      text += fmt::format("  {}\n", line.note);
      continue;
    }
    const char* verdict = figure.rule == Rule::kNoted ? "" : figure.passed() ? "pass" : "FAIL";
    const std::string row = fmt::format("  {:<{}}{:>12}  {:<18}{}", figure.name, width - 2,
                                        number_text(figure.measured), target_text(figure), verdict);
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

nlohmann::ordered_json FigureTable::rows() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Line& line : lines_) {
    if (!line.note.empty()) continue;
    const Figure& figure = line.figure;
    nlohmann::ordered_json row;
    if (!line.values.empty()) {
      row["kind"] = "series";
      row["group"] = figure.group;
      row["case"] = figure.name;
      for (const auto& [column, value] : line.values) row[column] = number_or_null(value);
      rows.push_back(row);
      continue;
    }
    const bool judged = figure.rule != Rule::kNoted;
    row["kind"] = "figure";
    row["group"] = figure.group;
    row["figure"] = figure.name;
    row["measured"] = number_or_null(figure.measured);
    row["rule"] = rule_name(figure.rule);
    row["target"] = judged || figure.target != 0 ? number_or_null(figure.target) : nullptr;
    row["tolerance"] = figure.rule == Rule::kNear ? number_or_null(figure.tolerance) : nullptr;
    row["passed"] = judged ? nlohmann::ordered_json(figure.passed()) : nullptr;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace flamia::bench
