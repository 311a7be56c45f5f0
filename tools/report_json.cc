// The result of attend as one JSON object. Its keys are a contract.

#include <nlohmann/json.hpp>

#include "problem/names.h"
#include "tools/report.h"

namespace flamia::tools {

namespace {

using Json = nlohmann::ordered_json;

// Non-finite numbers have no JSON form; the library of the format writes null for them.
Json figure(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json output_json(const OutputAccuracy* accuracy) {
  const OutputAccuracy none;
  const OutputAccuracy& a = accuracy != nullptr ? *accuracy : none;
  return {{"cosine", figure(a.cosine)},
          {"row_cosine", figure(a.row_cosine)},
          {"rel_l2", figure(a.rel_l2)},
          {"max_abs", figure(a.max_abs)},
          {"gain", figure(a.gain)}};
}

const OutputAccuracy* pointer(const std::optional<OutputAccuracy>& accuracy) {
  return accuracy ? &*accuracy : nullptr;
}

Json outputs_json(const std::optional<Accuracy>& accuracy) {
  const Accuracy none;
  const Accuracy& a = accuracy ? *accuracy : none;
  return {{"o", output_json(accuracy ? &a.o : nullptr)},
          {"dq", output_json(pointer(a.dq))},
          {"dk", output_json(pointer(a.dk))},
          {"dv", output_json(pointer(a.dv))}};
}

std::optional<double> tflops(double flops, double ms) {
  constexpr double kTeraPerMilli = 1e9;
  if (ms <= 0) return std::nullopt;
  return flops / ms / kTeraPerMilli;
}

Json time_json(const AttendReport& report) {
  const PassTime backward = report.backward_time.value_or(PassTime());
  return {{"quantize", figure(quantize_time(report))},
          {"forward", report.forward_time.attention_ms},
          {"backward", report.backward_time ? Json(backward.attention_ms) : Json(nullptr)},
          {"total", report.forward_time.wall_ms + backward.wall_ms}};
}

Json speed_json(const AttendReport& report) {
  const PassTime backward = report.backward_time.value_or(PassTime());
  const double backward_flops = report.backward_time ? report.work.backward_flops : 0;
  const double total_ms = report.forward_time.wall_ms + backward.wall_ms;
  return {{"forward", figure(tflops(report.work.forward_flops, report.forward_time.attention_ms))},
          {"backward", figure(tflops(backward_flops, backward.attention_ms))},
          {"total", figure(tflops(report.work.forward_flops + backward_flops, total_ms))}};
}

Json leak_json(const std::optional<audit::LeakVerdict>& leak) {
  if (!leak || !leak->tested) return nullptr;
  return {{"passed", leak->passed},       {"o_reach", leak->o_reach},
          {"dq_reach", leak->dq_reach},   {"o_change", leak->o_change},
          {"dq_change", leak->dq_change}, {"dq_change_before_block", leak->dq_change_before_block},
          {"words", leak->words},         {"promise", leak->promise}};
}

}  // namespace

Json conventions_json(const Conventions& c) {
  return {{"family", name(c.family)},
          {"window_left", c.window_left},
          {"window_right", c.window_right},
          {"softmax_scale", c.softmax_scale},
          {"p_scale", c.p_scale},
          {"tau", c.tau},
          {"safety", name(c.safety)},
          {"determinism", name(c.determinism)},
          {"hadamard", name(c.hadamard)},
          {"kv_order", name(c.kv_order)},
          {"exponential", name(c.exponential)},
          {"row_sum", name(c.row_sum)},
          {"delta", name(c.delta)},
          {"accumulate", name(c.accumulate)},
          {"promote", name(c.promote)},
          {"score_accumulator", name(c.score_accumulator)},
          {"ds_format", name(c.ds_format)},
          {"grad_products", name(c.grad_products)},
          {"dq_accumulate", name(c.dq_accumulate)},
          {"dq_scale", name(c.dq_scale)}};
}

std::string report_json(const AttendReport& report) {
  const Problem& problem = report.problem;
  const std::optional<PassStatistics>& statistics = report.backward_statistics;
  const bool counted = statistics && statistics->ds_nonzero > 0;
  Json json;
  json["flamia"] = version();
  json["backend"] = report.backend;
  json["device"] = report.device;
  json["path"] = name(report.conventions.path);
  json["mask"] = mask_text(report.mask);
  json["conventions"] = conventions_json(report.conventions);
  json["kernels"] = report.kernels;
  json["tokens"] = problem.query_tokens;
  json["documents"] = problem.documents;
  json["heads"] = problem.heads;
  json["kv_heads"] = problem.kv_heads;
  json["head_dim"] = problem.head_dim;
  json["outputs"] = outputs_json(report.accuracy);
  json["lse_max_abs"] = report.accuracy ? figure(report.accuracy->lse_max_abs) : Json(nullptr);
  json["ds_flushed_fraction"] = counted ? Json(static_cast<double>(statistics->ds_flushed) /
                                               static_cast<double>(statistics->ds_nonzero))
                                        : Json(nullptr);
  json["ds_row_sum_residual"] = counted ? Json(statistics->ds_row_sum_residual) : Json(nullptr);
  json["ms"] = time_json(report);
  json["tflops"] = speed_json(report);
  json["oracle_rows"] = report.accuracy ? Json(report.accuracy->query_rows) : Json(nullptr);
  json["leak"] = leak_json(report.leak);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace flamia::tools
