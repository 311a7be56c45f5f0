// The result of attend as a table for a person.

#include <fmt/format.h>

#include <cmath>

#include "problem/names.h"
#include "tools/report.h"

namespace flamia::tools {

namespace {

constexpr const char* kUnknown = "-";

// The sign of a NaN means nothing.
std::string fixed(const std::optional<double>& value, int digits) {
  if (value && std::isnan(*value)) return "nan";
  if (value && std::fabs(*value) >= 1e3)
    return fmt::format("{:.2e}", *value);  // keeps columns apart
  return value ? fmt::format("{:.{}f}", *value, digits) : kUnknown;
}
std::string scientific(const std::optional<double>& value) {
  if (value && std::isnan(*value)) return "nan";
  return value ? fmt::format("{:.2e}", *value) : kUnknown;
}

void add_line(std::string* table, const char* label, const std::string& text) {
  *table += fmt::format("{:<12}{}\n", label, text);
}

std::string shape_line(const Problem& problem) {
  std::string text = fmt::format("{} tokens", problem.query_tokens);
  if (problem.key_tokens != problem.query_tokens) {
    text += fmt::format(", {} key tokens", problem.key_tokens);
  }
  if (problem.batch > 0) text += fmt::format(", batch of {}", problem.batch);
  return text + fmt::format(", {} heads, {} KV heads, head_dim {}", problem.heads, problem.kv_heads,
                            problem.head_dim);
}

std::string path_line(const AttendReport& report) {
  const Conventions& c = report.conventions;
  std::string text = fmt::format("{} on {}", name(c.path), report.backend);
  if (report.backend == name(BackendKind::kCpu)) {
    text += fmt::format(" with the numbers of {}", name(c.family));
  }
  text += fmt::format(", {} mask, {} safety, Hadamard {}", mask_text(report.mask), name(c.safety),
                      name(c.hadamard));
  if (c.path != Path::kBf16) text += fmt::format(", P scale {:g}, tau {:g}", c.p_scale, c.tau);
  return text;
}

void add_output(std::string* table, const char* label,
                const std::optional<OutputAccuracy>& accuracy) {
  if (!accuracy) return;
  *table += fmt::format("{:<12}{:>10}{:>12}{:>11}{:>11}{:>10}\n", label, fixed(accuracy->cosine, 6),
                        fixed(accuracy->row_cosine, 6), scientific(accuracy->rel_l2),
                        scientific(accuracy->max_abs), fixed(accuracy->gain, 5));
}

void add_accuracy(std::string* table, const AttendReport& report) {
  if (!report.accuracy) {
    add_line(table, "check", "none: outputs were not compared");
    return;
  }
  const Accuracy& accuracy = *report.accuracy;
  add_line(table, "check",
           accuracy.all_rows
               ? fmt::format("FP64 oracle, all {} rows of every head", accuracy.query_rows)
               : fmt::format("FP64 oracle, a sample of {} of {} rows of every head",
                             accuracy.query_rows, report.problem.query_tokens));
  *table += fmt::format("\n{:<12}{:>10}{:>12}{:>11}{:>11}{:>10}\n", "output", "cosine",
                        "row cosine", "rel L2", "max abs", "gain");
  add_output(table, "O", accuracy.o);
  add_output(table, "dQ", accuracy.dq);
  add_output(table, "dK", accuracy.dk);
  add_output(table, "dV", accuracy.dv);
  *table += fmt::format("{:<12}{:>10}{:>12}{:>11}{:>11}   nats\n", "LSE", "", "", "",
                        scientific(accuracy.lse_max_abs));
}

void add_gradient_figures(std::string* table, const AttendReport& report) {
  const std::optional<PassStatistics>& statistics = report.backward_statistics;
  if (!statistics || statistics->ds_nonzero == 0) return;
  const double flushed =
      static_cast<double>(statistics->ds_flushed) / static_cast<double>(statistics->ds_nonzero);
  constexpr double kPercent = 100;
  add_line(table, "dS flushed",
           fmt::format("{:.4f} % of its non-zero entries", flushed * kPercent));
  add_line(table, "dS row sums", "residual " + scientific(statistics->ds_row_sum_residual));
}

void add_leak(std::string* table, const AttendReport& report) {
  if (!report.leak) {
    add_line(table, "causal leak", "not tested");
    return;
  }
  const audit::LeakVerdict& leak = *report.leak;
  if (!leak.tested) {
    add_line(table, "causal leak", leak.words);
    return;
  }
  add_line(table, "causal leak",
           fmt::format("{}: {}", leak.passed ? "passed" : "FAILED", leak.words));
  add_line(table, "", fmt::format("promised: {}", leak.promise));
}

void add_time(std::string* table, const char* label, std::optional<double> ms, double flops) {
  constexpr double kGigaPerMilli = 1e6;
  const std::string speed =
      flops > 0 && ms > 0.0 ? fmt::format("{:.2f}", flops / *ms / kGigaPerMilli) : kUnknown;
  const std::string time = ms ? fmt::format("{:.2f}", *ms) : kUnknown;
  *table += fmt::format("{:<12}{:>10}{:>12}\n", label, time, speed);
}

void add_times(std::string* table, const AttendReport& report) {
  const PassTime backward = report.backward_time.value_or(PassTime());
  const double backward_flops = report.backward_time ? report.work.backward_flops : 0;
  *table += fmt::format("\n{:<12}{:>10}{:>12}", "pass", "ms", "GFLOP/s");
  *table += report.repeat > 1 ? fmt::format("   median of {}\n", report.repeat) : "\n";
  add_time(table, "quantize", quantize_time(report), 0);
  add_time(table, "forward", report.forward_time.attention_ms, report.work.forward_flops);
  if (report.backward_time) {
    add_time(table, "backward", backward.attention_ms, backward_flops);
  }
  add_time(table, "total", report.forward_time.wall_ms + backward.wall_ms,
           report.work.forward_flops + backward_flops);
}

}  // namespace

std::optional<double> quantize_time(const AttendReport& report) {
  if (report.conventions.backend != BackendKind::kCpu) return std::nullopt;
  const PassTime backward = report.backward_time.value_or(PassTime());
  return report.forward_time.quantize_ms + backward.quantize_ms;
}

std::vector<std::string> failed_checks(const AttendReport& report) {
  std::vector<std::string> failures;
  const auto check_nans = [&](const char* label, int64_t count) {
    if (count == 0) return;
    failures.push_back(
        fmt::format("{} has {} values that are not finite where exact attention is", label, count));
  };
  if (report.accuracy) {
    const Accuracy& accuracy = *report.accuracy;
    check_nans("O", accuracy.o.unexpected_nans);
    check_nans("LSE", accuracy.lse_unexpected_nans);
    if (accuracy.dq) check_nans("dQ", accuracy.dq->unexpected_nans);
    if (accuracy.dk) check_nans("dK", accuracy.dk->unexpected_nans);
    if (accuracy.dv) check_nans("dV", accuracy.dv->unexpected_nans);
    if (accuracy.lse_max_abs && std::isinf(*accuracy.lse_max_abs)) {
      failures.emplace_back("LSE is infinite where exact attention is not, or the reverse");
    }
  }
  if (report.leak && report.leak->tested && !report.leak->passed) {
    failures.push_back(fmt::format("a later token changed earlier rows: {}; promised: {}",
                                   report.leak->words, report.leak->promise));
  }
  return failures;
}

std::string report_table(const AttendReport& report) {
  std::string table = fmt::format("flamia {} attend\n", version());
  add_line(&table, "input", report.input);
  add_line(&table, "shape", shape_line(report.problem));
  if (report.output_gradient_generated) {
    add_line(&table, "dO", fmt::format("not in the file: N(0,1) of seed {}", report.seed));
  }
  add_line(&table, "path", path_line(report));
  add_line(&table, "device", report.device);
  add_accuracy(&table, report);
  table += "\n";
  add_gradient_figures(&table, report);
  add_leak(&table, report);
  add_times(&table, report);
  return table;
}

}  // namespace flamia::tools
