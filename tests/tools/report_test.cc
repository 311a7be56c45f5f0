// The JSON report has the keys of its contract; the table and the verdicts say what was found.
#include "tools/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/explanation.h"

namespace flamia::tools {
namespace {

using Json = nlohmann::ordered_json;

AttendReport forward_report() {
  AttendReport report;
  report.input = "generated, normal, seed 0: 2 documents of 64 tokens";
  report.problem.query_tokens = 128;
  report.problem.key_tokens = 128;
  report.problem.documents = 2;
  report.problem.heads = 4;
  report.problem.kv_heads = 2;
  report.problem.head_dim = 64;
  report.mask.kind = MaskKind::kCausal;
  report.backend = "cpu";
  report.device = "a processor";
  report.kernels = {"one", "two"};
  report.work.forward_flops = 4e9;
  report.work.backward_flops = 1e10;
  report.forward_time = {1, 2, 4};
  return report;
}

OutputAccuracy accuracy_of(double cosine) {
  OutputAccuracy a;
  a.cosine = cosine;
  a.row_cosine = cosine - 0.1;
  a.rel_l2 = 0.05;
  a.max_abs = 0.25;
  a.gain = 0.999;
  return a;
}

AttendReport full_report() {
  AttendReport report = forward_report();
  report.backward_time = PassTime{3, 5, 6};
  report.backward_statistics = PassStatistics{0, 0, 1000, 5, 2e-3};
  Accuracy accuracy;
  accuracy.o = accuracy_of(0.9);
  accuracy.dq = accuracy_of(0.8);
  accuracy.dk = accuracy_of(0.7);
  accuracy.dv = accuracy_of(0.6);
  accuracy.lse_max_abs = 0.125;
  accuracy.query_rows = 128;
  report.accuracy = accuracy;
  audit::LeakVerdict leak;
  leak.tested = true;
  leak.passed = true;
  leak.words = "no earlier row changes";
  leak.promise = "no earlier row changes";
  report.leak = leak;
  return report;
}

std::vector<std::string> keys(const Json& json) {
  std::vector<std::string> result;
  for (const auto& [key, value] : json.items()) result.push_back(key);
  return result;
}

using Keys = std::vector<std::string>;
const Keys kTopLevel = {"flamia",
                        "backend",
                        "device",
                        "path",
                        "mask",
                        "conventions",
                        "kernels",
                        "tokens",
                        "documents",
                        "heads",
                        "kv_heads",
                        "head_dim",
                        "outputs",
                        "lse_max_abs",
                        "ds_flushed_fraction",
                        "ds_row_sum_residual",
                        "ms",
                        "tflops",
                        "oracle_rows",
                        "leak"};

TEST(ReportJson, HasTheKeysOfTheContract) {
  for (const AttendReport& report : {forward_report(), full_report()}) {
    const Json json = Json::parse(report_json(report));
    EXPECT_EQ(keys(json), kTopLevel);
    EXPECT_EQ(keys(json["outputs"]), (Keys{"o", "dq", "dk", "dv"}));
    for (const char* output : {"o", "dq", "dk", "dv"}) {
      EXPECT_EQ(keys(json["outputs"][output]),
                (Keys{"cosine", "row_cosine", "rel_l2", "max_abs", "gain"}));
    }
    EXPECT_EQ(keys(json["ms"]), (Keys{"quantize", "forward", "backward", "total"}));
    EXPECT_EQ(keys(json["tflops"]), (Keys{"forward", "backward", "total"}));
  }
}

TEST(ReportJson, CarriesTheFigures) {
  const Json json = Json::parse(report_json(full_report()));
  EXPECT_EQ(json["path"], "mxfp8");
  EXPECT_EQ(json["mask"], "causal");
  EXPECT_EQ(json["kernels"], Json({"one", "two"}));
  EXPECT_EQ(json["outputs"]["dq"]["cosine"], 0.8);
  EXPECT_EQ(json["outputs"]["dv"]["gain"], 0.999);
  EXPECT_EQ(json["lse_max_abs"], 0.125);
  EXPECT_EQ(json["ds_flushed_fraction"], 0.005);
  EXPECT_EQ(json["ds_row_sum_residual"], 2e-3);
  EXPECT_EQ(json["ms"],
            Json({{"quantize", 4.0}, {"forward", 2.0}, {"backward", 5.0}, {"total", 10.0}}));
  EXPECT_DOUBLE_EQ(json["tflops"]["forward"], 2.0);
  EXPECT_DOUBLE_EQ(json["tflops"]["backward"], 2.0);
  EXPECT_DOUBLE_EQ(json["tflops"]["total"], 1.4);
  EXPECT_EQ(json["oracle_rows"], 128);
  EXPECT_EQ(json["leak"]["passed"], true);
}

TEST(ReportJson, IsNullWhereNothingWasComputed) {
  const Json json = Json::parse(report_json(forward_report()));
  EXPECT_TRUE(json["outputs"]["o"]["cosine"].is_null());
  EXPECT_TRUE(json["outputs"]["dk"]["max_abs"].is_null());
  EXPECT_TRUE(json["lse_max_abs"].is_null());
  EXPECT_TRUE(json["ds_flushed_fraction"].is_null());
  EXPECT_TRUE(json["ds_row_sum_residual"].is_null());
  EXPECT_TRUE(json["ms"]["backward"].is_null());
  EXPECT_TRUE(json["tflops"]["backward"].is_null());
  EXPECT_TRUE(json["oracle_rows"].is_null());
  EXPECT_TRUE(json["leak"].is_null());
}

TEST(ReportJson, IsNullWhereABackendDoesNotTellQuantizersApart) {
  AttendReport report = full_report();
  report.conventions.backend = BackendKind::kHopper;
  EXPECT_TRUE(Json::parse(report_json(report))["ms"]["quantize"].is_null());
  EXPECT_NE(report_table(report).find("quantize             -"), std::string::npos);
}

TEST(ReportJson, IsNullWhereAFigureIsNotFinite) {
  AttendReport report = full_report();
  report.accuracy->o.cosine = std::nan("");
  report.accuracy->lse_max_abs = std::numeric_limits<double>::infinity();
  const Json json = Json::parse(report_json(report));
  EXPECT_TRUE(json["outputs"]["o"]["cosine"].is_null());
  EXPECT_TRUE(json["lse_max_abs"].is_null());
}

TEST(ReportJson, NamesEveryConvention) {
  const Json json = conventions_json(Conventions());
  EXPECT_EQ(keys(json), (Keys{"family",    "window_left",   "window_right",  "softmax_scale",
                              "p_scale",   "tau",           "safety",        "determinism",
                              "hadamard",  "kv_order",      "exponential",   "row_sum",
                              "delta",     "accumulate",    "promote",       "score_accumulator",
                              "ds_format", "grad_products", "dq_accumulate", "dq_scale"}));
  EXPECT_EQ(json["row_sum"], "p_hat");
  EXPECT_EQ(json["grad_products"], "fp8");
}

TEST(ReportTable, SaysWhatAPersonWantsToKnow) {
  const std::string table = report_table(full_report());
  for (const char* part :
       {"2 documents of 64 tokens", "128 tokens, 4 heads, 2 KV heads, head_dim 64",
        "mxfp8 on cpu with the numbers of hopper, causal mask", "all 128 rows", "0.900000",
        "0.800000", "1.25e-01   nats", "0.5000 % of its non-zero entries", "residual 2.00e-03",
        "passed: no earlier row changes", "2000.00", "1400.00"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST(ReportTable, SaysWhatWasNotDone) {
  const std::string table = report_table(forward_report());
  EXPECT_NE(table.find("outputs were not compared"), std::string::npos);
  EXPECT_NE(table.find("not tested"), std::string::npos);
  EXPECT_EQ(table.find("backward"), std::string::npos);
  AttendReport sampled = full_report();
  sampled.accuracy->all_rows = false;
  sampled.accuracy->query_rows = 20;
  EXPECT_NE(report_table(sampled).find("a sample of 20 of 128 rows"), std::string::npos);
}

TEST(FailedChecks, AreNansInfinitiesAndLeaks) {
  EXPECT_TRUE(failed_checks(forward_report()).empty());
  AttendReport report = full_report();
  EXPECT_TRUE(failed_checks(report).empty());
  report.accuracy->dk->unexpected_nans = 3;
  report.accuracy->lse_max_abs = std::numeric_limits<double>::infinity();
  report.leak->passed = false;
  report.leak->words = "changes of O reach 5 positions back";
  EXPECT_EQ(failed_checks(report),
            (std::vector<std::string>{
                "dK has 3 values that are not finite where exact attention is",
                "LSE is infinite where exact attention is not, or the reverse",
                "a later token changed earlier rows: changes of O reach 5 positions back; "
                "promised: no earlier row changes"}));
}

TEST(FailedChecks, AreNoneWithoutAVerdict) {
  AttendReport report = full_report();
  report.leak->tested = false;
  report.leak->passed = false;
  EXPECT_TRUE(failed_checks(report).empty());
}

TEST(Explanation, IsReadAsLines) {
  const auto lines = explanation_lines("a: b\n\nno colon\nkernels: one, two: three\nlast: x");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], std::pair(std::string("a"), std::string("b")));
  EXPECT_EQ(lines[2], std::pair(std::string("last"), std::string("x")));
  EXPECT_EQ(kernel_names("a: b\nkernels: one, two: three\n"), (Keys{"one", "two: three"}));
  EXPECT_TRUE(kernel_names("a: b\n").empty());
}

}  // namespace
}  // namespace flamia::tools
