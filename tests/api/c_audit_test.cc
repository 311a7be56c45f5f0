// The audit through C: callbacks, refusals, the report.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "flamia/c_api.h"

namespace {

/// Zeros, counted; fails when asked to.
struct State {
  int calls = 0;
  bool fail = false;
  int32_t given = FLAMIA_AUDIT_O;
  std::string report;
};

int32_t zeros(void* user, flamia_audit_call* call) {
  auto* const state = static_cast<State*>(user);
  ++state->calls;
  if (state->fail) {
    std::strncpy(call->message, "no such kernel", sizeof call->message);
    return 1;
  }
  EXPECT_NE(call->q, nullptr);
  EXPECT_EQ(call->cu_seqlens[0], 0);
  std::memset(call->o, 0,
              static_cast<size_t>(call->tokens * call->heads * call->head_dim) * sizeof(float));
  call->given = state->given;
  return 0;
}

void keep(void* user, const char* text, size_t length) {
  static_cast<State*>(user)->report.assign(text, length);
}

flamia_audit_options small() {
  flamia_audit_options options = {};
  options.struct_size = sizeof options;
  options.tokens = 96;
  options.heads = 1;
  options.kv_heads = 1;
  options.head_dim = 64;
  options.context = 512;
  options.probes = "accuracy,determinism";
  return options;
}

TEST(CAudit, CallsBackAndReports) {
  State state;
  const flamia_audit_options options = small();
  int32_t passed = 1;
  EXPECT_EQ(flamia_audit(zeros, nullptr, &options, keep, nullptr, &state, &passed), FLAMIA_OK)
      << flamia_last_error();
  EXPECT_EQ(passed, 0);
  EXPECT_GT(state.calls, 5);
  const auto json = nlohmann::json::parse(state.report);
  EXPECT_EQ(json["function"], "function");
  EXPECT_EQ(json["calls"], state.calls);
}

TEST(CAudit, AFailingFunctionIsAnErrorWithItsWords) {
  State state;
  state.fail = true;
  const flamia_audit_options options = small();
  int32_t passed = 1;
  EXPECT_NE(flamia_audit(zeros, nullptr, &options, keep, nullptr, &state, &passed), FLAMIA_OK);
  EXPECT_NE(std::strstr(flamia_last_error(), "no such kernel"), nullptr);
  EXPECT_TRUE(state.report.empty());
  EXPECT_EQ(passed, 0);
}

TEST(CAudit, OMustBeGiven) {
  State state;
  state.given = 0;
  const flamia_audit_options options = small();
  int32_t passed = 1;
  EXPECT_EQ(flamia_audit(zeros, nullptr, &options, keep, nullptr, &state, &passed),
            FLAMIA_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(flamia_last_error(), "must return o"), nullptr);
}

TEST(CAudit, AuditsTheLibraryWithoutAFunction) {
  State state;
  flamia_audit_options options = small();
  options.probes = "packing,consistency";
  flamia_options own = {};
  own.struct_size = sizeof own;
  own.safety = FLAMIA_SAFETY_EXACT;
  own.threads = 1;
  int32_t passed = 0;
  EXPECT_EQ(flamia_audit(nullptr, &own, &options, keep, nullptr, &state, &passed), FLAMIA_OK)
      << flamia_last_error();
  EXPECT_EQ(passed, 1) << state.report;
}

TEST(CAudit, RefusesMissingArguments) {
  State state;
  flamia_audit_options options = small();
  int32_t passed = 0;
  EXPECT_EQ(flamia_audit(zeros, nullptr, &options, nullptr, nullptr, &state, &passed),
            FLAMIA_INVALID_ARGUMENT);
  EXPECT_EQ(flamia_audit(zeros, nullptr, &options, keep, nullptr, &state, nullptr),
            FLAMIA_INVALID_ARGUMENT);
  options.struct_size = 0;
  EXPECT_EQ(flamia_audit(zeros, nullptr, &options, keep, nullptr, &state, &passed),
            FLAMIA_INVALID_ARGUMENT);
  options = small();
  options.probes = "accuracy,,nothing";
  EXPECT_EQ(flamia_audit(zeros, nullptr, &options, keep, nullptr, &state, &passed),
            FLAMIA_INVALID_ARGUMENT);
  flamia_tensor q = {};
  q.struct_size = sizeof q;
  q.dtype = FLAMIA_DTYPE_F32;
  q.rank = 3;
  float value = 0;
  q.data = &value;
  for (int64_t& extent : q.shape) extent = 1;
  for (int64_t& stride : q.stride) stride = 1;
  options = small();
  options.q = &q;
  EXPECT_EQ(flamia_audit(zeros, nullptr, &options, keep, nullptr, &state, &passed),
            FLAMIA_INVALID_ARGUMENT);
}

}  // namespace
