// The launches of quantize(): layout, quantizer, order of the tensor; NVFP4 codes in one kernel.
#include "cuda/quantize_tensor.h"

#include <cstdint>

#include "base/bits.h"
#include "base/refusals.h"
#include "cuda/device.h"
#include "cuda/launch.h"
#include "cuda/quantize.h"
#include "cuda/schedule.h"
#include "cuda/tensors.h"
#include "cuda/workspace.h"
#include "plan/kernel_info.h"
#include "problem/names.h"

namespace flamia::cuda {

namespace {

constexpr const char* kFunction = "quantize";
constexpr int64_t kMaxGridX = INT32_MAX;
constexpr int32_t kMaxGridY = 65535;

/// Whether the codes enter scores.
bool is_score(const QuantizeInput& what) {
  const bool query_or_key = what.role == Role::kQ || what.role == Role::kK;
  return query_or_key && what.axis == ContractionAxis::kHeadDim;
}

/// Scores are rotated. A path with one payload for both axes reads the rotated codes in both; the
/// others have copies for the gradients.
bool is_rotated(const Conventions& conventions, const QuantizeInput& what) {
  const bool shared = conventions.path == Path::kMxfp8;
  const bool query_or_key = what.role == Role::kQ || what.role == Role::kK;
  return (is_score(what) || (shared && query_or_key)) && conventions.hadamard == Hadamard::kOn;
}

bool is_nvfp4(const Conventions& conventions, const QuantizeInput& what) {
  return is_score(what) && conventions.path != Path::kMxfp8;
}

struct Call {
  ScheduleArgs schedule{};
  bool nvfp4 = false;
  QuantizeArgs quantize{};
  UnpackArgs unpack{};
  QuantizeRowsArgs rows{};
};

Call make_call(const Plan& plan, const QuantizeInput& what, const QuantizedTensors& output,
               Workspace workspace) {
  const Problem& problem = plan.problem;
  const QuantizeWorkspace map = quantize_workspace(problem);
  Call call;
  call.schedule.queries = documents_of(problem, problem.query_tokens, what.cu_seqlens);
  call.schedule.keys = call.schedule.queries;
  call.schedule.window_left = call.schedule.window_right = -1;
  call.schedule.schedule.counts = at<ScheduleCounts>(workspace, map.counts);
  call.schedule.schedule.query_blocks = at<TokenBlockRange>(workspace, map.blocks);
  call.schedule.schedule.key_blocks = call.schedule.schedule.query_blocks;
  call.schedule.schedule.items = at<ForwardItem>(workspace, map.items);
  call.schedule.scratch = at<void>(workspace, map.schedule_scratch);

  call.quantize.count = 1;
  QuantizeTensor& tensor = call.quantize.tensors[0];
  tensor.input = bf16_input(what.input);
  tensor.output = {at<uint8_t>(workspace, map.codes), nullptr, at<int8_t>(workspace, map.exponents),
                   token_block_capacity(problem.query_tokens, problem.documents)};
  tensor.blocks = call.schedule.schedule.query_blocks;
  tensor.hadamard = is_rotated(plan.conventions, what) ? 1 : 0;
  tensor.per_token = plan.conventions.safety == Safety::kExact ? 1 : 0;
  tensor.form = QuantizeForm::kE4m3;

  call.unpack.operand = tensor.output;
  call.unpack.blocks = tensor.blocks;
  call.unpack.counts = call.schedule.schedule.counts;
  call.unpack.codes = byte_output(output.codes, true);
  call.unpack.exponents = byte_output(output.exp, false);
  call.unpack.tokens = static_cast<int32_t>(problem.query_tokens);
  call.unpack.heads = problem.heads;
  call.unpack.head_dim = problem.head_dim;
  call.unpack.per_token = tensor.per_token;

  call.nvfp4 = is_nvfp4(plan.conventions, what);
  if (!call.nvfp4) return call;
  call.rows.input = tensor.input;
  call.rows.counts = call.unpack.counts;
  call.rows.codes = call.unpack.codes;
  call.rows.scales = byte_output(output.scales, true);
  call.rows.exponents = call.unpack.exponents;
  call.rows.tokens = call.unpack.tokens;
  call.rows.heads = problem.heads;
  call.rows.head_dim = problem.head_dim;
  call.rows.hadamard = tensor.hadamard;
  return call;
}

/// x: as many CTAs as there are items, y: heads.
LaunchShape item_shape(int64_t items, int32_t heads, const KernelInfo& kernel) {
  return {dim3(static_cast<unsigned>(smaller(items, kMaxGridX)),
               static_cast<unsigned>(smaller(heads, kMaxGridY))),
          kernel.shared_bytes, false};
}

Status enqueue(const Call& call, int head_dim, void* stream) {
  if (Status status = build_schedule(call.schedule, stream); !status.ok()) return status;
  if (call.nvfp4) {
    const LaunchShape shape = item_shape(call.rows.tokens, call.rows.heads, kQuantizeRows);
    return launch("rows", kQuantizeRows, shape, &call.rows, stream);
  }
  if (Status status = launch_quantize(call.quantize, head_dim, stream); !status.ok()) return status;
  const UnpackArgs& unpack = call.unpack;
  const LaunchShape shape = item_shape(unpack.operand.blocks, unpack.heads, kUnpackBlocks);
  return launch("unpack", kUnpackBlocks, shape, &unpack, stream);
}

}  // namespace

size_t quantize_workspace_bytes(const Plan& plan) { return quantize_workspace(plan.problem).bytes; }

Status quantize_tensor(const Plan& plan, const QuantizeInput& what, const QuantizedTensors& output,
                       Workspace workspace, void* stream) {
  if (plan.conventions.score_accumulator != ScoreAccumulator::kF32) {
    return unsupported(kFunction, "score_accumulator",
                       concat("be f32 for backend ", name(plan.backend)),
                       name(plan.conventions.score_accumulator));
  }
  Device device;
  if (Status status = current_device(kFunction, &device); !status.ok()) return status;
  const NamedView input[] = {{"input", &what.input}};
  if (Status status = check_rows(kFunction, input); !status.ok()) return status;
  const NamedView all[] = {{"input", &what.input},
                           {"cu_seqlens", &what.cu_seqlens},
                           {"codes", &output.codes},
                           {"exp", &output.exp},
                           {"scales", &output.scales}};
  if (Status status = check_memory(kFunction, all, workspace, device); !status.ok()) return status;
  if (plan.problem.query_tokens == 0) return {};  // nothing to write
  const Status status =
      enqueue(make_call(plan, what, output, workspace), plan.problem.head_dim, stream);
  if (status.ok()) return status;
  return {status.code(), concat(kFunction, ": ", status.message())};
}

}  // namespace flamia::cuda
