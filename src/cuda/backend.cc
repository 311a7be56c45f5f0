// The Hopper Backend: schedule, quantizers, attention, one launch after the other on one stream.
// Paper: 3.5.1, 3.6. Used by: api. Everything that depends on lengths happens on the device.
#include "cuda/backend.h"

#include <cmath>

#include "base/refusals.h"
#include "cuda/device.h"
#include "cuda/forward.h"
#include "cuda/quantize.h"
#include "cuda/quantize_tensor.h"
#include "cuda/schedule.h"
#include "cuda/tensors.h"
#include "cuda/workspace.h"
#include "numerics/online_softmax.h"
#include "plan/conventions.h"
#include "plan/schedule_kernels.h"
#include "problem/names.h"

namespace flamia::cuda {

namespace {

constexpr const char* kFunction = "attention_forward";

ScheduleArgs schedule_args(const Plan& plan, const ForwardTensors& tensors, Workspace workspace,
                           const ForwardWorkspace& map) {
  const Problem& problem = plan.problem;
  const bool own_lengths = tensors.cu_seqlens_k.data != nullptr;
  ScheduleArgs args{};
  args.queries = documents_of(problem, problem.query_tokens, tensors.cu_seqlens_q);
  args.keys = documents_of(problem, problem.key_tokens,
                           own_lengths ? tensors.cu_seqlens_k : tensors.cu_seqlens_q);
  args.window_left = plan.conventions.window_left;
  args.window_right = plan.conventions.window_right;
  args.scratch = at<void>(workspace, map.schedule_scratch);
  args.schedule.counts = at<ScheduleCounts>(workspace, map.counts);
  args.schedule.items = at<ForwardItem>(workspace, map.items);
  args.schedule.query_blocks = at<TokenBlockRange>(workspace, map.query_blocks);
  const bool one_table = !own_lengths && problem.query_tokens == problem.key_tokens;
  args.schedule.key_blocks =
      one_table ? args.schedule.query_blocks : at<TokenBlockRange>(workspace, map.key_blocks);
  return args;
}

/// Blocks of Q, K and V in the workspace. Payloads that are not transposed, in E4M3 or BF16, are
/// row_codes.
struct Operands {
  QuantizedOperand q, k, v;
};

Operands operands_of(const Plan& plan, Workspace workspace, const ForwardWorkspace& map) {
  const Problem& problem = plan.problem;
  const int64_t query_blocks = token_block_capacity(problem.query_tokens, problem.documents);
  const int64_t key_blocks = token_block_capacity(problem.key_tokens, problem.documents);
  const bool transposed = plan.conventions.path != Path::kBf16;
  auto* v = at<uint8_t>(workspace, map.v_codes);
  Operands result{};
  result.q = {at<uint8_t>(workspace, map.q_codes), nullptr, at<int8_t>(workspace, map.q_exponents),
              query_blocks};
  result.k = {at<uint8_t>(workspace, map.k_codes), nullptr, at<int8_t>(workspace, map.k_exponents),
              key_blocks};
  result.v = {transposed ? nullptr : v, transposed ? v : nullptr,
              at<int8_t>(workspace, map.v_exponents), key_blocks};
  return result;
}

/// What a path makes of its operands, and its kernel.
struct PathForms {
  ForwardForm kernel;
  QuantizeForm scores;  ///< of Q and K
  QuantizeForm values;
};
PathForms path_forms(Path path) {
  switch (path) {
    case Path::kBf16:
      return {ForwardForm::kBf16, QuantizeForm::kBf16, QuantizeForm::kBf16};
    case Path::kNvfp4:
      return {ForwardForm::kNvfp4, QuantizeForm::kNvfp4, QuantizeForm::kE4m3};
    default:
      return {ForwardForm::kMxfp8, QuantizeForm::kE4m3, QuantizeForm::kE4m3};
  }
}

QuantizeTensor tensor_args(const TensorView& view, const QuantizedOperand& operand,
                           const TokenBlockRange* blocks, QuantizeForm form) {
  QuantizeTensor result{};
  result.input = bf16_input(view);
  result.output = operand;
  result.blocks = blocks;
  result.order = static_cast<int32_t>(TokenOrder::kAccumulator);
  result.form = form;
  if (form != QuantizeForm::kE4m3) {
    result.row_bf16 = reinterpret_cast<uint16_t*>(operand.row_codes);
  }
  return result;
}

QuantizeArgs quantize_args(const Plan& plan, const ForwardTensors& tensors,
                           const Schedule& schedule, const Operands& operands) {
  const PathForms forms = path_forms(plan.conventions.path);
  QuantizeArgs args{};
  args.count = 3;
  args.tensors[0] = tensor_args(tensors.q, operands.q, schedule.query_blocks, forms.scores);
  args.tensors[1] = tensor_args(tensors.k, operands.k, schedule.key_blocks, forms.scores);
  args.tensors[2] = tensor_args(tensors.v, operands.v, schedule.key_blocks, forms.values);
  const int32_t hadamard = plan.conventions.hadamard == Hadamard::kOn ? 1 : 0;
  args.tensors[0].hadamard = args.tensors[1].hadamard = hadamard;
  if (plan.conventions.score_accumulator == ScoreAccumulator::kF16) {
    args.tensors[0].headroom_exponent = kHalfAccumulatorHeadroom;
    args.tensors[1].headroom_exponent = kHalfAccumulatorHeadroom;
  }
  const bool exact = plan.conventions.safety == Safety::kExact;
  for (QuantizeTensor& tensor : args.tensors) {
    tensor.per_token = exact && tensor.form == QuantizeForm::kE4m3 ? 1 : 0;
  }
  return args;
}

ForwardArgs forward_args(const Plan& plan, const ForwardTensors& tensors, const Schedule& schedule,
                         const Operands& operands, uint32_t* next_work) {
  const Problem& problem = plan.problem;
  const Conventions& conventions = plan.conventions;
  ForwardArgs args{};
  args.q = operands.q;
  args.k = operands.k;
  args.v = operands.v;
  args.schedule = schedule;
  args.next_work = next_work;
  args.o = bf16_output(tensors.o);
  args.o_residual = bf16_output(tensors.o_residual);
  args.lse = lse_output(tensors.lse);
  args.window_left = conventions.window_left;
  args.window_right = conventions.window_right;
  args.tokens = static_cast<int32_t>(problem.query_tokens);
  args.batch_length =
      problem.batch > 0 ? static_cast<int32_t>(problem.query_tokens / problem.batch) : 0;
  args.heads = problem.heads;
  args.heads_per_kv_head = problem.heads / problem.kv_heads;
  args.alternating = plan.assignment == Assignment::kAlternating ? 1 : 0;
  args.score_multiplier = score_multiplier_of(conventions);
  args.p_log2 = static_cast<float>(std::log2(static_cast<double>(conventions.p_scale)));
  args.tau = conventions.tau;
  args.reverse = conventions.kv_order == KvOrder::kReverse ? 1 : 0;
  args.sum_of_p = conventions.row_sum == RowSum::kP ? 1 : 0;
  args.form = path_forms(conventions.path).kernel;
  return args;
}

ForwardVariant variant_of(const Conventions& conventions) {
  return {conventions.safety, conventions.exponential, conventions.score_accumulator};
}

/// The launches that make up a call, in order on the stream.
Status enqueue(const Plan& plan, const ForwardTensors& tensors, Workspace workspace,
               int multiprocessors, void* stream) {
  const ForwardWorkspace map = forward_workspace(plan.problem, plan.conventions);
  const ScheduleArgs schedule = schedule_args(plan, tensors, workspace, map);
  const Operands operands = operands_of(plan, workspace, map);
  if ((plan.forward_parts & kWorkListPart) != 0) {
    if (Status status = build_schedule(schedule, stream); !status.ok()) return status;
  }
  if ((plan.forward_parts & kQuantizePart) != 0) {
    const QuantizeArgs quantizers = quantize_args(plan, tensors, schedule.schedule, operands);
    if (Status status = launch_quantize(quantizers, plan.problem.head_dim, stream); !status.ok()) {
      return status;
    }
  }
  if ((plan.forward_parts & kAttendPart) == 0) return {};
  const ForwardArgs attention = forward_args(plan, tensors, schedule.schedule, operands,
                                             at<uint32_t>(workspace, map.next_work));
  return launch_forward(attention, plan.problem.head_dim, multiprocessors, stream,
                        variant_of(plan.conventions));
}

class HopperBackend final : public Backend {
 public:
  std::string kernels(const Plan& plan, Pass) const override {
    const int32_t dim = plan.problem.head_dim;
    const ForwardTensors none{};
    const KernelInfo& quantizer = quantize_kernel(quantize_args(plan, none, {}, {}), dim);
    return concat(
        kScheduleDocumentsKernel.name, ", ", kScheduleExpandKernel.name, ", ",
        kScheduleScatterKernel.name, ", ", quantizer.name, ", ",
        forward_kernel(path_forms(plan.conventions.path).kernel, variant_of(plan.conventions), dim)
            ->name);
  }

  size_t workspace_bytes(const Plan& plan, Pass pass) const override {
    return pass == Pass::kForward ? forward_workspace(plan.problem, plan.conventions).bytes : 0;
  }

  Status forward(const Plan& plan, const ForwardTensors& tensors, Workspace workspace, void* stream,
                 PassStatistics*) const override {
    Device device;
    if (Status status = current_device(kFunction, &device); !status.ok()) return status;
    if (Status status = check_rows(kFunction, tensors); !status.ok()) return status;
    if (Status status = check_memory(kFunction, tensors, workspace, device); !status.ok()) {
      return status;
    }
    if (plan.problem.query_tokens == 0) return {};  // nothing to write
    const Status status = enqueue(plan, tensors, workspace, device.multiprocessors, stream);
    if (status.ok()) return status;
    return {status.code(), concat(kFunction, ": ", status.message())};
  }

  Status backward(const Plan& plan, const BackwardTensors&, Workspace, void*,
                  PassStatistics*) const override {
    return unsupported("attention_backward", "backend", "be cpu for a backward pass",
                       name(plan.backend), "gradients are not there yet on a GPU");
  }

  size_t quantize_workspace_bytes(const Plan& plan) const override {
    return cuda::quantize_workspace_bytes(plan);
  }

  Status quantize(const Plan& plan, const TensorView& input, const TensorView& cu_seqlens,
                  Role role, ContractionAxis axis, const QuantizedTensors& output,
                  Workspace workspace, void* stream) const override {
    return quantize_tensor(plan, {input, cu_seqlens, role, axis}, output, workspace, stream);
  }
};

}  // namespace

const Backend& hopper_backend() {
  static const HopperBackend backend;
  return backend;
}

}  // namespace flamia::cuda
