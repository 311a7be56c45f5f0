// One measured attention call: outputs, conventions, statistics, times.

#include "tools/attention_run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

#include "tools/device_memory.h"
#include "tools/errors.h"
#include "tools/input_source.h"

namespace flamia::tools {

namespace {

using Clock = std::chrono::steady_clock;

struct Sample {
  PassTime time;
  PassStatistics statistics;
};

// The repetition whose wall time is the (lower) median.
Sample median(std::vector<Sample> samples) {
  std::sort(samples.begin(), samples.end(),
            [](const Sample& a, const Sample& b) { return a.time.wall_ms < b.time.wall_ms; });
  return samples[(samples.size() - 1) / 2];
}

template <typename Call>
Status measure(const Call& call, Sample* sample) {
  const Clock::time_point start = Clock::now();
  Status status = call(&sample->statistics);
  const std::chrono::duration<double, std::milli> elapsed = Clock::now() - start;
  sample->time.wall_ms = elapsed.count();
  sample->time.quantize_ms = sample->statistics.quantize_ms;
  const bool told = sample->statistics.attention_ms > 0;
  sample->time.attention_ms = told ? sample->statistics.attention_ms : elapsed.count();
  return status;
}

// Every byte 0xff is a NaN in BF16 and in FP32.
Status allocate_poisoned(ElementType type, const std::vector<int64_t>& shape, HostTensor* tensor) {
  Status status = HostTensor::allocate(type, shape, tensor);
  if (status.ok()) std::memset(tensor->data(), 0xff, tensor->bytes());
  return status;
}

std::vector<int64_t> lse_shape(const Problem& problem) {
  if (problem.batch > 0) {
    return {problem.batch, problem.heads, problem.query_tokens / problem.batch};
  }
  return {problem.heads, problem.query_tokens};
}

Status allocate_outputs(const Problem& problem, const AttentionInputs& inputs, bool residual,
                        bool backward, AttentionOutputs* outputs) {
  struct Wanted {
    HostTensor* tensor;
    ElementType type;
    std::vector<int64_t> shape;
    bool needed;
  };
  const std::vector<int64_t>& q = inputs.q.shape();
  const Wanted wanted[] = {
      {&outputs->o, ElementType::kBF16, q, true},
      {&outputs->lse, ElementType::kF32, lse_shape(problem), true},
      {&outputs->o_residual, ElementType::kBF16, q, residual},
      {&outputs->dq, ElementType::kBF16, q, backward},
      {&outputs->dk, ElementType::kBF16, inputs.k.shape(), backward},
      {&outputs->dv, ElementType::kBF16, inputs.v.shape(), backward},
  };
  for (const Wanted& one : wanted) {
    if (!one.needed) continue;
    Status status = allocate_poisoned(one.type, one.shape, one.tensor);
    if (!status.ok()) return status;
  }
  return Status();
}

BackwardTensors backward_tensors(const AttentionInputs& inputs, const AttentionOutputs& outputs) {
  BackwardTensors tensors;
  tensors.q = inputs.q.view();
  tensors.k = inputs.k.view();
  tensors.v = inputs.v.view();
  tensors.cu_seqlens_q = inputs.cu_seqlens_q.view();
  tensors.cu_seqlens_k = inputs.cu_seqlens_k.view();
  tensors.o = outputs.o.view();
  tensors.o_residual = outputs.o_residual.view();
  tensors.lse = outputs.lse.view();
  tensors.d_o = inputs.d_o.view();
  tensors.dq = outputs.dq.view();
  tensors.dk = outputs.dk.view();
  tensors.dv = outputs.dv.view();
  return tensors;
}

Status allocate_workspace(const Problem& problem, const Options& options, Pass pass,
                          HostTensor* memory, Workspace* workspace) {
  size_t bytes = 0;
  Status status = workspace_size(problem, options, pass, &bytes);
  if (!status.ok()) return status;
  status = HostTensor::allocate(ElementType::kU8, {static_cast<int64_t>(bytes)}, memory);
  *workspace = {memory->data(), bytes};
  return status;
}

/// A forward call whose tensors were copied to the device.
class DeviceCall {
 public:
  Status prepare(const Problem& problem, const Options& options, const ForwardTensors& host) {
    tensors_ = host;
    for (TensorView* view :
         {&tensors_.q, &tensors_.k, &tensors_.v, &tensors_.cu_seqlens_q, &tensors_.cu_seqlens_k}) {
      if (Status status = copies_.add_input(view); !status.ok()) return status;
    }
    for (TensorView* view : {&tensors_.o, &tensors_.lse, &tensors_.o_residual}) {
      if (Status status = copies_.add_output(view); !status.ok()) return status;
    }
    Status status = workspace_size(problem, options, Pass::kForward, &workspace_.bytes);
    return status.ok() ? copies_.allocate(workspace_.bytes, &workspace_.data) : status;
  }

  /// Waits for the end of the call. statistics may be null.
  Status run(const Problem& problem, const Options& options, Conventions* conventions,
             PassStatistics* statistics) {
    Status status = timer_.start();
    if (!status.ok()) return status;
    status =
        attention_forward(problem, options, tensors_, workspace_, nullptr, conventions, statistics);
    if (!status.ok()) return status;
    double milliseconds = 0;
    status = timer_.stop(&milliseconds);
    if (statistics != nullptr) statistics->attention_ms = milliseconds;
    return status;
  }

  Status fetch() { return copies_.fetch(); }

 private:
  DeviceCopies copies_;
  DeviceTimer timer_;
  ForwardTensors tensors_;
  Workspace workspace_;
};

}  // namespace

Status run_bytes(const Problem& problem, const Options& options, bool backward, double* bytes) {
  size_t forward_bytes = 0;
  size_t backward_bytes = 0;
  Status status = workspace_size(problem, options, Pass::kForward, &forward_bytes);
  if (!status.ok()) return status;
  if (backward) {
    status = workspace_size(problem, options, Pass::kBackward, &backward_bytes);
    if (!status.ok()) return status;
  }
  constexpr double kBf16Bytes = 2;
  const double dim = problem.head_dim;
  const double queries = static_cast<double>(problem.query_tokens) * problem.heads * dim;
  const double keys = static_cast<double>(problem.key_tokens) * problem.kv_heads * dim;
  const double tensors = kBf16Bytes * (queries * 2 + (backward ? queries + 2 * keys : 0));
  *bytes = tensors + static_cast<double>(std::max(forward_bytes, backward_bytes));
  return Status();
}

Status forward_on_device(const Problem& problem, const Options& options,
                         const ForwardTensors& tensors, Conventions* conventions) {
  DeviceCall call;
  Status status = call.prepare(problem, options, tensors);
  if (status.ok()) status = call.run(problem, options, conventions, nullptr);
  return status.ok() ? call.fetch() : status;
}

Status run_attention(const Problem& problem, const Options& options, const AttentionInputs& inputs,
                     const RunSettings& settings, Progress* progress, AttentionRun* run) {
  Status status = resolve_conventions(problem, options, &run->conventions);
  if (!status.ok()) return status;
  const bool residual = run->conventions.delta == Delta::kOResidual && settings.backward;
  status = allocate_outputs(problem, inputs, residual, settings.backward, &run->outputs);
  if (!status.ok()) return status;

  ForwardTensors tensors = forward_inputs(inputs);
  tensors.o = run->outputs.o.view();
  tensors.lse = run->outputs.lse.view();
  tensors.o_residual = run->outputs.o_residual.view();
  const bool on_device = run->conventions.backend != BackendKind::kCpu;
  HostTensor memory;
  Workspace workspace;
  std::optional<DeviceCall> device;
  if (on_device) device.emplace();
  status = on_device ? device->prepare(problem, options, tensors)
                     : allocate_workspace(problem, options, Pass::kForward, &memory, &workspace);
  if (!status.ok()) return status;
  const auto repetitions = static_cast<size_t>(std::max(1, settings.repeat));
  std::vector<Sample> samples(repetitions);
  progress->phase("forward");
  for (Sample& sample : samples) {
    status = measure(
        [&](PassStatistics* statistics) {
          if (on_device) return device->run(problem, options, &run->conventions, statistics);
          return attention_forward(problem, options, tensors, workspace, nullptr, &run->conventions,
                                   statistics);
        },
        &sample);
    if (!status.ok()) return status;
  }
  if (on_device) status = device->fetch();
  if (!status.ok()) return status;
  run->forward_time = median(samples).time;
  run->forward_statistics = samples.front().statistics;
  if (!settings.backward) return Status();

  status = allocate_workspace(problem, options, Pass::kBackward, &memory, &workspace);
  if (!status.ok()) return status;
  const BackwardTensors gradients = backward_tensors(inputs, run->outputs);
  progress->phase("backward");
  samples.assign(repetitions, Sample());
  for (Sample& sample : samples) {
    status = measure(
        [&](PassStatistics* statistics) {
          return attention_backward(problem, run->conventions, gradients, workspace, nullptr,
                                    options.threads, statistics);
        },
        &sample);
    if (!status.ok()) return status;
  }
  run->backward_time = median(samples).time;
  run->backward_statistics = samples.front().statistics;
  return Status();
}

}  // namespace flamia::tools
