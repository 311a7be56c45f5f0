// The C calls: sizes of structs, integers out of range, error texts, and the same results as C++.
#include "flamia/c_api.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "flamia/attention.h"
#include "tests/support/call_tensors.h"

namespace flamia {
namespace {

using test::batched_sizes;
using test::CallSizes;
using test::CallTensors;
using test::packed_sizes;

template <typename Struct>
Struct sized() {
  Struct result{};
  result.struct_size = sizeof(Struct);
  return result;
}

flamia_tensor c_view(const TensorView& view) {
  flamia_tensor tensor = sized<flamia_tensor>();
  tensor.data = view.data;
  tensor.dtype = static_cast<int32_t>(view.dtype) + 1;
  tensor.rank = view.rank;
  std::copy_n(view.shape, 4, tensor.shape);
  std::copy_n(view.stride, 4, tensor.stride);
  return tensor;
}

/// The tensors of a CallTensors as C structs; members that are not given stay null.
class CCall {
 public:
  explicit CCall(const CallSizes& sizes) : call(sizes) {
    const ForwardTensors& f = call.forward;
    forward.q = add(f.q);
    forward.k = add(f.k);
    forward.v = add(f.v);
    forward.cu_seqlens_q = add(f.cu_seqlens_q);
    forward.cu_seqlens_k = add(f.cu_seqlens_k);
    forward.o = add(f.o);
    forward.lse = add(f.lse);
    forward.o_residual = add(f.o_residual);
    const BackwardTensors& b = call.backward;
    backward.q = forward.q;
    backward.k = forward.k;
    backward.v = forward.v;
    backward.cu_seqlens_q = forward.cu_seqlens_q;
    backward.cu_seqlens_k = forward.cu_seqlens_k;
    backward.o = forward.o;
    backward.o_residual = forward.o_residual;
    backward.lse = forward.lse;
    backward.d_o = add(b.d_o);
    backward.dq = add(b.dq);
    backward.dk = add(b.dk);
    backward.dv = add(b.dv);
    problem.query_tokens = call.problem.query_tokens;
    problem.key_tokens = call.problem.key_tokens;
    problem.batch = call.problem.batch;
    problem.documents = call.problem.documents;
    problem.heads = call.problem.heads;
    problem.kv_heads = call.problem.kv_heads;
    problem.head_dim = call.problem.head_dim;
    options.mask = FLAMIA_MASK_CAUSAL;
    options.threads = 1;
  }

  flamia_workspace workspace(int32_t pass) {
    flamia_workspace result = sized<flamia_workspace>();
    EXPECT_EQ(flamia_workspace_size(&problem, &options, pass, &result.bytes), FLAMIA_OK)
        << flamia_last_error();
    result.data = call.memory(static_cast<int64_t>(result.bytes));
    return result;
  }
  flamia_status run_forward(flamia_conventions* conventions) {
    const flamia_workspace lent = workspace(FLAMIA_PASS_FORWARD);
    return flamia_attention_forward(&problem, &options, &forward, &lent, nullptr, conventions,
                                    nullptr);
  }
  flamia_status run_backward(const flamia_conventions* conventions) {
    const flamia_workspace lent = workspace(FLAMIA_PASS_BACKWARD);
    return flamia_attention_backward(&problem, conventions, &backward, &lent, nullptr, 1, nullptr);
  }
  /// A copy of a tensor that a test may change, put in its place.
  flamia_tensor* own(const flamia_tensor** member) {
    tensors_.push_back(std::make_unique<flamia_tensor>(**member));
    *member = tensors_.back().get();
    return tensors_.back().get();
  }

  CallTensors call;
  flamia_problem problem = sized<flamia_problem>();
  flamia_options options = sized<flamia_options>();
  flamia_forward_tensors forward = sized<flamia_forward_tensors>();
  flamia_backward_tensors backward = sized<flamia_backward_tensors>();

 private:
  const flamia_tensor* add(const TensorView& view) {
    if (view.data == nullptr) return nullptr;
    tensors_.push_back(std::make_unique<flamia_tensor>(c_view(view)));
    return tensors_.back().get();
  }

  std::vector<std::unique_ptr<flamia_tensor>> tensors_;
};

class CApi : public testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_backend_available()) GTEST_SKIP() << "this machine lacks AVX2 or FMA";
  }
};

TEST_F(CApi, GivesTheNumbersOfCpp) {
  for (const CallSizes& sizes : {packed_sizes(), batched_sizes()}) {
    CCall c(sizes);
    flamia_conventions record = sized<flamia_conventions>();
    ASSERT_EQ(c.run_forward(&record), FLAMIA_OK) << flamia_last_error();
    ASSERT_EQ(c.run_backward(&record), FLAMIA_OK) << flamia_last_error();

    CallTensors cpp(sizes);
    Options options;
    options.mask.kind = MaskKind::kCausal;
    options.threads = 1;
    size_t bytes = 0;
    ASSERT_TRUE(workspace_size(cpp.problem, options, Pass::kForward, &bytes).ok());
    Conventions conventions;
    ASSERT_EQ(attention_forward(cpp.problem, options, cpp.forward, cpp.workspace(bytes), nullptr,
                                &conventions)
                  .message(),
              "");
    const size_t o_bytes = static_cast<size_t>(sizes.query_tokens) * 4 * 64 * 2;
    EXPECT_EQ(std::memcmp(cpp.forward.o.data, c.call.forward.o.data, o_bytes), 0);
    EXPECT_EQ(std::memcmp(&conventions, record.record, offsetof(Conventions, reserved)), 0);
    EXPECT_NE(static_cast<uint16_t*>(c.call.backward.dv.data)[0], 0);
  }
}

TEST_F(CApi, ReadsShapesFromTensors) {
  const CCall c(packed_sizes());
  flamia_problem problem = sized<flamia_problem>();
  ASSERT_EQ(flamia_problem_from_tensors(&c.forward, &problem), FLAMIA_OK) << flamia_last_error();
  EXPECT_EQ(std::memcmp(&problem, &c.problem, sizeof(problem)), 0);
}

TEST_F(CApi, TakesZeroAsTheDefault) {
  CCall c(packed_sizes());
  const flamia_options zeros = sized<flamia_options>();
  flamia_conventions with_zeros = sized<flamia_conventions>();
  flamia_conventions with_null = sized<flamia_conventions>();
  Conventions expected;
  ASSERT_EQ(flamia_resolve_conventions(&c.problem, &zeros, &with_zeros), FLAMIA_OK);
  ASSERT_EQ(flamia_resolve_conventions(&c.problem, nullptr, &with_null), FLAMIA_OK);
  ASSERT_TRUE(resolve_conventions(c.call.problem, {}, &expected).ok());
  EXPECT_EQ(std::memcmp(&expected, with_zeros.record, offsetof(Conventions, reserved)), 0);
  EXPECT_EQ(std::memcmp(with_null.record, with_zeros.record, sizeof(with_zeros.record)), 0);
}

TEST_F(CApi, PassesEveryOptionOn) {
  CCall c(packed_sizes());
  c.options.path = FLAMIA_PATH_MXFP8;
  c.options.emulate = FLAMIA_FAMILY_BLACKWELL;
  c.options.mask = FLAMIA_MASK_WINDOW;
  c.options.window_left = 17;
  c.options.window_right = 3;
  c.options.has_softmax_scale = 1;
  c.options.softmax_scale = 0.5f;
  c.options.has_p_scale = 1;
  c.options.p_scale = 8.0f;
  c.options.has_tau = 1;
  c.options.tau = 2.5f;
  c.options.safety = FLAMIA_SAFETY_EXACT;
  c.options.determinism = FLAMIA_DETERMINISM_DETERMINISTIC;
  c.options.hadamard = FLAMIA_HADAMARD_ON;
  c.options.kv_order = FLAMIA_KV_ORDER_FORWARD;
  c.options.exponential = FLAMIA_EXPONENTIAL_POLYNOMIAL;
  c.options.row_sum = FLAMIA_ROW_SUM_P;
  c.options.delta = FLAMIA_DELTA_O_BF16;
  c.options.accumulate = FLAMIA_ACCUMULATE_HARDWARE;
  c.options.promote = FLAMIA_PROMOTE_NONE;
  c.options.ds_format = FLAMIA_DS_FORMAT_E5M2;
  c.options.grad_products = FLAMIA_GRAD_PRODUCTS_FP8;
  c.options.dq_accumulate = FLAMIA_DQ_ACCUMULATE_FP32;
  c.options.dq_scale = FLAMIA_DQ_SCALE_CAUSAL;
  flamia_conventions record = sized<flamia_conventions>();
  ASSERT_EQ(flamia_resolve_conventions(&c.problem, &c.options, &record), FLAMIA_OK)
      << flamia_last_error();
  Conventions got;
  std::memcpy(static_cast<void*>(&got), record.record, offsetof(Conventions, reserved));
  EXPECT_EQ(got.path, Path::kMxfp8);
  EXPECT_EQ(got.family, Family::kBlackwell);
  EXPECT_EQ(got.window_left, 17);
  EXPECT_EQ(got.window_right, 3);
  EXPECT_EQ(got.softmax_scale, 0.5f);
  EXPECT_EQ(got.p_scale, 8.0f);
  EXPECT_EQ(got.tau, 2.5f);
  EXPECT_EQ(got.safety, Safety::kExact);
  EXPECT_EQ(got.determinism, Determinism::kDeterministic);
  EXPECT_EQ(got.hadamard, Hadamard::kOn);
  EXPECT_EQ(got.kv_order, KvOrder::kForward);
  EXPECT_EQ(got.exponential, Exponential::kPolynomial);
  EXPECT_EQ(got.row_sum, RowSum::kP);
  EXPECT_EQ(got.delta, Delta::kOBf16);
  EXPECT_EQ(got.accumulate, Accumulate::kHardware);
  EXPECT_EQ(got.promote, Promote::kNone);
  EXPECT_EQ(got.ds_format, DsFormat::kE5M2);
  EXPECT_EQ(got.grad_products, GradProducts::kFp8);
  EXPECT_EQ(got.dq_accumulate, DqAccumulate::kFp32);
  EXPECT_EQ(got.dq_scale, DqScale::kCausal);
}

TEST_F(CApi, ReadsWindowsOfWindowMasksOnly) {
  CCall c(packed_sizes());
  c.options.window_left = 99;
  EXPECT_EQ(flamia_is_supported(&c.problem, &c.options), FLAMIA_OK) << flamia_last_error();
}

TEST_F(CApi, AcceptsStructsOfOlderCallers) {
  const CCall c(packed_sizes());
  // Only struct_size and path lie in this allocation: the sanitizer sees a read beyond it.
  const size_t size = offsetof(flamia_options, path) + sizeof(int32_t);
  const std::unique_ptr<unsigned char[]> memory(new unsigned char[size]);
  std::memcpy(memory.get(), &size, sizeof(size));
  const int32_t path = FLAMIA_PATH_BF16;
  std::memcpy(memory.get() + offsetof(flamia_options, path), &path, sizeof(path));
  flamia_conventions record = sized<flamia_conventions>();
  ASSERT_EQ(flamia_resolve_conventions(
                &c.problem, reinterpret_cast<const flamia_options*>(memory.get()), &record),
            FLAMIA_OK)
      << flamia_last_error();
  Conventions got;
  std::memcpy(static_cast<void*>(&got), record.record, offsetof(Conventions, reserved));
  EXPECT_EQ(got.path, Path::kBf16);
  EXPECT_EQ(got.family, Family::kHopper);
}

TEST_F(CApi, WritesOnlyWhatOlderCallersHave) {
  CCall c(packed_sizes());
  flamia_statistics statistics;
  std::memset(&statistics, 0x55, sizeof(statistics));
  statistics.struct_size = offsetof(flamia_statistics, ds_nonzero);
  const flamia_workspace lent = c.workspace(FLAMIA_PASS_FORWARD);
  ASSERT_EQ(flamia_attention_forward(&c.problem, &c.options, &c.forward, &lent, nullptr, nullptr,
                                     &statistics),
            FLAMIA_OK)
      << flamia_last_error();
  EXPECT_GE(statistics.attention_ms, 0.0);
  EXPECT_EQ(statistics.ds_nonzero, 0x5555555555555555);
}

TEST_F(CApi, RefusesSizesOfNoStruct) {
  CCall c(packed_sizes());
  const std::string whole = std::to_string(sizeof(flamia_problem));
  c.problem.struct_size = 0;
  EXPECT_EQ(flamia_is_supported(&c.problem, nullptr), FLAMIA_INVALID_ARGUMENT);
  EXPECT_EQ(flamia_last_error(), "is_supported: problem.struct_size must be between 8 and " +
                                     whole + "; got 0 (set it to sizeof the struct)");
  c.problem.struct_size = sizeof(flamia_problem) + 8;
  EXPECT_EQ(flamia_is_supported(&c.problem, nullptr), FLAMIA_INVALID_ARGUMENT);
  c.problem.struct_size = sizeof(flamia_problem);
  c.options.struct_size = 4;
  EXPECT_EQ(flamia_is_supported(&c.problem, &c.options), FLAMIA_INVALID_ARGUMENT);
  c.options.struct_size = sizeof(flamia_options);
  c.own(&c.forward.v)->struct_size = 0;
  EXPECT_EQ(c.run_forward(nullptr), FLAMIA_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(flamia_last_error()).rfind("attention_forward: v.struct_size must be", 0),
            0u);
}

TEST_F(CApi, RefusesReservedFields) {
  CCall c(packed_sizes());
  c.options.assignment = 3;
  EXPECT_EQ(flamia_is_supported(&c.problem, &c.options), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(),
               "is_supported: assignment must be between 0 and 2; got 3 (dynamic or alternating, "
               "counted from 1)");
  c.problem.reserved = -1;
  EXPECT_EQ(flamia_is_supported(&c.problem, nullptr), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(), "is_supported: problem.reserved must be 0; got -1");
}

TEST_F(CApi, RefusesNullStructs) {
  const CCall c(packed_sizes());
  size_t bytes = 0;
  EXPECT_EQ(flamia_is_supported(nullptr, nullptr), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(), "is_supported: problem must be given; got null");
  EXPECT_EQ(flamia_workspace_size(nullptr, nullptr, FLAMIA_PASS_FORWARD, &bytes),
            FLAMIA_INVALID_ARGUMENT);
  EXPECT_EQ(flamia_workspace_size(&c.problem, nullptr, FLAMIA_PASS_FORWARD, nullptr),
            FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(), "workspace_size: bytes must be given; got null");
  EXPECT_EQ(flamia_problem_from_tensors(nullptr, nullptr), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(), "problem_from_tensors: tensors must be given; got null");
  EXPECT_EQ(flamia_problem_from_tensors(&c.forward, nullptr), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(), "problem_from_tensors: problem must be given; got null");
  EXPECT_EQ(flamia_resolve_conventions(&c.problem, nullptr, nullptr), FLAMIA_INVALID_ARGUMENT);
  EXPECT_EQ(
      flamia_attention_forward(&c.problem, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
      FLAMIA_INVALID_ARGUMENT);
  EXPECT_EQ(
      flamia_attention_backward(&c.problem, nullptr, &c.backward, nullptr, nullptr, 0, nullptr),
      FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(), "attention_backward: conventions must be given; got null");
  EXPECT_EQ(flamia_quantize(nullptr, nullptr, FLAMIA_ROLE_Q, FLAMIA_AXIS_HEAD_DIM, nullptr, nullptr,
                            nullptr, nullptr),
            FLAMIA_INVALID_ARGUMENT);
}

TEST_F(CApi, RefusesIntegersOutsideTheirEnum) {
  CCall c(packed_sizes());
  c.options.path = 5;
  EXPECT_EQ(flamia_is_supported(&c.problem, &c.options), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(),
               "is_supported: path must be between 0 and 4; got 5 (bf16, mxfp8, nvfp4 or all4bit, "
               "counted from 1)");
  c.options.path = 0;
  c.options.dq_scale = 1 << 24;  // its low byte would be legal
  EXPECT_EQ(flamia_is_supported(&c.problem, &c.options), FLAMIA_INVALID_ARGUMENT);
  c.options.dq_scale = -1;
  EXPECT_EQ(flamia_is_supported(&c.problem, &c.options), FLAMIA_INVALID_ARGUMENT);
  c.options.dq_scale = 0;
  size_t bytes = 0;
  EXPECT_EQ(flamia_workspace_size(&c.problem, &c.options, 0, &bytes), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(),
               "workspace_size: pass must be between 1 and 2; got 0 (forward or backward, counted "
               "from 1)");
  c.own(&c.forward.q)->dtype = 0;
  EXPECT_EQ(c.run_forward(nullptr), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(),
               "attention_forward: q.dtype must be between 1 and 7; got 0 (BF16, F16, F32, I32, "
               "I64, U8 or I8, counted from 1)");
}

TEST_F(CApi, RefusesRanksThatDoNotFit) {
  CCall c(packed_sizes());
  c.own(&c.forward.k)->rank = 5;
  EXPECT_EQ(c.run_forward(nullptr), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(), "attention_forward: k.rank must be between 0 and 4; got 5");
}

TEST_F(CApi, RefusesChangedRecords) {
  CCall c(packed_sizes());
  flamia_conventions record = sized<flamia_conventions>();
  ASSERT_EQ(c.run_forward(&record), FLAMIA_OK) << flamia_last_error();
  record.record[63] ^= 1;
  EXPECT_EQ(c.run_backward(&record), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(),
               "attention_backward: conventions must be a record as a forward pass wrote it; got "
               "one that was changed (pass the record on as it is)");
  record.record[63] ^= 1;
  record.record[0] ^= 0xff;
  EXPECT_EQ(c.run_backward(&record), FLAMIA_INVALID_ARGUMENT);
  flamia_conventions empty = sized<flamia_conventions>();
  EXPECT_EQ(c.run_backward(&empty), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(),
               "attention_backward: conventions.version must be 1179402499; got 0 (pass the record "
               "that the forward pass returned)");
}

TEST_F(CApi, SurvivesEveryByteOfARecord) {
  CCall c(packed_sizes());
  flamia_conventions record = sized<flamia_conventions>();
  ASSERT_EQ(c.run_forward(&record), FLAMIA_OK) << flamia_last_error();
  for (unsigned char& byte : record.record) {
    const unsigned char saved = byte;
    for (const int value : {0, 1, 2, 3, 127, 128, 255}) {
      byte = static_cast<unsigned char>(value);
      (void)c.run_backward(&record);  // accepted or refused, never a crash
    }
    byte = saved;
  }
  EXPECT_EQ(c.run_backward(&record), FLAMIA_OK) << flamia_last_error();
}

TEST_F(CApi, ForgetsAnErrorAfterASuccess) {
  const CCall c(packed_sizes());
  EXPECT_NE(flamia_is_supported(nullptr, nullptr), FLAMIA_OK);
  EXPECT_STRNE(flamia_last_error(), "");
  EXPECT_EQ(flamia_is_supported(&c.problem, nullptr), FLAMIA_OK);
  EXPECT_STREQ(flamia_last_error(), "");
}

TEST_F(CApi, KeepsErrorsOfThreadsApart) {
  EXPECT_NE(flamia_is_supported(nullptr, nullptr), FLAMIA_OK);
  std::string other = "unset";
  std::thread([&other] { other = flamia_last_error(); }).join();
  EXPECT_EQ(other, "");
  EXPECT_STRNE(flamia_last_error(), "");
}

TEST_F(CApi, ExplainsIntoAnyBuffer) {
  const CCall c(packed_sizes());
  size_t length = 0;
  ASSERT_EQ(flamia_explain(&c.problem, &c.options, nullptr, 0, &length), FLAMIA_OK);
  std::vector<char> whole(length + 1, 'x');
  ASSERT_EQ(flamia_explain(&c.problem, &c.options, whole.data(), whole.size(), nullptr), FLAMIA_OK);
  EXPECT_EQ(std::strlen(whole.data()), length);
  EXPECT_EQ(std::string(whole.data()).rfind("supported: yes\n", 0), 0u);
  std::vector<char> part(10, 'x');
  ASSERT_EQ(flamia_explain(&c.problem, &c.options, part.data(), part.size(), &length), FLAMIA_OK);
  EXPECT_STREQ(part.data(), "supported");
  EXPECT_EQ(length + 1, whole.size());
  EXPECT_EQ(flamia_explain(&c.problem, &c.options, nullptr, 5, nullptr), FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(flamia_last_error(), "explain: buffer must be given; got null");
}

TEST_F(CApi, Quantizes) {
  CCall c(packed_sizes());
  flamia_tensor codes = c_view(test::dense_view(c.call.memory(8 * 4 * 64), DType::kU8, {8, 4, 64}));
  flamia_tensor exp = c_view(test::dense_view(c.call.memory(8 * 4), DType::kI8, {8, 4}));
  flamia_quantized_tensors output = sized<flamia_quantized_tensors>();
  output.codes = &codes;
  output.exp = &exp;
  ASSERT_EQ(flamia_quantize(c.forward.q, c.forward.cu_seqlens_q, FLAMIA_ROLE_Q,
                            FLAMIA_AXIS_HEAD_DIM, nullptr, &output, nullptr, nullptr),
            FLAMIA_OK)
      << flamia_last_error();
  EXPECT_NE(static_cast<uint8_t*>(codes.data)[0], 0);
  size_t bytes = 1;
  EXPECT_EQ(flamia_quantize_workspace_size(c.forward.q, c.forward.cu_seqlens_q, FLAMIA_ROLE_Q,
                                           FLAMIA_AXIS_HEAD_DIM, nullptr, &bytes),
            FLAMIA_OK);
  EXPECT_EQ(bytes, 0u);
  EXPECT_EQ(flamia_quantize(c.forward.q, c.forward.cu_seqlens_q, FLAMIA_ROLE_Q, 3, nullptr, &output,
                            nullptr, nullptr),
            FLAMIA_INVALID_ARGUMENT);
  EXPECT_STREQ(
      flamia_last_error(),
      "quantize: axis must be between 1 and 2; got 3 (head_dim or tokens, counted from 1)");
}

TEST_F(CApi, HasTheVersionOfCpp) { EXPECT_STREQ(flamia_version(), version()); }

}  // namespace
}  // namespace flamia
