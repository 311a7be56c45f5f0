// Fuzzer of the C ABI: bytes become shapes, options, tensors and a list of faults (c_api_call.h).
// Every call must return a status with a sentence, and never touch a byte it was not given.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "flamia/c_api.h"
#include "tests/fuzz/c_api_call.h"

namespace {

using flamia::fuzz::Call;
using flamia::fuzz::kLargestAllocation;
using flamia::fuzz::pointer;

/// Stops the fuzzer: a promise of the header is broken.
void require(bool promise) {
  if (!promise) std::abort();
}

void check_status(flamia_status status) {
  require(status >= FLAMIA_OK && status < FLAMIA_INTERNAL);
  require((status == FLAMIA_OK) == (flamia_last_error()[0] == '\0'));
}

/// Workspace of a pass, exactly as large as asked for; spoilt by the fault.
class LentMemory {
 public:
  LentMemory(const Call& call, int32_t pass) {
    size_t bytes = 0;
    const flamia_status status = flamia_workspace_size(&call.problem, &call.options, pass, &bytes);
    check_status(status);
    view_.struct_size = sizeof(view_);
    if (status != FLAMIA_OK || bytes > kLargestAllocation) return;
    const size_t lent = call.workspace_fault == 1 && bytes > 0 ? bytes - 1 : bytes;
    if (lent == 0 || posix_memalign(&data_, 64, lent) != 0) return;
    std::memset(data_, 0xff, lent);
    view_.data = call.workspace_fault == 2 ? static_cast<char*>(data_) + 4 : data_;
    view_.bytes = lent;
    if (call.workspace_fault == 3) view_.data = nullptr;
    if (call.workspace_fault == 4) view_.struct_size = 3;
  }
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;
  ~LentMemory() { std::free(data_); }

  const flamia_workspace* view() const { return &view_; }

 private:
  flamia_workspace view_{};
  void* data_ = nullptr;
};

void run_passes(Call* call) {
  {
    const LentMemory lent(*call, FLAMIA_PASS_FORWARD);
    check_status(flamia_attention_forward(&call->problem, &call->options, &call->forward,
                                          lent.view(), call->stream, &call->conventions,
                                          &call->statistics));
  }
  if (call->record_fault >= 0) call->conventions.record[call->record_fault] = call->record_byte;
  const LentMemory lent(*call, FLAMIA_PASS_BACKWARD);
  check_status(flamia_attention_backward(&call->problem, &call->conventions, &call->backward,
                                         lent.view(), call->stream, call->options.threads,
                                         &call->statistics));
}

void run_questions(Call* call) {
  flamia_problem problem{};
  problem.struct_size = call->problem.struct_size;
  check_status(flamia_problem_from_tensors(&call->forward, &problem));
  check_status(flamia_is_supported(&call->problem, &call->options));
  check_status(flamia_resolve_conventions(&call->problem, &call->options, &call->conventions));
  char text[64];
  size_t length = 0;
  check_status(flamia_explain(&call->problem, &call->options, text, sizeof(text), &length));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Call call;
  flamia::fuzz::read_call(data, size, &call);
  run_questions(&call);
  run_passes(&call);
  check_status(flamia_quantize(pointer(call, flamia::fuzz::kQ),
                               pointer(call, flamia::fuzz::kLengthsQ), call.role, call.axis,
                               &call.options, &call.quantized, nullptr, call.stream));
  size_t bytes = 0;
  check_status(flamia_quantize_workspace_size(pointer(call, flamia::fuzz::kQ),
                                              pointer(call, flamia::fuzz::kLengthsQ), call.role,
                                              call.axis, &call.options, &bytes));
  return 0;
}
