// The report of an audit as one JSON object.
#include "audit/report_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "flamia/attention.h"

namespace flamia::audit {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no infinity: null.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

/// Three digits are plenty for a picture, and keep the file small.
Json rounded(float x) {
  if (x == 0) return 0;
  if (!std::isfinite(x)) return nullptr;
  const double value = static_cast<double>(x);
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 2);
  return unit > 0 ? std::round(value / unit) * unit : value;
}

Json finding_json(const AuditFinding& finding) {
  Json json = {{"probe", finding.probe},
               {"tensor", finding.tensor},
               {"outcome", outcome_name(finding.outcome)},
               {"change", number(finding.change)},
               {"reach", finding.reach},
               {"words", finding.words},
               {"cause", finding.cause},
               {"reproduce", finding.reproduce},
               {"figures", Json::object()}};
  for (const AuditFigure& figure : finding.figures) {
    json["figures"][figure.name] = number(figure.value);
  }
  return json;
}

Json map_json(const LeakMap& map) {
  Json json = {{"tensor", map.tensor}, {"tokens", map.tokens}, {"rows", map.rows}};
  json["change"] = Json::array();
  for (size_t t = 0; t < map.tokens.size(); ++t) {
    Json row = Json::array();
    for (int64_t r = 0; r < map.rows; ++r) {
      row.push_back(
          rounded(map.change[t * static_cast<size_t>(map.rows) + static_cast<size_t>(r)]));
    }
    json["change"].push_back(std::move(row));
  }
  return json;
}

}  // namespace

std::string promise_words(const AuditPromise& promise) {
  std::string words = promise.shared_tokens > 0
                          ? "earlier rows change inside aligned blocks of " +
                                std::to_string(promise.shared_tokens) + " tokens only"
                          : "no earlier row changes";
  if (promise.dq_rounding) words += ", dQ also by the rounding of FP16 sums";
  if (promise.shared_queries > 0 && promise.shared_queries != promise.shared_tokens) {
    words += ", later rows of dK and dV inside blocks of " +
             std::to_string(promise.shared_queries) + " queries";
  }
  if (promise.deterministic) words += "; the same bits in every run";
  if (promise.packing_invariant) words += "; the same bits in every packing";
  return words;
}

std::string report_json(const AuditReport& report) {
  const AuditOptions& options = report.options;
  const AuditPromise& promise = options.promise;
  Json json = {{"flamia", version()},
               {"kind", "audit"},
               {"function", report.name},
               {"command", options.reproduce},
               {"seed", options.seed},
               {"tokens", options.tokens},
               {"context_keys", options.context},
               {"heads", options.heads},
               {"kv_heads", options.kv_heads},
               {"head_dim", options.head_dim},
               {"mask", options.causal ? "causal" : "full"},
               {"gradients", options.gradients},
               {"activations", options.activations.tokens > 0 ? "given" : "random"},
               {"promise",
                {{"shared_tokens", promise.shared_tokens},
                 {"dq_rounding", promise.dq_rounding},
                 {"deterministic", promise.deterministic},
                 {"packing_invariant", promise.packing_invariant},
                 {"zero_gaps", promise.zero_gaps},
                 {"shared_queries", promise.shared_queries},
                 {"p_step", promise.p_step},
                 {"flush_bits", promise.flush_bits},
                 {"delta_mismatch", promise.delta_mismatch},
                 {"words", promise_words(promise)}}},
               {"protocol", report.protocol},
               {"calls", report.calls},
               {"passed", report.passed}};
  json["findings"] = Json::array();
  for (const AuditFinding& finding : report.findings) {
    json["findings"].push_back(finding_json(finding));
  }
  json["leak_maps"] = Json::array();
  for (const LeakMap& map : report.leak_maps) json["leak_maps"].push_back(map_json(map));
  json["context"] = Json::array();
  for (const ContextPoint& point : report.context) {
    json["context"].push_back(
        {{"keys", point.keys}, {"gain", number(point.gain)}, {"rel_l2", number(point.rel_l2)}});
  }
  // Names and messages come from outside: bytes that are not UTF-8 are replaced, not fatal.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace flamia::audit
