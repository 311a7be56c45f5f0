// flamia pcast recommend: sink gaps of a file's scores, what known kernels would lose on them, and
// what to change.

#include <fmt/format.h>

#include "pcast/verdict.h"
#include "problem/names.h"
#include "tools/atomic_file.h"
#include "tools/errors.h"
#include "tools/pcast_file.h"
#include "tools/pcast_runs.h"
#include "tools/progress.h"

namespace flamia::tools {

namespace {

using Json = nlohmann::ordered_json;
using pcast::CastKernel;
using pcast::KnownKernel;

// Row of known_kernels() that the others are compared with: reverse order, S = 256.
constexpr size_t kBestKernel = 0;

double of_rows(double sum, const HeadFigures& figures) {
  return sum / static_cast<double>(figures.rows);
}

pcast::CastOutcome outcome(const HeadFigures& figures, size_t kernel) {
  const HeadKernel& one = figures.kernels[kernel];
  pcast::CastOutcome result;
  result.zeroed_fraction = one.zeroed_fraction();
  result.lost_mass = of_rows(one.lost_mass, figures);
  result.saturated_fraction = one.saturated > 0 ? 1.0 : 0.0;
  const double best = figures.relative_error(kBestKernel);
  result.error_ratio = best > 0 ? figures.relative_error(kernel) / best : 1.0;
  return result;
}

std::string spread(const std::vector<double>& values) {
  const Mean average = mean(values);
  return fmt::format("{:>7.2f}{:>8.2f}{:>8.2f}", average.value, pcast::quantile(values, 0.05),
                     pcast::quantile(values, 0.95));
}

Json spread_json(const std::vector<double>& values) {
  double squares = 0;
  const Mean average = mean(values);
  for (const double value : values) squares += (value - average.value) * (value - average.value);
  return {{"mean", average.value},
          {"variance", squares / static_cast<double>(values.size())},
          {"quantile_05", pcast::quantile(values, 0.05)},
          {"median", pcast::quantile(values, 0.5)},
          {"quantile_95", pcast::quantile(values, 0.95)}};
}

void add_head(const HeadFigures& figures, const std::string& label, std::string* table) {
  *table += fmt::format("{:<5}{}  {}  {:>6.2f}{:>9.1f}{:>7.1f}{:>7.1f}{:>7.1f}%{:>7.1f}%\n", label,
                        spread(figures.sink_gap), spread(figures.other_top_gap),
                        mean(figures.deviation).value, figures.scores.quantile(0.01),
                        figures.scores.quantile(0.5), figures.scores.quantile(0.99),
                        100 * of_rows(static_cast<double>(figures.sink_is_largest), figures),
                        100 * of_rows(figures.sink_mass, figures));
}

void add_kernel(const HeadFigures& figures, size_t kernel, std::string* table) {
  const KnownKernel& known = pcast::known_kernels()[kernel];
  const HeadKernel& one = figures.kernels[kernel];
  const pcast::CastOutcome result = outcome(figures, kernel);
  *table += fmt::format("{:<25}{:<8}{:>4g}{:>9.2f}%{:>9.2f}%{:>9.4f}%{:>9.4f}%{:>10.5f}  {}\n",
                        known.name, pcast::order_name(known.kernel.order), known.kernel.scale,
                        100 * of_rows(one.closed_form, figures), 100 * result.zeroed_fraction,
                        100 * result.lost_mass, 100 * one.worst_lost_mass,
                        figures.relative_error(kernel), pcast::verdict_name(pcast::judge(result)));
}

Json kernel_json(const HeadFigures& figures, size_t kernel) {
  const KnownKernel& known = pcast::known_kernels()[kernel];
  const pcast::CastOutcome result = outcome(figures, kernel);
  const pcast::Verdict verdict = pcast::judge(result);
  return {{"name", known.name},
          {"order", pcast::order_name(known.kernel.order)},
          {"scale", known.kernel.scale},
          {"block", known.kernel.block},
          {"tau", known.kernel.tau},
          {"note", known.note},
          {"zeroed_closed_form", of_rows(figures.kernels[kernel].closed_form, figures)},
          {"zeroed", result.zeroed_fraction},
          {"lost_mass", result.lost_mass},
          {"worst_row_lost_mass", figures.kernels[kernel].worst_lost_mass},
          {"relative_error", figures.relative_error(kernel)},
          {"error_ratio", result.error_ratio},
          {"verdict", pcast::verdict_name(verdict)},
          {"advice", pcast::advice(verdict, known.kernel)}};
}

Json head_json(const HeadFigures& figures) {
  Json json;
  json["rows"] = figures.rows;
  json["sink_gap"] = spread_json(figures.sink_gap);
  json["largest_other_gap"] = spread_json(figures.other_top_gap);
  json["deviation"] = spread_json(figures.deviation);
  json["sink_is_largest"] = of_rows(static_cast<double>(figures.sink_is_largest), figures);
  json["sink_mass"] = of_rows(figures.sink_mass, figures);
  json["scores"] = {{"quantile_01", figures.scores.quantile(0.01)},
                    {"median", figures.scores.quantile(0.5)},
                    {"quantile_99", figures.scores.quantile(0.99)},
                    {"first_bin", -pcast::ScoreHistogram::kReach},
                    {"counts", figures.scores.units()}};
  for (size_t k = 0; k < figures.kernels.size(); ++k) {
    json["kernels"].push_back(kernel_json(figures, k));
  }
  return json;
}

// One line for each kernel that should change, with the worst head's verdict.
std::string changes(const FileFigures& figures, const HeadFigures& all) {
  std::string text;
  for (size_t k = 0; k < all.kernels.size(); ++k) {
    const KnownKernel& known = pcast::known_kernels()[k];
    const pcast::Verdict verdict = pcast::judge(outcome(all, k));
    size_t worst = 0;
    for (size_t h = 1; h < figures.heads.size(); ++h) {
      if (outcome(figures.heads[h], k).error_ratio > outcome(figures.heads[worst], k).error_ratio) {
        worst = h;
      }
    }
    const double ratio = outcome(figures.heads[worst], k).error_ratio;
    const std::string change = pcast::advice(verdict, known.kernel);
    if (change == pcast::advice(pcast::Verdict::kSafe, known.kernel)) continue;
    text += fmt::format("  {}: {} ({}; head {} errs {:.2f} times as much)\n", known.name, change,
                        pcast::verdict_words(verdict), worst, ratio);
  }
  return text;
}

}  // namespace

Status pcast_recommend(const RecommendArguments& arguments) {
  if (Status status = check_pcast_json(arguments.common); !status.ok()) return status;
  if (!arguments.common.json.empty() && same_file(arguments.common.json, arguments.file)) {
    return bad_input("--json must not be the input file; got {}", printable(arguments.common.json));
  }
  FileFigures figures;
  {
    Progress progress("pcast", ProgressMode::kIfTerminal);
    progress.phase("measurement");
    if (Status status = measure_file(arguments, &figures); !status.ok()) return status;
  }
  const HeadFigures all = figures.all();
  std::string table =
      fmt::format("{}\n{} mask, first {} keys of a document as sinks, {} rows measured",
                  figures.text, name(arguments.mask), arguments.sinks, all.rows);
  if (figures.skipped_documents > 0) {
    table += fmt::format(", {} documents too short", figures.skipped_documents);
  }
  table +=
      "\n\nGaps above the mean of the other keys, in nats\n"
      "        sink gap                  largest other key               scores (nats)      sink "
      "is  "
      "sink\n"
      "head    mean     5 %    95 %     mean     5 %    95 %   sd       1 %   50 %   99 %  largest "
      " "
      "mass\n";
  for (size_t head = 0; head < figures.heads.size(); ++head) {
    add_head(figures.heads[head], fmt::format("{}", head), &table);
  }
  if (figures.heads.size() > 1) add_head(all, "all", &table);
  table +=
      "\n                                      keys zeroed        probability zeroed   relative\n"
      "kernel                   order      S   closed  measured     mean  worst row   error  "
      "verdict\n";
  for (size_t k = 0; k < all.kernels.size(); ++k) add_kernel(all, k, &table);
  const std::string change = changes(figures, all);
  table += change.empty() ? "\nNothing to change: no kernel loses probability on these scores.\n"
                          : "\nWhat to change:\n" + change;

  Json json = pcast_json("recommend", arguments.common, 0);
  json["file"] = arguments.file;
  json["input"] = figures.text;
  json["mask"] = name(arguments.mask);
  json["sinks"] = arguments.sinks;
  json["skipped_documents"] = figures.skipped_documents;
  json["all"] = head_json(all);
  for (const HeadFigures& head : figures.heads) json["heads"].push_back(head_json(head));
  return publish(arguments.common, table, json);
}

}  // namespace flamia::tools
