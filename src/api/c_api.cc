// The C names over the C++ calls: convert, call, keep the sentence of a failure.
// Used by: C programs and Python's ctypes.
#include "flamia/c_api.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "api/c_convert.h"
#include "api/c_status.h"
#include "flamia/attention.h"

namespace {

using namespace flamia::c_convert;  // NOLINT: this file is their only user
using flamia::Status;
using flamia::StatusCode;
using flamia::c_status::run;

static_assert(FLAMIA_OK == static_cast<int>(StatusCode::kOk));
static_assert(FLAMIA_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(FLAMIA_UNSUPPORTED == static_cast<int>(StatusCode::kUnsupported));
static_assert(FLAMIA_OUT_OF_MEMORY == static_cast<int>(StatusCode::kOutOfMemory));
static_assert(FLAMIA_DEVICE_ERROR == static_cast<int>(StatusCode::kDeviceError));
static_assert(FLAMIA_INTERNAL == static_cast<int>(StatusCode::kInternal));

/// Problem and options, which most calls start with.
Status to_request(const char* function, const flamia_problem* problem_in,
                  const flamia_options* options_in, flamia::Problem* problem,
                  flamia::Options* options) {
  if (Status status = to_problem(function, problem_in, problem); !status.ok()) return status;
  return to_options(function, options_in, options);
}

/// Arguments of the quantize calls as C has them, and converted.
struct QuantizeArguments {
  const flamia_tensor* input;
  const flamia_tensor* cu_seqlens;
  int32_t role;
  int32_t axis;
  const flamia_options* options;
};
struct QuantizeRequest {
  flamia::TensorView input;
  flamia::TensorView lengths;
  flamia::Role role = flamia::Role::kQ;
  flamia::ContractionAxis axis = flamia::ContractionAxis::kHeadDim;
  flamia::Options options;
};

Status to_quantize_request(const char* function, const QuantizeArguments& arguments,
                           QuantizeRequest* request) {
  if (Status status = to_view(function, "input", arguments.input, &request->input); !status.ok()) {
    return status;
  }
  if (Status status = to_view(function, "cu_seqlens", arguments.cu_seqlens, &request->lengths);
      !status.ok()) {
    return status;
  }
  if (Status status = to_required_enum(function, "role", arguments.role, &request->role);
      !status.ok()) {
    return status;
  }
  if (Status status = to_required_enum(function, "axis", arguments.axis, &request->axis);
      !status.ok()) {
    return status;
  }
  return to_options(function, arguments.options, &request->options);
}

}  // namespace

extern "C" {

const char* flamia_version(void) { return flamia::version(); }

const char* flamia_last_error(void) { return flamia::c_status::last_error(); }

flamia_status flamia_problem_from_tensors(const flamia_forward_tensors* tensors,
                                          flamia_problem* problem) {
  return run([&]() -> Status {
    constexpr const char* kFunction = "problem_from_tensors";
    flamia::ForwardTensors views;
    flamia::Problem result;
    if (Status status = to_tensors(kFunction, tensors, &views); !status.ok()) return status;
    if (Status status = check_problem_output(kFunction, problem); !status.ok()) return status;
    if (Status status = flamia::problem_from_tensors(views, &result); !status.ok()) return status;
    write_problem(result, problem);
    return {};
  });
}

flamia_status flamia_is_supported(const flamia_problem* problem, const flamia_options* options) {
  return run([&]() -> Status {
    flamia::Problem shapes;
    flamia::Options choices;
    if (Status status = to_request("is_supported", problem, options, &shapes, &choices);
        !status.ok()) {
      return status;
    }
    return flamia::is_supported(shapes, choices);
  });
}

flamia_status flamia_resolve_conventions(const flamia_problem* problem,
                                         const flamia_options* options,
                                         flamia_conventions* conventions) {
  return run([&]() -> Status {
    constexpr const char* kFunction = "resolve_conventions";
    flamia::Problem shapes;
    flamia::Options choices;
    flamia::Conventions result;
    if (Status status = to_request(kFunction, problem, options, &shapes, &choices); !status.ok()) {
      return status;
    }
    if (Status status = check_conventions_output(kFunction, conventions); !status.ok())
      return status;
    if (Status status = flamia::resolve_conventions(shapes, choices, &result); !status.ok()) {
      return status;
    }
    write_conventions(result, conventions);
    return {};
  });
}

flamia_status flamia_workspace_size(const flamia_problem* problem, const flamia_options* options,
                                    int32_t pass, size_t* bytes) {
  return run([&]() -> Status {
    constexpr const char* kFunction = "workspace_size";
    flamia::Problem shapes;
    flamia::Options choices;
    flamia::Pass which = flamia::Pass::kForward;
    if (Status status = to_request(kFunction, problem, options, &shapes, &choices); !status.ok()) {
      return status;
    }
    if (Status status = to_required_enum(kFunction, "pass", pass, &which); !status.ok()) {
      return status;
    }
    return flamia::workspace_size(shapes, choices, which, bytes);
  });
}

flamia_status flamia_attention_forward(const flamia_problem* problem, const flamia_options* options,
                                       const flamia_forward_tensors* tensors,
                                       const flamia_workspace* workspace, void* stream,
                                       flamia_conventions* conventions,
                                       flamia_statistics* statistics) {
  return run([&]() -> Status {
    constexpr const char* kFunction = "attention_forward";
    flamia::Problem shapes;
    flamia::Options choices;
    flamia::ForwardTensors views;
    flamia::Workspace lent;
    flamia::Conventions record;
    flamia::PassStatistics figures;
    if (Status status = to_request(kFunction, problem, options, &shapes, &choices); !status.ok()) {
      return status;
    }
    if (Status status = to_tensors(kFunction, tensors, &views); !status.ok()) return status;
    if (Status status = to_workspace(kFunction, workspace, &lent); !status.ok()) return status;
    if (conventions != nullptr) {
      if (Status status = check_conventions_output(kFunction, conventions); !status.ok())
        return status;
    }
    if (Status status = check_statistics_output(kFunction, statistics); !status.ok()) return status;
    if (Status status = flamia::attention_forward(shapes, choices, views, lent, stream, &record,
                                                  statistics != nullptr ? &figures : nullptr);
        !status.ok()) {
      return status;
    }
    if (conventions != nullptr) write_conventions(record, conventions);
    write_statistics(figures, statistics);
    return {};
  });
}

flamia_status flamia_attention_forward_parts(const flamia_problem* problem,
                                             const flamia_options* options,
                                             const flamia_forward_tensors* tensors,
                                             const flamia_workspace* workspace, void* stream,
                                             uint32_t parts, flamia_conventions* conventions) {
  return run([&]() -> Status {
    constexpr const char* kFunction = "attention_forward_parts";
    flamia::Problem shapes;
    flamia::Options choices;
    flamia::ForwardTensors views;
    flamia::Workspace lent;
    flamia::Conventions record;
    if (Status status = to_request(kFunction, problem, options, &shapes, &choices); !status.ok()) {
      return status;
    }
    if (Status status = to_tensors(kFunction, tensors, &views); !status.ok()) return status;
    if (Status status = to_workspace(kFunction, workspace, &lent); !status.ok()) return status;
    if (conventions != nullptr) {
      if (Status status = check_conventions_output(kFunction, conventions); !status.ok())
        return status;
    }
    if (Status status =
            flamia::attention_forward_parts(shapes, choices, views, lent, stream, parts, &record);
        !status.ok()) {
      return status;
    }
    if (conventions != nullptr) write_conventions(record, conventions);
    return {};
  });
}

flamia_status flamia_attention_backward(const flamia_problem* problem,
                                        const flamia_conventions* conventions,
                                        const flamia_backward_tensors* tensors,
                                        const flamia_workspace* workspace, void* stream,
                                        int32_t threads, flamia_statistics* statistics) {
  return run([&]() -> Status {
    constexpr const char* kFunction = "attention_backward";
    flamia::Problem shapes;
    flamia::BackwardTensors views;
    flamia::Workspace lent;
    flamia::Conventions record;
    flamia::PassStatistics figures;
    if (Status status = to_problem(kFunction, problem, &shapes); !status.ok()) return status;
    if (Status status = to_conventions(kFunction, conventions, &record); !status.ok()) {
      return status;
    }
    if (Status status = to_tensors(kFunction, tensors, &views); !status.ok()) return status;
    if (Status status = to_workspace(kFunction, workspace, &lent); !status.ok()) return status;
    if (Status status = check_statistics_output(kFunction, statistics); !status.ok()) return status;
    if (Status status = flamia::attention_backward(shapes, record, views, lent, stream, threads,
                                                   statistics != nullptr ? &figures : nullptr);
        !status.ok()) {
      return status;
    }
    write_statistics(figures, statistics);
    return {};
  });
}

flamia_status flamia_quantize(const flamia_tensor* input, const flamia_tensor* cu_seqlens,
                              int32_t role, int32_t axis, const flamia_options* options,
                              const flamia_quantized_tensors* output,
                              const flamia_workspace* workspace, void* stream) {
  return run([&]() -> Status {
    constexpr const char* kFunction = "quantize";
    QuantizeRequest request;
    flamia::QuantizedTensors views;
    flamia::Workspace lent;
    if (Status status =
            to_quantize_request(kFunction, {input, cu_seqlens, role, axis, options}, &request);
        !status.ok()) {
      return status;
    }
    if (Status status = to_tensors(kFunction, output, &views); !status.ok()) return status;
    if (Status status = to_workspace(kFunction, workspace, &lent); !status.ok()) return status;
    return flamia::quantize(request.input, request.lengths, request.role, request.axis,
                            request.options, views, lent, stream);
  });
}

flamia_status flamia_quantize_workspace_size(const flamia_tensor* input,
                                             const flamia_tensor* cu_seqlens, int32_t role,
                                             int32_t axis, const flamia_options* options,
                                             size_t* bytes) {
  return run([&]() -> Status {
    QuantizeRequest request;
    if (Status status = to_quantize_request("quantize_workspace_size",
                                            {input, cu_seqlens, role, axis, options}, &request);
        !status.ok()) {
      return status;
    }
    return flamia::quantize_workspace_size(request.input, request.lengths, request.role,
                                           request.axis, request.options, bytes);
  });
}

flamia_status flamia_explain(const flamia_problem* problem, const flamia_options* options,
                             char* buffer, size_t size, size_t* length) {
  return run([&]() -> Status {
    constexpr const char* kFunction = "explain";
    flamia::Problem shapes;
    flamia::Options choices;
    if (Status status = to_request(kFunction, problem, options, &shapes, &choices); !status.ok()) {
      return status;
    }
    if (buffer == nullptr && size > 0) {
      return flamia::invalid_argument(kFunction, "buffer", "be given", "null");
    }
    const std::string text = flamia::explain(shapes, choices);
    if (size > 0) {
      const size_t copied = std::min(size - 1, text.size());
      std::memcpy(buffer, text.data(), copied);
      buffer[copied] = '\0';
    }
    if (length != nullptr) *length = text.size();
    return {};
  });
}

}  // extern "C"
