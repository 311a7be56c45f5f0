// The built program as a user runs it: exit codes, one-line errors, files complete or absent.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/program_runner.h"
#include "tests/tools/safetensors_bytes.h"
#include "tools/tensor_file.h"
#include "tools/workload.h"

namespace flamia::tools {
namespace {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

class Program : public testing::Test {
 protected:
  void SetUp() override {
    if (!program_is_built()) GTEST_SKIP() << "the program is not built: '" << program_path() << "'";
  }

  /// A small call, with further arguments.
  static Arguments small(const Arguments& more = {}, const std::string& command = "attend") {
    Arguments result = {command, "--docs",     "70+33", "--heads",   "2", "--kv-heads",
                        "1",     "--head-dim", "64",    "--threads", "2"};
    result.insert(result.end(), more.begin(), more.end());
    return result;
  }

  std::string write_input(const std::string& name, bool with_gradient) const {
    WorkloadSpec spec;
    spec.query_lengths = {40, 0, 25};
    spec.heads = 2;
    spec.kv_heads = 2;
    spec.head_dim = 64;
    AttentionInputs inputs;
    EXPECT_TRUE(generate_inputs(spec, true, &inputs).ok());
    std::vector<NamedTensor> tensors = {
        {"q", &inputs.q}, {"k", &inputs.k}, {"v", &inputs.v}, {"cu_seqlens", &inputs.cu_seqlens_q}};
    if (with_gradient) tensors.push_back({"do", &inputs.d_o});
    EXPECT_TRUE(write_tensor_file(folder_.path(name), tensors, {{"about", "a test"}}).ok());
    return folder_.path(name);
  }

  Json report(const std::string& name) const { return Json::parse(folder_.read(name)); }

  /// Exit code 2 and this one line.
  static void expect_refused(const Arguments& arguments, const std::string& line) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.err, line + "\n");
    EXPECT_EQ(result.out, "");
  }

  TemporaryFolder folder_;
};

TEST_F(Program, HelpsEverywhere) {
  for (const Arguments& arguments : {Arguments{"--help"},
                                     {"attend", "--help"},
                                     {"quantize", "--help"},
                                     {"explain", "--help"},
                                     {"info", "--help"},
                                     {"audit", "--help"},
                                     {"audit", "table5", "--help"},
                                     {"pcast", "--help"},
                                     {"pcast", "table2", "--help"},
                                     {"bench", "--help"},
                                     {"--version"}}) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 0) << arguments[0];
    EXPECT_NE(result.out, "");
    EXPECT_EQ(result.err, "");
  }
}

TEST_F(Program, RefusesBadUsageInOneLine) {
  expect_refused({"attend", "--path", "mxfp9"},
                 "flamia attend: --path must be bf16, mxfp8, nvfp4 or all4bit; got mxfp9");
  expect_refused({"attend", "--heads", "0"},
                 "flamia attend: --heads must be a whole number from 1 to 65536; got 0");
  expect_refused({"attend", "--tau", "1x"},
                 "flamia attend: --tau must be a number from -3.4028235e+38 to 3.4028235e+38; got "
                 "1x");
  expect_refused({"attend", "--mask", "window:3"},
                 "flamia attend: --mask must be causal, full or window:LEFT,RIGHT with -1 for "
                 "unlimited; got window:3");
  expect_refused({"attend", "--docs", "4y"},
                 "flamia attend: --docs must be lengths such as 4096 or 4x4096, joined by + or ,; "
                 "got 'y' at position 2 of '4y'");
  expect_refused({"attend", "--docs", "1,2", "--docs-k", "3"},
                 "flamia attend: --docs-k must have as many documents as --docs; got 1 and 2");
  expect_refused({"attend", "--check", "none", "--check-rows", "5"},
                 "flamia attend: --check-rows must not be given with --check none");
  for (const Arguments& arguments : {Arguments{"attend", "--what"},
                                     {"attend", "extra"},
                                     {"attend", "--path"},
                                     {"nothing"},
                                     {"quantize"},
                                     {"attend", "--input", "x", "--heads", "3"}}) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments.back();
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.err.rfind("flamia", 0), 0u) << result.err;
  }
  EXPECT_EQ(run_program({}).exit_code, 2);
}

TEST_F(Program, RefusesUnsupportedRequests) {
  for (const Arguments& more : {Arguments{"--head-dim", "96"},
                                {"--kv-heads", "3"},
                                {"--backend", "hopper"},
                                {"--p-scale", "256", "--tau", "4"},
                                {"--exp", "schraudolph"},
                                {"--scale", "nan"}}) {
    Arguments arguments = {"attend", "--docs", "8", "--heads", "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2) << more[0];
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "") << more[0];
  }
}

TEST_F(Program, AttendsOnEveryPath) {
  for (const char* path : {"bf16", "mxfp8", "nvfp4", "all4bit"}) {
    const ProgramResult result =
        run_program(small({"--path", path, "--report", folder_.path(path)}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    const Json json = report(path);
    EXPECT_EQ(json["path"], path);
    EXPECT_GT(json["outputs"]["o"]["cosine"], 0.95) << path;
    EXPECT_GT(json["outputs"]["dq"]["cosine"], 0.85) << path;
    EXPECT_EQ(json["oracle_rows"], 103);
    EXPECT_EQ(json["leak"]["passed"], true) << path;
    EXPECT_NE(result.out.find("GFLOP/s"), std::string::npos);
  }
}

TEST_F(Program, WritesOutputsOfTheRightShapes) {
  const std::string input = write_input("in", true);
  const std::string output = folder_.path("out");
  const ProgramResult result = run_program({"attend", "--input", input, "--output", output});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  TensorFile file;
  ASSERT_EQ(file.open(output).message(), "");
  using Shape = std::vector<int64_t>;
  for (const char* name : {"o", "dq", "dk", "dv"}) {
    ASSERT_NE(file.find(name), nullptr);
    EXPECT_EQ(file.find(name)->shape, (Shape{65, 2, 64}));
    EXPECT_EQ(file.find(name)->type, ElementType::kBF16);
  }
  EXPECT_EQ(file.find("lse")->shape, (Shape{2, 65}));
  EXPECT_EQ(file.find("lse")->type, ElementType::kF32);
  EXPECT_EQ(file.metadata().at("about"), "a test");
  EXPECT_EQ(folder_.names().size(), 2u) << "no temporary file is left";
}

TEST_F(Program, GivesTheSameForAnyThreadCount) {
  for (const char* threads : {"1", "3"}) {
    ASSERT_EQ(run_program({"attend", "--docs", "200+70", "--heads", "2", "--head-dim", "64",
                           "--check", "none", "--leak", "off", "--threads", threads, "--output",
                           folder_.path(threads)})
                  .exit_code,
              0);
  }
  EXPECT_TRUE(folder_.read("1") == folder_.read("3"));
}

TEST_F(Program, MakesUpAMissingOutputGradientAndSaysSo) {
  const std::string input = write_input("in", false);
  const ProgramResult result = run_program({"attend", "--input", input, "--seed", "5"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("not in the file: N(0,1) of seed 5"), std::string::npos);
  const ProgramResult forward = run_program({"attend", "--input", input, "--forward-only"});
  EXPECT_EQ(forward.exit_code, 0) << forward.err;
  EXPECT_EQ(forward.out.find("not in the file"), std::string::npos);
  EXPECT_EQ(forward.out.find("\ndQ "), std::string::npos);
}

TEST_F(Program, ChecksASampleOfRows) {
  const ProgramResult result =
      run_program(small({"--check-rows", "8", "--report", folder_.path("r")}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("a sample of 16 of 103 rows"), std::string::npos) << result.out;
  EXPECT_EQ(report("r")["oracle_rows"], 16);
}

TEST_F(Program, TakesKeysOfOtherLengths) {
  const ProgramResult result = run_program(
      {"attend", "--docs", "0,5,20", "--docs-k", "3,40,0", "--heads", "2", "--head-dim", "64"});
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
}

TEST_F(Program, DumpsQuantizedTensorsThatQuantizeGivesToo) {
  const std::string input = write_input("in", true);
  ASSERT_EQ(run_program({"attend", "--input", input, "--path", "nvfp4", "--check", "none",
                         "--dump-quantized", folder_.path("dump")})
                .exit_code,
            0);
  ASSERT_EQ(run_program({"quantize", "--input", input, "--tensor", "k", "--role", "k", "--recipe",
                         "nvfp4", "--axis", "d", "--output", folder_.path("one")})
                .exit_code,
            0);
  TensorFile dump;
  TensorFile one;
  ASSERT_EQ(dump.open(folder_.path("dump")).message(), "");
  ASSERT_EQ(one.open(folder_.path("one")).message(), "");
  for (const char* part : {"codes", "exp", "scales"}) {
    HostTensor a;
    HostTensor b;
    ASSERT_NE(one.find(part), nullptr) << part;
    ASSERT_TRUE(one.read(*one.find(part), &a).ok());
    const TensorInfo* dumped = dump.find(std::string("k_d_") + part);
    ASSERT_NE(dumped, nullptr) << part;
    ASSERT_TRUE(dump.read(*dumped, &b).ok());
    EXPECT_EQ(a.shape(), b.shape());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.bytes()), 0) << part;
  }
  EXPECT_EQ(one.find("codes")->shape, (std::vector<int64_t>{65, 2, 64}));
  EXPECT_EQ(one.find("exp")->shape, (std::vector<int64_t>{65, 2}));
  EXPECT_EQ(one.find("scales")->shape, (std::vector<int64_t>{65, 2, 4}));
}

TEST_F(Program, RefusesBrokenInput) {
  const std::string bad = folder_.write("bad", safetensors("{}", "x"));
  expect_refused({"attend", "--input", bad},
                 "flamia attend: " + bad + ": 1 bytes after the last tensor belong to no tensor");
  const std::string empty = folder_.write("empty", safetensors("{}", ""));
  expect_refused({"attend", "--input", empty},
                 "flamia attend: " + empty + ": tensor q must be there");
  expect_refused(
      {"quantize", "--input", empty, "--tensor", "x", "--role", "q", "--output", folder_.path("o")},
      "flamia quantize: " + empty + ": tensor x must be there");
}

TEST_F(Program, NeverOverwritesItsInput) {
  const std::string input = write_input("in", true);
  const std::string before = folder_.read("in");
  for (const char* option : {"--output", "--report", "--dump-quantized"}) {
    expect_refused({"attend", "--input", input, option, input}, std::string("flamia attend: ") +
                                                                    option +
                                                                    " must not be the input file; "
                                                                    "got " +
                                                                    input);
  }
  expect_refused(
      {"attend", "--input", input, "--output", folder_.path("a"), "--report", folder_.path("a")},
      "flamia attend: --output and --report must be different files; got " + folder_.path("a") +
          " twice");
  EXPECT_EQ(folder_.read("in"), before);
}

TEST_F(Program, FailsWhenItCannotWrite) {
  const ProgramResult full = run_program(small({"--output", "/dev/full"}));
  EXPECT_EQ(full.exit_code, 3);
  EXPECT_EQ(full.err, "flamia attend: /dev/full: writing failed: No space left on device\n");
  EXPECT_NE(full.out, "") << "the table is there all the same";

  ProgramLimits limits;
  limits.output_file = "/dev/full";
  EXPECT_EQ(run_program({"info"}, limits).exit_code, 3);
  EXPECT_EQ(run_program(small(), limits).exit_code, 3);

  limits = {};
  limits.file_bytes = 4096;  // enough for the table, not for the tensors
  const ProgramResult limited = run_program(small({"--output", folder_.path("out")}), limits);
  EXPECT_EQ(limited.exit_code, 3);
  EXPECT_EQ(limited.err,
            "flamia attend: " + folder_.path("out") + ": writing failed: File too large\n");
  EXPECT_TRUE(folder_.names().empty());
}

TEST_F(Program, ExplainsWithoutTensors) {
  const ProgramResult result = run_program(
      {"explain", "--docs", "64x131072", "--heads", "128", "--report", folder_.path("r")});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("64 documents of 131072 tokens"), std::string::npos);
  EXPECT_EQ(report("r")["path"], "mxfp8");
  const ProgramResult refused = run_program({"explain", "--head-dim", "96"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("head_dim must be"), std::string::npos) << refused.err;
  const ProgramResult inference = run_program({"explain", "--exp", "schraudolph"});
  EXPECT_EQ(inference.exit_code, 2);
  EXPECT_EQ(run_program({"explain", "--exp", "schraudolph", "--forward-only"}).exit_code, 0);
}

TEST_F(Program, TellsAboutItself) {
  const ProgramResult result = run_program({"info", "--report", folder_.path("r")});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("cpu         available"), std::string::npos) << result.out;
  EXPECT_EQ(report("r")["backends"]["cpu"], "available");
  EXPECT_EQ(report("r")["backends"]["auto"], "cpu");
}

TEST_F(Program, AuditPassesOnItsPromiseAndFailsBeyondIt) {
  const Arguments call = {"audit",
                          "--tokens",
                          "128",
                          "--heads",
                          "1",
                          "--head-dim",
                          "64",
                          "--threads",
                          "1",
                          "--probe",
                          "causal_leak,packing",
                          "--at",
                          "100"};
  Arguments with_json = call;
  with_json.insert(with_json.end(), {"--json", folder_.path("audit.json")});
  const ProgramResult good = run_program(with_json);
  EXPECT_EQ(good.exit_code, 0) << good.err;
  const Json json = report("audit.json");
  EXPECT_EQ(json["kind"], "audit");
  EXPECT_TRUE(json["passed"].get<bool>());
  EXPECT_EQ(json["promise"]["shared_tokens"], 32);

  Arguments offender = call;
  offender.insert(offender.end(), {"--offender", "tensor-amax"});
  const ProgramResult bad = run_program(offender);
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_NE(bad.out.find("again: flamia audit --offender tensor-amax --probe causal_leak"),
            std::string::npos)
      << bad.out;
}

/// Before inputs are made or anything runs.
TEST_F(Program, BenchRefusesAMissingGpu) {
  for (const char* what : {"forward", "quantize", "worklist"}) {
    const ProgramResult result =
        run_program({"bench", what, "--workload", "all", "--backend", "hopper"});
    EXPECT_EQ(result.exit_code, 2) << what;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err.rfind(std::string("flamia bench ") + what +
                                   ": resolve_conventions: backend must be cpu or auto on this "
                                   "machine; got hopper (",
                               0),
              0u)
        << result.err;
  }
  expect_refused({"bench", "worklist", "--backend", "cpu"},
                 "flamia bench worklist: --backend must be a GPU's for bench worklist; got cpu");
  expect_refused({"bench", "forward", "--workload", "W1,W0"},
                 "flamia bench forward: --workload must be lengths such as 4096 or 4x4096, joined "
                 "by + or ,; got 'W' at position 1 of 'W0'");
  expect_refused({"bench", "forward", "--regime", "burst,fast"},
                 "flamia bench: --regime must list burst,sustained; got burst,fast");
}

TEST_F(Program, AuditRefusesWhatItCannotProbe) {
  expect_refused({"audit", "--mask", "window:3,0"},
                 "flamia audit: --mask must be causal or full; got a window (probes know whole "
                 "documents)");
  expect_refused({"audit", "--heads", "3", "--kv-heads", "2"},
                 "flamia audit: --heads must be a multiple of --kv-heads; got 3 and 2");
  expect_refused({"audit", "--tokens", "12"},
                 "flamia audit: --tokens must be a whole number from 96 to 65536; got 12");
  for (const Arguments& arguments : {Arguments{"audit", "--probe", "leaks"},
                                     {"audit", "--offender", "nobody"},
                                     {"audit", "--input", folder_.path("missing")},
                                     {"audit", "--head-dim", "48"},
                                     {"audit", "--backend", "hopper"},
                                     {"audit", "--at", "600"}}) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments[1] << result.out;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

}  // namespace
}  // namespace flamia::tools
