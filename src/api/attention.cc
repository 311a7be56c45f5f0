// The public verbs: check, plan, hand over to a backend. No numbers are made here.
// Used by: everybody outside the library. No exception leaves this file.
#include "flamia/attention.h"

#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "api/executor.h"
#include "backend/backend.h"
#include "plan/causal_safety.h"
#include "plan/conventions.h"
#include "plan/plan.h"
#include "plan/role_names.h"
#include "plan/support.h"
#include "problem/path.h"
#include "problem/validate.h"

// The build passes the version of the project.
#ifndef FLAMIA_VERSION_STRING
#define FLAMIA_VERSION_STRING "0.1.0"
#endif

namespace flamia {

namespace {

/// Runs work, which returns a Status, and turns exceptions into one.
template <typename Work>
Status guarded(const char* function, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "out of memory"};  // short: needs no allocation itself
  } catch (const std::exception& error) {
    return {StatusCode::kInternal, concat(function, ": unexpected error: ", error.what())};
  } catch (...) {
    return {StatusCode::kInternal, "unknown error"};
  }
}

/// A GPU backend takes any stream, null for the default one.
Status check_stream(const char* function, const Plan& plan, const void* stream) {
  if (stream == nullptr || plan.backend != BackendKind::kCpu) return {};
  return invalid_argument(function, "stream", "be null for the cpu backend", "a stream");
}

Status check_pointer(const char* function, const char* argument, const void* pointer) {
  if (pointer != nullptr) return {};
  return invalid_argument(function, argument, "be given", "null");
}

Status check_parts(const char* function, uint32_t parts, BackendKind backend) {
  if (parts == 0 || (parts & ~static_cast<uint32_t>(kAllForwardParts)) != 0) {
    return invalid_argument(function, "parts", concat("be between 1 and ", +kAllForwardParts),
                            concat(parts));
  }
  if (backend != BackendKind::kCpu || parts == kAllForwardParts) return {};
  return unsupported(function, "parts", concat("be ", +kAllForwardParts, " for the cpu backend"),
                     concat(parts), "it keeps nothing between calls");
}

/// Plan and executor of a forward call.
Status prepare_forward(const char* function, const Problem& problem, const Options& options,
                       Plan* plan, const Backend** backend) {
  if (Status status = plan_forward(function, problem, options, machine_for(options.backend), plan);
      !status.ok()) {
    return status;
  }
  return find_backend(function, *plan, backend);
}

/// Plan and executor of the backward call that follows a forward call with these options.
Status prepare_backward(const char* function, const Problem& problem, const Options& options,
                        Plan* plan, const Backend** backend) {
  const Machine machine = machine_for(options.backend);
  if (Status status = plan_forward(function, problem, options, machine, plan); !status.ok()) {
    return status;
  }
  const Conventions conventions = plan->conventions;
  if (Status status = plan_backward(function, problem, conventions, options.threads, machine, plan);
      !status.ok()) {
    return status;
  }
  return find_backend(function, *plan, backend);
}

const OperandSpec& operand_of(const PathSpec& spec, Role role) {
  switch (role) {
    case Role::kQ:
      return spec.q;
    case Role::kK:
      return spec.k;
    case Role::kV:
      return spec.v;
    case Role::kDo:
      break;
  }
  return spec.d_o;
}

Representation representation(OperandFormat format, ContractionAxis axis, bool shared) {
  Representation result;
  result.axis = axis;
  result.serves_both_axes = shared;
  result.has_block_scales = format == OperandFormat::kNvfp4 || format == OperandFormat::kMxfp4;
  result.format = operand_format_name(format);
  return result;
}

/// The format that representations() names.
OperandFormat named_format(const Options& options, Role role, ContractionAxis axis) {
  const OperandSpec& operand = operand_of(path_spec(options.path), role);
  return axis == ContractionAxis::kHeadDim ? operand.along_head_dim : operand.along_tokens;
}

/// The format that the passes compute: exact safety keeps tokens of V apart.
OperandFormat computed_format(const Options& options, Role role, ContractionAxis axis) {
  const bool exact_value =
      role == Role::kV && axis == ContractionAxis::kTokens && options.safety == Safety::kExact;
  return exact_value ? path_spec(options.path).v_along_tokens_exact
                     : named_format(options, role, axis);
}

/// The options that codes depend on; the others are left at their defaults.
Options options_of_codes(const Options& options) {
  Options result;
  result.path = options.path;
  result.backend = options.backend;
  result.emulate = options.emulate;
  result.hadamard = options.hadamard;
  result.safety = options.safety;
  result.score_accumulator = options.score_accumulator;
  result.threads = options.threads;
  return result;
}

/// Writes one byte everywhere in a view of bytes with a unit last stride.
void fill(const TensorView& view, uint8_t value) {
  int64_t size[3] = {1, 1, 1};
  int64_t stride[3] = {0, 0, 0};
  for (int i = 0; i + 1 < view.rank; ++i) {
    size[i] = view.shape[i];
    stride[i] = view.stride[i];
  }
  for (int64_t x = 0; x < size[0]; ++x) {
    for (int64_t y = 0; y < size[1]; ++y) {
      for (int64_t z = 0; z < size[2]; ++z) {
        const int64_t at = x * stride[0] + y * stride[1] + z * stride[2];
        std::memset(static_cast<char*>(view.data) + at, value,
                    static_cast<size_t>(view.shape[view.rank - 1]));
      }
    }
  }
}

struct QuantizeArguments {
  const TensorView& input;
  const TensorView& cu_seqlens;
  Role role;
  ContractionAxis axis;
  const Options& options;
};

struct QuantizeCall {
  Plan plan;
  const Backend* backend = nullptr;
};

/// Plan and executor of a quantize() call.
Status prepare_quantize(const char* function, const QuantizeArguments& arguments,
                        QuantizeCall* call) {
  const auto& [input, cu_seqlens, role, axis, options] = arguments;
  if (!is_valid(role)) {
    return invalid_argument(function, "role", concat("be ", choices<Role>()), shown(role));
  }
  if (!is_valid(axis)) {
    return invalid_argument(function, "axis", concat("be ", choices<ContractionAxis>()),
                            shown(axis));
  }
  Problem problem;
  if (Status status = problem_from_input(function, input, cu_seqlens, &problem); !status.ok()) {
    return status;
  }
  if (Status status = prepare_forward(function, problem, options_of_codes(options), &call->plan,
                                      &call->backend);
      !status.ok()) {
    return status;
  }
  if (options.path == Path::kBf16) {
    return unsupported(function, "path", "be mxfp8, nvfp4 or all4bit", name(options.path),
                       "bf16 operands are not quantized");
  }
  const OperandFormat computed = computed_format(options, role, axis);
  const bool along_channels = axis == ContractionAxis::kHeadDim;
  const bool on_device =
      computed == OperandFormat::kE4m3 || (computed == OperandFormat::kNvfp4 && along_channels);
  if (call->plan.backend != BackendKind::kCpu && !on_device) {
    return unsupported(
        function, "role and axis",
        concat("have format e4m3, or nvfp4 along head_dim, on backend ", name(call->plan.backend)),
        operand_format_name(computed), "the cpu backend gives these bytes");
  }
  return {};
}

void add_line(std::string& text, std::string_view key, std::string_view value) {
  text += concat(key, ": ", value, "\n");
}

void add_conventions(std::string& text, const Conventions& c) {
  const Mask mask{MaskKind::kWindow, c.window_left, c.window_right};
  const bool causal = c.window_left == -1 && c.window_right == 0;
  const bool full = c.window_left == -1 && c.window_right == -1;
  add_line(text, "path", name(c.path));
  add_line(text, "family", name(c.family));
  add_line(text, "heads", concat(c.heads));
  add_line(text, "kv_heads", concat(c.kv_heads));
  add_line(text, "head_dim", concat(c.head_dim));
  add_line(text, "mask", causal ? "causal" : full ? "full" : mask_text(mask));
  add_line(text, "softmax_scale", concat(c.softmax_scale));
  add_line(text, "safety", name(c.safety));
  add_line(text, "determinism", name(c.determinism));
  add_line(text, "hadamard", name(c.hadamard));
  add_line(text, "kv_order", name(c.kv_order));
  add_line(text, "p_scale", concat(c.p_scale));
  add_line(text, "tau", concat(c.tau));
  add_line(text, "exponential", name(c.exponential));
  add_line(text, "row_sum", name(c.row_sum));
  add_line(text, "delta", name(c.delta));
  add_line(text, "accumulate", name(c.accumulate));
  add_line(text, "promote", name(c.promote));
  add_line(text, "score_accumulator", name(c.score_accumulator));
  add_line(text, "ds_format", name(c.ds_format));
  add_line(text, "grad_products", name(c.grad_products));
  add_line(text, "dq_accumulate", name(c.dq_accumulate));
  add_line(text, "dq_scale", name(c.dq_scale));
}

void add_causal_safety(std::string& text, const Conventions& conventions) {
  const CausalSafety safety = causal_safety(conventions);
  add_line(text, "operand_exponents", safety.operand_exponents);
  add_line(text, "ds_exponents", safety.ds_exponents);
  add_line(text, "dq_sums", safety.dq_sums);
  add_line(text, "causal_residue_o", safety.o_residue);
  add_line(text, "causal_residue_dq", safety.dq_residue);
  add_line(text, "causal_residue_dq_sums", safety.dq_sum_residue);
}

struct Request {
  const Problem& problem;
  const Options& options;
};

Status run_forward(const char* function, const Request& request, const ForwardTensors& tensors,
                   Workspace workspace, void* stream, uint32_t parts, Conventions* conventions,
                   PassStatistics* statistics) {
  return guarded(function, [&]() -> Status {
    Plan plan;
    const Backend* backend = nullptr;
    if (Status status =
            prepare_forward(function, request.problem, request.options, &plan, &backend);
        !status.ok()) {
      return status;
    }
    if (Status status = check_parts(function, parts, plan.backend); !status.ok()) return status;
    plan.forward_parts = parts;
    if (Status status = check_stream(function, plan, stream); !status.ok()) return status;
    const LentWorkspace lent{workspace, backend->workspace_bytes(plan, Pass::kForward)};
    if (Status status =
            validate_forward(function, request.problem, tensors, lent, residence_of(plan));
        !status.ok()) {
      return status;
    }
    if (statistics != nullptr) *statistics = {};
    Status status = backend->forward(plan, tensors, workspace, stream, statistics);
    if (status.ok() && conventions != nullptr) *conventions = plan.conventions;
    return status;
  });
}

/// The message of a refusal without the name of the function in front.
std::string_view reasons_of(std::string_view function, const Status& status) {
  std::string_view reasons = status.message();
  if (reasons.starts_with(function)) reasons.remove_prefix(function.size() + 2);
  return reasons;
}

std::string explain_call(const Problem& problem, const Options& options) {
  constexpr const char* kFunction = "explain";
  std::string text;
  Plan plan;
  const Backend* backend = nullptr;
  if (Status status = prepare_forward(kFunction, problem, options, &plan, &backend); !status.ok()) {
    add_line(text, "supported", "no");
    add_line(text, "refused", reasons_of(kFunction, status));
    return text;
  }
  Plan backward_plan;
  const Status backward = prepare_backward(kFunction, problem, options, &backward_plan, &backend);
  add_line(text, "supported", "yes");
  add_line(text, "backend", name(plan.backend));
  if (plan.backend == BackendKind::kCpu) {
    add_line(text, "threads", concat(plan.threads));
  } else {
    add_line(text, "device", gpu_words());
  }
  add_conventions(text, plan.conventions);
  add_line(text, "passes", backward.ok() ? "quantize, forward, backward" : "quantize, forward");
  if (!backward.ok()) add_line(text, "backward_refused", reasons_of(kFunction, backward));
  add_line(text, "kernels", backend->kernels(plan, Pass::kForward));
  add_line(text, "workspace_forward_bytes", concat(backend->workspace_bytes(plan, Pass::kForward)));
  const SavedBytes saved = saved_for_backward(plan);
  add_line(text, "saved_lse_bytes", concat(saved.lse));
  add_line(text, "saved_o_residual_bytes", concat(saved.o_residual));
  if (backward.ok()) {
    add_line(text, "workspace_backward_bytes",
             concat(backend->workspace_bytes(backward_plan, Pass::kBackward)));
  }
  add_causal_safety(text, plan.conventions);
  return text;
}

}  // namespace

Status problem_from_tensors(const ForwardTensors& tensors, Problem* problem) {
  constexpr const char* kFunction = "problem_from_tensors";
  return guarded(kFunction, [&]() -> Status {
    if (Status status = check_pointer(kFunction, "problem", problem); !status.ok()) return status;
    return problem_from_views(kFunction, tensors, problem);
  });
}

Status is_supported(const Problem& problem, const Options& options) {
  constexpr const char* kFunction = "is_supported";
  return guarded(kFunction, [&]() -> Status {
    Plan plan;
    const Backend* backend = nullptr;
    return prepare_forward(kFunction, problem, options, &plan, &backend);
  });
}

Status resolve_conventions(const Problem& problem, const Options& options,
                           Conventions* conventions) {
  constexpr const char* kFunction = "resolve_conventions";
  return guarded(kFunction, [&]() -> Status {
    if (Status status = check_pointer(kFunction, "conventions", conventions); !status.ok()) {
      return status;
    }
    Plan plan;
    if (Status status =
            plan_forward(kFunction, problem, options, machine_for(options.backend), &plan);
        !status.ok()) {
      return status;
    }
    *conventions = plan.conventions;
    return {};
  });
}

Status workspace_size(const Problem& problem, const Options& options, Pass pass, size_t* bytes) {
  constexpr const char* kFunction = "workspace_size";
  return guarded(kFunction, [&]() -> Status {
    if (Status status = check_pointer(kFunction, "bytes", bytes); !status.ok()) return status;
    if (!is_valid(pass)) {
      return invalid_argument(kFunction, "pass", concat("be ", choices<Pass>()), shown(pass));
    }
    Plan plan;
    const Backend* backend = nullptr;
    const auto prepare = pass == Pass::kForward ? prepare_forward : prepare_backward;
    if (Status status = prepare(kFunction, problem, options, &plan, &backend); !status.ok()) {
      return status;
    }
    *bytes = backend->workspace_bytes(plan, pass);
    return {};
  });
}

Status attention_forward(const Problem& problem, const Options& options,
                         const ForwardTensors& tensors, Workspace workspace, void* stream,
                         Conventions* conventions, PassStatistics* statistics) {
  return run_forward("attention_forward", {problem, options}, tensors, workspace, stream,
                     kAllForwardParts, conventions, statistics);
}

Status attention_forward_parts(const Problem& problem, const Options& options,
                               const ForwardTensors& tensors, Workspace workspace, void* stream,
                               uint32_t parts, Conventions* conventions) {
  return run_forward("attention_forward_parts", {problem, options}, tensors, workspace, stream,
                     parts, conventions, nullptr);
}

Status attention_backward(const Problem& problem, const Conventions& conventions,
                          const BackwardTensors& tensors, Workspace workspace, void* stream,
                          int32_t threads, PassStatistics* statistics) {
  constexpr const char* kFunction = "attention_backward";
  return guarded(kFunction, [&]() -> Status {
    Plan plan;
    const Backend* backend = nullptr;
    if (Status status = plan_backward(kFunction, problem, conventions, threads,
                                      machine_for(conventions.backend), &plan);
        !status.ok()) {
      return status;
    }
    if (Status status = find_backend(kFunction, plan, &backend); !status.ok()) return status;
    if (Status status = check_stream(kFunction, plan, stream); !status.ok()) return status;
    const LentWorkspace lent{workspace, backend->workspace_bytes(plan, Pass::kBackward)};
    if (Status status = validate_backward(kFunction, problem, conventions.delta, tensors, lent,
                                          residence_of(plan));
        !status.ok()) {
      return status;
    }
    if (statistics != nullptr) *statistics = {};
    return backend->backward(plan, tensors, workspace, stream, statistics);
  });
}

std::vector<Representation> representations(Path path, Role role) {
  std::vector<Representation> result;
  if (!is_valid(path) || !is_valid(role) || path == Path::kBf16) return result;
  const OperandSpec& operand = operand_of(path_spec(path), role);
  result.push_back(
      representation(operand.along_head_dim, ContractionAxis::kHeadDim, operand.shared()));
  if (!operand.shared()) {
    result.push_back(representation(operand.along_tokens, ContractionAxis::kTokens, false));
  }
  return result;
}

Status quantize(const TensorView& input, const TensorView& cu_seqlens, Role role,
                ContractionAxis axis, const Options& options, const QuantizedTensors& output,
                Workspace workspace, void* stream) {
  constexpr const char* kFunction = "quantize";
  return guarded(kFunction, [&]() -> Status {
    QuantizeCall call;
    if (Status status =
            prepare_quantize(kFunction, {input, cu_seqlens, role, axis, options}, &call);
        !status.ok()) {
      return status;
    }
    if (Status status = check_stream(kFunction, call.plan, stream); !status.ok()) return status;
    const OperandFormat named = named_format(options, role, axis);
    const OperandFormat computed = computed_format(options, role, axis);
    const QuantizeViews views{
        input,
        cu_seqlens,
        output.codes,
        output.exp,
        output.scales,
        scale_columns(named, axis == ContractionAxis::kTokens, call.plan.problem.head_dim),
        {workspace, call.backend->quantize_workspace_bytes(call.plan),
         "quantize_workspace_size()"}};
    if (Status status =
            validate_quantize(kFunction, call.plan.problem, views, residence_of(call.plan));
        !status.ok()) {
      return status;
    }
    // What the computed format lacks gets its neutral value: code * scale * 2^exp always holds.
    if (computed == OperandFormat::kMxfp4) fill(output.exp, 0);
    if (computed == OperandFormat::kE2m1 && named == OperandFormat::kNvfp4) {
      fill(output.scales, kUnitScaleCode);
    }
    return call.backend->quantize(call.plan, input, cu_seqlens, role, axis, output, workspace,
                                  stream);
  });
}

Status quantize_workspace_size(const TensorView& input, const TensorView& cu_seqlens, Role role,
                               ContractionAxis axis, const Options& options, size_t* bytes) {
  constexpr const char* kFunction = "quantize_workspace_size";
  return guarded(kFunction, [&]() -> Status {
    if (Status status = check_pointer(kFunction, "bytes", bytes); !status.ok()) return status;
    QuantizeCall call;
    if (Status status =
            prepare_quantize(kFunction, {input, cu_seqlens, role, axis, options}, &call);
        !status.ok()) {
      return status;
    }
    *bytes = call.backend->quantize_workspace_bytes(call.plan);
    return {};
  });
}

std::string explain(const Problem& problem, const Options& options) {
  try {
    return explain_call(problem, options);
  } catch (...) {
    return "failed: yes\n";  // short: needs no allocation
  }
}

const char* version() { return FLAMIA_VERSION_STRING; }

}  // namespace flamia
