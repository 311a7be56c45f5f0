// The subcommands of pcast as a user runs them, with few seeds.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/program_runner.h"
#include "tools/tensor_file.h"
#include "tools/workload.h"

namespace flamia::tools {
namespace {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

class PcastCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (!program_is_built()) GTEST_SKIP() << "the program is not built: '" << program_path() << "'";
  }
  Json run(Arguments arguments, int expected_exit = 0) const {
    arguments.insert(arguments.begin(), "pcast");
    arguments.insert(arguments.end(), {"--json", folder_.path("report.json")});
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, expected_exit) << result.err;
    return Json::parse(folder_.read("report.json"));
  }
  static void expect_refused(const Arguments& arguments, const std::string& message) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err, message + "\n");
    EXPECT_EQ(result.out, "");
  }
  std::string sink_file(double sink, int64_t tokens) const {
    WorkloadSpec spec;
    spec.query_lengths = {tokens};
    spec.heads = 2;
    spec.kv_heads = 1;
    spec.distribution = {{DistributionPart::Kind::kSinks, sink, 0}};
    AttentionInputs inputs;
    EXPECT_TRUE(generate_inputs(spec, false, &inputs).ok());
    const std::string path = folder_.path("input.safetensors");
    EXPECT_TRUE(write_tensor_file(path,
                                  {{"q", &inputs.q},
                                   {"k", &inputs.k},
                                   {"v", &inputs.v},
                                   {"cu_seqlens", &inputs.cu_seqlens_q}},
                                  {})
                    .ok());
    return path;
  }

  TemporaryFolder folder_;
};

TEST_F(PcastCommand, DpHoldsEverywhere) {
  const Json report = run({"dp"});
  EXPECT_TRUE(report["passed"]);
  EXPECT_EQ(report["steps"].size(), 15);
  EXPECT_EQ(report["sawtooth"].size(), 1023);
}

TEST_F(PcastCommand, Table1IsTheSameOnEveryThreadCount) {
  run({"table1", "--seeds", "2", "--threads", "1"},
      run_program({"pcast", "table1", "--seeds", "2"}).exit_code);
  const std::string one = folder_.read("report.json");
  run({"table1", "--seeds", "2", "--threads", "2"},
      run_program({"pcast", "table1", "--seeds", "2"}).exit_code);
  EXPECT_EQ(one, folder_.read("report.json"));
}

TEST_F(PcastCommand, PredictsTheCollapseAndItsCure) {
  const Json collapse = run(
      {"predict", "--sink", "7", "--scale", "1", "--sinks", "4", "--keys", "4096", "--seeds", "2"});
  EXPECT_EQ(collapse["verdict"]["name"], "collapse");
  EXPECT_NEAR(collapse["closed_form"]["zeroed"], 0.864, 0.001);
  EXPECT_NEAR(collapse["simulated"]["zeroed"], 0.82, 0.06);
  const Json cured = run({"predict", "--scale", "256", "--order", "reverse", "--seeds", "1"});
  EXPECT_EQ(cured["verdict"]["name"], "safe");
  EXPECT_EQ(run({"predict", "--scale", "600", "--seeds", "1"})["verdict"]["name"], "saturates");
  EXPECT_FALSE(run({"predict", "--keys", "1000000"}).contains("simulated"));
}

TEST_F(PcastCommand, RecommendsAScaleWhereSinksZeroTheRest) {
  const Json report = run({"recommend", sink_file(8, 600)});
  const Json& all = report["all"];
  EXPECT_EQ(all["rows"], 2 * 512);
  // Delta and the expected largest of four scores, whose spread the sinks raise.
  EXPECT_NEAR(all["sink_gap"]["mean"], 9.5, 1.5);
  EXPECT_GT(all["sink_is_largest"], 0.95);
  const Json& prior = all["kernels"][2];
  EXPECT_EQ(prior["name"], "hpc-ops, prior");
  EXPECT_GT(prior["zeroed"], 0.8);
  EXPECT_NEAR(prior["zeroed"], prior["zeroed_closed_form"], 0.05);
  EXPECT_EQ(prior["verdict"], "collapse");
  EXPECT_NE(all["kernels"][0]["verdict"], "collapse");
}

TEST_F(PcastCommand, RefusesBadInputInOneLine) {
  expect_refused({"pcast", "recommend", folder_.path("none")},
                 "flamia pcast recommend: " + folder_.path("none") + ": No such file or directory");
  expect_refused({"pcast", "predict", "--sinks", "5", "--keys", "5"},
                 "flamia pcast: --sinks must be less than --keys; got 5 and 5");
  expect_refused({"pcast", "predict", "--order", "up"},
                 "flamia pcast: --order must be forward or reverse; got up");
  const std::string path = sink_file(0, 10);
  expect_refused({"pcast", "recommend", path},
                 "flamia pcast recommend: " + path +
                     ": a document must have rows that see 20 keys or more; none has");
}

TEST_F(PcastCommand, RefusesTensorsThatAreMissingOrNotFinite) {
  WorkloadSpec spec;
  spec.query_lengths = {40};
  spec.heads = spec.kv_heads = 1;
  AttentionInputs inputs;
  ASSERT_TRUE(generate_inputs(spec, false, &inputs).ok());
  const std::string path = folder_.path("bad.safetensors");
  std::vector<NamedTensor> tensors = {
      {"q", &inputs.q}, {"k", &inputs.k}, {"cu_seqlens", &inputs.cu_seqlens_q}};
  ASSERT_TRUE(write_tensor_file(path, tensors, {}).ok());
  expect_refused({"pcast", "recommend", path},
                 "flamia pcast recommend: " + path + ": tensor v must be there");
  tensors.push_back({"v", &inputs.v});
  inputs.v.as<uint16_t>()[5] = 0x7fc0;
  ASSERT_TRUE(write_tensor_file(path, tensors, {}).ok());
  expect_refused({"pcast", "recommend", path},
                 "flamia pcast recommend: " + path +
                     ": q, k and v must be finite; head 0 of document 0 gives scores or outputs "
                     "that are not");
}

}  // namespace
}  // namespace flamia::tools
